# Samplers: cursors over the batches of an epoch, for one rank.

"""
A view from 1 of numbers that count from 0: what the library says of samples, to index with. `parent` gives the numbers as the library has them.
"""
struct OneBased <: AbstractVector{Int64}
    parent::Vector{Int64}
end
Base.size(numbers::OneBased) = size(numbers.parent)
Base.IndexStyle(::Type{OneBased}) = IndexLinear()
Base.parent(numbers::OneBased) = numbers.parent
Base.@propagate_inbounds Base.getindex(numbers::OneBased, index::Int) = numbers.parent[index] + 1

"""
A batch: the fields of `sab_batch`.

`indices` are its samples, from 1 (`parent(batch.indices)`: from 0). `longest`, `total`, `padded_length` and `padded_total` speak of sizes; `bucket` is its bucket in the plan, 0 where there
are none. `epoch` and `step` say where it stands, `step` being the number of steps before it. `step_samples` and `step_total` are those of all ranks together, for weights of a loss.
`micro_batch` of `micro_batches`: of a balanced sampler. `cu_seqlens`: cumulative lengths, of packed and balanced samplers, `starts`: where each piece begins in its sample, of a packed one
that splits; otherwise `nothing`.
"""
struct Batch
    indices::OneBased
    longest::Float64
    total::Float64
    padded_length::Float64
    padded_total::Float64
    bucket::Int
    epoch::UInt64
    step::Int
    step_samples::Int
    step_total::Float64
    micro_batch::Int
    micro_batches::Int
    cu_seqlens::Union{Nothing,Vector{Int32}}
    starts::Union{Nothing,Vector{Int64}}
end

# A copy of numbers that the library shows.
shown(pointer::Ptr{T}, count) where {T} = shown!(Vector{T}(undef, count), pointer)
function shown!(numbers::Vector{T}, pointer::Ptr{T}) where {T}
    GC.@preserve numbers unsafe_copyto!(Base.pointer(numbers), pointer, length(numbers))
    return numbers
end

# The vector with `count` items. One that a reshape shares cannot be resized.
function resized(numbers::Vector{T}, count) where {T}
    length(numbers) == count && return numbers
    try
        return resize!(numbers, count)
    catch
        return Vector{T}(undef, count)
    end
end

# The arrays of a sampler's batches with `copy = false`, each of which overwrites those of the one before.
mutable struct Buffers
    indices::Vector{Int64}
    cu_seqlens::Vector{Int32}
    starts::Vector{Int64}
    Buffers() = new([], [], [])
end

function Batch(raw::Raw.sab_batch, buffers::Buffers)
    count = Int(raw.count)
    buffers.indices = shown!(resized(buffers.indices, count), raw.indices)
    raw.cu_seqlens == C_NULL || (buffers.cu_seqlens = shown!(resized(buffers.cu_seqlens, count + 1), raw.cu_seqlens))
    raw.starts == C_NULL || (buffers.starts = shown!(resized(buffers.starts, count), raw.starts))
    return Batch(raw, buffers.indices, raw.cu_seqlens == C_NULL ? nothing : buffers.cu_seqlens, raw.starts == C_NULL ? nothing : buffers.starts)
end
function Batch(raw::Raw.sab_batch)
    count = Int(raw.count)
    return Batch(raw, shown(raw.indices, count), raw.cu_seqlens == C_NULL ? nothing : shown(raw.cu_seqlens, count + 1), raw.starts == C_NULL ? nothing : shown(raw.starts, count))
end
Batch(raw::Raw.sab_batch, indices, cu_seqlens, starts) = Batch(OneBased(indices), raw.longest, raw.total, raw.padded_length, raw.padded_total, raw.bucket + 1, raw.epoch, raw.step,
    raw.step_samples, raw.step_total, raw.micro_batch, raw.micro_batches, cu_seqlens, starts)

Base.length(batch::Batch) = length(batch.indices)
Base.show(io::IO, batch::Batch) = print(io, "Batch($(length(batch)) samples, padded to $(batch.padded_length), step $(batch.step) of epoch $(batch.epoch))")

"""
A cursor over the batches of an epoch, for one task at a time.

    for batch in sampler ... end      # the batches from where the cursor stands to the end of the epoch
    next_batch!(sampler)              # the next one, or nothing
    sampler[step], length(sampler)    # any batch of the epoch, and how many there are, where that is known
    set_epoch!(sampler, epoch)        # begins an epoch; without it a loop after the end has no batches
    seek(sampler, steps); position(sampler)
    state(sampler); restore!(sampler, state)      # on any number of ranks
"""
abstract type Sampler <: Handle{Raw.sab_sampler} end
free(sampler::Ptr{Raw.sab_sampler}) = Raw.sab_sampler_free(sampler)
is_busy(sampler::Sampler) = sampler.calls !== nothing && sampler.calls.depth > 0
function Base.close(sampler::Sampler)
    sampler.guard === nothing || refuse_busy(sampler.guard) # which goes on with it
    invoke(close, Tuple{Handle{Raw.sab_sampler}}, sampler)
end

for name in (:BucketSampler, :SequentialSampler, :SizeAwareSampler, :SizeAwareStream, :TorchSampler, :PackedSampler, :BalancedSampler, :ShardedSampler, :LoadBalancingSampler,
             :LoadBalancingBatchSampler, :ReadaheadSampler, :WorstBatches)
    @eval mutable struct $name <: Sampler
        pointer::Ptr{Raw.sab_sampler}
        calls::Union{Nothing,Calls} # functions that the sampler goes on calling
        kept::Any                   # what the library borrows
        raw::Raw.sab_batch          # where it shows batches
        buffers::Buffers            # of next_batch!(...; copy = false)
        guard::Any                  # a MemoryGuard whose step is under way
        function $name(pointer::Ptr{Raw.sab_sampler}, calls = nothing, kept = nothing)
            raw = Raw.sab_batch()
            raw.struct_size = sizeof(Raw.sab_batch)
            return finalizer(release, new(pointer, calls, kept, raw, Buffers(), nothing))
        end
    end
end

# A call on a sampler, which may run functions.
call(run, sampler::Sampler) = sampler.calls === nothing ? check(run()) : check(calling(run), sampler.calls)

"""
    next_batch!(sampler; copy = true)

Moves to the next [`Batch`](@ref); `nothing` at the end of the epoch. With `copy = false` the sampler uses the same arrays for each batch, which saves their allocation: the next call with
`copy = false` on this sampler overwrites them.
"""
function next_batch!(sampler::Sampler; copy::Bool = true)
    raw = sampler.raw
    status = sampler.calls === nothing ? Raw.sab_next_batch(sampler, raw) : call(() -> Raw.sab_next_batch(sampler, raw), sampler)
    status == Raw.SAB_OK && return copy ? Batch(raw) : Batch(raw, sampler.buffers)
    status == Raw.SAB_END && return nothing
    check(status)
end

function Base.iterate(sampler::Sampler, state = nothing)
    batch = next_batch!(sampler)
    return batch === nothing ? nothing : (batch, nothing)
end
Base.IteratorSize(::Type{<:Sampler}) = Base.SizeUnknown() # a loop may begin in the middle
Base.eltype(::Type{<:Sampler}) = Batch

function Base.length(sampler::Sampler)
    count = Ref{UInt64}(0)
    check(Raw.sab_sampler_batch_count(sampler, count))
    return Int(count[])
end
Base.firstindex(sampler::Sampler) = 1
Base.lastindex(sampler::Sampler) = length(sampler)
function Base.getindex(sampler::Sampler, step::Integer)
    1 <= step <= length(sampler) || throw(BoundsError(sampler, step))
    call(() -> Raw.sab_sampler_at(sampler, step - 1, sampler.raw), sampler)
    return Batch(sampler.raw)
end

"""
    set_epoch!(sampler, epoch)

Begins an epoch at its first step; the same on all ranks.
"""
function set_epoch!(sampler::Sampler, epoch::Integer)
    number = converted(UInt64, :epoch, epoch)
    call(() -> Raw.sab_sampler_set_epoch(sampler, number), sampler)
    return sampler
end

"Moves the cursor of a [`Sampler`](@ref) in its epoch: `steps` batches stand before it then."
function Base.seek(sampler::Sampler, steps::Integer)
    number = converted(UInt64, :steps, steps)
    call(() -> Raw.sab_sampler_seek(sampler, number), sampler)
    return sampler
end

function tell(sampler::Sampler)
    epoch, position = Ref{UInt64}(0), Ref{UInt64}(0)
    check(Raw.sab_sampler_tell(sampler, epoch, position))
    return epoch[], position[]
end
"How many batches of the epoch stand before the cursor of a [`Sampler`](@ref)."
Base.position(sampler::Sampler) = Int(tell(sampler)[2])

"""
    epoch(sampler)

The epoch that the cursor stands in.
"""
epoch(sampler::Sampler) = tell(sampler)[1]

"""
    skipped_count(sampler)

How many samples the sampler leaves out because they are too large.
"""
function skipped_count(sampler::Sampler)
    count = Ref{UInt64}(0)
    check(Raw.sab_sampler_skipped_count(sampler, count))
    return Int(count[])
end

"""
    state(sampler)
    restore!(sampler, state)

Where the cursor stands, as 136 bytes that all ranks save alike, and going on from there: by this or another number of ranks, no sample lost or repeated.
"""
function state(sampler::Sampler)
    bytes = Vector{UInt8}(undef, Raw.SAB_STATE_SIZE)
    check(Raw.sab_sampler_state_save(sampler, bytes))
    return bytes
end
function restore!(sampler::Sampler, state::Vector{UInt8})
    call(() -> Raw.sab_sampler_state_restore(sampler, state, length(state)), sampler)
    return sampler
end
@doc (@doc state) restore!

"""
    budget(sampler)
    set_budget!(sampler, budget)

The budget of the batches to come. A lower one makes several steps of one, on all ranks alike; 0 is the plan's own again.
"""
function budget(sampler::Sampler)
    value = Ref(0.0)
    check(Raw.sab_sampler_get_budget(sampler, value))
    return value[]
end
set_budget!(sampler::Sampler, budget::Real) = (check(Raw.sab_sampler_set_budget(sampler, budget)); sampler)
@doc (@doc budget) set_budget!

function Base.show(io::IO, sampler::Sampler)
    isopen(sampler) || return print(io, nameof(typeof(sampler)), "(closed)")
    print(io, nameof(typeof(sampler)), "(step $(position(sampler)) of epoch $(epoch(sampler)))")
end

# ---- Kinds ----

"""
    BucketSampler(plan; seed = 0, rank = 0, world_size = 1, epoch = 0, last_step = :split, worst_first = 0, step_totals = true)

The native order: shuffled, with random access, a pure function of plan, seed, epoch and step. At each step all ranks take a batch of nearly the same cost. `last_step`: batches that do not
fill the last step of all ranks are split (`:split`), left out (`:drop`), or others come again (`:wrap`).
"""
function BucketSampler(plan::Plan; given...)
    walk = sampler_options(; given...)
    return BucketSampler(created(out -> Raw.sab_bucket_sampler_new(plan, walk, out), Raw.sab_sampler))
end

"""
    SequentialSampler(plan; rank = 0, world_size = 1, epoch = 0, last_step = :split, step_totals = true)

The plan's batches unshuffled: by ascending size, then by index. For evaluation.
"""
function SequentialSampler(plan::Plan; given...)
    walk = sampler_options(; given...)
    return SequentialSampler(created(out -> Raw.sab_sequential_sampler_new(plan, walk, out), Raw.sab_sampler))
end

"""
    worst_batches(plan, count = 1)

The costliest batches that an epoch of the plan can have, costliest first: to run once before training.
"""
worst_batches(plan::Plan, count::Integer = 1) = collect(WorstBatches(created(out -> Raw.sab_plan_worst_batches(plan, converted(UInt64, :count, count), out), Raw.sab_sampler)))

"""
    SizeAwareSampler(sizes, max_total_size; indices, rank = 0, world_size = 1, epoch = 0, last_step = :split, step_totals = true)

Greedy batches in the order of `indices` (default: of the samples): a batch closes before its total would exceed `max_total_size`. Samples that are larger alone are left out.
"""
function SizeAwareSampler(sizes, max_total_size::Real; indices = nothing, given...)
    sizes = Sizes(sizes)
    walk = sampler_options(; given...)
    order = indices === nothing ? C_NULL : Int64[converted(Int64, :indices, index) - 1 for index in indices]
    count = indices === nothing ? length(sizes) : length(order)
    return SizeAwareSampler(created(out -> Raw.sab_size_aware_sampler_new(order, count, sizes, max_total_size, walk, out), Raw.sab_sampler), nothing, sizes)
end

index_callback(ctx, epoch, position, index, size) = guard(ctx) do calls
    next = calls.main(epoch, Int(position))
    next === nothing && return Raw.SAB_END
    unsafe_store!(index, Int64(next[1]) - 1)
    unsafe_store!(size, Float64(next[2]))
    return 0
end

"""
    SizeAwareStream(source, max_total_size)

Greedy batches, as of a [`SizeAwareSampler`](@ref), of samples that come as they come: `source(epoch, position)` gives `(index, size)`, or `nothing` at the end. `position` is 0 when an epoch
begins, then one more each time. One rank, no random access, no state.
"""
function SizeAwareStream(source, max_total_size::Real)
    calls = Calls(source)
    callback = @cfunction(index_callback, Int32, (Ptr{Cvoid}, UInt64, UInt64, Ptr{Int64}, Ptr{Float64}))
    return SizeAwareStream(created(out -> Raw.sab_size_aware_stream_sampler_new(callback, calls, C_NULL, max_total_size, out), Raw.sab_sampler), calls)
end

"""
    TorchSampler(plan; seed = 0, shuffle = :all, max_total_size, size)

The order of `BucketBatchSampler` of bionemo-size-aware-batching, seed for seed, without torch; of a plan of `boundaries`. `shuffle`: `:all`, `:none` or `:buckets`. With `max_total_size`
batches are formed greedily by `size`, a function of a sample or [`Sizes`](@ref). Epochs follow one another.
"""
function TorchSampler(plan::Plan; seed = nothing, shuffle = nothing, max_total_size = nothing, size = nothing)
    words = (none = Raw.SAB_TORCH_SHUFFLE_NONE, all = Raw.SAB_TORCH_SHUFFLE_ALL, buckets = Raw.SAB_TORCH_SHUFFLE_BUCKETS)
    given = options(Raw.sab_torch_sampler_options; seed = seed, shuffle = choice(:shuffle, shuffle, words), max_total_size = max_total_size)
    calls, kept = nothing, nothing
    if size isa Union{Sizes,AbstractVector}
        kept = Sizes(size)
        given.sizes = Base.unsafe_convert(Ptr{Raw.sab_sizes}, kept)
    elseif size !== nothing
        calls = Calls(size)
        given.size, given.size_ctx = size_pointer(), pointer_from_objref(calls)
    end
    return GC.@preserve kept calls TorchSampler(created(out -> Raw.sab_torch_sampler_new(plan, given, out), Raw.sab_sampler), calls, kept)
end

"""
    generator(sampler)
    set_generator!(sampler, words)

The Mersenne twister of a [`TorchSampler`](@ref), as 625 words: to carry on with it elsewhere.
"""
function generator(sampler::TorchSampler)
    words = Vector{UInt32}(undef, Raw.SAB_TORCH_GENERATOR_WORDS)
    check(Raw.sab_torch_sampler_get_generator(sampler, words))
    return words
end
function set_generator!(sampler::TorchSampler, words::Vector{UInt32})
    length(words) == Raw.SAB_TORCH_GENERATOR_WORDS || throw(ArgumentError("words: must be $(Raw.SAB_TORCH_GENERATOR_WORDS) of them, not $(length(words))"))
    check(Raw.sab_torch_sampler_set_generator(sampler, words))
    return sampler
end
@doc (@doc generator) set_generator!

"""
    PackedSampler(sizes, capacity; method = :best_fit, max_sequences, split = false, oversize = :error, window, progress, seed = 0, rank = 0, world_size = 1, ...)

Samples end to end in rows of `capacity`, which are the batches, with `cu_seqlens`. `method`: `:best_fit`, `:histogram` or `:first_fit` (with `window` rows open at once). `split` cuts longer
samples; otherwise `oversize` is `:error` or `:skip`. The rest is as for a [`BucketSampler`](@ref).
"""
function PackedSampler(sizes, capacity::Integer; method = nothing, max_sequences = nothing, split = nothing, oversize = nothing, window = nothing, progress = nothing, given...)
    sizes = read_sizes(sizes, progress)
    walk = sampler_options(; given...)
    calls = Calls(; progress = progress)
    methods = (best_fit = Raw.SAB_PACK_BEST_FIT, histogram = Raw.SAB_PACK_HISTOGRAM, first_fit = Raw.SAB_PACK_FIRST_FIT)
    pack = options(Raw.sab_pack_options; capacity = capacity, method = choice(:method, method, methods), max_sequences = max_sequences, split = split,
        oversize = choice(:oversize, oversize, OVERSIZE), window = window, progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    return GC.@preserve calls PackedSampler(created(out -> Raw.sab_packed_sampler_new(sizes, pack, walk, out), Raw.sab_sampler, calls))
end

"""
    info(sampler::PackedSampler)

Facts of the packing: `samples`, `skipped`, `split`, `sequences`, `bins`, `lower_bound`, `most_sequences`, `fingerprint`, `total`, `fill`.
"""
info(sampler::PackedSampler) = fields(filled(out -> Raw.sab_pack_get_info(sampler, out), Raw.sab_pack_info))

"""
    skipped(sampler::PackedSampler)

The samples that were left out because they are longer than a row, by ascending size.
"""
skipped(sampler::PackedSampler) = skipped_samples((samples, room, count) -> Raw.sab_pack_skipped(sampler, samples, room, count), info(sampler).skipped)
