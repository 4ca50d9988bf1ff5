# Finding the library; handles, errors and callbacks.

export SABError

const LIBRARY_NAME = "libsab.so.0"
const ABI_VERSION = 1 # of the headers that raw.jl was made from

function open_library()
    name = get(ENV, "SAB_LIBRARY", LIBRARY_NAME)
    library = try
        # Without the default's RTLD_DEEPBIND: the library's exceptions need the unwinder of the C++
        # runtime that Julia has loaded.
        Libdl.dlopen(name, Libdl.RTLD_NOW | Libdl.RTLD_LOCAL)
    catch exception
        error("""libsab is not found: $(sprint(showerror, exception))
              Install it (Debian: libsab0; from source: cmake -B build, cmake --build build, cmake --install build, ldconfig), or let the environment's SAB_LIBRARY name the file $LIBRARY_NAME.""")
    end
    version = ccall(Libdl.dlsym(library, :sab_abi_version), UInt32, ())
    # Functions are found by name here, so no loader checks the versions of the provisional ones.
    if version != ABI_VERSION
        error("binary interface of $(Libdl.dlpath(library)) = $(version ÷ 1000).$(version % 1000): must be $(ABI_VERSION ÷ 1000).$(ABI_VERSION % 1000), that of this package; install the package and the library of one release")
    end
    Raw.load(library)
end

"Version of the library, such as v\"0.1.0\"."
version() = VersionNumber(unsafe_string(Raw.sab_version_string()))

"""
    SABError

An error of the library.

- `status`: one of `SAB.Raw.SAB_E_...`,
- `message`: argument, value and rule in one text,
- `argument`, `value`, `rule`: the parts of the message, such as `"sizes[4]"`, `"-1"` and
  `"must not be negative"`; `""` where it has none. Without an argument `value` can be the name of a
  file and `rule` what is wrong with it: for `SAB_E_IO` the reason of the system,
- `code`: for `SAB_E_IO` the number of the system's error, `Libc.errno`; otherwise 0.

An exception of the caller's own function is not wrapped but thrown again unchanged.
"""
struct SABError <: Exception
    status::Int32
    message::String
    argument::String
    value::String
    rule::String
    code::Int32
end
Base.showerror(io::IO, error::SABError) = print(io, "SABError: ", error.message, " (", unsafe_string(Raw.sab_status_name(error.status)), ")")

# ---- Functions that a call runs ----

"""
The functions that a call may run, and the exception that one of them threw.

Its address is the `ctx` of the call. It must stay reachable as long as the library may call: from
the arguments of a call, or from the handle that continues to call.
"""
mutable struct Calls{F,P}
    main::F
    progress::P
    exception::Union{Nothing,Some{Any}}
    depth::Int # number of its functions that are running
    Calls(main::F = nothing; progress::P = nothing) where {F,P} = new{F,P}(main, progress, nothing, 0)
end
Base.cconvert(::Type{Ptr{Cvoid}}, calls::Calls) = calls
Base.unsafe_convert(::Type{Ptr{Cvoid}}, calls::Calls) = pointer_from_objref(calls)

# Runs the body of a callback; its result is the code for the library. Nothing may be thrown through
# C++ frames, Ctrl-C included.
function guard(body, ctx::Ptr{Cvoid})::Int32
    calls = unsafe_pointer_to_objref(ctx)::Calls
    calls.depth += 1
    try
        return reenable_sigint(() -> body(calls)::Integer)
    catch exception
        calls.exception === nothing && (calls.exception = Some{Any}(exception))
        return -1
    finally
        calls.depth -= 1
    end
end

# Makes a call that may run functions. The task stays in its thread until the call returns, because
# the library's frames are on the stack of that thread.
function calling(call)
    task, storage = current_task(), task_local_storage()
    sticky, is_outermost = task.sticky, !haskey(storage, CLOSED)
    task.sticky = true
    is_outermost && (storage[CLOSED] = Function[])
    try
        return disable_sigint(call)
    finally
        task.sticky = sticky
        is_outermost && foreach(free_closed -> free_closed(), pop!(storage, CLOSED))
    end
end

# Where a task keeps the handles that functions closed during a call. They are freed after the
# outermost call, which may still use them.
const CLOSED = :SAB_closed

# Throws the exception of a function, or the library's failure. Returns any other status.
function check(status::Integer, functions::Union{Nothing,Calls}...)
    error = status < 0 ? SABError(status, last_error()...) : nothing
    for calls in functions
        calls === nothing && continue
        exception = calls.exception
        exception === nothing && continue
        calls.exception = nothing
        throw(something(exception))
    end
    error === nothing || throw(error)
    return status
end

progress_callback(ctx, done, total) = guard(calls -> calls.progress !== nothing && calls.progress(Int(done), Int(total)) === false, ctx)
progress_pointer() = @cfunction(progress_callback, Int32, (Ptr{Cvoid}, UInt64, UInt64))

# ---- Handles ----

"""
A handle of the library, freed by `close` or by the garbage collector.

A closed handle is refused. `close` frees at once, but inside a function that a call runs only after
that call. Handles that were made from a closed handle stay valid.
"""
abstract type Handle{T} end
Base.cconvert(::Type{Ptr{T}}, handle::Handle{T}) where {T} = handle
function Base.unsafe_convert(::Type{Ptr{T}}, handle::Handle{T}) where {T}
    pointer = handle.pointer
    pointer == C_NULL && throw(ArgumentError("$(name_of(typeof(handle))) is closed"))
    refuse_busy(handle)
    return pointer
end

# Whether a function that the handle calls is running. It must not use or close the handle.
is_busy(::Handle) = false
is_running(functions) = any(calls -> calls.depth > 0, functions)
name_of(type) = nameof(type) # in messages
busy_message(type) = "$(name_of(type)) is used by one of the functions that it calls"
refuse_busy(handle::Handle) = is_busy(handle) && throw(ArgumentError(busy_message(typeof(handle))))
Base.isopen(handle::Handle) = handle.pointer != C_NULL
function Base.close(handle::Handle{T}) where {T}
    pointer = handle.pointer
    pointer == C_NULL && return nothing
    refuse_busy(handle)
    closed = get(task_local_storage(), CLOSED, nothing)
    if closed === nothing
        release(handle)
    else
        handle.pointer = Ptr{T}(C_NULL)
        push!(closed, () -> GC.@preserve handle free(pointer))
    end
    return nothing
end

# Frees at once a handle that nothing uses.
function release(handle::Handle{T}) where {T}
    pointer = handle.pointer
    pointer == C_NULL && return nothing
    handle.pointer = Ptr{T}(C_NULL)
    GC.@preserve handle free(pointer) # its fields may be used until it is freed
    return nothing
end

# Releases a handle that is collected. A finalizer must not throw, and has no caller to report to.
function finish(handle::Handle)
    try
        release(handle)
    catch
    end
    return nothing
end

# Makes a handle: `make` gets the address for its pointer and returns a status.
function created(make, ::Type{T}, functions::Union{Nothing,Calls}...) where {T}
    pointer = Ref(Ptr{T}(C_NULL))
    check(isempty(functions) ? make(pointer) : calling(() -> make(pointer)), functions...)
    return pointer[]
end

# ---- Options ----

# A struct that the library fills.
function filled(fill, ::Type{T}) where {T<:Raw.Struct}
    value = T()
    check(fill(value))
    return value
end

# The fields after the first that are numbers; counts as Int.
@generated function fields(value::T) where {T<:Raw.Struct}
    # Not filter() of a tuple: for 14 names Julia 1.5 compiles it for minutes.
    names = Tuple([name for name in collect(fieldnames(T))[2:end] if !(fieldtype(T, name) <: Ptr)])
    values = [:(plain($(QuoteNode(name)), getfield(value, $(QuoteNode(name))))) for name in names]
    return :(NamedTuple{$names}(($(values...),)))
end
plain(name, value) = value isa Integer && name !== :fingerprint ? Int(value) : value

# Options: the library's defaults, replaced by the given values that are not `nothing`.
function options(::Type{T}; given...) where {T<:Raw.Struct}
    value = T()
    for (name, field) in given
        field === nothing || setfield!(value, name, converted(fieldtype(T, name), name, field))
    end
    return value
end

converted(::Type{T}, name, value) where {T} = convert(T, value)
function converted(::Type{T}, name, value) where {T<:Integer}
    value isa Real && isinteger(value) && typemin(T) <= value <= typemax(T) || throw(ArgumentError("$name = $value: must be a whole number from $(typemin(T)) to $(typemax(T))"))
    return convert(T, value)
end

# An option that the library has the other way round.
inverted(::Nothing) = nothing
inverted(value) = iszero(value)

# The options of calls that have no others. They point to the functions, which must be preserved.
progress_options(calls::Calls) = options(Raw.sab_progress_options; progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))

# One of several words.
function choice(name, value, words::NamedTuple)
    haskey(words, Symbol(value)) || throw(ArgumentError("$name = $(repr(value)): must be one of $(join(map(repr, keys(words)), ", "))"))
    return words[Symbol(value)]
end
choice(name, ::Nothing, words::NamedTuple) = nothing

# Bytes whose number the library gives first.
function written(write)
    size = Ref{Csize_t}(0)
    check(write(C_NULL, 0, size))
    bytes = Vector{UInt8}(undef, size[])
    check(write(bytes, length(bytes), size))
    return bytes
end

# The numbers as the library takes them. A copy, because a function that runs during the call could
# resize the caller's vector.
dense(::Type{T}, values::Vector{T}) where {T} = copy(values)
dense(::Type{T}, values) where {T} = T[converted(T, "a number", value) for value in values]
