# The size of each sample.

export Sizes

const DTYPES = Dict{DataType,Int}(Int8 => Raw.SAB_INT8, Int16 => Raw.SAB_INT16, Int32 => Raw.SAB_INT32, Int64 => Raw.SAB_INT64, UInt8 => Raw.SAB_UINT8, UInt16 => Raw.SAB_UINT16,
    UInt32 => Raw.SAB_UINT32, UInt64 => Raw.SAB_UINT64, Float32 => Raw.SAB_FLOAT32, Float64 => Raw.SAB_FLOAT64)
const Sized = Union{Int8,Int16,Int32,Int64,UInt8,UInt16,UInt32,UInt64,Float32,Float64}

"""
    Sizes(values; copy = true)
    Sizes(size_of, count; progress = nothing)
    Sizes(path; format = nothing, column = nothing, words = false, units = nothing,
        missing = :error, copy = false, progress = nothing)
    Sizes(column_of_arrow; column = nothing, nulls = :error, words = false, units = nothing)
    Sizes((source = ..., target = ...))

The size of each sample: from a vector, from a function that is called once for each of `1:count`,
from a file, or from a column of Arrow.jl. `vcat` joins the sizes of several parts.

Samples with several sizes, such as source and target, have a column for each, at most 8: a
`NamedTuple` of anything that is taken here, or a vector of pairs such as `"source" => sizes`. Then
`sizes[index]` is a [`PerColumn`](@ref), `SAB.columns(sizes)` are the names, and
`SAB.column(sizes, :source)` is a vector.

Vectors are copied. `copy = false` borrows a vector of integers or floats, also a strided one. Do not
resize or change a borrowed vector while the sizes exist, or a [`OrderedSampler`](@ref) or
[`BionemoSampler`](@ref) made from them: the library reads its memory later. Plans and other samplers
copy what they need.

A file is a NumPy array (`.npy`), an index of Megatron, fairseq or datatrove, or lines: JSON with the
field `column`, numbers, texts, `utt2dur` or `utt2num_frames` of Kaldi, `speech_shape` or `text_shape` of ESPnet, or FASTA. The last five may be compressed by gzip or Zstandard. `format` is detected, or one of `"npy"`,
`"megatron"`, `"fairseq"`, `"datatrove"`, `"jsonl"`, `"numbers"`, `"text"`, `"kaldi"`, `"fasta"`. [`SAB.description`](@ref) says how it was read.
`missing = :skip` leaves out lines of JSON without the field. Arrays and indexes are mapped unless
`copy = true`. Do not truncate or overwrite a mapped file in place while the sizes exist. Replace it
by renaming a new file over it.

Columns of Arrow.jl, also chained ones, are never copied; do not change them. A number is a size; of
a text, a binary value and a list the length is the size. `nulls = :zero` counts `missing` as 0,
otherwise it is refused. `column` is the path of a field of structs, such as `"audio.frames"`.

The size of a text is its bytes in UTF-8, with `words = true` its words, and with `units = :value` the
number that it is. Texts that are all numbers are refused unless `units` is `:value` or `:bytes`.

`progress(done, total)` is called during the call, and stops it by returning `false`.
"""
mutable struct Sizes{D} <: Handle{Raw.sab_sizes}
    pointer::Ptr{Raw.sab_sizes}
    data::D # borrowed by the library
    Sizes(pointer::Ptr{Raw.sab_sizes}, data::D) where {D} = finalizer(finish, new{D}(pointer, data))
end
free(sizes::Ptr{Raw.sab_sizes}) = Raw.sab_sizes_free(sizes)

function Sizes(values::AbstractVector; copy::Bool = true, column = nothing, nulls = :error, words::Bool = false, units = nothing)
    is_chained(values) && return vcat((Sizes(part; copy = copy, column = column, nulls = nulls, words = words, units = units) for part in values.arrays)...)
    is_of_arrow(values) && return arrow_sizes(values, column, nulls, text_unit(words, units))
    column === nothing && !words && units === nothing || throw(ArgumentError("column, words and units are for columns of Arrow.jl, not for a $(typeof(values))"))
    eltype(values) >: Missing && (values = without_missing(values, choice(:nulls, nulls, NULLS)))
    values isa StridedVector{<:Sized} && return sizes_in_memory(values, copy)
    copy || throw(ArgumentError("copy = false: values must be a strided vector of integers or floats of 8 to 64 bits, not a $(typeof(values))"))
    # Nothing else refers to the new vector.
    return sizes_in_memory(collect(eltype(values) <: Sized ? eltype(values) : Float64, values), false)
end

function sizes_in_memory(values::StridedVector{T}, copy) where {T<:Sized}
    given = options(Raw.sab_sizes_options; stride = stride(values, 1) * sizeof(T), copy = copy)
    return Sizes(created(out -> Raw.sab_sizes_new(values, length(values), DTYPES[T], given, out), Raw.sab_sizes), copy ? nothing : values)
end

function without_missing(values, rule)
    row = rule == Raw.SAB_NULLS_ZERO ? nothing : findfirst(ismissing, values)
    row === nothing || throw(ArgumentError("values[$row] = missing: must be a number; nulls = :zero counts it as 0"))
    return map(value -> coalesce(value, zero(Base.nonmissingtype(eltype(values)))), values)
end

Sizes(sizes::Sizes) = sizes

Sizes(columns::NamedTuple; copy::Bool = true) = Sizes([name => column for (name, column) in pairs(columns)]; copy = copy)
function Sizes(columns::AbstractVector{<:Pair}; copy::Bool = true)
    parts = [column isa AbstractVector ? Sizes(column; copy = copy) : Sizes(column) for (_, column) in columns]
    names = map(columns) do (name, _)
        name isa Union{Symbol,AbstractString} || throw(ArgumentError("columns: must be named by texts, not by $(repr(name))"))
        Base.cconvert(Cstring, String(name))
    end
    texts = Ptr{UInt8}[Base.unsafe_convert(Cstring, name) for name in names]
    handles = Ptr{Raw.sab_sizes}[Base.unsafe_convert(Ptr{Raw.sab_sizes}, each) for each in parts]
    together = GC.@preserve parts names created(out -> Raw.sab_sizes_columns_new(handles, texts, length(handles), out), Raw.sab_sizes)
    return Sizes(together, Any[part.data for part in parts])
end

facts(sizes::Sizes) = filled(out -> Raw.sab_sizes_get_info(sizes, out), Raw.sab_sizes_info)
column_count(sizes::Sizes) = Int(facts(sizes).columns)

"""
    SAB.columns(sizes)
    SAB.columns(plan)

The names of the columns of sizes; none for columns without a name.
"""
columns(sizes::Sizes) = GC.@preserve sizes names_at(facts(sizes).column_names, column_count(sizes))

"""
    SAB.column(sizes, name)

The sizes of a column, by its name or its number, as a vector.
"""
column(sizes::Sizes, name::Union{Symbol,AbstractString}) = column(sizes, column_of(:column, name, columns(sizes)))
function column(sizes::Sizes, number::Integer)
    1 <= number <= column_count(sizes) || throw(ArgumentError("column = $number: must be from 1 to $(column_count(sizes))"))
    return rows(sizes, 1, length(sizes))[number, :]
end

# The sizes of samples, those of each as a column.
function rows(sizes::Sizes, first, count)
    read = Matrix{Float64}(undef, column_count(sizes), count)
    check(Raw.sab_sizes_get(sizes, first - 1, count, read))
    return read
end

# The names of the columns of what may be given as sizes; of one column without a name an empty one.
function column_names(sizes::Sizes)
    names = columns(sizes)
    return isempty(names) ? fill(Symbol(""), column_count(sizes)) : names
end
column_names(columns::NamedTuple) = collect(Symbol, keys(columns))
column_names(columns::AbstractVector{<:Pair}) = [Symbol(name) for (name, _) in columns]
column_names(_) = ONE_COLUMN

const TEXT_UNITS = (bytes = Raw.SAB_TEXT_ALL_BYTES, words = Raw.SAB_TEXT_WORDS, value = Raw.SAB_TEXT_VALUE)
text_unit(words::Bool, ::Nothing) = words ? Raw.SAB_TEXT_WORDS : Raw.SAB_TEXT_BYTES
text_unit(::Bool, units) = choice(:units, units, TEXT_UNITS)
const NULLS = (error = Raw.SAB_NULLS_REFUSE, zero = Raw.SAB_NULLS_ZERO)
const MISSING = (error = Raw.SAB_MISSING_REFUSE, skip = Raw.SAB_MISSING_SKIP)

function Sizes(path::AbstractString; format = nothing, column = nothing, words::Bool = false, units = nothing, missing = :error, copy::Bool = false, progress = nothing)
    calls = Calls(progress = progress)
    given = options(Raw.sab_sizes_file_options; text_unit = text_unit(words, units), missing = choice(:missing, missing, MISSING), copy = copy)
    texts = [text === nothing ? nothing : Base.cconvert(Cstring, String(text)) for text in (format, column)]
    pointer = GC.@preserve texts calls begin
        given.format, given.column = (text === nothing ? C_NULL : Ptr{UInt8}(Base.unsafe_convert(Cstring, text)) for text in texts)
        progress === nothing || (given.progress = progress_pointer(); given.progress_ctx = pointer_from_objref(calls))
        created(out -> Raw.sab_sizes_file_new(path, given, out), Raw.sab_sizes, calls)
    end
    return Sizes(pointer, nothing)
end

# The parts are joined without a copy.
function Base.vcat(parts::Sizes...)
    handles = Ptr{Raw.sab_sizes}[Base.unsafe_convert(Ptr{Raw.sab_sizes}, part) for part in parts]
    joined = GC.@preserve parts created(out -> Raw.sab_sizes_join_new(handles, length(handles), out), Raw.sab_sizes)
    return Sizes(joined, Any[part.data for part in parts])
end

"""
    SAB.source(sizes, index)

Where a sample is: the number of the part that `vcat` joined, or of the chunk of a column, and the
row in it, both from 1. Sizes that were not joined are part 1.
"""
function source(sizes::Sizes, index::Integer)
    checkbounds(sizes, index)
    part, row = Ref{Csize_t}(0), Ref{Csize_t}(0)
    check(Raw.sab_sizes_locate(sizes, index - 1, part, row))
    return Int(part[]) + 1, Int(row[]) + 1
end

"""
    SAB.description(sizes)

Text that says what the sizes were read from, such as `"lines of numbers: 3 sizes"`. It is meant for
people, and may change in any release.
"""
description(sizes::Sizes) = GC.@preserve sizes unsafe_string(facts(sizes).description)

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
    make(out) = Raw.sab_sizes_callback_new(converted(UInt64, :count, count), size_pointer(), calls, progress_options(calls), out)
    return GC.@preserve calls Sizes(created(make, Raw.sab_sizes, calls), nothing)
end

Base.length(sizes::Sizes) = Int(Raw.sab_sizes_count(sizes))
Base.checkbounds(sizes::Sizes, index::Integer) = 1 <= index <= length(sizes) || throw(BoundsError(sizes, index))
function Base.getindex(sizes::Sizes, index::Integer)
    checkbounds(sizes, index)
    row = rows(sizes, index, 1)
    return length(row) == 1 ? row[1] : PerColumn(row[:, 1], columns(sizes))
end
function Base.collect(sizes::Sizes)
    column_count(sizes) == 1 && return column(sizes, 1)
    names = columns(sizes)
    return [PerColumn(collect(row), names) for row in eachcol(rows(sizes, 1, length(sizes)))]
end
Base.firstindex(sizes::Sizes) = 1
Base.lastindex(sizes::Sizes) = length(sizes)
Base.show(io::IO, sizes::Sizes) = print(io, "Sizes(", isopen(sizes) ? "$(length(sizes)) samples" : "closed", ")")
