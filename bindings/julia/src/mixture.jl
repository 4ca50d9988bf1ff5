# Mixtures of data sets.

export Mixture

const UNITS = (samples = Raw.SAB_MIXTURE_SAMPLES, size = Raw.SAB_MIXTURE_SIZE)

"""
    Mixture((wiki = a, code = b); repeat, proportions, temperature, by = :samples, schedule = [],
            seed = 0, all_sources)
    Mixture(sizes; sources, ...)

Several data sets (sources) in chosen proportions. It is taken wherever sizes are: by [`Plan`](@ref),
[`PackedSampler`](@ref), [`BalancedSampler`](@ref) and [`ShardedSampler`](@ref). Other functions
refuse it.

The sources are a `NamedTuple` of anything that [`Sizes`](@ref) takes, or a vector of pairs such as
`"wiki" => sizes`. Or `sources` has a whole number for each sample of one data set: that of its
source, at least 0.

- `repeat`: how often each sample of a source appears in an epoch: a number for all sources, or a
  `NamedTuple` or `Dict` by source. With 2 each appears twice, with 0.3 three of ten appear once.
  Sources that it does not name have 1.
- `proportions`: the share of each source instead, by source. They are divided by their sum.
- `temperature`: or the share of a source is proportional to its amount, to the power
  `1 / temperature`. 1 is as it is, higher is more even.
- `by`: what `proportions` and `temperature` are of: `:samples`, or `:size`, the sum of the sizes.
- `schedule`: a vector of pairs `epoch => repeat`, from which epochs on other repeats hold. Sources
  that one does not name keep theirs.
- `seed`: of the order in which samples are chosen. It does not depend on that of a sampler.
- `all_sources`: the names, or with `sources` the numbers, of the sources of all ranks. The sizes are
  then those of one shard, in which a source may have no sample. Only [`ShardedSampler`](@ref) takes
  such a mixture.

The index of a sample is its position in the sources one after the other. An epoch has exactly
`round(n * repeat)` samples of a source of n, each of them `floor(repeat)` or `ceil(repeat)` times.
The next epoch goes on where this one stopped. After every batch, over all ranks together, each
source is within one batch of its due by size.

    mixture = Mixture((wiki = a, code = b); repeat = (code = 2.5,))
    plan = Plan(mixture; budget = 4096)
    SAB.sources(mixture)                    # samples and repeat of each source
    SAB.source(mixture, 7)                  # (:wiki, 7)
    SAB.report(BucketSampler(plan), mixture)
"""
struct Mixture{S<:Sizes,N}
    sizes::S
    names::Vector{N} # of the sources: symbols, or numbers of `sources`
    made_from::Vector{Any} # arguments of the constructor, the named ones last
end

Mixture(named::NamedTuple; sources = nothing, given...) =
    sources === nothing ? Mixture([name => each for (name, each) in pairs(named)]; given...) : flat_mixture(named, sources; given...)
Mixture(sizes; sources, given...) = flat_mixture(sizes, sources; given...)

function Mixture(named::AbstractVector{<:Pair}; sources = nothing, all_sources = nothing, given...)
    sources === nothing || return flat_mixture(named, sources; all_sources = all_sources, given...)
    all(name -> name isa Union{Symbol,AbstractString}, first.(named)) || throw(ArgumentError("a source: must be named by a text"))
    names, parts = [Symbol(name) for (name, _) in named], [Sizes(each) for (_, each) in named]
    made_from = Any[[name => part for (name, part) in zip(names, parts)], merge((all_sources = all_sources,), values(given))]
    if all_sources !== nothing
        known, names = Dict(zip(names, parts)), Symbol[Symbol(name) for name in all_sources]
        issubset(keys(known), names) || throw(ArgumentError("the sources are $(join(map(repr, collect(keys(known))), ", ")): must be among all_sources"))
        parts = [get(() -> Sizes(Int64[]), known, name) for name in names]
    end
    texts = [Base.cconvert(Cstring, String(name)) for name in names]
    given, kept = mixture_options(names, all_sources === nothing ? Int64[] : collect(Int64, eachindex(names) .- 1); given...)
    handles = Ptr{Raw.sab_sizes}[Base.unsafe_convert(Ptr{Raw.sab_sizes}, part) for part in parts]
    sizes = GC.@preserve parts texts kept begin
        pointers = Ptr{UInt8}[Base.unsafe_convert(Cstring, text) for text in texts]
        given.names, given.name_count = pointer(pointers), length(pointers)
        GC.@preserve pointers created(out -> Raw.sab_mixture_new(handles, length(handles), given, out), Raw.sab_sizes)
    end
    return Mixture(Sizes(sizes, Any[part.data for part in parts]), names, made_from)
end

function flat_mixture(sizes, sources; all_sources = nothing, given...)
    sizes = Sizes(sizes)
    ids = Int64[converted(Int64, :sources, id) for id in sources]
    all = Int64[converted(Int64, :all_sources, id) for id in something(all_sources, Int64[])]
    names = sort(unique(all_sources === nothing ? ids : all))
    made_from = Any[sizes, merge((sources = ids, all_sources = all_sources), values(given))]
    given, kept = mixture_options(names, all_sources === nothing ? Int64[] : names; given...)
    given.ids, given.id_count = pointer(ids), length(ids)
    parts = [Base.unsafe_convert(Ptr{Raw.sab_sizes}, sizes)]
    mixture = GC.@preserve sizes ids kept created(out -> Raw.sab_mixture_new(parts, 1, given, out), Raw.sab_sizes)
    return Mixture(Sizes(mixture, sizes.data), names, made_from)
end

# The options, and the memory that they point to.
function mixture_options(names, all_sources; repeat = nothing, proportions = nothing, temperature = nothing, by = nothing, schedule = [], seed = nothing)
    given = options(Raw.sab_mixture_options; temperature = temperature, unit = choice(:by, by, UNITS), seed = seed)
    if !isempty(all_sources)
        given.all_sources, given.all_source_count = pointer(all_sources), length(all_sources)
    end
    kept, repeats = Any[all_sources], by_source(:repeat, repeat, names, ones(length(names)))
    if repeat !== nothing
        given.repeats, given.repeat_count = pointer(repeats), length(repeats)
        push!(kept, repeats)
    end
    if proportions !== nothing
        Set(source_name.(Ref(names), keys(proportions))) == Set(names) || throw(ArgumentError("proportions: must have all sources, $(join(map(repr, names), ", "))"))
        shares = by_source(:proportions, proportions, names, zeros(length(names)))
        given.proportions, given.proportion_count = pointer(shares), length(shares)
        push!(kept, shares)
    end
    isempty(schedule) && return given, kept
    proportions === temperature === nothing || throw(ArgumentError("schedule: goes with repeat only, since it has repeats"))
    epochs, changes = UInt64[converted(UInt64, :schedule, epoch) for (epoch, _) in schedule], Float64[]
    for (_, change) in schedule
        repeats = by_source(:schedule, change, names, repeats)
        append!(changes, repeats)
    end
    given.schedule_epochs, given.schedule_repeats, given.schedule_count = pointer(epochs), pointer(changes), length(epochs)
    push!(kept, epochs, changes)
    return given, kept
end

source_name(::Vector{Symbol}, key) = Symbol(key)
source_name(::Vector{Int64}, key) = key

# A number for each source; those of `others` where a source is not named.
by_source(argument, ::Nothing, names, others) = copy(others)
by_source(argument, number::Real, names, others) = fill(Float64(number), length(names))
function by_source(argument, given, names, others)
    numbers = copy(others)
    for (key, number) in pairs(given)
        place = findfirst(==(source_name(names, key)), names)
        place === nothing && throw(ArgumentError("$argument has the source $(repr(key)): the sources are $(join(map(repr, names), ", "))"))
        numbers[place] = number
    end
    return numbers
end

Sizes(mixture::Mixture) = mixture.sizes
column_names(mixture::Mixture) = column_names(mixture.sizes)
columns(mixture::Mixture) = columns(mixture.sizes)
column(mixture::Mixture, name) = column(mixture.sizes, name)
Base.length(mixture::Mixture) = length(mixture.sizes)
Base.getindex(mixture::Mixture, index::Integer) = mixture.sizes[index]
Base.firstindex(mixture::Mixture) = 1
Base.lastindex(mixture::Mixture) = length(mixture)
Base.close(mixture::Mixture) = close(mixture.sizes)
Base.isopen(mixture::Mixture) = isopen(mixture.sizes)
Base.show(io::IO, mixture::Mixture) =
    print(io, "Mixture(", isopen(mixture) ? "$(length(mixture)) samples of $(length(mixture.names)) sources" : "closed", ")")

"""
    SAB.sources(mixture; epoch = 0)

Facts of each source in an epoch: `name`, `samples` in the source, `repeat`, and `epoch_samples` that
the epoch takes from it.
"""
function sources(mixture::Mixture; epoch::Integer = 0)
    number = converted(UInt64, :epoch, epoch)
    return map(enumerate(mixture.names)) do (place, name)
        facts = filled(out -> Raw.sab_mixture_get_source(mixture.sizes, place - 1, number, out), Raw.sab_mixture_source)
        (name = name, samples = Int(facts.samples), repeat = facts.repeat, epoch_samples = Int(facts.epoch_samples))
    end
end

"""
    SAB.source(mixture, index)

Where a sample is: the name of its source, and which of the samples of that source it is, from 1.
"""
function source(mixture::Mixture, index::Integer)
    number, row = source(mixture.sizes, index)
    return mixture.names[number], row
end

"""
    SAB.counts(mixture; epoch = 0)

How often each sample appears in an epoch.
"""
function counts(mixture::Mixture; epoch::Integer = 0)
    times = Vector{UInt32}(undef, length(mixture))
    check(Raw.sab_mixture_get_counts(mixture.sizes, converted(UInt64, :epoch, epoch), times, length(times)))
    return Int.(times)
end

"""
    SAB.report(sampler, mixture; progress)

Reads all batches of the current epoch, over all ranks, and reports each source of the mixture that
the sampler is over: its `name`, and the fields of `sab_mixture_report`: `samples`, `distinct`,
`most`, `together`, `total`, `padded_total`, `padding`, `proportion`, `deviation`. The cursor stays
where it is.
"""
function report(sampler::Sampler, mixture::Mixture; progress = nothing)
    calls, count = Calls(progress = progress), length(mixture.names)
    bytes = zeros(UInt8, count * sizeof(Raw.sab_mixture_report))
    GC.@preserve bytes calls begin
        reports = Ptr{Raw.sab_mixture_report}(pointer(bytes))
        for place in 1:count # struct_size is the first field
            unsafe_store!(Ptr{Csize_t}(reports + (place - 1) * sizeof(Raw.sab_mixture_report)), sizeof(Raw.sab_mixture_report))
        end
        status = calling(() -> Raw.sab_mixture_get_report(sampler, progress_options(calls), reports, count))
        check(status, calls)
        return [merge((name = name,), fields(unsafe_load(reports, place))) for (place, name) in enumerate(mixture.names)]
    end
end
