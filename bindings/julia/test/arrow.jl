# Columns of Arrow.jl. The package is not there: these types have the names and fields of its own.

module Arrow

abstract type ArrowVector{T} <: AbstractVector{T} end
struct ValidityBitmap
    bytes::Vector{UInt8}
    pos::Int
    ℓ::Int
    nc::Int
end
struct Primitive{T,A} <: ArrowVector{T}
    arrow::Vector{UInt8}
    validity::ValidityBitmap
    data::A
    ℓ::Int64
    metadata::Nothing
end
struct Offsets{T}
    arrow::Vector{UInt8}
    offsets::Vector{T}
end
struct List{T,O,A} <: ArrowVector{T}
    arrow::Vector{UInt8}
    validity::ValidityBitmap
    offsets::Offsets{O}
    data::A
    ℓ::Int
    metadata::Nothing
end
struct ViewElement
    length::Int32
    prefix::Int32
    bufindex::Int32
    offset::Int32
end
struct View{T} <: ArrowVector{T}
    arrow::Vector{UInt8}
    validity::ValidityBitmap
    data::Vector{ViewElement}
    inline::Vector{UInt8}
    buffers::Vector{Vector{UInt8}}
    ℓ::Int
    metadata::Nothing
end
struct FixedSizeList{T,A} <: ArrowVector{T}
    arrow::Vector{UInt8}
    validity::ValidityBitmap
    data::A
    ℓ::Int
    metadata::Nothing
end
struct BoolVector{T} <: ArrowVector{T}
    arrow::Vector{UInt8}
    pos::Int
    validity::ValidityBitmap
    ℓ::Int64
    metadata::Nothing
end
mutable struct DictEncoding{T,S,A} <: ArrowVector{T}
    id::Int64
    data::A
    isOrdered::Bool
    metadata::Nothing
end
struct DictEncoded{T,S,A} <: ArrowVector{T}
    arrow::Vector{UInt8}
    validity::ValidityBitmap
    indices::Vector{S}
    encoding::DictEncoding{T,S,A}
    metadata::Nothing
end
struct Struct{T,S} <: ArrowVector{T}
    validity::ValidityBitmap
    data::S
    ℓ::Int
    metadata::Nothing
end
Base.size(values::ArrowVector) = (values.ℓ,)
Base.size(values::DictEncoded) = size(values.indices)

end # module Arrow

module SentinelArrays
struct ChainedVector{T,A} <: AbstractVector{T}
    arrays::Vector{A}
end
Base.size(values::ChainedVector) = (sum(length, values.arrays),)
end

const VALID = Arrow.ValidityBitmap(UInt8[], 1, 0, 0)
# The rows but `null` are valid; the bitmap begins at the second byte.
but(null, count) = Arrow.ValidityBitmap([0x00; reinterpret(UInt8, [~(UInt64(1) << (null - 1))])], 2, count, 1)
primitive(data, type = eltype(data), validity = VALID) = Arrow.Primitive{type,typeof(data)}(UInt8[], validity, data, length(data), nothing)
ends(type, lengths) = Arrow.Offsets{type}(UInt8[], [type(0); type.(cumsum(lengths))])
text(texts, type = String; offset = Int32) = Arrow.List{type,offset,Vector{UInt8}}(UInt8[], VALID, ends(offset, ncodeunits.(texts)), collect(codeunits(Base.join(texts))), length(texts), nothing)
list(lengths; offset = Int32) = Arrow.List{SubArray,offset,typeof(primitive([1]))}(UInt8[], VALID, ends(offset, lengths), primitive(fill(7, sum(lengths))), length(lengths), nothing)
dictionary(indices, values) = Arrow.DictEncoded{eltype(values),eltype(indices),typeof(values)}(UInt8[], VALID, indices, Arrow.DictEncoding{eltype(values),eltype(indices),typeof(values)}(1, values, false, nothing), nothing)
chained(columns...) = SentinelArrays.ChainedVector{eltype(columns[1]),typeof(columns[1])}(collect(columns))
function view_of(texts)
    element(text) = Arrow.ViewElement(ncodeunits(text), 0, 0, something(findfirst(text, Base.join(texts))).start - 1)
    elements = element.(texts)
    return Arrow.View{String}(UInt8[], VALID, elements, UInt8[], [collect(codeunits(Base.join(texts)))], length(texts), nothing)
end

@testset "numbers of Arrow are sizes, other values have their lengths" begin
    for T in (Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64)
        @test collect(Sizes(primitive(T[3, 1, 2]))) == [3, 1, 2]
    end
    texts = ["äb", "", "two words"]
    for offset in (Int32, Int64)
        @test collect(Sizes(text(texts; offset = offset))) == [3, 0, 9]
        @test collect(Sizes(text(texts, Base.CodeUnits{UInt8,String}; offset = offset))) == [3, 0, 9]
        @test collect(Sizes(text(texts; offset = offset); words = true)) == [1, 0, 2]
        @test collect(Sizes(list([5, 0, 7]; offset = offset))) == [5, 0, 7]
    end
    long = ["thirteen bytes or more", "four words of text"]
    @test collect(Sizes(view_of(long))) == ncodeunits.(long)
    @test collect(Sizes(view_of(long); words = true)) == [4, 4]
    @test collect(Sizes(Arrow.FixedSizeList{NTuple{20,UInt8},Vector{UInt8}}(UInt8[], VALID, zeros(UInt8, 40), 2, nothing))) == [20, 20]
    @test collect(Sizes(dictionary(Int8[1, 0, 1], text(["abc", "x"])))) == [1, 3, 1]
    @test collect(Sizes(dictionary(UInt32[1, 0, 1], primitive([30, 10])))) == [10, 30, 10]
    @test collect(Sizes(primitive(Int32[]))) == []
    @test SAB.description(Sizes(text(texts))) == "Arrow string: 3 texts"
end

@testset "missing of Arrow is refused with its row, or counted as 0" begin
    column = primitive([5, 6, 7], Union{Missing,Int}, but(2, 3))
    @test occursin("[2]: is null", sprint(showerror, thrown(() -> Sizes(column))))
    @test collect(Sizes(column; nulls = :zero)) == [5, 0, 7]
    @test collect(Sizes([5, missing, 7]; nulls = :zero)) == [5, 0, 7]
    @test occursin("values[2] = missing", sprint(showerror, thrown(() -> Sizes([5, missing]))))
    @test all(thrown(() -> Sizes(values; nulls = :skip)) isa ArgumentError for values in (column, [5, missing]))
    @test thrown(() -> Sizes([5]; words = true)) isa ArgumentError
end

@testset "structs of Arrow have columns, chunks are parts" begin
    audio = (primitive([4, 5]), primitive([1, 2]))
    column = Arrow.Struct{NamedTuple{(:frames, :rate),Tuple{Int,Int}},typeof(audio)}(VALID, audio, 2, nothing)
    outer = Arrow.Struct{NamedTuple{(:audio,),Tuple{Any}},Tuple{typeof(column)}}(VALID, (column,), 2, nothing)
    @test collect(Sizes(column; column = "frames")) == [4, 5]
    @test collect(Sizes(outer; column = "audio.rate")) == [1, 2]
    @test occursin("\"frames\", \"rate\"", sprint(showerror, thrown(() -> Sizes(column))))
    chunks = Sizes(chained(text(["abc"]), text(["", "x y"])); words = true)
    @test collect(chunks) == [1, 0, 2]
    @test [SAB.source(chunks, index) for index in 1:3] == [(1, 1), (2, 1), (2, 2)]
    @test collect(Sizes(chained([1, 2], [3]))) == [1, 2, 3]
end

@testset "columns of Arrow without sizes, and damaged ones, are refused" begin
    short = Arrow.Primitive{Int,Vector{Int}}(UInt8[], VALID, [1, 2], 3, nothing)
    cut = Arrow.List{String,Int32,Vector{UInt8}}(UInt8[], VALID, ends(Int32, [2, 2]), UInt8[1, 2, 3], 2, nothing)
    without_end = Arrow.List{String,Int32,Vector{UInt8}}(UInt8[], VALID, ends(Int32, [2]), UInt8[1, 2, 3], 2, nothing)
    without_bits = primitive(fill(1, 99), Union{Missing,Int}, Arrow.ValidityBitmap(UInt8[1], 1, 99, 1))
    lazy = primitive(1:3)
    for (column, words) in ((short, "must have 3 elements, has 2"), (cut, "must have 4 elements, has 3"), (without_end, "must have 3 elements"), (without_bits, "validity bitmap"),
        (lazy, "must lie in memory"), (Arrow.BoolVector{Bool}(UInt8[1], 1, VALID, 3, nothing), "has no size"), (primitive([1], Char), "has no size"), (dictionary(Int8[0], ["abc"]), "has no size"))
        exception = thrown(() -> Sizes(column))
        @test exception isa ArgumentError && occursin(words, exception.msg)
    end
    decreasing = Arrow.List{String,Int32,Vector{UInt8}}(UInt8[], VALID, Arrow.Offsets{Int32}(UInt8[], [0, 3, 1]), UInt8[1, 2, 3], 2, nothing)
    @test status(() -> Sizes(decreasing)) == Raw.SAB_E_ARGUMENT
    @test status(() -> Sizes(primitive([1]); column = "x")) == Raw.SAB_E_ARGUMENT
end

@testset "columns of Arrow are not copied, and live as long as what reads them" begin
    lengths = made_sizes(1000, 50)
    data = copy(lengths)
    sizes = Sizes(chained(primitive(data), primitive(copy(data))))
    data[3] = 49
    @test sizes[3] == 49
    data[3] = lengths[3]
    plan = SAB.Plan(chained(primitive(lengths[1:300]), primitive(lengths[301:end])); budget = 256)
    @test read(image(plan)) == read(image(SAB.Plan(lengths; budget = 256)))
    sampler = SAB.OrderedSampler(primitive(copy(lengths)), 100)
    expected = collect(SAB.OrderedSampler(lengths, 100))
    for _ in 1:3
        GC.gc()
        [rand(UInt32, 1000) for _ in 1:100]
    end
    @test [batch.indices for batch in sampler] == [batch.indices for batch in expected]
end
