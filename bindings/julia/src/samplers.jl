# Samplers: cursors over the batches of an epoch, for one rank.

export Batch, Block, Sampler, BucketSampler, SequentialSampler, OrderedSampler,
    BionemoSizeAwareStream, BionemoSampler, PackedSampler, begin!, next_batch!, next_block!, padded_total,
    batch_count, skipped_count, set_epoch!, set_budget!, restore!, set_generator!, costliest_batches

"""
Indices that count from 1, a view of the library's, which count from 0. `parent` returns the latter.
"""
struct OneBased <: AbstractVector{Int64}
    parent::Vector{Int64}
end
Base.size(numbers::OneBased) = size(numbers.parent)
Base.IndexStyle(::Type{OneBased}) = IndexLinear()
Base.parent(numbers::OneBased) = numbers.parent
Base.@propagate_inbounds Base.getindex(numbers::OneBased, index::Int) = numbers.parent[index] + 1

"""
One batch.

- `indices`: its samples, from 1 (`parent(batch.indices)`: from 0).
- `layout`: `:padded`, each sample padded to `padded_length`, or `:row`, the samples end to end.
- `longest`, `padded_length`, `total`: of the sizes. Of several columns a [`PerColumn`](@ref) each,
  as in `batch.total[:source]`; so are `cu_seqlens`, `cu_seqlens_unpadded` and `token_weight`.
- `bucket`: its bucket in the plan, 0 if there are none, or in an empty batch.
- `epoch`, `step`, `micro_batch`: its position. `step` is the number of optimizer steps before it,
  `micro_batch` the number of this rank's batches of the step before it.
- `id`: what all its samples have in `separate_by` of a [`Plan`](@ref); 0 without it.
- `cu_seqlens`: cumulative lengths, of rows of whole-number sizes; otherwise `nothing`.
- `starts`: where each piece begins in its sample, of rows of samplers that split; otherwise
  `nothing`.
- `sample_weight`: its number of samples over the mean of all batches of the epoch, of all ranks and
  micro-batches. Multiply a loss that is a mean over the samples by it, and each sample of the epoch
  counts the same. Its mean is 1; an empty batch has 0. After a lowered budget, and after a state of
  other ranks or micro-batches, the mean is that of the batches from there on. Samplers that do not
  know their number of batches take the mean of those of the epoch up to this one.
- `token_weight`: the same of `total`: for a loss that is a mean over the tokens.
- `cu_seqlens_unpadded`: those of the true lengths, where `cu_seqlens` has lengths that
  `length_multiple` rounds; otherwise `nothing`.
"""
struct Batch
    indices::OneBased
    layout::Symbol
    longest::Union{Float64,PerColumn{Float64}}
    padded_length::Union{Float64,PerColumn{Float64}}
    total::Union{Float64,PerColumn{Float64}}
    bucket::Int
    epoch::UInt64
    step::Int
    micro_batch::Int
    id::Int
    cu_seqlens::Union{Nothing,Vector{Int32},PerColumn{Vector{Int32}}}
    starts::Union{Nothing,Vector{Int64}}
    sample_weight::Float64
    token_weight::Union{Float64,PerColumn{Float64}}
    cu_seqlens_unpadded::Union{Nothing,Vector{Int32},PerColumn{Vector{Int32}}}
end

"""
    padded_total(batch)

Number of positions that a [`Batch`](@ref) takes with padding, over all columns: samples times
`padded_length`; for a row, its `padded_length`.
"""
padded_total(batch::Batch) = (batch.layout === :row ? 1 : length(batch)) * sum(batch.padded_length)

# A copy of numbers in the library's memory.
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

# The arrays of a sampler's batches with `copy = false`. Each batch overwrites those before it.
mutable struct Buffers
    indices::Vector{Int64}
    cu_seqlens::Vector{Int32}
    cu_seqlens_unpadded::Vector{Int32}
    starts::Vector{Int64}
    Buffers() = new([], [], [], [])
end

# A new array, or that of the buffers.
kept(::Nothing, name, pointer, count) = shown(pointer, count)
kept(buffers::Buffers, name, pointer, count) = setproperty!(buffers, name, shown!(resized(getproperty(buffers, name), count), pointer))

# The batch that the sampler showed last; `nothing` stands for one that can only be padded.
function Batch(raw::Raw.sab_batch, sampler = nothing, buffers = nothing; names = sampler === nothing ? Symbol[] : sampler.names)
    count, columns, cu_seqlens, unpadded, starts = Int(raw.count), Int(raw.columns), nothing, nothing, nothing
    function ends(name, pointer)
        pointer == C_NULL && return nothing
        columns == 1 && return kept(buffers, name, unsafe_load(pointer), count + 1)
        return PerColumn([shown(unsafe_load(pointer, column), count + 1) for column in 1:columns], names)
    end
    indices = kept(buffers, :indices, raw.indices, count)
    is_row = raw.layout == Raw.SAB_LAYOUT_ROW
    if is_row
        rows = filled(out -> Raw.sab_sampler_get_rows(sampler, out), Raw.sab_rows)
        cu_seqlens, unpadded = ends(:cu_seqlens, rows.cu_seqlens), ends(:cu_seqlens_unpadded, rows.cu_seqlens_unpadded)
        rows.starts == C_NULL || (starts = kept(buffers, :starts, rows.starts, count))
    end
    return Batch(OneBased(indices), is_row ? :row : :padded, per_column(raw.longest, columns, names), per_column(raw.padded_length, columns, names),
        per_column(raw.total, columns, names), raw.bucket + 1, raw.epoch, raw.step, raw.micro_batch, raw.id, cu_seqlens, starts,
        raw.sample_weight, per_column(raw.token_weight, columns, names), unpadded)
end

Base.length(batch::Batch) = length(batch.indices)
Base.show(io::IO, batch::Batch) = print(io, "Batch($(length(batch)) samples, padded to $(batch.padded_length), step $(batch.step) of epoch $(batch.epoch))")

"""
A cursor over the batches of an epoch, for one task at a time.

    for batch in sampler ... end            # a pass
    next_batch!(sampler)                    # the next batch, or nothing
    SAB.step(sampler)                       # totals of its step
    sampler[number], batch_count(sampler)   # any batch of the epoch, and their number
    set_epoch!(sampler, epoch)
    seek(sampler, batches); position(sampler)
    saved = SAB.state(sampler); restore!(sampler, saved)     # on any number of ranks

Each loop begins a pass, as `SAB.begin!(sampler)` does:

- after a finished pass, the next epoch;
- after a pass that was not finished, the same epoch from its start;
- after `restore!`, what is left of the saved epoch; the next epoch if the saved one was finished;
- after `set_epoch!` and `seek`, from there.

`Iterators.Stateful` may take a batch when it is made: make it after these calls.

`deepcopy` gives another sampler that continues where this one is, and `serialize` takes a sampler to
another process with its arguments and its place. Both need a sampler with random access, and refuse
a [`ShardedSampler`](@ref).
"""
mutable struct Sampler{Kind,C,K} <: Handle{Raw.sab_sampler}
    pointer::Ptr{Raw.sab_sampler}
    calls::C           # functions that the sampler continues to call
    kept::K            # what the library borrows
    raw::Raw.sab_batch # where the library shows batches
    buffers::Buffers   # of next_batch!(...; copy = false)
    guarded::Vector{Calls} # functions of a MemoryGuard whose step is running
    names::Vector{Symbol}  # of the columns
    made_from::Vector{Any} # arguments of the constructor, the named ones last; none where it cannot be made again
    is_running::Bool       # whether the pass has given a batch, and its end was not reported
    is_copy::Bool          # whether that batch may be of the sampler that this one is a copy of
    function Sampler{Kind,C,K}(pointer, calls, kept, names, made_from) where {Kind,C,K}
        return finalizer(finish, new{Kind,C,K}(pointer, calls, kept, Raw.sab_batch(), Buffers(), Calls[], names, made_from, false, false))
    end
end
new_sampler(::Type{Sampler{Kind}}, pointer, calls = nothing, kept = nothing; names = Symbol[], made_from = Any[]) where {Kind} =
    Sampler{Kind,typeof(calls),typeof(kept)}(pointer, calls, kept, names, made_from)
name_of(::Type{<:Sampler{Kind}}) where {Kind} = Kind
free(sampler::Ptr{Raw.sab_sampler}) = Raw.sab_sampler_free(sampler)
is_busy(sampler::Sampler) = sampler.calls !== nothing && sampler.calls.depth > 0
function Base.close(sampler::Sampler)
    # The guard continues to use the sampler.
    is_running(sampler.guarded) && throw(ArgumentError(busy_message(MemoryGuard)))
    invoke(close, Tuple{Handle{Raw.sab_sampler}}, sampler)
end

# A call on a sampler, which may run functions.
call(run, sampler::Sampler) = sampler.calls === nothing ? check(run()) : check(calling(run), sampler.calls)

"""
    next_batch!(sampler; copy = true)

Moves to the next [`Batch`](@ref). Returns `nothing` at the end of the epoch. With `copy = false` all
batches share the same arrays: the next call with `copy = false` overwrites them.
"""
function next_batch!(sampler::Sampler; copy::Bool = true)
    raw = sampler.raw
    status = sampler.calls === nothing ? Raw.sab_next_batch(sampler, raw) : call(() -> Raw.sab_next_batch(sampler, raw), sampler)
    status < 0 || (sampler.is_running = status == Raw.SAB_OK)
    status == Raw.SAB_OK && return copy ? Batch(raw, sampler) : Batch(raw, sampler, sampler.buffers)
    status == Raw.SAB_END && return nothing
    check(status)
end

"""
Several batches, as vectors with an element for each. Of several columns, `longest`,
`padded_length`, `total`, `cu_seqlens`, `cu_seqlens_unpadded` and `token_weight` are a
[`PerColumn`](@ref) of vectors.

- `indices`: the samples of all batches, as in [`Batch`](@ref). Those of batch `i` are
  `indices[offsets[i]+1:offsets[i+1]]`.
- `offsets`: one more than there are batches; begins with 0.
- `layout`, `epoch`: of all batches.
- `longest`, `padded_length`, `total`, `bucket`, `step`, `micro_batch`, `id`, `sample_weight`,
  `token_weight`: as in `Batch`.
- `cu_seqlens`: those of all batches; those of batch `i` are
  `cu_seqlens[offsets[i]+i:offsets[i+1]+i]`. Otherwise `nothing`.
- `starts`: beside `indices`. Otherwise `nothing`.
- `cu_seqlens_unpadded`: as `cu_seqlens`.
"""
struct Block
    indices::OneBased
    offsets::Vector{Int}
    layout::Symbol
    longest::Union{Vector{Float64},PerColumn{Vector{Float64}}}
    padded_length::Union{Vector{Float64},PerColumn{Vector{Float64}}}
    total::Union{Vector{Float64},PerColumn{Vector{Float64}}}
    bucket::Vector{Int}
    epoch::UInt64
    step::Vector{Int}
    micro_batch::Vector{Int}
    id::Vector{Int}
    cu_seqlens::Union{Nothing,Vector{Int32},PerColumn{Vector{Int32}}}
    starts::Union{Nothing,Vector{Int64}}
    sample_weight::Vector{Float64}
    token_weight::Union{Vector{Float64},PerColumn{Vector{Float64}}}
    cu_seqlens_unpadded::Union{Nothing,Vector{Int32},PerColumn{Vector{Int32}}}
end

function Block(raw::Raw.sab_block, names)
    count, columns = Int(raw.count), Int(raw.columns)
    of_columns(arrays) = columns == 1 ? arrays[1] : PerColumn(arrays, names)
    function numbers(pointer)
        table = reshape(shown(pointer, count * columns), columns, count)
        return of_columns([table[column, :] for column in 1:columns])
    end
    offsets = Int.(shown(raw.offsets, count + 1))
    samples = offsets[end]
    ends(pointer) = pointer == C_NULL ? nothing : of_columns([shown(unsafe_load(pointer, column), samples + count) for column in 1:columns])
    return Block(OneBased(shown(raw.indices, samples)), offsets, raw.layout == Raw.SAB_LAYOUT_ROW ? :row : :padded, numbers(raw.longest),
        numbers(raw.padded_length), numbers(raw.total), shown(raw.bucket, count) .+ 1, raw.epoch, shown(raw.step, count),
        shown(raw.micro_batch, count), shown(raw.id, count), ends(raw.cu_seqlens), raw.starts == C_NULL ? nothing : shown(raw.starts, samples),
        shown(raw.sample_weight, count), numbers(raw.token_weight), ends(raw.cu_seqlens_unpadded))
end

Base.length(block::Block) = length(block.step)
Base.show(io::IO, block::Block) = print(io, "Block($(length(block)) batches, $(length(block.indices)) samples of epoch $(block.epoch))")

"""
    next_block!(sampler, max_batches = 1024)

Moves over at most so many batches and returns them as a [`Block`](@ref); `nothing` at the end of the
epoch. A sampler without random access gives one batch.
"""
function next_block!(sampler::Sampler, max_batches::Integer = 1024)
    raw, most = Raw.sab_block(), converted(Csize_t, :max_batches, max_batches)
    sampler.is_running = call(() -> Raw.sab_next_block(sampler, most, raw), sampler) == Raw.SAB_OK
    sampler.is_running || return nothing
    return Block(raw, sampler.names)
end

"""
    begin!(sampler)

Begins a pass, as a loop does: see [`Sampler`](@ref).
"""
function begin!(sampler::Sampler)
    # The library does the same with a pass that is under way, but does not know one that was copied.
    sampler.is_copy && sampler.is_running && return set_epoch!(sampler, epoch(sampler))
    call(() -> Raw.sab_sampler_begin(sampler), sampler)
    sampler.is_running = false
    return sampler
end

function Base.iterate(sampler::Sampler, pass = begin!(sampler))
    batch = next_batch!(sampler)
    return batch === nothing ? nothing : (batch, pass)
end
# A sampler has no `length`: only a loop that has begun knows its number of batches. It can be
# another epoch than now, with another number, or what is left of one. `collect` does not check
# bounds when a `length` was given. batch_count() is the number of the current epoch.
Base.IteratorSize(::Type{<:Sampler}) = Base.SizeUnknown()
Base.eltype(::Type{<:Sampler}) = Batch

"""
    SAB.step(sampler)

Totals of the optimizer step of the batch that `next_batch!`, a loop or `sampler[number]` gave last,
over all ranks and micro-batches: `micro_batches`, `samples`, `total`. The share of a batch in the
samples of the step is `length(batch) / step.samples`, in its tokens `batch.total / step.total`. For
weights of losses see [`Batch`](@ref). `total` is -1 when it is not known: for a [`ShardedSampler`](@ref) of several ranks.
"""
function step(sampler::Sampler)
    raw = filled(out -> Raw.sab_sampler_get_step(sampler, out), Raw.sab_step)
    return (micro_batches = Int(raw.micro_batches), samples = Int(raw.samples), total = per_column(raw.totals, Int(raw.columns), sampler.names))
end

"""
    SAB.capabilities(sampler)

Functions that a sampler supports beside those that all samplers have: `batch_count`,
`random_access` (any batch, `seek`, states), `budget` and `schedule`
(`SAB.Raw.sab_arrow_schedule_new`), each `true` or `false`.
"""
function capabilities(sampler::Sampler)
    bits = Ref{UInt64}(0)
    check(Raw.sab_sampler_get_capabilities(sampler, bits))
    has(bit) = bits[] & bit != 0
    return (batch_count = has(Raw.SAB_SAMPLER_BATCH_COUNT), random_access = has(Raw.SAB_SAMPLER_RANDOM_ACCESS), budget = has(Raw.SAB_SAMPLER_BUDGET),
        schedule = has(Raw.SAB_SAMPLER_SCHEDULE))
end

"""
    batch_count(sampler)

Number of batches of the current epoch on this rank, under the current budget. A sampler without
random access that does not know it throws an [`SABError`](@ref) of status `SAB_E_UNSUPPORTED`.
"""
function batch_count(sampler::Sampler)
    count = Ref{UInt64}(0)
    check(Raw.sab_sampler_get_batch_count(sampler, count))
    return Int(count[])
end
Base.firstindex(sampler::Sampler) = 1
Base.lastindex(sampler::Sampler) = batch_count(sampler)
function Base.getindex(sampler::Sampler, number::Integer)
    1 <= number <= batch_count(sampler) || throw(BoundsError(sampler, number))
    call(() -> Raw.sab_sampler_at(sampler, number - 1, sampler.raw), sampler)
    return Batch(sampler.raw, sampler)
end

"""
    set_epoch!(sampler, epoch)

Moves the cursor to the first batch of an epoch. Use the same epoch on all ranks.
"""
function set_epoch!(sampler::Sampler, epoch::Integer)
    number = converted(UInt64, :epoch, epoch)
    call(() -> Raw.sab_sampler_set_epoch(sampler, number), sampler)
    sampler.is_running = false
    return sampler
end

"Moves the cursor of a [`Sampler`](@ref) to the batch after the first `batches` of the epoch."
function Base.seek(sampler::Sampler, batches::Integer)
    number = converted(UInt64, :batches, batches)
    call(() -> Raw.sab_sampler_seek(sampler, number), sampler)
    sampler.is_running = false
    return sampler
end

function tell(sampler::Sampler)
    epoch, position = Ref{UInt64}(0), Ref{UInt64}(0)
    check(Raw.sab_sampler_tell(sampler, epoch, position))
    return epoch[], position[]
end
"Number of batches of the epoch before the cursor of a [`Sampler`](@ref)."
Base.position(sampler::Sampler) = Int(tell(sampler)[2])

"""
    epoch(sampler)

The epoch of the cursor.
"""
epoch(sampler::Sampler) = tell(sampler)[1]

shapes(sampler::Sampler) = GC.@preserve sampler shapes((index, out) -> Raw.sab_sampler_get_shape(sampler, index, out), sampler.names)

"""
    skipped_count(sampler)
    skipped_count(stream)

Number of samples that the sampler leaves out because they are too large, or of damaged files that a
[`files_stream`](@ref) did not read to their ends.
"""
function skipped_count(sampler::Sampler)
    count = Ref{Csize_t}(0)
    check(Raw.sab_sampler_get_skipped(sampler, C_NULL, 0, count))
    return Int(count[])
end

"""
    skipped(sampler)

The samples that are left out because they are too large, by ascending size; of greedy samplers those
of the current epoch so far. 0 where the index is not known.
"""
skipped(sampler::Sampler) = skipped_samples((samples, room, count) -> Raw.sab_sampler_get_skipped(sampler, samples, room, count), skipped_count(sampler))

"""
    state(sampler)
    state(sampler, batches)
    restore!(sampler, state)

`state` returns the position of the cursor as bytes, which are the same on all ranks, and whether the
epoch was finished. With `batches` the position is that after so many batches of the epoch: where
training is when batches are fetched ahead. `restore!` continues there, on the same or another number of ranks; no sample is lost or repeated.

    write("sampler.state", SAB.state(sampler))
    restore!(sampler, read("sampler.state"))
"""
state(sampler::Sampler) = written((buffer, room, size) -> Raw.sab_sampler_state_save(sampler, buffer, room, size))
function state(sampler::Sampler, batches::Integer)
    position = converted(UInt64, :batches, batches)
    return written((buffer, room, size) -> Raw.sab_sampler_state_save_at(sampler, position, buffer, room, size))
end
function restore!(sampler::Sampler, state::Vector{UInt8})
    call(() -> Raw.sab_sampler_state_restore(sampler, state, length(state)), sampler)
    sampler.is_running = false
    return sampler
end
@doc (@doc state) restore!

"""
    budget(sampler; index = 1)
    set_budget!(sampler, limit; index = 1)

The limit of one of the plan's budgets for the batches to come. With a lower limit
the samples of each bucket that are left are cut into as few batches as it allows, on all ranks
alike. 0 is the limit of the plan.
"""
function budget(sampler::Sampler; index::Integer = 1)
    limit = Ref(0.0)
    check(Raw.sab_sampler_get_budget(sampler, budget_index(index), limit))
    return limit[]
end
set_budget!(sampler::Sampler, limit::Real; index::Integer = 1) = (check(Raw.sab_sampler_set_budget(sampler, budget_index(index), limit)); sampler)
# The library counts from 0.
budget_index(index) = index >= 1 ? index - 1 : throw(ArgumentError("index = $index: must be at least 1"))
@doc (@doc budget) set_budget!

function Base.show(io::IO, sampler::Sampler)
    isopen(sampler) || return print(io, name_of(typeof(sampler)), "(closed)")
    print(io, name_of(typeof(sampler)), "(batch $(position(sampler)) of epoch $(epoch(sampler)))")
end

# ---- Kinds: their constructors, which give the names of the columns where there may be several ----

const BucketSampler = Sampler{:BucketSampler}

"""
    BucketSampler(plan; seed = 0, rank = 0, world_size = 1, epoch = 0, last_step = :split,
                  costliest_first = 0, micro_batches = 1, mix_lengths = false, balance, steps_per_epoch = 0)

The batches in shuffled order with random access, a pure function of plan, seed, epoch, position, and
of the options that the epoch began with. In each step the batches of all ranks have nearly the same cost. `last_step` is the treatment of batches
that do not fill the last step of all ranks: they are split (`:split`), left out (`:drop`), or filled
up with repeated batches (`:wrap`). Each rank takes `micro_batches` batches in a step of the
optimizer; [`SAB.step`](@ref) gives the weights of the loss. Of batches of nearly equal cost, those of
like length form a micro-step; with `mix_lengths` it holds batches of all lengths. `balance` is the
cost that is evened out over the ranks, anything that [`Cost`](@ref) takes; by default that of the
first budget. With `steps_per_epoch` an epoch has so many steps. It goes on where the one before
stopped, in the next epoch of the data if need be. All samplers with `micro_batches` take it.
"""
function BucketSampler(plan::Plan; given...)
    walk, costs = balanced_options(columns(plan); given...)
    return GC.@preserve costs new_sampler(BucketSampler, created(out -> Raw.sab_bucket_sampler_new(plan, walk, out), Raw.sab_sampler, costs.functions...); names = columns(plan), made_from = Any[plan, values(given)])
end

const SequentialSampler = Sampler{:SequentialSampler}

"""
    SequentialSampler(plan; rank = 0, world_size = 1, epoch = 0, last_step = :split,
                      micro_batches = 1)

The batches in the order of size, then index. For evaluation.
"""
function SequentialSampler(plan::Plan; given...)
    walk = sampler_options(; given...)
    return new_sampler(SequentialSampler, created(out -> Raw.sab_sequential_sampler_new(plan, walk, out), Raw.sab_sampler); names = columns(plan), made_from = Any[plan, values(given)])
end

const CostliestSampler = Sampler{:CostliestSampler}

"""
    costliest_batches(plan, count = 1)

The costliest batches that an epoch of the plan can have, costliest first: to run before training.
"""
function costliest_batches(plan::Plan, count::Integer = 1)
    count = converted(UInt64, :count, count)
    return collect(new_sampler(CostliestSampler, created(out -> Raw.sab_costliest_sampler_new(plan, count, out), Raw.sab_sampler); names = columns(plan)))
end

const OrderedSampler = Sampler{:OrderedSampler}

"""
    OrderedSampler(sizes, budget; indices, rank = 0, world_size = 1, epoch = 0,
                     last_step = :split, micro_batches = 1)

Greedy batches in the order of `indices`, by default of the samples. A batch closes before its total
would exceed `budget`. Samples larger than that are left out; it is an error if all are.
"""
function OrderedSampler(sizes, budget::Real; indices = nothing, given...)
    sizes = Sizes(sizes)
    walk = sampler_options(; given...)
    order = indices === nothing ? C_NULL : Int64[converted(Int64, :indices, index) - 1 for index in indices]
    count = indices === nothing ? length(sizes) : length(order)
    made_from = Any[sizes, budget, merge((indices = indices === nothing ? nothing : OneBased(order),), values(given))]
    return new_sampler(OrderedSampler, created(out -> Raw.sab_ordered_sampler_new(order, count, sizes, budget, walk, out), Raw.sab_sampler), nothing, sizes; made_from = made_from)
end

index_callback(ctx, epoch, position, index, size) = guard(ctx) do calls
    next = calls.main(epoch, Int(position))
    next === nothing && return Raw.SAB_END
    unsafe_store!(index, Int64(next[1]) - 1)
    unsafe_store!(size, Float64(next[2]))
    return 0
end

const BionemoSizeAwareStream = Sampler{:BionemoSizeAwareStream}

"""
    BionemoSizeAwareStream(source, budget)

Greedy batches as of a [`OrderedSampler`](@ref), of samples from a function. A pass whose samples are
all larger than the budget has no batch; see [`skipped`](@ref).
`source(epoch, position)` returns `(index, size)`, or `nothing` at the end. `position` is 0 at the
beginning of an epoch, then one more at each call. One rank; no random access, no state.
"""
function BionemoSizeAwareStream(source, budget::Real)
    calls = Calls(source)
    callback = @cfunction(index_callback, Int32, (Ptr{Cvoid}, UInt64, UInt64, Ptr{Int64}, Ptr{Float64}))
    return new_sampler(BionemoSizeAwareStream, created(out -> Raw.sab_bionemo_size_aware_stream_sampler_new(callback, calls, C_NULL, budget, out), Raw.sab_sampler), calls)
end

const BionemoSampler = Sampler{:BionemoSampler}

"""
    BionemoSampler(plan; seed = 0, shuffle = :all, budget, sizes)

The order of `BucketBatchSampler` of bionemo-size-aware-batching for the same seed, without torch.
The plan must have `boundaries`. `shuffle`: `:all`, `:none` or `:buckets`. With `budget`
batches are formed greedily by `sizes`: [`Sizes`](@ref), a vector, or a function of a sample. Each
pass begins with the generator and the order that the previous pass left. It has no state: a copy
walks the passes of the sampler again.
"""
function BionemoSampler(plan::Plan; seed = nothing, shuffle = nothing, budget = nothing, sizes = nothing)
    made_from = Any[plan, (seed = seed, shuffle = shuffle, budget = budget, sizes = sizes)]
    (budget === nothing) == (sizes === nothing) || throw(ArgumentError("budget and sizes: must both be given, for greedy batches"))
    words = (none = Raw.SAB_BIONEMO_SHUFFLE_NONE, all = Raw.SAB_BIONEMO_SHUFFLE_ALL, buckets = Raw.SAB_BIONEMO_SHUFFLE_BUCKETS)
    given = options(Raw.sab_bionemo_options; seed = seed, shuffle = choice(:shuffle, shuffle, words), limit = budget)
    calls, kept = nothing, nothing
    if sizes isa Union{Sizes,AbstractVector}
        kept = Sizes(sizes)
        given.sizes = Base.unsafe_convert(Ptr{Raw.sab_sizes}, kept)
    elseif sizes !== nothing
        calls = Calls(sizes)
        given.size, given.size_ctx = size_pointer(), pointer_from_objref(calls)
    end
    return GC.@preserve kept calls new_sampler(BionemoSampler, created(out -> Raw.sab_bionemo_sampler_new(plan, given, out), Raw.sab_sampler), calls, kept; made_from = made_from)
end

"""
    generator(sampler)
    set_generator!(sampler, words)

The Mersenne Twister of a [`BionemoSampler`](@ref) as 625 words, to continue with it elsewhere.
"""
function generator(sampler::BionemoSampler)
    words = Vector{UInt32}(undef, Raw.SAB_BIONEMO_GENERATOR_WORDS)
    check(Raw.sab_bionemo_sampler_get_generator(sampler, words))
    return words
end
function set_generator!(sampler::BionemoSampler, words::Vector{UInt32})
    length(words) == Raw.SAB_BIONEMO_GENERATOR_WORDS || throw(ArgumentError("words: must be $(Raw.SAB_BIONEMO_GENERATOR_WORDS) of them, not $(length(words))"))
    check(Raw.sab_bionemo_sampler_set_generator(sampler, words))
    return sampler
end
@doc (@doc generator) set_generator!

const PackedSampler = Sampler{:PackedSampler}

"""
    PackedSampler(sizes, capacity; method = :shuffled, max_sequences, split = false,
                  length_multiple, row_multiple, oversize = :error, window, tries, balance, progress, seed = 0, rank = 0,
                  world_size = 1, ...)

Samples end to end in rows of `capacity`. Each row is a batch with `cu_seqlens`. `method`:
`:shuffled` takes the samples of each epoch in a shuffled order. It chooses the last ones of a row
from the next `window` samples, the best of `tries` choices. `:best_fit` and `:histogram`
decide once which lengths share a row: for more than 100 million samples, and as a [`Packing`](@ref)
has them. `:concat` cuts the shuffled samples at the capacity. `split` cuts longer samples;
otherwise `oversize` is `:error` or `:skip`. `balance` is what rows of one step have in common,
anything that [`Cost`](@ref) takes; by default `:quadratic`. The other options are those of a
[`BucketSampler`](@ref).

`length_multiple` rounds up each sample in its row: twice the ranks of context parallelism, or 16 for
FP8. With `row_multiple` the `padded_length` of a row is its total, rounded up, instead of the
capacity. Both must divide the capacity; of several columns one number, or one for each column.

Sizes of several columns need a capacity for each, such as `(images = 20, tokens = 6144)`. A row is
then the best of `tries` fillings.
"""
function PackedSampler(sizes, capacity; method = nothing, max_sequences = nothing, split = nothing, length_multiple = nothing, row_multiple = nothing, oversize = nothing,
                       window = nothing, tries = nothing, balance = nothing,
                       progress = nothing, given...)
    walk = sampler_options(; given...)
    calls, costs = Calls(; progress = progress), Costs()
    names = column_names(sizes)
    own = (method = method, max_sequences = max_sequences, split = split, length_multiple = length_multiple, row_multiple = row_multiple, oversize = oversize, window = window,
        tries = tries)
    made_from = Any[sizes, capacity, merge(own, (balance = balance,), values(given))]
    pack = pack_options(calls, costs, capacity, names; own...)
    set_balance!(pack, balance, costs, names)
    sizes = read_sizes(sizes, progress, costs.functions...)
    return GC.@preserve calls costs new_sampler(PackedSampler, created(out -> Raw.sab_packed_sampler_new(sizes, pack, walk, out), Raw.sab_sampler, calls, costs.functions...); names = columns(sizes), made_from = made_from)
end
const PACK_METHODS = (shuffled = Raw.SAB_PACK_SHUFFLED, best_fit = Raw.SAB_PACK_BEST_FIT, histogram = Raw.SAB_PACK_HISTOGRAM, concat = Raw.SAB_PACK_CONCAT)
# The options of a packing, which point to `calls`, and to memory that `costs` keeps.
function pack_options(calls, costs, capacity, names; method, oversize, length_multiple, row_multiple, given...)
    limits = capacity isa NamedTuple ? capacities_by_name(capacity, names) : capacity
    capacities = UInt64[converted(UInt64, :capacity, limit) for limit in limits]
    push!(costs.kept, capacities)
    pack = options(Raw.sab_packed_options; capacities = pointer(capacities), capacity_count = length(capacities), method = choice(:method, method, PACK_METHODS),
        oversize = choice(:oversize, oversize, OVERSIZE), progress = progress_pointer(), progress_ctx = pointer_from_objref(calls), given...)
    set_multiples!(pack, length_multiple, row_multiple, costs.kept, names)
    return pack
end
# Sets what lengths and rows are rounded up to.
function set_multiples!(given, length_multiple, row_multiple, kept, columns)
    lengths, rows = multiples(:length_multiple, length_multiple, kept, columns), multiples(:row_multiple, row_multiple, kept, columns)
    given.length_multiples, given.length_multiple_count = pointer(lengths), length(lengths)
    given.row_multiples, given.row_multiple_count = pointer(rows), length(rows)
end
function capacities_by_name(capacity, names)
    Set(keys(capacity)) == Set(names) || throw(ArgumentError("capacity = $capacity: must have a number for each of the columns $(join(map(repr, names), ", "))"))
    return [capacity[name] for name in names]
end

"""
    info(sampler::PackedSampler)

Facts of the packing: `samples`, `skipped`, `split`, `sequences`, `bins`, `lower_bound`,
`most_sequences`, `fingerprint`, `total`, `fill`.
"""
info(sampler::PackedSampler) = fields(filled(out -> Raw.sab_packed_sampler_get_info(sampler, out), Raw.sab_packed_info))
