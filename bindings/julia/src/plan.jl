# Plans.

export Plan, Report, create_buckets

const TAILS = (keep = Raw.SAB_TAIL_KEEP, drop = Raw.SAB_TAIL_DROP, wrap = Raw.SAB_TAIL_WRAP)
const OVERSIZE = (skip = Raw.SAB_OVERSIZE_SKIP, error = Raw.SAB_OVERSIZE_ERROR, single = Raw.SAB_OVERSIZE_SINGLE)
const SHAPES = (auto = Raw.SAB_SHAPES_AUTO,)
const LAST_STEPS = (split = Raw.SAB_LAST_STEP_SPLIT, drop = Raw.SAB_LAST_STEP_DROP, wrap = Raw.SAB_LAST_STEP_WRAP)

"The batches of samples. Immutable; threads may share it. See [`Plan(sizes)`](@ref)."
mutable struct Plan <: Handle{Raw.sab_plan}
    pointer::Ptr{Raw.sab_plan}
    made_from::Vector{Any} # of a mixture, whose plan is not written: the mixture and the options
    Plan(pointer::Ptr{Raw.sab_plan}, made_from = Any[]) = finalizer(finish, new(pointer, made_from))
end
free(plan::Ptr{Raw.sab_plan}) = Raw.sab_plan_free(plan)

# The corners of buckets of sizes with these columns, as a matrix with a row for each column.
function corners(boundaries::NamedTuple, columns)
    Set(keys(boundaries)) == Set(columns) || throw(ArgumentError("boundaries: must have the columns $(join(map(repr, columns), ", ")), not $(join(map(repr, keys(boundaries)), ", "))"))
    edges = [sort(dense(Float64, boundaries[name])) for name in columns]
    all(each -> length(each) >= 2, edges) || throw(ArgumentError("boundaries: must be at least 2 for each column"))
    # All combinations; the last column changes fastest.
    upper = [reverse(corner) for corner in Iterators.product((each[2:end] for each in reverse(edges))...)]
    return corners([[first.(edges)]; [collect(Float64, corner) for corner in vec(upper)]], columns)
end
function corners(boundaries, columns)
    length(columns) == 1 && return reshape(dense(Float64, Iterators.flatten(boundaries)), 1, :)
    all(corner -> length(corner) == length(columns), boundaries) || throw(ArgumentError("boundaries: each must have a number for each of the $(length(columns)) columns"))
    return reduce(hcat, [dense(Float64, corner) for corner in boundaries])
end

# The options of a plan of sizes with these columns, their functions, costs, and the memory that they
# point to.
function plan_options(columns; budget = nothing, padding = nothing, boundaries = nothing, buckets = nothing, bucket_batches = nothing, batch_size = nothing, cost = nothing,
                      max_batch_size = nothing, min_batch_size = nothing, batch_size_multiple = nothing, length_multiple = nothing, tail = nothing, drop_last = false, oversize = nothing,
                      shapes = nothing, max_shapes = nothing, separate_by = nothing, threads = nothing, progress = nothing)
    boundaries === nothing || buckets === nothing || throw(ArgumentError("boundaries and buckets: only one may be given"))
    drop_last && tail !== nothing && throw(ArgumentError("drop_last and tail: only one may be given"))
    calls, costs = Calls(; progress = progress), Costs()
    given = options(Raw.sab_plan_options; padding_target = padding, bucket_batches = bucket_batches, max_batch_size = max_batch_size, min_batch_size = min_batch_size,
        batch_size_multiple = batch_size_multiple, tail = choice(:tail, drop_last ? :drop : tail, TAILS),
        oversize = choice(:oversize, oversize, OVERSIZE), shapes = choice(:shapes, shapes, SHAPES), threads = threads, progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    set_budgets!(given, budget, cost, costs, columns)
    kept = costs.kept
    push!(kept, calls)
    each = multiples(:length_multiple, length_multiple, kept, columns)
    given.length_multiples, given.length_multiple_count = pointer(each), length(each)
    set_ids!(given, separate_by, max_shapes, kept)
    if boundaries !== nothing
        edges = corners(boundaries, columns)
        given.bucket_rule, given.boundaries, given.boundary_count = Raw.SAB_BUCKETS_BOUNDARIES, pointer(edges), size(edges, 2)
        push!(kept, edges)
    elseif buckets !== nothing
        given.bucket_rule, given.bucket_count = Raw.SAB_BUCKETS_OPTIMAL, converted(Csize_t, :buckets, buckets)
    end
    if batch_size !== nothing
        counts = UInt64[converted(UInt64, :batch_size, each) for each in batch_size]
        given.batch_sizes, given.batch_size_count = pointer(counts), length(counts)
        push!(kept, counts)
    end
    return given, calls, costs
end

# What lengths are rounded up to, in memory that `kept` keeps: of all columns, or of each.
function multiples(name, multiple, kept, columns)
    each = something(multiple, 0) isa Real ? Float64[something(multiple, 0)] : by_column(name, multiple, columns)
    push!(kept, each)
    return each
end

# Sets which samples are separate, and the most shapes, which may be given for each id.
function set_ids!(given, separate_by, max_shapes, kept)
    texts = separate_by isa AbstractVector{<:AbstractString} ? sort(unique(separate_by)) : nothing
    if separate_by !== nothing
        ids = texts === nothing ? Int64[converted(Int64, :separate_by, id) for id in separate_by] : Int64[searchsortedfirst(texts, text) - 1 for text in separate_by]
        given.separate_by, given.separate_by_count = pointer(ids), length(ids)
        push!(kept, ids)
    end
    max_shapes in (nothing, 0) && return nothing
    counts = [max_shapes]
    if max_shapes isa AbstractDict
        distinct = texts !== nothing ? texts : separate_by === nothing ? Int64[] : sort(unique(ids))
        Set(keys(max_shapes)) == Set(distinct) || throw(ArgumentError("max_shapes: must have a number for each id of separate_by, $(join(distinct, ", "))"))
        counts = [max_shapes[id] for id in distinct]
    end
    shapes = UInt64[converted(UInt64, :max_shapes, count) for count in counts]
    given.max_shapes, given.max_shape_count = pointer(shapes), length(shapes)
    push!(kept, shapes)
    return nothing
end

"""
    Plan(sizes; budget, padding = 0.01, boundaries, buckets, bucket_batches, batch_size,
         cost, max_batch_size, min_batch_size = 0, batch_size_multiple = 1, length_multiple = 0, tail = :keep,
         drop_last = false, oversize = :error, shapes, max_shapes, separate_by, threads = 1, progress)

Puts samples of similar size into buckets, and decides how many samples of a bucket make a batch, so
that no batch costs more than `budget`. `sizes` is anything that [`Sizes`](@ref) takes.

- `budget`: largest cost of a batch: a number of padded tokens, a [`Budget`](@ref) with a cost, or
  a vector of them, of which a batch keeps all. The first one's cost also decides which batches stand
  together in a step. Instead or in addition `batch_size`: a number of samples, or with `boundaries`
  one number for each bucket.
- `cost`: of a batch, with a number as `budget`: anything that [`Cost`](@ref) takes, such as
  `:quadratic`, or a [`MemoryModel`](@ref) with a budget in bytes.
- `boundaries`: where buckets begin. Or `buckets`: a number of buckets with the best boundaries. By
  default buckets are as large as possible with less than `padding` of padding.
- `tail`: how samples that fill no batch are treated: `:keep`, `:drop` (`drop_last`) or `:wrap`.
- `oversize`: how samples over the budget are treated: `:error`, `:skip` (left out with a warning)
  or `:single` (a batch of each).
- `shapes`: `:auto` for the fewest distinct pairs of count and padded length whose padding is at most
  `padding`, or `max_shapes` for at most so many: see [`SAB.shapes`](@ref).
- `separate_by`: a whole number or a text for each sample; samples that differ in it never share a
  batch. The number of a text is its place among the sorted texts, from 0. `max_shapes` may then be a
  `Dict` with a number for each.
- `threads`: threads that sort the sizes, at most 256. The plan is the same for any number.
- `progress(done, total)`: called during the call; stops it by returning `false`.

Sizes may have several columns: see [`Sizes`](@ref). Then `budget` may be a `NamedTuple` with limits
of some columns, and `length_multiple` one with the multiples of some. `boundaries` are corners, a
vector of tuples with a number for each column: the first is the lower end of all sizes, each other
one the upper end of a bucket, which holds what is in no bucket before. Or they are a `NamedTuple`
with boundaries for each column, whose buckets are all combinations.

The others are those of `sab_plan_options`.
"""
function Plan(sizes; progress = nothing, given...)
    made_from = sizes isa Mixture ? Any[sizes, values(given)] : Any[]
    plan_given, calls, costs = plan_options(column_names(sizes); progress = progress, given...)
    sizes = read_sizes(sizes, progress, costs.functions...)
    plan = GC.@preserve costs Plan(created(out -> Raw.sab_plan_new(sizes, plan_given, out), Raw.sab_plan, calls, costs.functions...), made_from)
    left_out = info(plan).skipped
    left_out > 0 && @warn "$left_out samples are outside the boundaries or over the budget and are left out: see SAB.skipped(plan)"
    return plan
end

"""
    info(plan)

Facts that are the same in every epoch: `samples`, `skipped`, `buckets`, `batches` of an epoch on one
rank, `lower_bound` of their number, `fingerprint` (equal only for equal plans), `total` of the
sizes over all columns, `budget_count`, `columns`. Also `second_buckets`, the number of the buckets of
epochs with odd numbers (0: all epochs have the same).
"""
info(plan::Plan) = fields(facts(plan))
facts(plan::Plan) = filled(out -> Raw.sab_plan_get_info(plan, out), Raw.sab_plan_info)

columns(plan::Plan) = GC.@preserve plan names_at(facts(plan).column_names, facts(plan).columns)

"""
    budgets(plan)

The limits of the budgets that the plan was made with.
"""
budgets(plan::Plan) = GC.@preserve plan [unsafe_load(facts(plan).limits, index) for index in 1:facts(plan).budget_count]

"""
    buckets(plan)

The buckets by ascending size, of all epochs or, where there are [`second_buckets`](@ref), of those
with even numbers. Each has the fields of `sab_bucket`: `lower`, `upper`, `shortest`,
`longest`, `padded_length`, `total`, `cost`, `samples`, `batch_size`, `batches`, `id`. Of several
columns the first six are a [`PerColumn`](@ref) each.
"""
function buckets(plan::Plan)
    names = columns(plan)
    return [bucket(plan, index, names) for index in 1:info(plan).buckets]
end

"""
    second_buckets(plan)

The buckets of epochs with odd numbers, if these have buckets of their own, with other borders and as
many batches; else none. Batches number them after [`buckets`](@ref).
"""
function second_buckets(plan::Plan)
    names, known = columns(plan), info(plan)
    return [bucket(plan, index, names) for index in (known.buckets + 1):(known.buckets + known.second_buckets)]
end

const LENGTHS = (:lower, :upper, :shortest, :longest, :padded_length, :total)
function bucket(plan::Plan, index, names)
    GC.@preserve plan begin
        raw = filled(out -> Raw.sab_plan_get_bucket(plan, index - 1, out), Raw.sab_bucket)
        lengths = NamedTuple{LENGTHS}(map(name -> per_column(getfield(raw, name), Int(raw.columns), names), LENGTHS))
        return merge(lengths, (cost = raw.cost, samples = Int(raw.samples), batch_size = Int(raw.batch_size), batches = Int(raw.batches), id = raw.id))
    end
end

# Samples that are left out, as the `skipped` functions of the library write them.
function skipped_samples(write, count)
    samples = Vector{Int64}(undef, count)
    check(write(samples, length(samples), Ref{Csize_t}(0)))
    return samples .+ 1
end

"""
    shapes(plan)
    shapes(sampler)

The shapes of the full batches and the tails of all buckets, as pairs of count and padded length, the
costliest first; of several columns the lengths are a [`PerColumn`](@ref). With `max_shapes` or
`shapes = :auto` all samplers on the plan have these only, on any number of ranks. Those of a sampler
are of the current epoch: with the pieces of a last step that is split, and under a lowered budget
those of the batches from there on.
"""
shapes(plan::Plan) = GC.@preserve plan shapes((index, out) -> Raw.sab_plan_get_shape(plan, index, out), columns(plan))
function shapes(show::Function, names)
    found = Pair{Int, Any}[]
    while true
        shape = Raw.sab_shape()
        check(show(length(found), shape)) == Raw.SAB_END && return found
        push!(found, Int(shape.count) => per_column(shape.padded_length, Int(shape.columns), names))
    end
end

"""
    shape_paddings(plan)

The numbers of shapes that `shapes = :auto` tried, and the padding with each, as pairs. Plans that were
read do not have them.
"""
function shape_paddings(plan::Plan)
    found = Pair{Int, Float64}[]
    number, padding = Ref{UInt64}(0), Ref{Cdouble}(0)
    while check(Raw.sab_plan_get_shape_padding(plan, length(found), number, padding)) != Raw.SAB_END
        push!(found, Int(number[]) => padding[])
    end
    return found
end

"""
    skipped(plan)

The samples outside the boundaries or over the budget, which are in no batch, by ascending size.
"""
skipped(plan::Plan) = skipped_samples((samples, room, count) -> Raw.sab_plan_get_skipped(plan, samples, room, count), info(plan).skipped)

"Statistics of an epoch before any training: the fields of `sab_plan_report`. Prints as a table."
struct Report
    samples::Int
    skipped::Int
    dropped::Int
    repeated::Int
    batches::Int
    empty_batches::Int
    steps::Int
    least_step_samples::Int
    most_step_samples::Int
    step_samples_deviation::Float64
    lower_bound::Int
    shapes::Int
    total::Float64
    padded_total::Float64
    padding::Float64
    rank_imbalance::Float64
    meet_again::Float64
    partners::Float64
    length_correlation::Float64
    variance_ratio::Float64
    nearest_target::Float64
    target_met::Bool
    totals::PerColumn{Float64}
    padded_totals::PerColumn{Float64}
end

percent(share) = string(round(100 * share; digits = 2), " %")

function table(io::IO, rows...)
    for (index, (name, value)) in enumerate(rows)
        print(io, index == 1 ? "" : "\n", name, lpad(string(value), 62 - length(name)))
    end
end

Base.show(io::IO, ::MIME"text/plain", report::Report) = table(io,
    "samples" => report.samples,
    "skipped, dropped, repeated" => "$(report.skipped), $(report.dropped), $(report.repeated)",
    "batches" => report.batches,
    "fewest that the budget allows" => report.lower_bound,
    "steps of each rank" => report.steps,
    "samples of a step, over all ranks" => "$(report.least_step_samples) to $(report.most_step_samples) (± $(round(report.step_samples_deviation; digits = 1)))",
    "padding" => percent(report.padding),
    "target (padding, extra batches)" => report.nearest_target == 0 ? "none" : report.target_met ? "met: $(percent(report.nearest_target))" : "reached: $(percent(max(report.padding, report.batches / report.lower_bound - 1)))",
    "distinct shapes" => report.shapes,
    "rank imbalance (1: none)" => round(report.rank_imbalance; digits = 4),
    "batch mates that meet again next epoch" => percent(report.meet_again),
    "possible batch mates of a sample" => round(report.partners; digits = 1),
    "correlation of successive lengths" => round(report.length_correlation; digits = 3),
    "variance between batches (1: random)" => round(report.variance_ratio; digits = 2))
Base.print(io::IO, report::Report) = show(io, MIME"text/plain"(), report)

function sampler_options(; seed = nothing, epoch = nothing, rank = nothing, world_size = nothing, last_step = nothing, micro_batches = nothing, costliest_first = nothing, mix_lengths = nothing, steps_per_epoch = nothing)
    return options(Raw.sab_sampler_options; seed = seed, epoch = epoch, rank = rank, world_size = world_size, last_step = choice(:last_step, last_step, LAST_STEPS),
        micro_batches = micro_batches, costliest_first = costliest_first, mix_lengths = mix_lengths === nothing ? nothing : Int32(Bool(mix_lengths)),
        steps_per_epoch = steps_per_epoch)
end

# The same with the cost that steps even out, of sizes with these columns; and what the call needs.
function balanced_options(columns; balance = nothing, given...)
    walk, costs = sampler_options(; given...), Costs()
    set_balance!(walk, balance, costs, isempty(columns) ? ONE_COLUMN : columns)
    return walk, costs
end

"""
    report(plan; seed = 0, epoch = 0, world_size = 1, last_step = :split, costliest_first = 0,
           micro_batches = 1, mix_lengths = false, balance, progress)

The [`Report`](@ref) of an epoch of a [`BucketSampler`](@ref) with these options. Walks this epoch and
the next. The imbalance of ranks is that of `balance`.
"""
function report(plan::Plan; progress = nothing, given...)
    calls, names = Calls(; progress = progress), columns(plan)
    walk, costs = balanced_options(names; given...)
    totals, padded_totals = zeros(info(plan).columns), zeros(info(plan).columns)
    value = Raw.sab_plan_report()
    value.totals, value.padded_totals = pointer(totals), pointer(padded_totals)
    GC.@preserve calls costs totals padded_totals check(calling(() -> Raw.sab_plan_get_report(plan, walk, progress_options(calls), value)), calls, costs.functions...)
    facts = [getfield(fields(value), name) for name in fieldnames(Report)[1:end-2]]
    return Report(facts..., PerColumn(totals, names), PerColumn(padded_totals, names))
end

# Files of plans and of memory models.
for (type, name) in ((:Plan, :sab_plan), (:MemoryModel, :sab_memory_model))
    raw(verb) = Symbol(name, verb)
    @eval begin
        """
            write(path, handle)
            write(io, handle)
            read(path, $($type))
            read(io, $($type))

        Writes a [`Plan`](@ref) or [`MemoryModel`](@ref) to a file or a stream, and reads it again.

        `write(path, ...)` replaces the file in one step and returns its size. `read(path, Plan)` maps
        the file, and all processes that map it share its memory. Do not truncate or overwrite a
        mapped file in place; `write(path, ...)` replaces it safely.
        """
        function Base.write(path::AbstractString, handle::$type)
            check(Raw.$(raw(:_save))(handle, path))
            return filesize(path)
        end
        Base.write(io::IO, handle::$type) = write(io, written((buffer, room, size) -> Raw.$(raw(:_write))(handle, buffer, room, size)))
        Base.read(path::AbstractString, ::Type{$type}) = $type(created(out -> Raw.$(raw(:_file_new))(path, out), Raw.$name))
        function Base.read(io::IO, ::Type{$type})
            image = read(io)
            return $type(created(out -> Raw.$(raw(:_bytes_new))(image, length(image), out), Raw.$name))
        end
    end
end

"""
    SAB.check(plan)

Reads the whole plan. Throws if a checksum or a rule is broken.
"""
check(plan::Plan) = (check(Raw.sab_plan_check(plan)); nothing)

"""
    copy(plan)

The same plan in memory of its own, in huge pages where the system grants them. Batches of a plan
with many samples in a mapped file take longer than those of its copy.
"""
Base.copy(plan::Plan) = Plan(created(out -> Raw.sab_plan_copy_new(plan, out), Raw.sab_plan))

function Base.show(io::IO, plan::Plan)
    isopen(plan) || return print(io, "Plan(closed)")
    facts = info(plan)
    print(io, "Plan($(facts.samples) samples in $(facts.batches) batches, $(facts.buckets) buckets)")
end

"""
    create_buckets(sizes, max_width, min_bucket_count)

Cuts whole-number sizes into the narrowest intervals with at least `min_bucket_count` samples each,
none wider than `max_width`. Returns `(boundaries, bucket_sizes)`.
"""
function create_buckets(sizes, max_width::Integer, min_bucket_count::Integer)
    sizes = read_sizes(sizes)
    max_width, min_bucket_count = converted(Int64, :max_width, max_width), converted(Int64, :min_bucket_count, min_bucket_count)
    count = Ref{Csize_t}(0)
    check(Raw.sab_bionemo_create_buckets(sizes, max_width, min_bucket_count, C_NULL, C_NULL, 0, count))
    boundaries, bucket_sizes = Vector{Int64}(undef, count[] + 1), Vector{Int64}(undef, count[])
    check(Raw.sab_bionemo_create_buckets(sizes, max_width, min_bucket_count, boundaries, bucket_sizes, count[], count))
    return boundaries, bucket_sizes
end
