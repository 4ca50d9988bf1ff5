# Columns of Arrow.jl, given to the library by Arrow's C data interface. Arrow.jl itself is not
# needed: its types are known by their names and fields, which are the same from 1.6 to 2.8.

# The structs of the interface.
mutable struct ArrowSchema
    format::Ptr{UInt8}
    name::Ptr{UInt8}
    metadata::Ptr{UInt8}
    flags::Int64
    n_children::Int64
    children::Ptr{Ptr{Cvoid}}
    dictionary::Ptr{Cvoid}
    release::Ptr{Cvoid}
    private_data::Ptr{Cvoid}
end
mutable struct ArrowArray
    length::Int64
    null_count::Int64
    offset::Int64
    n_buffers::Int64
    n_children::Int64
    buffers::Ptr{Ptr{Cvoid}}
    children::Ptr{Ptr{Cvoid}}
    dictionary::Ptr{Cvoid}
    release::Ptr{Cvoid}
    private_data::Ptr{Cvoid}
end

# What the library owns is freed by the garbage collector; this says that it was released.
function release_arrow(array)
    unsafe_store!(Ptr{Ptr{Cvoid}}(array + fieldoffset(ArrowArray, 9)), C_NULL)
    return nothing
end
release_arrow_pointer() = @cfunction(release_arrow, Cvoid, (Ptr{Cvoid},))

# A column in the interface, and what its pointers point to.
struct ArrowColumn
    array::ArrowArray
    schema::ArrowSchema
    kept::Vector{Any}
end
function ArrowColumn(values, format, count, null_count, buffers; names = (), children = ArrowColumn[], dictionary = nothing)
    release, names = release_arrow_pointer(), String[string(name) for name in names]
    arrays = Ptr{Cvoid}[pointer_from_objref(child.array) for child in children]
    schemas = Ptr{Cvoid}[pointer_from_objref(child.schema) for child in children]
    for (child, name) in zip(children, names)
        child.schema.name = pointer(name)
    end
    array = ArrowArray(count, null_count, 0, length(buffers), length(children), pointer(buffers), pointer(arrays), C_NULL, release, C_NULL)
    schema = ArrowSchema(pointer(format), C_NULL, C_NULL, 0, length(children), pointer(schemas), C_NULL, release, C_NULL)
    if dictionary !== nothing
        array.dictionary, schema.dictionary = pointer_from_objref(dictionary.array), pointer_from_objref(dictionary.schema)
    end
    return ArrowColumn(array, schema, Any[values, format, buffers, names, children, arrays, schemas, dictionary])
end

is_of_arrow(values) = nameof(parentmodule(typeof(values))) === :Arrow
is_chained(values) = nameof(typeof(values)) === :ChainedVector && hasproperty(values, :arrays)

const ARROW_NUMBERS = Dict{DataType,String}(Int8 => "c", UInt8 => "C", Int16 => "s", UInt16 => "S", Int32 => "i", UInt32 => "I", Int64 => "l", UInt64 => "L", Float16 => "e",
    Float32 => "f", Float64 => "g")

refuse_arrow(values, rule) = throw(ArgumentError("values = $(typeof(values)): $rule"))
refuse_arrow(values) = refuse_arrow(values, "has no size; numbers, texts, binary values and lists have")

# Where at least `count` elements lie.
function address(values, data, count)
    data isa DenseVector && isbitstype(eltype(data)) || refuse_arrow(values, "must lie in memory; pass the vector that it was made from")
    length(data) >= count || refuse_arrow(values, "must have $count elements, has $(length(data))")
    return Ptr{Cvoid}(pointer(data))
end
function bitmap(values, count)
    validity = values.validity
    validity.nc == 0 && return C_NULL
    length(validity.bytes) >= validity.pos - 1 + cld(count, 8) || refuse_arrow(values, "must have a bit for each row in its validity bitmap")
    return Ptr{Cvoid}(pointer(validity.bytes, validity.pos))
end

function ArrowColumn(values)
    is_of_arrow(values) || refuse_arrow(values)
    kind, count, type = nameof(typeof(values)), length(values), Base.nonmissingtype(eltype(values))
    kind === :Primitive && return arrow_numbers(values, count, type)
    kind === :List && return arrow_list(values, count, type)
    kind === :View && return arrow_views(values, count, type)
    kind === :FixedSizeList && type <: Tuple && return arrow_tuples(values, count, type)
    kind === :DictEncoded && return arrow_dictionary(values, count)
    kind === :Struct && type <: NamedTuple && return arrow_struct(values, count, type)
    return refuse_arrow(values)
end

function arrow_numbers(values, count, type)
    data = values.data
    # Dates, times and decimals are stored as types of their own.
    type === eltype(data) && haskey(ARROW_NUMBERS, type) || refuse_arrow(values)
    return ArrowColumn(values, ARROW_NUMBERS[type], count, values.validity.nc, [bitmap(values, count), address(values, data, count)])
end

is_text(type) = type <: Union{AbstractString,Symbol}
function arrow_list(values, count, type)
    offsets, data = values.offsets.offsets, values.data
    places = address(values, offsets, count == 0 ? 0 : count + 1)
    format = is_text(type) ? "u" : type <: Base.CodeUnits ? "z" : "+l"
    eltype(offsets) === Int64 && (format = uppercase(format))
    # The values of lists are not read.
    content = startswith(format, "+") ? C_NULL : address(values, data, count == 0 ? 0 : offsets[count+1])
    return ArrowColumn(values, format, count, values.validity.nc, [bitmap(values, count), places, content])
end

function arrow_tuples(values, count, type)
    format = eltype(values.data) === UInt8 ? "w:" : "+w:"
    return ArrowColumn(values, "$format$(fieldcount(type))", count, values.validity.nc, [bitmap(values, count), C_NULL])
end

function arrow_views(values, count, type)
    sizes = Int64[length(buffer) for buffer in values.buffers]
    buffers = [bitmap(values, count); address(values, values.data, count); Ptr{Cvoid}[pointer(buffer) for buffer in values.buffers]; Ptr{Cvoid}(pointer(sizes))]
    return ArrowColumn((values, sizes), is_text(type) ? "vu" : "vz", count, values.validity.nc, buffers)
end

function arrow_dictionary(values, count)
    indices, dictionary = values.indices, ArrowColumn(values.encoding.data)
    haskey(ARROW_NUMBERS, eltype(indices)) || refuse_arrow(values)
    buffers = [bitmap(values, count), address(values, indices, count)]
    return ArrowColumn(values, ARROW_NUMBERS[eltype(indices)], count, values.validity.nc, buffers; dictionary = dictionary)
end

function arrow_struct(values, count, type)
    children = ArrowColumn[ArrowColumn(child) for child in values.data]
    return ArrowColumn(values, "+s", count, values.validity.nc, [bitmap(values, count)]; names = fieldnames(type), children = children)
end

function arrow_sizes(values, column, nulls, unit)
    given = options(Raw.sab_sizes_arrow_options; nulls = choice(:nulls, nulls, NULLS), text_unit = unit)
    made, name = ArrowColumn(values), column === nothing ? C_NULL : String(column)
    pointer = GC.@preserve made created(Raw.sab_sizes) do out
        Raw.sab_sizes_arrow_new(pointer_from_objref(made.array), pointer_from_objref(made.schema), name, given, out)
    end
    return Sizes(pointer, made)
end
