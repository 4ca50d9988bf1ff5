# Caches.

export Cache, get_many, put_many!, key_count

"""
    Cache(url; serializer = :julia, dataset_name, writer_buffer_size = 1, flush_interval = 1,
          capacity, on_failure = :degrade, timeout = 1, load_wait = 60, call_timeout,
          file_mode = 0o600)

A cache in files (`"lmdb:PATH"`), on Redis servers (`"redis://HOST:PORT,..."`; `"redis-server:"`
starts one) or in this process (`"memory:"`), for any number of threads and processes:

    get!(() -> preprocess(sample), cache, key)   # made once, also for simultaneous requests
    cache[key] = value; get(cache, key, default); get_many(cache, keys); put_many!(cache, pairs)
    flush(cache); key_count(cache); empty!(cache); SAB.stats(cache)

Keys are strings, bytes or whole numbers. Values are serialized by Julia's `Serialization`. With
`serializer = :bytes` they are `Vector{UInt8}`, which other languages can read.

Security: values are read with `Serialization.deserialize`, which can run any code. Whoever can write
to the files or the server can run code in every process that reads them. Use `serializer = :bytes`
unless you trust all of them. Files are created for their owner only (`file_mode`, less the umask).

`call_timeout` limits one request to Redis servers, in seconds; by default 10 times `timeout`.
"""
mutable struct Cache <: Handle{Raw.sab_cache}
    pointer::Ptr{Raw.sab_cache}
    is_serialized::Bool
    making::Threads.Atomic{Int} # values that get! is making
    made_from::Vector{Any}      # the named arguments
    Cache(pointer::Ptr{Raw.sab_cache}, is_serialized, made_from) = finalizer(finish, new(pointer, is_serialized, Threads.Atomic{Int}(0), made_from))
end
free(cache::Ptr{Raw.sab_cache}) = Raw.sab_cache_free(cache)

function Base.close(cache::Cache)
    cache.making[] > 0 && throw(ArgumentError("Cache makes a value, and cannot be closed meanwhile"))
    invoke(close, Tuple{Handle{Raw.sab_cache}}, cache)
end

function Cache(url::AbstractString; serializer = :julia, dataset_name = nothing, writer_buffer_size = nothing, flush_interval = nothing, capacity = nothing, on_failure = nothing,
               timeout = nothing, load_wait = nothing, call_timeout = nothing, file_mode = nothing)
    is_serialized = choice(:serializer, serializer, (julia = true, bytes = false))
    name = dataset_name === nothing ? nothing : Base.cconvert(Cstring, String(dataset_name))
    own = (serializer = serializer, dataset_name = dataset_name, writer_buffer_size = writer_buffer_size, flush_interval = flush_interval, capacity = capacity,
        on_failure = on_failure, timeout = timeout, load_wait = load_wait, call_timeout = call_timeout, file_mode = file_mode)
    load_wait == 0 && (load_wait = -1) # 0 of the library is its default
    return GC.@preserve name begin
        given = options(Raw.sab_cache_options; dataset_name = name === nothing ? nothing : Ptr{UInt8}(Base.unsafe_convert(Cstring, name)), writer_buffer_size = writer_buffer_size,
            flush_interval = flush_interval, capacity = capacity, on_failure = choice(:on_failure, on_failure, (degrade = Raw.SAB_CACHE_DEGRADE, error = Raw.SAB_CACHE_ERROR)),
            timeout = timeout, load_wait = load_wait, call_timeout = call_timeout, file_mode = file_mode)
        Cache(created(out -> Raw.sab_cache_new(url, given, out), Raw.sab_cache), is_serialized, Any[own])
    end
end

key_bytes(key::AbstractString) = Vector{UInt8}(codeunits(String(key)))
# A copy, because a function that makes the value could resize the caller's vector.
key_bytes(key::Vector{UInt8}) = copy(key)
key_bytes(key::Integer) = key_bytes(string(key))

function value_bytes(cache::Cache, value)
    if !cache.is_serialized
        value isa Vector{UInt8} || throw(ArgumentError("value: must be a Vector{UInt8} (serializer = :bytes), not a $(typeof(value))"))
        return value
    end
    io = IOBuffer()
    serialize(io, value)
    return take!(io)
end

# The value of a handle, which is freed.
function taken(cache::Cache, value::Ptr{Raw.sab_cache_value})
    try
        size = Ref{Csize_t}(0)
        data = Raw.sab_cache_value_data(value, size)
        bytes = shown(Ptr{UInt8}(data), size[])
        return cache.is_serialized ? deserialize(IOBuffer(bytes)) : bytes
    finally
        Raw.sab_cache_value_free(value)
    end
end

"""
    url(cache)

The URL of the cache, with its passwords, for other processes to open.
"""
url(cache::Cache) = GC.@preserve cache unsafe_string(facts(cache).url)

function Base.get(cache::Cache, key, default)
    name = key_bytes(key)
    value = created(out -> Raw.sab_cache_get(cache, name, length(name), out), Raw.sab_cache_value)
    return value == C_NULL ? default : taken(cache, value)
end
function Base.setindex!(cache::Cache, value, key)
    name, bytes = key_bytes(key), value_bytes(cache, value)
    check(Raw.sab_cache_put(cache, name, length(name), bytes, length(bytes)))
    return cache
end

# A value that get! is making: what `load` returned, and its bytes, which the library reads.
mutable struct Loading{F}
    load::F
    cache::Cache
    made::Union{Nothing,Some{Any}}
    bytes::Vector{UInt8}
    Loading(load::F, cache) where {F} = new{F}(load, cache, nothing, UInt8[])
end

load_callback(ctx, key, key_size, data, size) = guard(ctx) do calls
    loading = calls.main
    made = loading.load()
    loading.made = Some{Any}(made)
    loading.bytes = value_bytes(loading.cache, made)
    unsafe_store!(data, Ptr{Cvoid}(pointer(loading.bytes)))
    unsafe_store!(size, length(loading.bytes))
    0
end

function Base.get!(load::Base.Callable, cache::Cache, key)
    # Another thread that makes the value may collect garbage, which waits for all threads.
    loading = Loading(load, cache)
    calls = Calls(loading; progress = (done, total) -> (GC.safepoint(); true))
    name = key_bytes(key)
    callback = @cfunction(load_callback, Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Ptr{Cvoid}}, Ptr{Csize_t}))
    Threads.atomic_add!(cache.making, 1)
    value = try
        GC.@preserve calls created(out -> Raw.sab_cache_get_or_load(cache, name, length(name), callback, calls, progress_options(calls), out), Raw.sab_cache_value, calls)
    finally
        Threads.atomic_sub!(cache.making, 1)
    end
    loading.made === nothing && return taken(cache, value)
    Raw.sab_cache_value_free(value)
    return something(loading.made)
end

"""
    get_many(cache, keys, default = nothing)
    put_many!(cache, pairs)

Many keys at once: with one request to each server, or one transaction.
"""
function get_many(cache::Cache, keys, default = nothing)
    names = [key_bytes(key) for key in keys]
    values = fill(Ptr{Raw.sab_cache_value}(C_NULL), length(names))
    GC.@preserve names begin
        items = [Raw.sab_cache_item(pointer(name), length(name), C_NULL, 0) for name in names]
        check(Raw.sab_cache_get_many(cache, items, length(items), values))
    end
    try
        return map(eachindex(values)) do index
            value, values[index] = values[index], C_NULL
            value == C_NULL ? default : taken(cache, value)
        end
    finally
        foreach(Raw.sab_cache_value_free, values) # the values after one that cannot be read
    end
end
function put_many!(cache::Cache, pairs)
    names, bytes = [key_bytes(key) for (key, value) in pairs], [value_bytes(cache, value) for (key, value) in pairs]
    GC.@preserve names bytes begin
        items = [Raw.sab_cache_item(pointer(name), length(name), pointer(data), length(data)) for (name, data) in zip(names, bytes)]
        check(Raw.sab_cache_put_many(cache, items, length(items)))
    end
    return cache
end
@doc (@doc get_many) put_many!

Base.flush(cache::Cache) = (check(Raw.sab_cache_flush(cache)); nothing)
Base.empty!(cache::Cache) = (check(Raw.sab_cache_clear(cache)); cache)

"""
    key_count(cache)

Number of keys with the cache's dataset name.
"""
function key_count(cache::Cache)
    keys = Ref{UInt64}(0)
    check(Raw.sab_cache_get_key_count(cache, keys))
    return Int(keys[])
end

"""
    stats(cache)

Statistics of a [`Cache`](@ref) since it was opened: the fields of `sab_cache_stats`.
"""
stats(cache::Cache) = fields(facts(cache))
facts(cache::Cache) = filled(out -> Raw.sab_cache_get_stats(cache, out), Raw.sab_cache_stats)
Base.show(io::IO, cache::Cache) = print(io, "Cache(", isopen(cache) ? replace(url(cache), r"^redis://.*@" => "redis://...@") : "closed", ")")
