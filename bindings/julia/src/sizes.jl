# The size of each sample.

export Sizes

const DTYPES = Dict{DataType,Int}(Int8 => Raw.SAB_INT8, Int16 => Raw.SAB_INT16, Int32 => Raw.SAB_INT32, Int64 => Raw.SAB_INT64, UInt8 => Raw.SAB_UINT8, UInt16 => Raw.SAB_UINT16,
    UInt32 => Raw.SAB_UINT32, UInt64 => Raw.SAB_UINT64, Float32 => Raw.SAB_FLOAT32, Float64 => Raw.SAB_FLOAT64)
const Sized = Union{Int8,Int16,Int32,Int64,UInt8,UInt16,UInt32,UInt64,Float32,Float64}

"""
    Sizes(values; copy = true)
    Sizes(size_of, count; progress = nothing)
    Sizes(path)

The size of each sample: from a vector, from a function that is called once for each of `1:count`,
or from a NumPy file (`.npy`), which is mapped.

Vectors are copied. `copy = false` borrows a vector of integers or floats, also a strided one. Do not
resize or change a borrowed vector while the sizes exist, or a [`BionemoSizeAwareSampler`](@ref) or
[`BionemoSampler`](@ref) made from them: the library reads its memory later. Plans and other samplers
copy what they need.

`progress(done, total)` is called during the call, and stops it by returning `false`.

Do not truncate or overwrite a mapped file in place while the sizes exist. Replace it by renaming a
new file over it.
"""
mutable struct Sizes{D} <: Handle{Raw.sab_sizes}
    pointer::Ptr{Raw.sab_sizes}
    data::D # borrowed by the library
    Sizes(pointer::Ptr{Raw.sab_sizes}, data::D) where {D} = finalizer(finish, new{D}(pointer, data))
end
free(sizes::Ptr{Raw.sab_sizes}) = Raw.sab_sizes_free(sizes)

function Sizes(values::StridedVector{T}; copy::Bool = true) where {T<:Sized}
    given = options(Raw.sab_sizes_options; stride = stride(values, 1) * sizeof(T), copy = copy)
    return Sizes(created(out -> Raw.sab_sizes_new(values, length(values), DTYPES[T], given, out), Raw.sab_sizes), copy ? nothing : values)
end
function Sizes(values::AbstractVector; copy::Bool = true)
    copy || throw(ArgumentError("copy = false: values must be a strided vector of integers or floats of 8 to 64 bits, not a $(typeof(values))"))
    # Nothing else refers to the new vector.
    return Sizes(collect(eltype(values) <: Sized ? eltype(values) : Float64, values); copy = false)
end
Sizes(path::AbstractString) = Sizes(created(out -> Raw.sab_sizes_npy_new(path, out), Raw.sab_sizes), nothing)
Sizes(sizes::Sizes) = sizes

# Sizes that only the current call reads. A vector is copied only if a function that the call runs
# could resize it.
read_sizes(values::StridedVector{<:Sized}, functions...) = Sizes(values; copy = any(each -> each !== nothing, functions))
read_sizes(values, functions...) = Sizes(values)

size_callback(ctx, index, size) = guard(ctx) do calls
    unsafe_store!(size, Float64(calls.main(Int(index) + 1)))
    0
end
size_pointer() = @cfunction(size_callback, Int32, (Ptr{Cvoid}, Int64, Ptr{Float64}))

function Sizes(size_of, count::Integer; progress = nothing)
    calls = Calls(size_of; progress = progress)
    make(out) = Raw.sab_sizes_callback_new(converted(UInt64, :count, count), size_pointer(), calls, progress_pointer(), calls, out)
    return Sizes(created(make, Raw.sab_sizes, calls), nothing)
end

Base.length(sizes::Sizes) = Int(Raw.sab_sizes_count(sizes))
function Base.getindex(sizes::Sizes, index::Integer)
    1 <= index <= length(sizes) || throw(BoundsError(sizes, index))
    size = Ref(0.0)
    check(Raw.sab_sizes_get(sizes, index - 1, size))
    return size[]
end
Base.firstindex(sizes::Sizes) = 1
Base.lastindex(sizes::Sizes) = length(sizes)
Base.show(io::IO, sizes::Sizes) = print(io, "Sizes(", isopen(sizes) ? "$(length(sizes)) samples" : "closed", ")")
