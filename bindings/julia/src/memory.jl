# Device memory of batches: measured, modelled, limited.

export Probe, Device, MemoryModel, reset!, release_cache!, torch_open, collect_peak,
    measurement_points, predict, predict_upper, find_max_batch, step_in_chunks, verify,
    grow_batch_size, grow_batch_size_linear, grow_batch_size_doubling

"""
    Device(; reset, current, peak, reserved, total, release_cache, is_out_of_memory, rng_save,
           rng_restore)

The memory of a device through functions of the caller's, such as those of CUDA.jl, for a
[`Probe`](@ref). `reset()`, `current()` and `peak()` are required; the last two return bytes.

- `reserved()`: `(reserved_peak, largest_free)`. `total()`: bytes of the device.
- `release_cache()` returns cached blocks to the device.
- `is_out_of_memory(exception)`: whether an exception of the work is an out-of-memory error; by
  default an `OutOfMemoryError`.
- `rng_save(depth)` and `rng_restore(depth)` keep the state of random generators.
"""
struct Device{F<:NamedTuple}
    functions::F
end
function Device(; reset, current, peak, reserved = nothing, total = nothing, release_cache = nothing, is_out_of_memory = exception -> exception isa OutOfMemoryError,
                rng_save = nothing, rng_restore = nothing)
    return Device((reset = reset, current = current, peak = peak, reserved = reserved, total = total, release_cache = release_cache, is_out_of_memory = is_out_of_memory,
        rng_save = rng_save, rng_restore = rng_restore))
end

"""
    Probe("host"; total_bytes)
    Probe(device::Device)

Reads the memory of a device: `"host"`, the resident memory of this process, or a [`Device`](@ref).
For one task at a time. After [`torch_open`](@ref) also `"cpu"` and `"cuda:N"`, the tensors of
LibTorch; there `total_bytes` emulates a device of that size.
"""
mutable struct Probe{C} <: Handle{Raw.sab_probe}
    pointer::Ptr{Raw.sab_probe}
    calls::C # functions of a device
    Probe(pointer::Ptr{Raw.sab_probe}, calls::C) where {C} = finalizer(finish, new{C}(pointer, calls))
end
free(probe::Ptr{Raw.sab_probe}) = Raw.sab_probe_free(probe)

function Probe(device::AbstractString; total_bytes = nothing)
    given = options(Raw.sab_probe_options; total_bytes = total_bytes)
    return Probe(created(out -> Raw.sab_probe_new(device, given, out), Raw.sab_probe), nothing)
end

device_reset(ctx) = guard(calls -> (calls.main.reset(); 0), ctx)
device_current(ctx, bytes) = guard(calls -> (unsafe_store!(bytes, Int64(calls.main.current())); 0), ctx)
device_peak(ctx, bytes) = guard(calls -> (unsafe_store!(bytes, Int64(calls.main.peak())); 0), ctx)
device_total(ctx, bytes) = guard(calls -> (unsafe_store!(bytes, Int64(calls.main.total())); 0), ctx)
device_release_cache(ctx) = guard(calls -> (calls.main.release_cache(); 0), ctx)
device_rng_save(ctx, depth) = guard(calls -> (calls.main.rng_save(Int(depth)); 0), ctx)
device_rng_restore(ctx, depth) = guard(calls -> (calls.main.rng_restore(Int(depth)); 0), ctx)
device_reserved(ctx, peak, free) = guard(ctx) do calls
    reserved_peak, largest_free = calls.main.reserved()
    unsafe_store!(peak, Int64(reserved_peak))
    unsafe_store!(free, Int64(largest_free))
    0
end

function Probe(description::Device)
    device = description.functions
    calls = Calls(device)
    given = options(Raw.sab_probe_callbacks; ctx = pointer_from_objref(calls), reset = @cfunction(device_reset, Int32, (Ptr{Cvoid},)),
        current = @cfunction(device_current, Int32, (Ptr{Cvoid}, Ptr{Int64})), peak = @cfunction(device_peak, Int32, (Ptr{Cvoid}, Ptr{Int64})),
        reserved = device.reserved === nothing ? nothing : @cfunction(device_reserved, Int32, (Ptr{Cvoid}, Ptr{Int64}, Ptr{Int64})),
        total = device.total === nothing ? nothing : @cfunction(device_total, Int32, (Ptr{Cvoid}, Ptr{Int64})),
        release_cache = device.release_cache === nothing ? nothing : @cfunction(device_release_cache, Int32, (Ptr{Cvoid},)),
        rng_save = device.rng_save === nothing ? nothing : @cfunction(device_rng_save, Int32, (Ptr{Cvoid}, UInt64)),
        rng_restore = device.rng_restore === nothing ? nothing : @cfunction(device_rng_restore, Int32, (Ptr{Cvoid}, UInt64)))
    return GC.@preserve calls Probe(created(out -> Raw.sab_probe_callbacks_new(given, out), Raw.sab_probe), calls)
end
Probe(probe::Probe) = probe

"""
    torch_open(path = nothing)

Loads libsab's LibTorch component, which the probes `"cpu"` and `"cuda:N"` need. By default it is the
file that the environment variable SAB_TORCH_LIBRARY names, or the one beside libsab.
"""
torch_open(path = nothing) = (check(Raw.sab_torch_open(path === nothing ? C_NULL : path, C_NULL)); nothing)

# Calls that use a probe throw the exceptions of its functions.
probing(run, probe::Probe, functions::Calls...) = check(calling(run), probe.calls, functions...)

"""
    reset!(probe); stats(probe); release_cache!(probe)

`reset!` begins a new peak at the memory in use. `stats` returns `current`, `peak`, `reserved_peak`,
`largest_free` and `total`, each -1 if not known. `release_cache!` returns cached blocks to the
device.
"""
reset!(probe::Probe) = (probing(() -> Raw.sab_probe_reset(probe), probe); probe)
stats(probe::Probe) = fields(filled(out -> probing(() -> Raw.sab_probe_get_stats(probe, out), probe), Raw.sab_probe_stats))
release_cache!(probe::Probe) = (probing(() -> Raw.sab_probe_release_cache(probe), probe); probe)
@doc (@doc reset!) stats
@doc (@doc reset!) release_cache!

# Work of the caller that may run out of memory.
struct Work{R,C,M}
    run::R
    probe::C
    more::M
    Work(run::R, probe::Probe{C}, more::M = nothing) where {R,C,M} = new{R,C,M}(run, probe.calls, more)
end

function worked(work::Work, arguments...)
    try
        work.run(arguments...)
        return 0
    catch exception
        is_out_of_memory = work.probe === nothing ? exception isa OutOfMemoryError : work.probe.main.is_out_of_memory(exception)
        return is_out_of_memory ? Raw.SAB_OUT_OF_MEMORY : rethrow()
    end
end

# ---- Measuring ----

work_callback(ctx, item, features, capacity, count) = guard(ctx) do calls
    work = calls.main
    item < length(work.more.inputs) || return Raw.SAB_END
    values = Float64[]
    status = worked(work, work.more.inputs[item + 1], values)
    length(values) <= capacity || throw(ArgumentError("work: gave $(length(values)) features, at most $capacity are known"))
    for (index, value) in enumerate(values)
        unsafe_store!(features, value, index)
    end
    unsafe_store!(count, length(values))
    status
end

cleanup_callback(ctx, item) = guard(calls -> (calls.main.more.cleanup(); 0), ctx)
collect_garbage_callback(ctx) = guard(calls -> (GC.gc(); 0), ctx)

"""
    collect_peak(work, inputs, probe; cleanup, warm_up = 0, release_cache = true, progress)

Runs `work(input)` for each of `inputs` and records its peak. `work` returns the features of the
input: numbers such as count and padded length, also vectors of them. The result has `items` (which inputs, from 1),
`features` (a column each), `before`, `peaks`, `reserved_peaks`, `largest_free`, and `out_of_memory`,
the inputs that ran out of memory, which is no failure. `probe` is a [`Probe`](@ref). `cleanup()` and
Julia's garbage collection run after each input.
"""
function collect_peak(work, inputs, probe::Probe; cleanup = nothing, warm_up = nothing, release_cache = nothing, progress = nothing)
    function run(input, values)
        made = work(input)
        made isa Union{Number,Tuple,AbstractVector} && append!(values, Float64[each for part in made for each in part])
    end
    calls = Calls(Work(run, probe, (inputs = collect(inputs), cleanup = cleanup)); progress = progress)
    given = options(Raw.sab_collect_peak_options; item_count = length(calls.main.more.inputs), warm_up = warm_up, keep_cache = inverted(release_cache), ctx = pointer_from_objref(calls),
        work = @cfunction(work_callback, Int32, (Ptr{Cvoid}, UInt64, Ptr{Float64}, Csize_t, Ptr{Csize_t})),
        cleanup = cleanup === nothing ? nothing : @cfunction(cleanup_callback, Int32, (Ptr{Cvoid}, UInt64)),
        collect_garbage = @cfunction(collect_garbage_callback, Int32, (Ptr{Cvoid},)), progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    peaks = created(out -> Raw.sab_peaks_new(out), Raw.sab_peaks)
    try
        GC.@preserve calls probing(() -> Raw.sab_collect_peak(probe, given, peaks), probe, calls)
        view = filled(out -> Raw.sab_peaks_get_view(peaks, out), Raw.sab_peaks_view)
        count = view.count
        features = reshape(shown(view.features, count * view.feature_count), Int(view.feature_count), Int(count))
        return (items = Int.(shown(view.items, count)) .+ 1, features = features, before = shown(view.before, count), peaks = shown(view.peaks, count),
            reserved_peaks = shown(view.reserved_peaks, count), largest_free = shown(view.largest_free, count),
            out_of_memory = Int.(shown(view.out_of_memory, view.out_of_memory_count)) .+ 1)
    finally
        Raw.sab_peaks_free(peaks)
    end
end

# ---- The model ----

"""
    MemoryModel(features, peaks; kind = :batch, degree = 2, coverage = 0.95, select_terms = true,
                columns)

Predicts the peak memory of a batch, with a margin. It is fitted to `features`, a column for each
measurement, and `peaks` in bytes, as [`collect_peak`](@ref) returns them. The features of kind
`:batch` are count and padded length, of samples with several sizes count and a length for each;
those of `:polynomial` are free. `model(count, length)` is the upper prediction; of several sizes
`model(count, lengths)` with a vector, or a `NamedTuple` by the names. `columns` are the names of the
sizes, one for each length. A plan refuses the model as a cost of sizes with other names. A model can be the cost of a [`Plan`](@ref) whose budget is in bytes. Immutable;
threads may share it.
"""
mutable struct MemoryModel <: Handle{Raw.sab_memory_model}
    pointer::Ptr{Raw.sab_memory_model}
    MemoryModel(pointer::Ptr{Raw.sab_memory_model}) = finalizer(finish, new(pointer))
end
free(model::Ptr{Raw.sab_memory_model}) = Raw.sab_memory_model_free(model)

function MemoryModel(features::AbstractMatrix, peaks; kind = nothing, degree = nothing, coverage = nothing, select_terms = nothing, columns = nothing)
    size(features, 2) == length(peaks) || throw(ArgumentError("features: must have a column for each of the $(length(peaks)) peaks, not $(size(features, 2))"))
    kinds = (batch = Raw.SAB_MODEL_BATCH, polynomial = Raw.SAB_MODEL_POLYNOMIAL)
    given = options(Raw.sab_memory_model_options; kind = choice(:kind, kind, kinds), degree = degree, coverage = coverage, keep_terms = inverted(select_terms))
    features, peaks = Matrix{Float64}(features), dense(Float64, peaks)
    names = columns === nothing ? nothing : model_names(columns, size(features, 1) - 1)
    pointers = names === nothing ? nothing : Ptr{UInt8}[Base.unsafe_convert(Cstring, name) for name in names]
    make(out) = Raw.sab_memory_model_fit_new(features, size(features, 2), size(features, 1), peaks, given, out)
    return GC.@preserve names pointers begin
        pointers === nothing || (given.column_names = pointer(pointers))
        MemoryModel(created(make, Raw.sab_memory_model))
    end
end

# Names of the columns of a model, as the library reads them.
function model_names(columns, count)
    columns isa Union{Tuple,AbstractVector} && all(name -> name isa Union{Symbol,AbstractString}, columns) || throw(ArgumentError("columns = $(repr(columns)): must be names"))
    length(columns) == count || throw(ArgumentError("columns = $(repr(columns)): must be $count, one for each length"))
    return [Base.cconvert(Cstring, String(name)) for name in columns]
end

"""
    SAB.columns(model)

The names of the columns of a [`MemoryModel`](@ref) of batches; none for columns without a name.
"""
function columns(model::MemoryModel)
    given = facts(model)
    given.kind == Raw.SAB_MODEL_BATCH || return Symbol[]
    return GC.@preserve model names_at(given.column_names, given.feature_count - 1)
end

"""
    info(model)

Facts of a [`MemoryModel`](@ref): `kind`, `degree`, `feature_count`, `term_count`, `measurements`,
`constant`, `margin`, `coverage`, `residual`, `held_out_residual`, `largest_residual`.
"""
info(model::MemoryModel) = fields(facts(model))
facts(model::MemoryModel) = filled(out -> Raw.sab_memory_model_get_info(model, out), Raw.sab_memory_model_info)

"""
    terms(model)

`(coefficient, powers)` of each term of a [`MemoryModel`](@ref).
"""
function terms(model::MemoryModel)
    given = facts(model)
    width = Int(given.feature_count)
    return GC.@preserve model map(1:given.term_count) do index
        powers = [unsafe_load(given.powers, (index - 1) * width + feature) for feature in 1:width]
        (unsafe_load(given.coefficients, index), Int.(powers))
    end
end

"""
    predict(model, features)
    predict_upper(model, features)

The expected peaks of batches, and those with the margin. The features of each batch are a column.
"""
predict(model::MemoryModel, features::AbstractMatrix) = predicted(model, features, false)
predict_upper(model::MemoryModel, features::AbstractMatrix) = predicted(model, features, true)
@doc (@doc predict) predict_upper

function predicted(model::MemoryModel, features::AbstractMatrix, is_upper)
    size(features, 1) == info(model).feature_count || throw(ArgumentError("features: must have $(info(model).feature_count) rows, not $(size(features, 1))"))
    features = Matrix{Float64}(features)
    result = Vector{Float64}(undef, size(features, 2))
    check(Raw.sab_memory_model_predict(model, features, length(result), is_upper ? C_NULL : result, is_upper ? result : C_NULL))
    return result
end
(model::MemoryModel)(features::Real...) = predict_upper(model, reshape(collect(Float64, features), :, 1))[1]
(model::MemoryModel)(count::Real, lengths::AbstractVector{<:Real}) = model(count, lengths...)
function (model::MemoryModel)(count::Real, lengths::NamedTuple)
    names = columns(model)
    issetequal(keys(lengths), names) || throw(ArgumentError("lengths = $lengths: must be of $(join(map(repr, names), ", "))"))
    return model(count, by_column(:lengths, lengths, names))
end

cost_of(name, model::MemoryModel) = cost_of(name, cost_by(model))
cost_by(model::MemoryModel) = CostHandle(created(out -> Raw.sab_memory_model_cost_new(model, out), Raw.sab_cost), cost_by, model)

function Base.show(io::IO, model::MemoryModel)
    isopen(model) || return print(io, "MemoryModel(closed)")
    facts = info(model)
    print(io, "MemoryModel($(facts.term_count) terms, margin $(percent(facts.margin)), of $(facts.measurements) measurements)")
end

"""
    measurement_points(shortest, longest, points; max_count, budget, cost, degree = 2)

The `(count, length)` whose measurements improve a model of batches most. Without a `cost` no point
has more than `budget` padded positions, by default 4 × longest. With a `cost`, such as a first
model, only points that cost from a third to nine tenths of `budget`.

Of samples with several sizes `shortest` and `longest` are a `NamedTuple` by the names of the
columns, such as `(source = 4, target = 4)`, and each length is a [`PerColumn`](@ref).
"""
measurement_points(shortest::Real, longest::Real, points::Integer; given...) = points_to_measure([shortest], [longest], points, ONE_COLUMN; given...)
function measurement_points(shortest::NamedTuple, longest::NamedTuple, points::Integer; given...)
    names = collect(keys(shortest))
    1 <= length(names) <= Raw.SAB_MAX_COLUMNS && issetequal(names, keys(longest)) ||
        throw(ArgumentError("shortest = $shortest, longest = $longest: must have the same columns, at most $(Raw.SAB_MAX_COLUMNS)"))
    return points_to_measure(by_column(:shortest, shortest, names), by_column(:longest, longest, names), points, names; given...)
end

function points_to_measure(shortest, longest, points, names; max_count = 1 << 20, budget = nothing, cost = nothing, degree = nothing)
    columns, costs = length(names), Costs()
    shortest, longest = dense(Float64, shortest), dense(Float64, longest)
    given = options(Raw.sab_measurement_options; column_count = columns, shortest = pointer(shortest), longest = pointer(longest), max_count = max_count, degree = degree)
    limits = Raw.sab_budget[raw!(costs, each, names) for each in budget_list(budget, cost)]
    length(limits) <= 1 || throw(ArgumentError("budget: must be at most one, not $(length(limits))"))
    isempty(limits) || (given.budget = pointer(limits))
    points = Int(converted(UInt32, :points, points))
    points <= 1000 || throw(ArgumentError("points = $points: must be at most 1000"))
    counts, lengths = Vector{UInt64}(undef, points), Matrix{Float64}(undef, columns, points)
    GC.@preserve costs shortest longest limits check(calling(() -> Raw.sab_measurement_points_find(given, points, counts, lengths)), costs.functions...)
    of_point(point) = columns == 1 ? lengths[1, point] : PerColumn(lengths[:, point], names)
    return [(Int(counts[point]), of_point(point)) for point in 1:points]
end

# ---- The largest batch, and steps in parts ----

trial_callback(ctx, count, length) = guard(calls -> worked(calls.main, Int(count), length), ctx)
reduce_callback(ctx, values, count) = guard(ctx) do calls
    shared = unsafe_wrap(Vector{Int64}, values, count)
    shared .= calls.main.more(copy(shared))
    0
end
reduce_pointer() = @cfunction(reduce_callback, Int32, (Ptr{Cvoid}, Ptr{Int64}, Csize_t))

"""
    find_max_batch(step, probe; lengths, search = :predict, max_batch_size = 100_000, budget,
                   rounding, multiple, reduce, progress)

The largest batch whose `step(count, length)` fits the device, for each of `lengths`: `batch_sizes`,
`batch_size` (of the longest), `trials`, `out_of_memory`, `peak`, `budget`. `search`: `:predict`,
`:difference`, `:binary` or `:halve`. `rounding`: `:power_of_two`; or a `multiple`. `reduce(values)`
returns the minimum over all ranks.
"""
function find_max_batch(step, probe::Probe; lengths = nothing, search = nothing, max_batch_size = nothing, budget = nothing, rounding = nothing, multiple = nothing, reduce = nothing,
                        progress = nothing)
    calls = Calls(Work(step, probe, reduce); progress = progress)
    searches = (predict = Raw.SAB_SEARCH_PREDICT, difference = Raw.SAB_SEARCH_DIFFERENCE, binary = Raw.SAB_SEARCH_BINARY, halve = Raw.SAB_SEARCH_HALVE)
    roundings = (none = Raw.SAB_ROUND_NONE, power_of_two = Raw.SAB_ROUND_POWER_OF_TWO, multiple = Raw.SAB_ROUND_MULTIPLE)
    given = options(Raw.sab_max_batch_options; search = choice(:search, search, searches), max_batch_size = max_batch_size, limit = budget,
        rounding = choice(:rounding, multiple === nothing ? rounding : :multiple, roundings), multiple = multiple, progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    lengths = lengths === nothing ? nothing : dense(Float64, lengths)
    lengths === nothing || (given.lengths = pointer(lengths); given.length_count = length(lengths))
    reduce === nothing || (given.reduce = reduce_pointer(); given.reduce_ctx = pointer_from_objref(calls))
    batch_sizes = Vector{UInt64}(undef, lengths === nothing ? 1 : length(lengths))
    callback = @cfunction(trial_callback, Int32, (Ptr{Cvoid}, UInt64, Float64))
    result = GC.@preserve lengths filled(Raw.sab_max_batch) do out
        probing(() -> Raw.sab_max_batch_find(probe, callback, calls, given, batch_sizes, out), probe, calls)
    end
    return (batch_sizes = Int.(batch_sizes), batch_size = Int(result.batch_size), trials = Int(result.trials), out_of_memory = Int(result.out_of_memory), peak = result.peak,
        budget = Int(result.limit))
end

"""
    grow_batch_size(increase, epoch, current, max_batch_size)
    grow_batch_size_linear(epoch, start, amount, period, max_batch_size)
    grow_batch_size_doubling(epoch, start, milestones, max_batch_size)

The batch size of an epoch: larger by `increase(epoch, current)` if that is at most `max_batch_size`, by
`amount` every `period` epochs, or doubled at each milestone.
"""
function grow_batch_size(increase, epoch::Integer, current::Integer, max_batch_size::Integer)
    at_least(1, :current, current)
    more = increase(at_least(0, :epoch, epoch), current)
    return current + at_least(0, :increase, more) <= max_batch_size ? current + more : current
end
function grow_batch_size_linear(epoch::Integer, start::Integer, amount::Integer, period::Integer, max_batch_size::Integer)
    at_least(at_least(1, :start, start), :max_batch_size, max_batch_size)
    times = at_least(0, :epoch, epoch) ÷ at_least(1, :period, period)
    return Int(min(start + widemul(times, at_least(0, :amount, amount)), max_batch_size))
end
function grow_batch_size_doubling(epoch::Integer, start::Integer, milestones, max_batch_size::Integer)
    at_least(at_least(1, :start, start), :max_batch_size, max_batch_size)
    at_least(0, :epoch, epoch)
    return Int(min(big(start) << count(<=(epoch), milestones), max_batch_size))
end
at_least(least, name, value) = value >= least ? value : throw(ArgumentError("$name = $value: must be a whole number from $least to $(typemax(Int64))"))
@doc (@doc grow_batch_size) grow_batch_size_linear
@doc (@doc grow_batch_size) grow_batch_size_doubling

chunk_callback(ctx, first, count, weight) = guard(calls -> worked(calls.main, Int(first) + 1:Int(first + count), weight), ctx)
begin_callback(ctx) = guard(calls -> (calls.main.more(); 0), ctx)

# Options of a step in parts, its functions, and the weights that must be kept.
function step_options(chunk, probe::Probe; prepare = nothing, weights = nothing, chunk_size = nothing)
    calls = Calls(Work(chunk, probe, prepare))
    weights = weights === nothing ? nothing : dense(Float64, weights)
    given = options(Raw.sab_step_in_chunks_options; chunk = @cfunction(chunk_callback, Int32, (Ptr{Cvoid}, UInt64, UInt64, Float64)),
        begin_ = prepare === nothing ? nothing : @cfunction(begin_callback, Int32, (Ptr{Cvoid},)), ctx = pointer_from_objref(calls),
        sample_weights = weights === nothing ? nothing : pointer(weights), chunk_size = chunk_size)
    return given, calls, weights
end

"""
    step_in_chunks(chunk, count, probe; prepare, weights, chunk_size)

Runs a batch of `count` samples in parts that fit. `chunk(samples, weight)` runs forward and backward
on a range of samples, with the loss multiplied by `weight`. When a part runs out of memory, parts
are halved, `prepare()` sets the gradients to zero, and all parts run again. Returns the size of the
parts that fit. `weights`: the weight of each sample in the loss.
"""
function step_in_chunks(chunk, count::Integer, probe::Probe; prepare = nothing, weights = nothing, chunk_size = nothing)
    weights === nothing || length(weights) == count || throw(ArgumentError("weights: must be $count, not $(length(weights))"))
    given, calls, kept = step_options(chunk, probe; prepare = prepare, weights = weights, chunk_size = chunk_size)
    fitted = Ref{UInt64}(0)
    GC.@preserve kept calls probing(() -> Raw.sab_step_run_in_chunks(probe, converted(UInt64, :count, count), given, fitted), probe, calls)
    return Int(fitted[])
end

batch_callback(ctx, batch) = guard(calls -> worked(calls.main, Batch(unsafe_load(batch); names = calls.main.more)), ctx)

"""
    verify(run, plan, probe; count = 16, progress)

Runs the costliest batches of a plan before training: `run(batch)` for each, costliest first. Returns
`batches`, the number of batches run, their largest `peak`, and the `total` of the device. Throws an
[`SABError`](@ref) of status `SAB_E_DEVICE_MEMORY` if one runs out of memory.
"""
function verify(run, plan::Handle{Raw.sab_plan}, probe::Probe; count::Integer = 16, progress = nothing)
    calls = Calls(Work(run, probe, columns(plan)); progress = progress)
    callback = @cfunction(batch_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_batch}))
    given = options(Raw.sab_verification_options; count = count, progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    return GC.@preserve calls fields(filled(Raw.sab_verification) do out
        probing(() -> Raw.sab_plan_verify(plan, probe, callback, calls, given, out), probe, calls)
    end)
end
