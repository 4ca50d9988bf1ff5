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
using Serialization: serialize, deserialize

export SABError
# Sizes, plans
export Sizes, Cost, Budget, Plan, Report, create_buckets, costliest_batches
# Samplers
export Batch, Sampler, BucketSampler, SequentialSampler, BionemoSizeAwareSampler, BionemoSizeAwareStream,
    BionemoSampler, PackedSampler, BalancedSampler, ShardedSampler, BaguaSampler,
    BaguaBatchSampler, ReadaheadSampler
export begin!, next_batch!, padded_total, batch_count, skipped_count, set_epoch!, set_budget!, restore!, set_generator!,
    ranks_from_mesh, check_ranks
# Memory
export Probe, Device, MemoryModel, MemoryGuard, reset!, release_cache!, torch_open, collect_peak,
    measurement_points, predict, predict_upper, find_max_batch, step_in_chunks, verify, step!, watch!,
    grow_batch_size, grow_batch_size_linear, grow_batch_size_doubling
# Streams
export Stream, StreamRandom, next!, set_progress!, list_stream, array_stream, random_stream,
    iterable_stream, files_stream, map_stream, size_stream, select_stream, flatten_stream,
    recurrent_stream, random_map_stream, zip_stream, multiplex_stream, shard_stream, batch_stream,
    window_stream, block_shuffle_stream, buffered_shuffle_stream, readahead_stream, pack_stream,
    prefetch_stream
# Groups, padding
export Grouping, find_thresholds, predefined_grouping, partition_grouping, consecutive_grouping, pad,
    unpad, ragged_mask
# Cache
export Cache, get_many, put_many!, key_count

include("raw.jl")
include("library.jl")
include("sizes.jl")
include("cost.jl")
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
