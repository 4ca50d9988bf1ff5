"""
    SAB

Which samples go into which batch, when samples differ in size: `libsab` for Julia.

    plan = SAB.Plan(lengths; budget = 4096)                # padded tokens a batch
    println(SAB.report(plan))
    sampler = SAB.BucketSampler(plan; seed = 0)
    for batch in sampler
        train(data[batch.indices], batch.padded_length)
    end

What points into an array counts from 1: samples, buckets, groups, `sampler[step]`. What says how much went before counts from 0: epochs, steps, ranks, offsets.
The manual is the C headers (`include/sab.h`), whose functions stand in [`SAB.Raw`](@ref) by their own names.

Threads: plans, sizes, models and caches may be used by any number of threads at once, a sampler or stream by one task at a time. A function that is handed to the library runs in the
task whose call runs it, never in a thread of the library, which older Julia does not allow: where the library would, [`prefetch_stream`](@ref), the call is refused.
"""
module SAB

using Libdl: Libdl
using Serialization: serialize, deserialize

include("raw.jl")
include("library.jl")
include("sizes.jl")
include("memory.jl")
include("plan.jl")
include("samplers.jl")
include("balance.jl")
include("guard.jl")
include("streams.jl")
include("group.jl")
include("cache.jl")

__init__() = open_library()

end # module
