# Even distribution: items to parts, samples to ranks.

export BalancedSampler, ShardedSampler, BaguaSampler, BaguaBatchSampler, ranks_from_mesh,
    check_ranks

"""
    partition(costs, parts; equal_counts = false, weights, capacity, progress)

The part of each item, from 1, such that the largest sum of costs is small. `equal_counts`: the same
number of items in every part. The `weights` of no part sum to more than `capacity`.
`progress(done, total)` is called during the call, and stops it by returning `false`.

Items may have several costs, which are all balanced: `costs` is then a matrix with a column for each
cost. `weights` may be such a matrix, too; `capacity` then has a number for each column.
"""
function partition(costs, parts::Integer; equal_counts = nothing, weights = nothing, capacity = nothing, progress = nothing)
    kinds, count = size(costs, 2), size(costs, 1)
    costs, calls = dense(Float64, vec(costs)), Calls(; progress = progress)
    given = options(Raw.sab_partition_options; equal_counts = equal_counts, cost_count = kinds, progress = progress_pointer(),
        progress_ctx = pointer_from_objref(calls))
    weights === nothing && capacity !== nothing && throw(ArgumentError("capacity: needs weights"))
    capacities = Float64[each for each in something(capacity, 0)]
    if weights !== nothing
        size(weights, 1) == count || throw(ArgumentError("weights: must be as many as costs, $count, not $(size(weights, 1))"))
        size(weights, 2) == length(capacities) || throw(ArgumentError("capacity: must be a number for each of $(size(weights, 2)) weights, not $(length(capacities))"))
        weights = dense(Float64, vec(weights))
        given.weights, given.capacities, given.capacity_count = pointer(weights), pointer(capacities), length(capacities)
    end
    part_of = Vector{UInt32}(undef, count)
    parts = converted(UInt64, :parts, parts)
    GC.@preserve weights capacities calls check(calling(() -> Raw.sab_items_partition(costs, count, parts, given, part_of)), calls)
    return Int.(part_of) .+ 1
end

const BaguaSampler = Sampler{:BaguaSampler}

"""
    BaguaSampler(complexity; batch_size = 1, shuffle = true, drop_last = false,
                         random_level = 0, seed = 0, rank = 0, world_size = 1, epoch = 0)

The order of Bagua's `LoadBalancingDistributedSampler` for the same seed: the samples of a step have
similar complexity on all ranks.
"""
function BaguaSampler(complexity; batch_size = nothing, shuffle = nothing, drop_last = nothing, random_level = nothing, given...)
    made_from = Any[complexity, merge((batch_size = batch_size, shuffle = shuffle, drop_last = drop_last, random_level = random_level), values(given))]
    complexity = read_sizes(complexity)
    walk = sampler_options(; given...)
    balancing = options(Raw.sab_bagua_options; batch_size = batch_size, no_shuffle = inverted(shuffle), drop_last = drop_last, random_level = random_level)
    return new_sampler(BaguaSampler, created(out -> Raw.sab_bagua_sampler_new(complexity, balancing, walk, out), Raw.sab_sampler); made_from = made_from)
end

make_batches_callback(ctx, indices, count, batches) = guard(ctx) do calls
    for batch in calls.main(shown(indices, count) .+ 1)
        samples = Int64[index - 1 for index in batch]
        check(Raw.sab_bagua_batches_add(batches, samples, length(samples)))
    end
    0
end

const BaguaBatchSampler = Sampler{:BaguaBatchSampler}

"""
    BaguaBatchSampler(complexity; make_batches, budget, shuffle = true,
                              drop_last = false, random_level = 0, seed = 0, rank = 0,
                              world_size = 1, epoch = 0)

The batches of Bagua's `LoadBalancingDistributedBatchSampler`. `make_batches(indices)` makes batches
of the samples of a rank; it must return the same batches for the same samples. Without it a batch
closes before its complexities would sum to more than `budget`.
"""
function BaguaBatchSampler(complexity; make_batches = nothing, budget = nothing, shuffle = nothing, drop_last = nothing, random_level = nothing, given...)
    make_batches === nothing && budget === nothing && throw(ArgumentError("make_batches = nothing and budget = nothing: one must be given"))
    own = (make_batches = make_batches, budget = budget, shuffle = shuffle, drop_last = drop_last, random_level = random_level)
    made_from = Any[complexity, merge(own, values(given))]
    complexity = read_sizes(complexity, make_batches)
    walk = sampler_options(; given...)
    balancing = options(Raw.sab_bagua_options; limit = budget, no_shuffle = inverted(shuffle), drop_last = drop_last, random_level = random_level)
    calls = make_batches === nothing ? nothing : Calls(make_batches)
    if calls !== nothing
        balancing.make_batches = @cfunction(make_batches_callback, Int32, (Ptr{Cvoid}, Ptr{Int64}, Csize_t, Ptr{Raw.sab_batches}))
        balancing.make_batches_ctx = pointer_from_objref(calls)
    end
    return GC.@preserve calls new_sampler(BaguaBatchSampler, created(out -> Raw.sab_bagua_sampler_new(complexity, balancing, walk, out), Raw.sab_sampler, calls), calls; made_from = made_from)
end

const BalancedSampler = Sampler{:BalancedSampler}

"""
    BalancedSampler(sizes; samples, budget, cost, balance, fill = 0.95, padded = false,
                    length_multiple, row_multiple, oversize = :error, progress, seed = 0, ...)

Steps of samples in random order whose micro-batches cost the same on all ranks. For batches without
padding. No micro-batch exceeds a `budget`: a number of tokens, a [`Budget`](@ref) with a cost, or a
vector of them. `cost`, of a micro-batch, goes with a number as `budget`, such as a
[`MemoryModel`](@ref) of packed batches with a budget in bytes. `balance` is the cost that is evened
out, by default that of the first budget, or a vector of several costs. Costs are anything that
[`Cost`](@ref) takes. Sizes may have several columns; `budget` may then be a `NamedTuple` with limits
of some of them. The other options are those of a [`BucketSampler`](@ref).

With `padded = true` each step is a random sample of the data, and only its division into padded
micro-batches goes by length. Costs are then those of a padded batch, and no functions. A step has
exactly as many `samples` as are given.

`length_multiple` rounds up each sample, or with `padded` the longest of a micro-batch, and
`row_multiple` a row, as for a [`PackedSampler`](@ref). Budgets hold with them.
"""
function BalancedSampler(sizes; samples = nothing, budget = nothing, cost = nothing, balance = nothing, fill = nothing, padded = nothing,
                         length_multiple = nothing, row_multiple = nothing, oversize = nothing, progress = nothing, given...)
    walk = sampler_options(; given...)
    calls, costs = Calls(; progress = progress), Costs()
    balanced = options(Raw.sab_balanced_options; samples = samples, fill = fill, padded = padded,
        oversize = choice(:oversize, oversize, OVERSIZE), progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    names = column_names(sizes)
    own = (samples = samples, budget = budget, cost = cost, balance = balance, fill = fill, padded = padded, length_multiple = length_multiple, row_multiple = row_multiple,
        oversize = oversize)
    made_from = Any[sizes, merge(own, values(given))]
    set_multiples!(balanced, length_multiple, row_multiple, costs.kept, names)
    set_budgets!(balanced, budget, cost, costs, names)
    set_balance!(balanced, balance, costs, names)
    sizes = read_sizes(sizes, progress, costs.functions...)
    return GC.@preserve calls costs new_sampler(BalancedSampler, created(out -> Raw.sab_balanced_sampler_new(sizes, balanced, walk, out), Raw.sab_sampler, calls, costs.functions...); names = columns(sizes), made_from = made_from)
end

"""
    report(sampler::Union{BalancedSampler,PackedSampler}; progress)

How even the current epoch is on all ranks, before any training: `samples`, `skipped`, `dropped`,
`steps`, `least_step_samples`, `most_step_samples`, `step_samples_deviation`, `total`,
`padded_total`, `fill`, `rank_imbalance`, `largest_rank_imbalance`, `micro_batch_imbalance`, `time`,
`least_time`. The last five are vectors if several costs are
balanced; `total` and `padded_total` are [`PerColumn`](@ref) if the sizes have several columns. The cost of a [`PackedSampler`](@ref) is its
`balance`.

That of a [`PackedSampler`](@ref) also has `meet_again`, the share of the pairs of samples in one
row that share a row in the next epoch, too. `length_deviation` is the standard deviation of the
mean length of a row. `random_meet_again` and `random_length_deviation` are those of random rows:
shuffled samples, of which one that does not fit begins a row. They are 0 for a
[`BalancedSampler`](@ref).
"""
function report(sampler::Union{BalancedSampler,PackedSampler}; progress = nothing)
    calls = Calls(; progress = progress)
    GC.@preserve sampler calls begin # the arrays of the report belong to the sampler
        found = calling(() -> filled(out -> check(Raw.sab_balanced_sampler_get_report(sampler, progress_options(calls), out), calls), Raw.sab_balanced_report))
        several(numbers) = found.balance_count == 1 ? unsafe_load(numbers) : shown(numbers, found.balance_count)
        return (samples = Int(found.samples), skipped = Int(found.skipped), dropped = Int(found.dropped), steps = Int(found.steps),
            least_step_samples = Int(found.least_step_samples), most_step_samples = Int(found.most_step_samples), step_samples_deviation = found.step_samples_deviation,
            total = per_column(found.totals, Int(found.columns), sampler.names),
            padded_total = per_column(found.padded_totals, Int(found.columns), sampler.names), fill = found.fill, rank_imbalance = several(found.rank_imbalance),
            largest_rank_imbalance = several(found.largest_rank_imbalance), micro_batch_imbalance = several(found.micro_batch_imbalance), time = several(found.time),
            least_time = several(found.least_time), meet_again = found.meet_again, random_meet_again = found.random_meet_again,
            length_deviation = found.length_deviation, random_length_deviation = found.random_length_deviation)
    end
end

# ---- Ranks ----

"""
    ranks()

`(rank, world_size)` from the environment of a launcher (torchrun, SLURM, Open MPI, MPICH); `(0, 1)`
without one.
"""
function ranks()
    rank, world_size = Ref{UInt64}(0), Ref{UInt64}(0)
    check(Raw.sab_ranks_get_from_environment(rank, world_size))
    return Int(rank[]), Int(world_size[])
end

"""
    ranks_from_mesh(shape, is_data, rank)

`(rank, world_size)` of a process among those that read different samples, in a mesh of
parallelisms. `shape` has the length of each axis, the last one fastest; `is_data` tells whether
samples differ along it.
"""
function ranks_from_mesh(shape, is_data, rank::Integer)
    shape, is_data = dense(UInt64, shape), Int32[each for each in is_data]
    length(shape) == length(is_data) || throw(ArgumentError("is_data: must be as many as shape, $(length(shape)), not $(length(is_data))"))
    data, world = Ref{UInt64}(0), Ref{UInt64}(0)
    check(Raw.sab_ranks_get_from_mesh(shape, is_data, length(shape), converted(UInt64, :rank, rank), data, world))
    return Int(data[]), Int(world[])
end

# `main` is (gather, world_size).
all_gather_callback(ctx, mine, size, all) = guard(ctx) do calls
    gather, world_size = calls.main
    gathered = gather(shown(Ptr{UInt8}(mine), size))
    length(gathered) == world_size || throw(ArgumentError("gather: gave $(length(gathered)) ranks' bytes, must be $world_size"))
    for (rank, bytes) in enumerate(gathered)
        length(bytes) == size || throw(ArgumentError("gather: gave $(length(bytes)) bytes of rank $(rank - 1), must be $size"))
        GC.@preserve bytes unsafe_copyto!(Ptr{UInt8}(all) + (rank - 1) * size, pointer(bytes), size)
    end
    0
end
all_gather_pointer() = @cfunction(all_gather_callback, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}))

"""
    check_ranks(sampler, gather; rank, world_size)

Checks that all ranks have the same data, seed, epoch, step and options. Call it on all ranks at the
start. `gather(bytes)` returns the bytes of all ranks, a vector of `Vector{UInt8}` in their order. If
ranks differ, all throw an [`SABError`](@ref) that names these ranks, the difference and both values.
"""
function check_ranks(sampler::Sampler, gather; rank::Integer, world_size::Integer)
    calls = Calls((gather, world_size))
    check(calling(() -> Raw.sab_ranks_check(sampler, converted(UInt64, :rank, rank), converted(UInt64, :world_size, world_size), all_gather_pointer(), calls)), calls)
    return nothing
end

const ShardedSampler = Sampler{:ShardedSampler}

"""
    ShardedSampler(sizes, gather; rank, world_size, seed = 0, epoch = 0, micro_batches = 1, plan options...)

Batches of samples that are spread over the ranks. Each rank knows and reads only its own shard:
`sizes` and indices are those of the shard. `gather` is as for [`check_ranks`](@ref), the options of
the plan are as for [`Plan`](@ref).
"""
function ShardedSampler(sizes, gather; rank::Integer, world_size::Integer, seed = nothing, epoch = nothing, micro_batches = nothing, given...)
    names = column_names(sizes)
    sizes = read_sizes(sizes, gather)
    walk = sampler_options(; rank = rank, world_size = world_size, seed = seed, epoch = epoch, micro_batches = micro_batches)
    plan_given, calls, costs = plan_options(names; given...)
    gathering = Calls((gather, world_size))
    make(out) = Raw.sab_sharded_sampler_new(sizes, plan_given, walk, all_gather_pointer(), gathering, out)
    return GC.@preserve calls costs new_sampler(ShardedSampler, created(make, Raw.sab_sampler, calls, gathering, costs.functions...))
end
