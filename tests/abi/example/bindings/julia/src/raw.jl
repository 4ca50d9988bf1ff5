# Generated from the public headers by tools/abi.py: do not edit.

"""
The C functions, structs and constants of the headers, by their own names; see `include/sab.h`.

Structs that begin with `struct_size` are mutable and passed as they are. `T()` leaves their fields
unset, `init` sets defaults. The others lie in arrays.
"""
module Raw

using Libdl: dlsym

"A struct that is passed by its address."
abstract type Struct end
Base.cconvert(::Type{Ptr{T}}, value::T) where {T<:Struct} = value
Base.unsafe_convert(::Type{Ptr{T}}, value::T) where {T<:Struct} =
    Ptr{T}(pointer_from_objref(value))

const SAB_OK = 0
const SAB_E_ARGUMENT = -1
const SAB_LID_OPEN = 0
const SAB_LID_NOT_LOCKED = 1
const SAB_SIDES = 6
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
    sab_box_options() = new()
end

const _sab_box_options_init = Ref(C_NULL)
sab_box_options_init(options, struct_size) = ccall(_sab_box_options_init[], Cvoid, (Ptr{sab_box_options}, Csize_t), options, struct_size)
init(options::sab_box_options) = sab_box_options_init(options, sizeof(options))
const _sab_box_new = Ref(C_NULL)
sab_box_new(name, look, release, box) = ccall(_sab_box_new[], sab_status, (Cstring, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Ptr{sab_box}}), name, look, release, box)
const _sab_name = Ref(C_NULL)
sab_name() = ccall(_sab_name[], Cstring, ())
struct DLManagedTensor end

struct sab_pair
    first::Int64
    function_::Ptr{sab_box}
end


mutable struct sab_thing <: Struct
    struct_size::Csize_t
    sab_thing() = new()
end

const _sab_thing_init = Ref(C_NULL)
sab_thing_init(thing, struct_size) = ccall(_sab_thing_init[], Cvoid, (Ptr{sab_thing}, Csize_t), thing, struct_size)
init(thing::sab_thing) = sab_thing_init(thing, sizeof(thing))
const _sab_pack = Ref(C_NULL)
sab_pack(pairs, tensors) = ccall(_sab_pack[], sab_status, (Ptr{sab_pair}, Ptr{Ptr{DLManagedTensor}}), pairs, tensors)

"""
Finds every function in a library that is loaded. A provisional function may be missing; calling it
is an error then.
"""
function load(library)
    _sab_box_options_init[] = dlsym(library, :sab_box_options_init)
    _sab_box_new[] = dlsym(library, :sab_box_new)
    _sab_name[] = dlsym(library, :sab_name)
    _sab_thing_init[] = something(dlsym(library, :sab_thing_init; throw_error=false), C_NULL)
    _sab_pack[] = something(dlsym(library, :sab_pack; throw_error=false), C_NULL)
end

end # module
