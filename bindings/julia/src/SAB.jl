"""
    SAB

Decides which samples go into which batch when samples differ in size: `libsab` for Julia.

    using SAB
    plan = Plan(lengths; budget = 4096)                # padded tokens a batch
    println(SAB.report(plan))
    sampler = BucketSampler(plan; seed = 0)
    for batch in sampler
        train(data[batch.indices], batch.padded_length)
    end

Types are exported, and functions whose name is a verb or has several words. Functions with the name
of an ordinary noun, such as `SAB.report` and `SAB.state`, are not exported, so that programs can use
these names for variables. Functions of Julia's own are extended: `read`, `write`, `seek`, `close`.

Numbers that index an array count from 1: samples, buckets, groups, `sampler[step]`. Numbers of what
came before count from 0: epochs, steps, ranks, offsets. The C headers (`include/sab.h`) are the
manual. [`SAB.Raw`](@ref) has their functions under their own names.

Threads: any number of threads may use plans, sizes, models and caches at once. A sampler or stream
is for one task at a time. A function that the library calls runs in the task that made the call.
It never runs in a thread of the library, which older versions of Julia do not allow; where the
library would do so, in [`prefetch_stream`](@ref), the call is refused.
"""
module SAB

using Libdl: Libdl
using Serialization: Serialization, serialize, deserialize

# Each file exports its names.
include("raw.jl")
include("messages.jl")
include("library.jl")
include("columns.jl")
include("sizes.jl")
include("arrow.jl")
include("cost.jl")
include("memory.jl")
include("plan.jl")
include("samplers.jl")
include("mixture.jl")
include("engine.jl")
include("balance.jl")
include("step_plan.jl")
include("guard.jl")
include("streams.jl")
include("group.jl")
include("context.jl")
include("cache.jl")
include("copies.jl")

__init__() = open_library()

end # module
