# Streams: pipelines of records with a state.

export Stream, StreamRandom, next!, set_progress!, list_stream, array_stream,
    random_stream, iterable_stream, files_stream, map_stream, size_stream, select_stream,
    flatten_stream, recurrent_stream, random_map_stream, zip_stream, multiplex_stream, mix_stream, shard_stream,
    batch_stream, window_stream, block_shuffle_stream, buffered_shuffle_stream, readahead_stream,
    pack_stream, prefetch_stream

"""
Records, one after the other, for one task at a time: `for record in stream`, or [`next!`](@ref). A
stream is a source, such as [`list_stream`](@ref), with stages over it:

    stream = list_stream(names; infinite = true, shuffle = true, rank = rank, world_size = world_size)
    stream = prefetch_stream(files_stream(stream), 10_000)         # lines, read in a thread
    stream = map_stream(tokenize, block_shuffle_stream(stream, 100_000))
    for batch in readahead_stream(stream; budget = 16_384) ... end

A stage takes its source over and closes it. `SAB.state` and [`restore!`](@ref) save the whole
pipeline and let it continue.

A record is a `String` (lines, strings of a list), `Vector{UInt8}`, a number of an array, a `Vector`
of records, or the result of a Julia function. Its size is its `length`, or 1 if it has none, unless
[`size_stream`](@ref) or a keyword says otherwise. Results of functions are serialized in a state,
and `restore!` deserializes them: restore only states that you trust.
"""
mutable struct Stream <: Handle{Raw.sab_stream}
    pointer::Ptr{Raw.sab_stream}
    type::Union{Nothing,DataType} # what bytes are; nothing: there are none
    stages::Vector{Calls}         # functions that run when a record is taken
    progress::Vector{Calls}
    Stream(pointer::Ptr{Raw.sab_stream}, type, stages = Calls[], progress = Calls[]) = finalizer(finish, new(pointer, type, stages, progress))
end
free(stream::Ptr{Raw.sab_stream}) = Raw.sab_stream_free(stream)
is_busy(stream::Stream) = is_running(stream.stages)
Base.show(io::IO, stream::Stream) = print(io, isopen(stream) ? "Stream($(length(stream.stages)) stages of Julia functions)" : "Stream(closed, or taken by another)")

# ---- Records ----

# The result of a Julia function in a record. `home` keeps it alive until the library releases it.
mutable struct Made{V}
    value::V
    home::IdDict{Any,Nothing}
end

# A stage: its function, the type of the bytes that it receives, the function that sizes records,
# and the results that are alive.
mutable struct Stage{R,S}
    run::R
    type::Union{Nothing,DataType}
    size_of::S
    home::IdDict{Any,Nothing}
    bytes::Union{String,Vector{UInt8}} # lent to the library while it copies them
    Stage(run::R, type, size_of::S = nothing) where {R,S} = new{R,S}(run, type, size_of, IdDict{Any,Nothing}(), "")
end

made_pointer(made::Made) = (made.home[made] = nothing; pointer_from_objref(made))

decoded(::Type{String}, data, length) = unsafe_string(Ptr{UInt8}(data), length)
decoded(::Type{Vector{UInt8}}, data, length) = shown(Ptr{UInt8}(data), length)
function decoded(::Type{T}, data, length) where {T}
    length == sizeof(T) || throw(ArgumentError("a record of $length bytes: a $T has $(sizeof(T))"))
    return unsafe_load(Ptr{T}(data))
end
decoded(::Nothing, data, length) = decoded(Vector{UInt8}, data, length)

function record_value(record::Raw.sab_record, type)
    record.kind == Raw.SAB_RECORD_BYTES && return record.length == 0 && type === String ? "" : decoded(type, record.data, record.length)
    record.kind == Raw.SAB_RECORD_OBJECT && return (unsafe_pointer_to_objref(record.data)::Made).value
    records = Ptr{Raw.sab_record}(record.data)
    return [record_value(unsafe_load(records, index), type) for index in 1:record.length]
end

record_size(value) = applicable(length, value) ? Float64(length(value)) : 1.0

# Fills a record with the result of a function.
function give!(record::Ptr{Raw.sab_record}, value, stage::Stage)
    size = stage.size_of === nothing ? record_size(value) : Float64(stage.size_of(value))
    unsafe_store!(record, Raw.sab_record(Raw.SAB_RECORD_OBJECT, size, made_pointer(Made(value, stage.home)), 0))
    return 0
end

# The library's functions for results of stages. They run inside calls, and when a stream is freed,
# also by a finalizer. They must not wait.
function release_made(ctx, object)::Cvoid
    try
        made = unsafe_pointer_to_objref(object)::Made
        delete!(made.home, made)
    catch # nothing may be thrown through the library's frames, and there is no status to return
    end
    return nothing
end
save_made(ctx, object, buffer, capacity, size) = guard(ctx) do calls
    io = IOBuffer()
    serialize(io, (unsafe_pointer_to_objref(object)::Made).value)
    bytes = take!(io)
    unsafe_store!(size, length(bytes))
    length(bytes) <= capacity && GC.@preserve bytes unsafe_copyto!(Ptr{UInt8}(buffer), pointer(bytes), length(bytes))
    0
end
load_made(ctx, data, size, object) = guard(ctx) do calls
    value = deserialize(IOBuffer(shown(Ptr{UInt8}(data), size)))
    unsafe_store!(object, made_pointer(Made(value, calls.main.home)))
    0
end
object_functions(calls::Calls) = set_object_functions!(Raw.sab_object_functions(), calls)
function set_object_functions!(functions::Raw.sab_object_functions, calls::Calls)
    functions.ctx = pointer_from_objref(calls)
    functions.release = @cfunction(release_made, Cvoid, (Ptr{Cvoid}, Ptr{Cvoid}))
    functions.save = @cfunction(save_made, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}))
    functions.load = @cfunction(load_made, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Ptr{Cvoid}}))
    return functions
end

# ---- Reading ----

# A call on a stream, which may run its functions.
function streaming(run, stream::Stream)
    isempty(stream.stages) && isempty(stream.progress) && return check(run())
    return check(calling(run), stream.stages..., stream.progress...)
end

"""
    next!(stream)

`Some` of the next record, or `nothing` at the end. Throws the failure of a source or a function; the
next call continues there.
"""
function next!(stream::Stream)
    record = Ref{Raw.sab_record}()
    streaming(() -> Raw.sab_stream_next(stream, record), stream) == Raw.SAB_END && return nothing
    return GC.@preserve stream Some(record_value(record[], stream.type))
end
function Base.iterate(stream::Stream, state = nothing)
    record = next!(stream)
    return record === nothing ? nothing : (something(record), nothing)
end
Base.IteratorSize(::Type{Stream}) = Base.SizeUnknown()
Base.eltype(::Type{Stream}) = Any

"Moves a [`Stream`](@ref) back to the first record of the first epoch."
Base.seekstart(stream::Stream) = (streaming(() -> Raw.sab_stream_rewind(stream), stream); stream)

"""
    set_progress!(stream, progress)

Calls `progress(done, total)` from time to time while a record is waited for. It stops the call by
returning `false`.
"""
function set_progress!(stream::Stream, progress)
    calls = Calls(; progress = progress)
    check(Raw.sab_stream_set_progress(stream, progress_options(calls)))
    push!(stream.progress, calls)
    return stream
end

function skipped_count(stream::Stream)
    count = Ref{UInt64}(0)
    check(Raw.sab_stream_get_skipped_count(stream, count))
    return Int(count[])
end

"""
    state(stream)
    restore!(stream, state)

`state` returns the position of a [`Stream`](@ref), with its sources and stages, as bytes. `restore!`
continues there in a pipeline that was made in the same way.

Security: a state can hold results of Julia functions (of a buffered shuffle, a recurrent stage and
others). `restore!` and later calls read them with `Serialization.deserialize`, which can run any
code. Never restore a state from an untrusted source.
"""
state(stream::Stream) = written((buffer, room, size) -> streaming(() -> Raw.sab_stream_state_save(stream, buffer, room, size), stream))
restore!(stream::Stream, state::Vector{UInt8}) = (streaming(() -> Raw.sab_stream_state_restore(stream, state, length(state)), stream); stream)

# ---- Sources ----

function list_options(; infinite = nothing, shuffle = nothing, seed = nothing, rank = nothing, world_size = nothing)
    return options(Raw.sab_list_stream_options; infinite = infinite, shuffle = shuffle, seed = seed, rank = rank, world_size = world_size)
end

"""
    list_stream(records; infinite = false, shuffle = false, seed = 0, rank = 0, world_size = 1)

The strings, or vectors of bytes, of a vector, once or forever. Each rank gets its share.
"""
function list_stream(records::AbstractVector{T}; given...) where {T<:Union{AbstractString,Vector{UInt8}}}
    type = T <: AbstractString ? String : Vector{UInt8}
    kept = type[record for record in records]
    list_given = list_options(; given...)
    return GC.@preserve kept begin
        list = [Raw.sab_record(Raw.SAB_RECORD_BYTES, sizeof(record), pointer(record), sizeof(record)) for record in kept]
        Stream(created(out -> Raw.sab_list_stream_new(list, length(list), list_given, out), Raw.sab_stream), type)
    end
end

"""
    array_stream(numbers; infinite = false, shuffle = false, seed = 0, rank = 0, world_size = 1)

The items of an array of plain bits, such as numbers.
"""
function array_stream(items::AbstractVector{T}; given...) where {T}
    isbitstype(T) || throw(ArgumentError("items: must be plain bits, not $T"))
    items, list_given = collect(items), list_options(; given...)
    return GC.@preserve items begin
        list = [Raw.sab_record(Raw.SAB_RECORD_BYTES, sizeof(T), pointer(items, index), sizeof(T)) for index in eachindex(items)]
        Stream(created(out -> Raw.sab_list_stream_new(list, length(list), list_given, out), Raw.sab_stream), T)
    end
end

"""
    random_stream(seed = 0)

Endless random numbers in [0, 1), those of CPython's `random.Random(seed).random()`.
"""
random_stream(seed::Integer = 0) = Stream(created(out -> Raw.sab_random_stream_new(converted(UInt64, :seed, seed), out), Raw.sab_stream), Float64)

mutable struct Walk{I}
    iterable::I
    next::Union{Missing,Nothing,Some{Any}} # what iterate returned last; missing: not begun
end

source_next(ctx, record) = guard(ctx) do calls
    stage = calls.main
    walk = stage.run
    walk.next === nothing && return Raw.SAB_END
    next = walk.next === missing ? iterate(walk.iterable) : iterate(walk.iterable, something(walk.next)[2])
    walk.next = next === nothing ? nothing : Some{Any}(next)
    next === nothing && return Raw.SAB_END
    stage.type === nothing && return give!(record, next[1], stage)
    stage.bytes = convert(stage.type, next[1])
    size = stage.size_of === nothing ? -1.0 : Float64(stage.size_of(stage.bytes))
    unsafe_store!(record, Raw.sab_record(Raw.SAB_RECORD_BYTES, size, pointer(stage.bytes), sizeof(stage.bytes)))
    0
end
source_rewind(ctx) = guard(calls -> (calls.main.run.next = missing; 0), ctx)

"""
    iterable_stream(iterable; bytes = false, size_of)

The items of a Julia iterable, which must be the same in each pass. With `bytes` they are strings,
kept as bytes, as [`files_stream`](@ref) needs them. `size_of(record)`: its size in batches.
"""
iterable_stream(iterable; bytes::Bool = false, size_of = nothing) = walking(iterable, bytes ? String : nothing, size_of)

# `objects`: those of a select, which lives longer than the streams that it opens; `nothing`: own.
function walking(iterable, type, size_of = nothing, objects = nothing)
    calls = Calls(Stage(Walk(iterable, missing), type, size_of))
    objects === nothing && (objects = object_functions(calls))
    given = options(Raw.sab_source_functions; ctx = pointer_from_objref(calls), next = @cfunction(source_next, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record})),
        rewind = @cfunction(source_rewind, Int32, (Ptr{Cvoid},)), objects = Base.unsafe_convert(Ptr{Raw.sab_object_functions}, objects))
    return GC.@preserve objects calls Stream(created(out -> Raw.sab_callback_stream_new(given, out), Raw.sab_stream), type, [calls])
end

# ---- Stages ----

# A stage over sources, which it takes over.
function staged(make, sources::Vector{Stream}, type, functions::Calls...)
    pointer = GC.@preserve sources functions created(make, Raw.sab_stream)
    stream = Stream(pointer, type, Calls[functions...], Calls[])
    for source in sources
        source.pointer = C_NULL
        append!(stream.stages, source.stages)
        append!(stream.progress, source.progress)
    end
    return stream
end
staged(make, source::Stream, functions::Calls...; type = source.type) = staged(make, [source], type, functions...)

"""
    files_stream(source; framing = :lines, max_record, on_error = :stop, readers = 0, type = String)

The records of the files that `source` names, plain, gzip or Zstandard: lines, or with
`framing = :length` records after their length in 4 bytes. `on_error = :skip` leaves out the rest of
a file that cannot be read: see [`skipped_count`](@ref). `type`: `String` or `Vector{UInt8}`.
`readers`: threads that read and decompress files ahead, each a file of its own. Records, errors and
states are the same for any number. They hold at most 32 MiB of records for each.
"""
function files_stream(source::Stream; framing = nothing, max_record = nothing, on_error = nothing, readers = nothing, type::Type{<:Union{String,Vector{UInt8}}} = String)
    given = options(Raw.sab_files_stream_options; framing = choice(:framing, framing, (lines = Raw.SAB_FRAMING_LINES, length = Raw.SAB_FRAMING_LENGTH)), max_record = max_record,
        on_error = choice(:on_error, on_error, (stop = Raw.SAB_ON_ERROR_STOP, skip = Raw.SAB_ON_ERROR_SKIP)), readers = readers)
    return staged(out -> Raw.sab_files_stream_new(source, given, out), source; type = type)
end

map_callback(ctx, record, made) = guard(ctx) do calls
    stage, given = calls.main, unsafe_load(record)
    before = record_value(given, stage.type)
    after = stage.run(before)
    given.kind == Raw.SAB_RECORD_OBJECT && after === before && stage.size_of === nothing ? 0 : give!(made, after, stage)
end
resize_callback(ctx, record, made) = guard(ctx) do calls
    given = unsafe_load(record)
    size = Float64(calls.main.run(record_value(given, calls.main.type)))
    unsafe_store!(made, Raw.sab_record(given.kind, size, given.data, given.length))
    0
end

function mapped(callback, source::Stream, stage::Stage, type)
    calls = Calls(stage)
    objects = object_functions(calls)
    given = options(Raw.sab_map_stream_options; map = callback, ctx = pointer_from_objref(calls), objects = Base.unsafe_convert(Ptr{Raw.sab_object_functions}, objects))
    return GC.@preserve objects staged(out -> Raw.sab_map_stream_new(source, given, out), source, calls; type = type)
end

"""
    map_stream(f, source; size_of)

`f(record)` of each record; it must return the same for the same record. `size_of(result)`: its size
in batches. Functions run in the task that takes the records; put [`prefetch_stream`](@ref) before
them.
"""
map_stream(f, source::Stream; size_of = nothing) = mapped(@cfunction(map_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record})), source, Stage(f, source.type, size_of), nothing)

"""
    size_stream(size_of, source)

The same records, with the sizes `size_of(record)`.
"""
size_stream(size_of, source::Stream) = mapped(@cfunction(resize_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record})), source, Stage(size_of, source.type), source.type)

select_callback(ctx, record, made) = guard(ctx) do calls
    stage = calls.main
    opened = stage.run.select(record_value(unsafe_load(record), stage.type))
    opened isa Stream || (opened = walking(opened, nothing, nothing, stage.run.objects))
    isopen(opened) || throw(ArgumentError("select: gave a stream that is closed, or was taken before"))
    opened.type === nothing || throw(ArgumentError("select: must give an iterable, or a stream of what Julia functions made, not of bytes"))
    for inner in opened.stages
        inner.main.home = stage.home
    end
    push!(stage.run.opened, opened.stages)
    # The stream before may still be open.
    length(stage.run.opened) > 2 && popfirst!(stage.run.opened)
    unsafe_store!(made, opened.pointer)
    opened.pointer = C_NULL
    0
end

"""
    select_stream(f, source)

The records of the iterables, or streams of results of Julia functions, that `f(record)` returns, one
after the other. A state can hold records of iterables; records of streams only if no later stage
holds them back.
"""
function select_stream(f, source::Stream)
    # The streams that `f` opens use this struct: it is made first and filled below.
    objects = Raw.sab_object_functions()
    calls = Calls(Stage((select = f, objects = objects, opened = Vector{Calls}[]), source.type))
    set_object_functions!(objects, calls)
    callback = @cfunction(select_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{Ptr{Raw.sab_stream}}))
    return GC.@preserve objects staged(out -> Raw.sab_select_stream_new(source, callback, calls, C_NULL, objects, out), source, calls; type = nothing)
end

"""
    flatten_stream(source)

The records of lists, one by one.
"""
flatten_stream(source::Stream) = staged(out -> Raw.sab_flatten_stream_new(source, out), source)

recur_callback(ctx, state, record, next, made) = guard(ctx) do calls
    stage, given = calls.main, unsafe_load(state)
    before = given.kind == Raw.SAB_RECORD_OBJECT ? record_value(given, nothing) : deserialize(IOBuffer(decoded(Vector{UInt8}, given.data, given.length)))
    after, value = stage.run(before, record_value(unsafe_load(record), stage.type))
    give!(next, after, stage)
    give!(made, value, stage)
end

"""
    recurrent_stream(f, source, initial)

Steps with a state: `f(state, record)` returns the next state and the result of the record. The state
is serialized in a saved state: see the security note of [`restore!`](@ref).
"""
function recurrent_stream(f, source::Stream, initial)
    calls = Calls(Stage(f, source.type))
    objects = object_functions(calls)
    io = IOBuffer()
    serialize(io, initial)
    bytes = take!(io)
    first = Ref(Raw.sab_record(Raw.SAB_RECORD_BYTES, length(bytes), pointer(bytes), length(bytes)))
    callback = @cfunction(recur_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record}))
    return GC.@preserve objects bytes staged(out -> Raw.sab_recurrent_stream_new(source, callback, calls, C_NULL, first, objects, out), source, calls; type = nothing)
end

"""
The generator of a [`random_map_stream`](@ref), the same as CPython's `random.Random`:
`rand(random)` in [0, 1), `rand(random, 1:n)`, `rand(random, UInt64)`. Valid while its function runs.
"""
mutable struct StreamRandom
    pointer::Ptr{Raw.sab_random}
end
alive(random::StreamRandom) = random.pointer == C_NULL ? throw(ArgumentError("random: lives only while its function runs")) : random.pointer
Base.rand(random::StreamRandom) = Raw.sab_random_draw_real(alive(random))
function Base.rand(random::StreamRandom, range::AbstractUnitRange)
    isempty(range) && throw(ArgumentError("range = $range: must not be empty"))
    bits, place = ndigits(length(range); base = 2), length(range)
    while place >= length(range)
        place = Int(Raw.sab_random_draw_bits(alive(random), bits))
    end
    return range[1+place]
end
Base.rand(random::StreamRandom, ::Type{UInt64}) = Raw.sab_random_draw_bits(alive(random), 64)

random_map_callback(ctx, random, record, made) = guard(ctx) do calls
    stage, generator = calls.main, StreamRandom(random)
    try
        give!(made, stage.run(generator, record_value(unsafe_load(record), stage.type)), stage)
    finally
        generator.pointer = C_NULL
    end
end

"""
    random_map_stream(f, source; seed = 0, size_of)

`f(random, record)` of each record. `random`, a [`StreamRandom`](@ref), must be the only source of
randomness; it is part of the state.
"""
function random_map_stream(f, source::Stream; seed::Integer = 0, size_of = nothing)
    calls = Calls(Stage(f, source.type, size_of))
    objects = object_functions(calls)
    callback = @cfunction(random_map_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_random}, Ptr{Raw.sab_record}, Ptr{Raw.sab_record}))
    return GC.@preserve objects staged(out -> Raw.sab_random_map_stream_new(source, callback, calls, C_NULL, converted(UInt64, :seed, seed), objects, out), source, calls; type = nothing)
end

# The type of bytes of several streams.
function common_type(streams::Vector{Stream})
    types = unique(stream.type for stream in streams if stream.type !== nothing)
    length(types) > 1 && throw(ArgumentError("sources: their records must be of one type, not $(join(types, " and ")): map_stream makes Julia values of them"))
    return isempty(types) ? nothing : types[1]
end

pointers(streams::Vector{Stream}) = [Base.unsafe_convert(Ptr{Raw.sab_stream}, stream) for stream in streams]

"""
    zip_stream(sources...)

Vectors of one record of each source. Ends with the first source that ends.
"""
function zip_stream(sources::Stream...)
    streams = Stream[sources...]
    return staged(out -> Raw.sab_zip_stream_new(pointers(streams), length(streams), out), streams, common_type(streams))
end

"""
    multiplex_stream(control, sources...)

Mixes the records of several sources. The size of the next record of `control`
([`size_stream`](@ref)), without its fraction, is the number of the next source, from 0.
"""
function multiplex_stream(control::Stream, sources::Stream...)
    streams = Stream[sources...]
    return staged(out -> Raw.sab_multiplex_stream_new(control, pointers(streams), length(streams), out), [control; streams], common_type(streams))
end

const MIX_UNTIL = (first = Raw.SAB_MIX_UNTIL_FIRST, all = Raw.SAB_MIX_UNTIL_ALL)

"""
    mix_stream(sources...; proportions, window = 1000, until = :first)

Mixes the records of several sources by proportions, one for each source and of any sum, with exact
counts and without random numbers. After any number of records, each source has given its proportion
of them to less than one record. If proportion * window is a whole number, each window has so many
records. Otherwise the remainders are carried into the next windows.

The order is even and always the same. [`block_shuffle_stream`](@ref) with the window shuffles it
and keeps the counts of each window. The mix ends with the source whose turn it is; with
`until = :all` the others go on by their proportions until all have ended.
"""
function mix_stream(sources::Stream...; proportions, window = nothing, until = nothing)
    streams = Stream[sources...]
    shares = Float64[converted(Float64, :proportions, share) for share in proportions]
    given = options(Raw.sab_mix_stream_options; window = window, until = choice(:until, until, MIX_UNTIL))
    given.proportions, given.proportion_count = pointer(shares), length(shares)
    return GC.@preserve shares staged(out -> Raw.sab_mix_stream_new(pointers(streams), length(streams), given, out), streams, common_type(streams))
end

"""
    shard_stream(source, rank, world_size)

Every `world_size`-th record of a source that is the same on all ranks. Ranks without a last record
get an empty list. As the last stage, or under maps, its state can be restored on other ranks.
"""
shard_stream(source::Stream, rank::Integer, world_size::Integer) = staged(out -> Raw.sab_shard_stream_new(source, converted(UInt64, :rank, rank), converted(UInt64, :world_size, world_size), out), source)

"""
    batch_stream(source, batch_size)
    window_stream(source, width)

Vectors of consecutive records. Batches follow each other; each window begins one record later.
"""
batch_stream(source::Stream, batch_size::Integer) = staged(out -> Raw.sab_batch_stream_new(source, converted(UInt64, :batch_size, batch_size), out), source)
window_stream(source::Stream, width::Integer) = staged(out -> Raw.sab_window_stream_new(source, converted(UInt64, :width, width), out), source)
@doc (@doc batch_stream) window_stream

"""
    block_shuffle_stream(source, size; seed = 0)
    buffered_shuffle_stream(source, size; seed = 0)

The first shuffles blocks of `size` records. In the second each record takes a random place in a buffer
and the record that was there is next.
"""
block_shuffle_stream(source::Stream, size::Integer; seed::Integer = 0) = staged(out -> Raw.sab_shuffle_stream_new(source, Raw.SAB_SHUFFLE_BLOCKS, converted(UInt64, :size, size), converted(UInt64, :seed, seed), out), source)
buffered_shuffle_stream(source::Stream, size::Integer; seed::Integer = 0) = staged(out -> Raw.sab_shuffle_stream_new(source, Raw.SAB_SHUFFLE_BUFFER, converted(UInt64, :size, size), converted(UInt64, :seed, seed), out), source)
@doc (@doc block_shuffle_stream) buffered_shuffle_stream

batch_size_callback(ctx, record, batch_size) = guard(ctx) do calls
    unsafe_store!(batch_size, converted(UInt64, :batch_size, calls.main.run.batch_size(record_value(unsafe_load(record), calls.main.type))))
    0
end
boundary_key_callback(ctx, record, key) = guard(ctx) do calls
    unsafe_store!(key, UInt64(hash(calls.main.run.boundary_key(record_value(unsafe_load(record), calls.main.type)))))
    0
end

sizes_callback(ctx, record, sizes) = guard(ctx) do calls
    value = record_value(unsafe_load(record), calls.main.type)
    for (column, size_of) in enumerate(calls.main.run.key)
        unsafe_store!(sizes, Float64(size_of(value)), column)
    end
    0
end
sizes_pointer() = @cfunction(sizes_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{Float64}))
check_key(key) = key === nothing || key isa NamedTuple || throw(ArgumentError("key = $key: must be a function for each column, such as (source = f, target = g); size_stream sets a single size"))

# Options of readahead, their functions, and what they point to.
function readahead_options(source::Stream; read_ahead = nothing, budget = nothing, batch_size = nothing, boundary_key = nothing, shuffle = nothing, carry_over = nothing, seed = nothing, oversize = nothing,
                           key = nothing)
    check_key(key)
    is_number, costs = batch_size isa Integer, Costs()
    given = options(Raw.sab_readahead_stream_options; read_ahead = read_ahead, batch_size = is_number ? batch_size : nothing, no_shuffle = inverted(shuffle), carry_over = carry_over,
        seed = seed, oversize = choice(:oversize, oversize, OVERSIZE))
    functions = Calls[]
    if boundary_key !== nothing || key !== nothing || !(is_number || batch_size === nothing)
        push!(functions, Calls(Stage((batch_size = batch_size, boundary_key = boundary_key, key = key), source.type)))
        given.ctx = pointer_from_objref(functions[1])
        is_number || batch_size === nothing || (given.batch_size_fn = @cfunction(batch_size_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{UInt64})))
        boundary_key === nothing || (given.boundary_key_fn = @cfunction(boundary_key_callback, Int32, (Ptr{Cvoid}, Ptr{Raw.sab_record}, Ptr{UInt64})))
        if key !== nothing
            given.sizes_fn, given.columns = sizes_pointer(), length(key)
        end
    end
    set_budgets!(given, budget, nothing, costs, key === nothing ? ONE_COLUMN : keys(key))
    return given, functions, costs
end

"""
    readahead_stream(source; budget, batch_size, read_ahead = 10_000, boundary_key, shuffle = true,
                     carry_over = false, seed = 0, oversize = :error, key)

Batches of records of similar size: a window is read, sorted, cut and shuffled. `budget`: count ×
largest size. `batch_size`: a number, or a function of the largest record. Records with different
`boundary_key(record)` never share a batch. `oversize`: how records larger than the budget are
treated: `:error`, `:skip` (10,000,000 in a row are an error) or `:single` (a batch of each). [`size_stream`](@ref) sets the sizes.

`key = (source = f, target = g)`: functions that give the sizes of a record, one for each column.
`budget` is then as for [`Plan`](@ref), with no function as a cost: of a number the cost is count ×
the sum of the largest sizes.
"""
function readahead_stream(source::Stream; given...)
    values, functions, costs = readahead_options(source; given...)
    return GC.@preserve costs staged(out -> Raw.sab_readahead_stream_new(source, values, out), source, functions...)
end

"""
    pack_stream(source, capacity; max_records, read_ahead = 10_000, shuffle = true, seed = 0,
                oversize = :error, key)

Vectors of records whose sizes sum to nearly `capacity`. `oversize = :skip` leaves out larger
records, which are an error by default; so are 10,000,000 in a row that are left out.

`key = (source = f, target = g)`: functions that give the sizes of a record, whole numbers, one for
each column. `capacity` then has a number for each of them: `(source = 512, target = 256)`.
"""
function pack_stream(source::Stream, capacity::Union{Real,NamedTuple}; max_records = nothing, read_ahead = nothing, shuffle = nothing, seed = nothing, oversize = nothing, key = nothing)
    check_key(key)
    (capacity isa NamedTuple) == (key !== nothing) || throw(ArgumentError("capacity = $capacity: must be a number, or with key a number for each column, such as (source = 512, target = 256)"))
    capacities = key === nothing ? Float64[capacity] : Float64[converted(UInt64, :capacity, limit) for limit in capacities_by_name(capacity, keys(key))]
    given = options(Raw.sab_pack_stream_options; capacities = pointer(capacities), capacity_count = length(capacities), max_records = max_records, read_ahead = read_ahead,
        no_shuffle = inverted(shuffle), seed = seed, oversize = choice(:oversize, oversize, OVERSIZE))
    key === nothing && return GC.@preserve capacities staged(out -> Raw.sab_pack_stream_new(source, given, out), source)
    calls = Calls(Stage((key = key,), source.type))
    given.sizes_fn, given.ctx = sizes_pointer(), pointer_from_objref(calls)
    return GC.@preserve capacities staged(out -> Raw.sab_pack_stream_new(source, given, out), source, calls)
end

"""
    prefetch_stream(source, buffer_size = 1024)

The same records, read ahead by a thread of the library. Julia functions cannot run there, so a
source with such stages is refused. Put it directly over the files, and maps over it.
"""
function prefetch_stream(source::Stream, buffer_size::Integer = 1024)
    isempty(source.stages) || throw(ArgumentError("source: has Julia functions, which may not run in a thread of the library; prefetch what comes before them"))
    return staged(out -> Raw.sab_prefetch_stream_new(source, converted(UInt64, :buffer_size, buffer_size), out), source)
end
