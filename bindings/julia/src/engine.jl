# More than one machine: histograms of sizes, and where samples are in an epoch.

export Histogram, Packing

"""
    Histogram()
    Histogram(sizes)

Numbers of samples by size. Each task of an engine counts the sizes of its partition with
[`SAB.add!`](@ref), and the histograms are merged in one place with `merge!(histogram, others...)`.
`Plan(histogram; budget)` has the same buckets as the plan of all sizes, but no sample indices:
[`SAB.locate`](@ref) tells the batches of its samples. [`Packing`](@ref) packs a histogram.

`write(io, histogram)` and `read(io, Histogram)` are its bytes, which are equal for equal histograms.
"""
mutable struct Histogram <: Handle{Raw.sab_histogram}
    pointer::Ptr{Raw.sab_histogram}
    Histogram(pointer::Ptr{Raw.sab_histogram}) = finalizer(finish, new(pointer))
end
free(histogram::Ptr{Raw.sab_histogram}) = Raw.sab_histogram_free(histogram)

Histogram() = Histogram(created(out -> Raw.sab_histogram_new(out), Raw.sab_histogram))
Histogram(sizes) = add!(Histogram(), sizes)

"""
    add!(histogram, sizes)

Adds samples. Of a mixture each sample is added once, with its source.
"""
function add!(histogram::Histogram, sizes)
    sizes = Sizes(sizes)
    GC.@preserve sizes check(Raw.sab_histogram_add(histogram, sizes, C_NULL))
    return histogram
end

"""
    number!(histogram, sizes)

Adds samples. Gives the number of each within its size: how many samples of the same size were in the
histogram before it.
"""
function number!(histogram::Histogram, sizes)
    sizes = Sizes(sizes)
    numbers = Vector{UInt64}(undef, length(sizes))
    GC.@preserve sizes check(Raw.sab_histogram_add(histogram, sizes, numbers))
    return numbers
end

"""
    merge!(histogram, others...)

Adds the samples of other histograms. Their order does not matter.
"""
function Base.merge!(histogram::Histogram, others::Histogram...)
    for other in others
        check(Raw.sab_histogram_merge(histogram, other))
    end
    return histogram
end

"""
    subtract!(histogram, other)

Removes the samples of another histogram that was merged into this one.
"""
subtract!(histogram::Histogram, other::Histogram) = (check(Raw.sab_histogram_subtract(histogram, other)); histogram)

"""
    epoch(histogram, number = 0; repeats = [], seed = 0)

The histogram of an epoch of a mixture: how often the epoch has the samples of each entry.
`Plan(histogram; budget)` makes the plan of the epoch from it. `repeats` are those of each source, in
their order; without them each has 1. `seed` is that of the choice of the samples that appear once
more than others. It cannot be merged or written.
"""
function epoch(histogram::Histogram, number = 0; repeats = Float64[], seed = 0)
    each = Float64[repeat for repeat in repeats]
    of_epoch = created(out -> Raw.sab_histogram_epoch_new(histogram, each, length(each), converted(UInt64, :epoch, number), converted(UInt64, :seed, seed), out), Raw.sab_histogram)
    return Histogram(of_epoch)
end

"""
    info(histogram)

`samples`, `entries` (number of distinct sizes), `total` of the sizes, `columns`, `sources` of a
mixture, and `fingerprint` (equal only for equal histograms).
"""
info(histogram::Histogram) = fields(facts(histogram))
facts(histogram::Histogram) = filled(out -> Raw.sab_histogram_get_info(histogram, out), Raw.sab_histogram_info)

"""
    entries(histogram)

The entries in ascending order: `sizes` (of several columns a matrix with a row for each column),
`counts`, and `sources` of a mixture (numbers from 0), or `nothing`.
"""
function entries(histogram::Histogram)
    given = facts(histogram)
    GC.@preserve histogram begin
        taken(array, shape...) = given.entries == 0 ? zeros(eltype(array), shape...) : copy(unsafe_wrap(Array, array, shape))
        entries = Int(given.entries)
        shape = given.columns > 1 ? (Int(given.columns), entries) : (entries,)
        return (sizes = taken(given.entry_sizes, shape...), counts = taken(given.entry_counts, entries), sources = given.sources == 0 ? nothing : taken(given.entry_sources, entries))
    end
end

columns(histogram::Histogram) = GC.@preserve histogram names_at(facts(histogram).column_names, facts(histogram).columns)

Base.write(io::IO, histogram::Histogram) = write(io, written((buffer, room, size) -> Raw.sab_histogram_write(histogram, buffer, room, size)))
function Base.read(io::IO, ::Type{Histogram})
    image = read(io)
    return Histogram(created(out -> Raw.sab_histogram_bytes_new(image, length(image), out), Raw.sab_histogram))
end
Base.show(io::IO, histogram::Histogram) =
    print(io, "Histogram(", isopen(histogram) ? "$(info(histogram).samples) samples of $(info(histogram).entries) sizes" : "closed", ")")

function Plan(histogram::Histogram; progress = nothing, given...)
    names = columns(histogram)
    plan_given, calls, costs = plan_options(isempty(names) ? ONE_COLUMN : names; progress = progress, given...)
    plan = GC.@preserve costs Plan(created(out -> Raw.sab_histogram_plan_new(histogram, plan_given, out), Raw.sab_plan, calls, costs.functions...))
    left_out = info(plan).skipped
    left_out > 0 && @warn "$left_out samples are outside the boundaries or over the budget and are left out"
    return plan
end

"""
    Packing(histogram, capacity; method = :best_fit, max_sequences, split = false, oversize = :error,
            length_multiple, row_multiple, balance, progress)

Which lengths share a bin, of samples that are only counted. The bins are those of a
[`PackedSampler`](@ref) of the same sizes with the same options and `method`, which is `:best_fit` or
`:histogram`. [`SAB.patterns`](@ref) gives the bins, [`SAB.locate`](@ref) the bin of a sample.
"""
mutable struct Packing <: Handle{Raw.sab_packing}
    pointer::Ptr{Raw.sab_packing}
    made_from::Vector{Any} # arguments of packing_of
    Packing(pointer::Ptr{Raw.sab_packing}, made_from) = finalizer(finish, new(pointer, made_from))
end
free(packing::Ptr{Raw.sab_packing}) = Raw.sab_packing_free(packing)

function Packing(histogram::Histogram, capacity; method = :best_fit, max_sequences = nothing, split = nothing, oversize = nothing, length_multiple = nothing,
                 row_multiple = nothing, balance = nothing, progress = nothing)
    calls, costs = Calls(; progress = progress), Costs()
    own = (method = method, max_sequences = max_sequences, split = split, oversize = oversize, length_multiple = length_multiple, row_multiple = row_multiple)
    pack = pack_options(calls, costs, capacity, ONE_COLUMN; own...)
    set_balance!(pack, balance, costs, ONE_COLUMN)
    made_from = Any[image_of(histogram), capacity, merge(own, (balance = balance,))]
    return GC.@preserve calls costs Packing(created(out -> Raw.sab_histogram_packing_new(histogram, pack, out), Raw.sab_packing, calls, costs.functions...), made_from)
end

"""
    info(packing::Packing)

Facts of the packing: those of the [`PackedSampler`](@ref), except `fingerprint`.
"""
info(packing::Packing) = fields(filled(out -> Raw.sab_packing_get_info(packing, out), Raw.sab_packed_info))

"""
    patterns(packing)

Bins that hold the same lengths, in descending order of the cost of a bin: a vector with `bins` (how
many), `lengths` and `sequences` (how many of each of the `lengths` in each bin) of each pattern.
"""
function patterns(packing::Packing)
    count, bins, begins = Ref{Csize_t}(0), Ref{Ptr{UInt64}}(C_NULL), Ref{Ptr{UInt64}}(C_NULL)
    lengths, sequences = Ref{Ptr{UInt32}}(C_NULL), Ref{Ptr{UInt32}}(C_NULL)
    GC.@preserve packing begin
        check(Raw.sab_packing_get_patterns(packing, count, bins, begins, lengths, sequences))
        part(array, i) = [unsafe_load(array[], p) for p in (unsafe_load(begins[], i) + 1):unsafe_load(begins[], i + 1)]
        return [(bins = unsafe_load(bins[], i), lengths = part(lengths, i), sequences = part(sequences, i)) for i in 1:Int(count[])]
    end
end
Base.show(io::IO, packing::Packing) =
    print(io, "Packing(", isopen(packing) ? "$(info(packing).sequences) sequences in $(info(packing).bins) bins" : "closed", ")")

"""
    locate(plan_or_packing, sizes, numbers; which, sources, seed = 0, epoch = 0, world_size = 1, micro_batches = 1, last_step = :split, costliest_first = 0, mix_lengths = false, balance)

Where samples are in an epoch: the inverse of a [`BucketSampler`](@ref) with these options, or of a
[`PackedSampler`](@ref) for a [`Packing`](@ref) without split samples. `numbers`
has the number of each sample within its size, such as of [`SAB.number!`](@ref). With several columns
`sizes` is a matrix with a row for each column, and the plan must be of a histogram. `which` asks for
another place than the first of each sample, from 0, where some are repeated. For the plan of an
epoch of a mixture ([`SAB.epoch`](@ref)), `sources` has the source of each sample, from 0, and `epoch` is this epoch.

Gives vectors with one number a sample: `counts` (places of the sample in the epoch, 0 if it is left
out), `ranks`, `batches` and `steps` (from 0) and `slots` (from 1). A sample without a place has -1 in
`ranks`, `batches` and `steps`, and 0 in `slots`. `batch_count` is the number of batches that each
rank takes in the epoch. Takes time in proportion to the buckets, so pass
many samples at once.
"""
function locate(plan::Plan, sizes, numbers; sources = nothing, given...)
    sources === nothing || length(sources) == length(numbers) ||
        throw(ArgumentError("sources: must have one for each number, $(length(numbers)), not $(length(sources))"))
    each = sources === nothing ? C_NULL : UInt32[converted(UInt32, :sources, source) for source in sources]
    return located((plan, order, arrays...) -> Raw.sab_histogram_plan_locate(plan, order, each, arrays...), plan, info(plan).columns, columns(plan), sizes, numbers; given...)
end
locate(packing::Packing, sizes, numbers; given...) = located(Raw.sab_packing_locate, packing, 1, ONE_COLUMN, sizes, numbers; given...)
function located(call, handle, columns, names, sizes, numbers; which = nothing, given...)
    count = length(numbers)
    length(sizes) == count * columns && (columns == 1 || size(sizes, 1) == columns) ||
        throw(ArgumentError("sizes: must have $columns for each of the $count numbers, not $(length(sizes))"))
    which === nothing || length(which) == count || throw(ArgumentError("which: must have one for each number, $count, not $(length(which))"))
    each, within = Float64[size for size in sizes], UInt64[converted(UInt64, :numbers, number) for number in numbers]
    asked = which === nothing ? C_NULL : UInt64[converted(UInt64, :which, place) for place in which]
    found = ntuple(_ -> Vector{Int64}(undef, count), 5)
    (order, costs), batch_count = balanced_options(names; given...), Ref{UInt64}(0)
    GC.@preserve found batch_count costs begin
        places = Raw.sab_places()
        places.counts, places.ranks, places.batches, places.steps, places.slots = map(pointer, found)
        places.batch_count = Base.unsafe_convert(Ptr{UInt64}, batch_count)
        check(calling(() -> call(handle, order, each, within, asked, count, places)), costs.functions...)
    end
    counts, ranks, batches, steps, slots = found
    return (counts = counts, ranks = ranks, batches = batches, steps = steps, slots = slots .+ 1, batch_count = Int(batch_count[]))
end
