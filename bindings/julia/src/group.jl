# Groups of samples of similar length; padding.

export Grouping, find_thresholds, predefined_grouping, partition_grouping, consecutive_grouping,
    pad, unpad, ragged_mask

"""
    find_thresholds(lengths, k; cost, method = :least_total, cost_per_sample = false,
                    num_trials, tolerate, seed, progress)

The `k` thresholds that cut lengths into groups with the least total cost, or with
`method = :least_largest` the least cost of the costliest group; `:randomised` is the search of asym.
Returns `thresholds`, the costs `total`, `largest` and `largest_difference`, and how the searches
ended. `cost` is anything that [`Cost`](@ref) takes; by default `:padded`.
"""
function find_thresholds(lengths, k::Integer; cost = nothing, method = nothing, cost_per_sample = nothing, num_trials = nothing, tolerate = nothing, seed = nothing, progress = nothing)
    calls, costs = Calls(; progress = progress), Costs()
    methods = (least_total = Raw.SAB_THRESHOLDS_LEAST_TOTAL, least_largest = Raw.SAB_THRESHOLDS_LEAST_LARGEST, randomised = Raw.SAB_THRESHOLDS_RANDOMISED)
    patience = tolerate === nothing ? nothing : min(converted(UInt64, :tolerate, tolerate), typemax(UInt64) - 1) + 1
    given = options(Raw.sab_thresholds_options; method = choice(:method, method, methods), cost_per_sample = cost_per_sample, num_trials = num_trials, patience = patience, seed = seed,
        progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    given.cost = pointer!(costs, cost === nothing ? nothing : Cost(cost))
    lengths = read_sizes(lengths, progress, costs.functions...)
    thresholds = Vector{Float64}(undef, converted(UInt64, :k, k))
    found = GC.@preserve costs calls filled(Raw.sab_thresholds_info) do out
        check(calling(() -> Raw.sab_thresholds_find(lengths, length(thresholds), given, thresholds, out)), calls, costs.functions...)
    end
    return merge((thresholds = thresholds,), fields(found))
end

"""
Samples in groups. Immutable. Iterates vectors of indices; `grouping[i]` is the i-th of them.

- `group_of`: the group of each sample
- `permutation`: the samples group by group
- `inverse`: the position of each sample in `permutation`
- `intervals`: the interval of each group (a column) in each dimension

    Grouping(lengths => thresholds, ...)      # by one or several lengths
    Grouping(count)                           # all samples in one group
    predefined_grouping(group_of; groups); partition_grouping(parts); consecutive_grouping(counts)
"""
mutable struct Grouping <: Handle{Raw.sab_grouping}
    pointer::Ptr{Raw.sab_grouping}
    offsets::Vector{Int64} # from 0: number of samples before each group
    permutation::OneBased
    inverse::OneBased
    group_of::OneBased
    intervals::Matrix{Int64} # of each group, a column, in each dimension, from 1
    function Grouping(pointer::Ptr{Raw.sab_grouping})
        grouping = finalizer(finish, new(pointer))
        seen = filled(out -> Raw.sab_grouping_get_view(grouping, out), Raw.sab_grouping_view)
        one_based(numbers) = OneBased(shown(numbers, seen.samples))
        grouping.offsets = shown(seen.offsets, seen.groups + 1)
        grouping.permutation, grouping.inverse, grouping.group_of = one_based(seen.permutation), one_based(seen.inverse), one_based(seen.group_of)
        grouping.intervals = reshape(shown(seen.intervals, seen.groups * seen.dimensions), Int(seen.dimensions), Int(seen.groups)) .+ 1
        return grouping
    end
end
free(grouping::Ptr{Raw.sab_grouping}) = Raw.sab_grouping_free(grouping)

function Grouping(dimension::Pair, more::Pair...)
    pairs = (dimension, more...)
    lengths, thresholds = [read_sizes(pair.first) for pair in pairs], [dense(Float64, pair.second) for pair in pairs]
    return GC.@preserve lengths thresholds begin
        dimensions = [Raw.sab_grouping_dimension(Base.unsafe_convert(Ptr{Raw.sab_sizes}, each), pointer(cuts), length(cuts)) for (each, cuts) in zip(lengths, thresholds)]
        Grouping(created(out -> Raw.sab_grouping_thresholds_new(dimensions, length(dimensions), out), Raw.sab_grouping))
    end
end
Grouping(samples::Integer) = consecutive_grouping([converted(UInt32, :samples, samples)])

"""
    predefined_grouping(group_of; groups = maximum(group_of))
    partition_grouping(parts)
    consecutive_grouping(counts)

A [`Grouping`](@ref) from the group of each sample, from the samples of each group, or from the
number of consecutive samples in each group.
"""
function predefined_grouping(group_of; groups::Integer = isempty(group_of) ? 0 : maximum(group_of))
    numbers = Int64[group - 1 for group in group_of]
    return Grouping(created(out -> Raw.sab_grouping_predefined_new(numbers, length(numbers), converted(UInt64, :groups, groups), out), Raw.sab_grouping))
end
function partition_grouping(parts)
    indices, counts = Int64[index - 1 for part in parts for index in part], UInt64[length(part) for part in parts]
    return Grouping(created(out -> Raw.sab_grouping_partition_new(indices, counts, length(counts), out), Raw.sab_grouping))
end
function consecutive_grouping(counts)
    counts = dense(UInt64, counts)
    return Grouping(created(out -> Raw.sab_grouping_partition_new(C_NULL, counts, length(counts), out), Raw.sab_grouping))
end
@doc (@doc predefined_grouping) partition_grouping
@doc (@doc predefined_grouping) consecutive_grouping

Base.length(grouping::Grouping) = length(grouping.offsets) - 1
Base.getindex(grouping::Grouping, group::Integer) = grouping.permutation[(grouping.offsets[group] + 1):grouping.offsets[group + 1]]
Base.iterate(grouping::Grouping, group = 1) = group > length(grouping) ? nothing : (grouping[group], group + 1)
Base.eltype(::Type{Grouping}) = Vector{Int64}
Base.show(io::IO, grouping::Grouping) = print(io, "Grouping($(length(grouping.permutation)) samples in $(length(grouping)) groups)")

# ---- Padding ----

# The library's arrays are row-major: the dimensions of Julia's in reverse order.
function ragged(samples::Vector{Array{T,N}}) where {T,N}
    isbitstype(T) || throw(ArgumentError("samples: must be of plain bits, not $T"))
    shapes = Int64[size(sample, N + 1 - dimension) for sample in samples for dimension in 1:N]
    data = Ptr{Cvoid}[pointer(sample) for sample in samples]
    value = Raw.sab_ragged()
    value.samples, value.dimensions, value.element_size = length(samples), N, sizeof(T)
    value.shapes, value.strides, value.values, value.offsets, value.data = pointer(shapes), C_NULL, C_NULL, C_NULL, pointer(data)
    return value, (shapes, data, samples)
end


"""
    pad(samples; value = 0, repeat = false, threads)

Stacks arrays with the same number of dimensions along a new last one. Each array is padded at its
ends to the longest: with `value`, or with `repeat` by its last element. [`unpad`](@ref) is the
inverse. `threads`: the maximum number of threads; by default the number of processors.
"""
function pad(samples::AbstractVector{Array{T,N}}; value = zero(T), repeat::Bool = false, threads = nothing) where {T,N}
    given, kept = ragged(Vector{Array{T,N}}(samples))
    filling = Ref(convert(T, value))
    pad_given = options(Raw.sab_pad_options; threads = threads, padding = repeat ? Raw.SAB_PADDING_REPEAT : Raw.SAB_PADDING_CONSTANT)
    shape = Vector{Int64}(undef, N)
    GC.@preserve kept filling begin
        pad_given.value = Base.unsafe_convert(Ptr{T}, filling)
        check(Raw.sab_ragged_get_padded_shape(given, C_NULL, length(samples), shape))
        padded = Array{T,N + 1}(undef, reverse(shape)..., length(samples))
        check(Raw.sab_ragged_pad(given, C_NULL, length(samples), shape, pad_given, padded))
        return padded
    end
end

"""
    unpad(padded, sizes; threads)

The samples of a padded array, along its last dimension. `sizes` are their sizes: numbers for
vectors, otherwise tuples.
"""
function unpad(padded::Array{T,M}, sizes; threads = nothing) where {T,M}
    samples = [Array{T,M - 1}(undef, size...) for size in sizes]
    length(samples) == size(padded, M) || throw(ArgumentError("sizes: must be $(size(padded, M)), not $(length(samples))"))
    given, kept = ragged(samples)
    shape = Int64[size(padded, M - dimension) for dimension in 1:(M - 1)]
    pad_given = options(Raw.sab_pad_options; threads = threads)
    GC.@preserve kept check(Raw.sab_ragged_unpad(padded, shape, C_NULL, length(samples), pad_given, given))
    return samples
end

"""
    ragged_mask(lengths; shape, rule = :all)

Which positions of padded samples are valid: an array of `Bool` with the samples along the last
dimension. `lengths` has a column for each sample, or is a vector if there is one dimension.
`rule = :any`: within the length along at least one dimension.
"""
function ragged_mask(lengths::AbstractMatrix; shape = vec(maximum(lengths; dims = 2)), rule = :all)
    dimensions, count = size(lengths)
    length(shape) == dimensions || throw(ArgumentError("shape: must have $dimensions dimensions, not $(length(shape))"))
    numbers, places = Int64[lengths[dimensions + 1 - d, sample] for sample in 1:count for d in 1:dimensions], Int64[each for each in reverse(shape)]
    mask = Array{UInt8}(undef, shape..., count)
    check(Raw.sab_ragged_mask(numbers, count, places, dimensions, choice(:rule, rule, (all = Raw.SAB_MASK_ALL, any = Raw.SAB_MASK_ANY)), mask))
    return reinterpret(Bool, mask)
end
ragged_mask(lengths::AbstractVector; given...) = ragged_mask(reshape(collect(lengths), 1, :); given...)
