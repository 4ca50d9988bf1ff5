# Generated from the public headers by tools/abi.py: do not edit.

"""
The C functions, structs and constants of the headers, by their own names; see `include/sab.h`.

Structs that begin with `struct_size` are mutable and passed as they are. `T()` sets it, and all
other fields to zero, which is their default. The others lie in arrays.
"""
module Raw

using Libdl: dlsym

"A struct that is passed by its address."
abstract type Struct end
Base.cconvert(::Type{Ptr{T}}, value::T) where {T<:Struct} = value
Base.unsafe_convert(::Type{Ptr{T}}, value::T) where {T<:Struct} =
    Ptr{T}(pointer_from_objref(value))
function zeroed(value::T) where {T<:Struct}
    GC.@preserve value begin
        address = pointer_from_objref(value)
        ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), address, 0, sizeof(T))
    end
    value.struct_size = sizeof(T)
    return value
end

const SAB_OK = 0
const SAB_E_ARGUMENT = -1
const SAB_LID_OPEN = 0
const SAB_LID_NOT_LOCKED = 1
const sab_status = Int32
const sab_lid = Int32
struct sab_box end

struct sab_faces
    colours::NTuple{6,UInt32}
end


mutable struct sab_box_options <: Struct
    struct_size::Csize_t
    weights::Ptr{Float64}
    release::Ptr{Cvoid}
    end_::UInt64
    sab_box_options() = zeroed(new())
end

struct DLManagedTensor end

struct sab_pair
    first::Int64
    function_::Ptr{sab_box}
end


mutable struct sab_thing <: Struct
    struct_size::Csize_t
    sab_thing() = zeroed(new())
end

const _sab_box_new = Ref(C_NULL)
sab_box_new(name, look, release, box) = ccall(_sab_box_new[], sab_status, (Cstring, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Ptr{sab_box}}), name, look, release, box)
const _sab_name = Ref(C_NULL)
sab_name() = ccall(_sab_name[], Cstring, ())
const _sab_pack = Ref(C_NULL)
sab_pack(pairs, tensors) = ccall(_sab_pack[], sab_status, (Ptr{sab_pair}, Ptr{Ptr{DLManagedTensor}}), pairs, tensors)
const _sab_weigh = Ref(C_NULL)
sab_weigh(boxes, count, look, ctx, weights, total) = ccall(_sab_weigh[], sab_status, (Ptr{Ptr{sab_box}}, Csize_t, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Float64}, Ptr{Float64}), boxes, count, look, ctx, weights, total)

"""
Finds every function in a library that is loaded. A provisional function may be missing; calling it
is an error then.
"""
function load(library)
    _sab_box_new[] = dlsym(library, :sab_box_new)
    _sab_name[] = dlsym(library, :sab_name)
    _sab_pack[] = something(dlsym(library, :sab_pack; throw_error=false), C_NULL)
    _sab_weigh[] = something(dlsym(library, :sab_weigh; throw_error=false), C_NULL)
end

end # module
