# Numbers of each column of sizes.

export PerColumn

"""
A value for each column of sizes with several columns: a vector, also indexed by the name of a
column, as in `batch.total[:source]`.
"""
struct PerColumn{T} <: AbstractVector{T}
    values::Vector{T}
    names::Vector{Symbol} # none where the columns have no names
end
Base.size(numbers::PerColumn) = size(numbers.values)
Base.IndexStyle(::Type{<:PerColumn}) = IndexLinear()
Base.@propagate_inbounds Base.getindex(numbers::PerColumn, column::Int) = numbers.values[column]
Base.getindex(numbers::PerColumn, name::Symbol) = numbers.values[column_of(:column, name, numbers.names)]

# The names of the columns of sizes of one column without a name.
const ONE_COLUMN = [Symbol("")]

# The number of the column that a name stands for.
function column_of(argument, name, names)
    column = findfirst(==(Symbol(name)), names)
    column === nothing && throw(ArgumentError("$argument = $(repr(name)): must be one of $(join(map(repr, names), ", "))"))
    return column
end

# A number of one column, or those of several, in the library's memory.
per_column(numbers::Ptr, columns, names) = columns == 1 ? unsafe_load(numbers) : PerColumn(shown(numbers, columns), names)

# The numbers of all columns, of which the given ones name some. Others are zero.
function by_column(argument, given::NamedTuple, names)
    numbers = zeros(length(names))
    for (name, number) in pairs(given)
        numbers[column_of(argument, name, names)] = number
    end
    return numbers
end
function by_column(argument, given, names)
    length(given) == length(names) || throw(ArgumentError("$argument: must have a number for each of the $(length(names)) columns, not $(length(given))"))
    return dense(Float64, given)
end

# Names of columns in the library's memory; none for NULL.
names_at(names, columns) = names == C_NULL ? Symbol[] : [Symbol(unsafe_string(unsafe_load(names, column))) for column in 1:columns]
