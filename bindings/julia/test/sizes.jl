# Sizes of files, and joined sizes.

# Megatron's index of sequences with these lengths, in one document.
megatron(lengths) = sprint() do io
    write(io, "MMIDIDX\0\0", UInt64(1), 0x04, UInt64(length(lengths)), UInt64(1))
    foreach(count -> write(io, Int32(count)), lengths)
    foreach(i -> write(io, UInt64(4 * (i - 1))), 1:length(lengths))
    write(io, UInt64(0))
end

@testset "formats of files are detected and described" begin
    mktempdir() do folder
        path = joinpath(folder, "sizes")
        for (content, expected, description) in ((megatron([5, 0, 7]), [5, 0, 7], "Megatron .idx: 3 sequences"), ("5\n2.5\n", [5, 2.5], "lines of numbers: 2 sizes"),
            (">a\nAC\nGT\n", [4], "FASTA, sizes in residues: 1 record"))
            write(path, content)
            sizes = Sizes(path)
            @test (collect(sizes), SAB.description(sizes)) == (expected, description)
        end
        write(path, megatron([5, 6]))
        sizes = Sizes(path; copy = true)
        write(path, zeros(UInt8, 80))
        @test collect(sizes) == [5, 6]
    end
end

@testset "options of files" begin
    mktempdir() do folder
        path = joinpath(folder, "sizes.jsonl")
        write(path, "{\"text\": \"a b\"}\n{\"other\": 1}\n{\"text\": \"c\"}\n")
        exception = thrown(() -> Sizes(path; column = "text"))
        @test exception.status == Raw.SAB_E_FORMAT && occursin("line 2", exception.message)
        @test collect(Sizes(path; column = "text", missing = :skip)) == [3, 1]
        @test collect(Sizes(path; column = "text", missing = :skip, words = true)) == [2, 1]
        @test Sizes(path; format = "text")[2] == 12
        @test occursin("csv", thrown(() -> Sizes(path; format = "csv")).message)
        @test thrown(() -> Sizes(path; column = "a\0b")) isa ArgumentError
        @test thrown(() -> Sizes(path; column = "text", missing = :zero)) isa ArgumentError
        @test status(() -> Sizes(path; format = "text", progress = (done, total) -> false)) == Raw.SAB_E_CANCELLED
        @test thrown(() -> Sizes(path; format = "text", progress = (done, total) -> error("mine"))).msg == "mine"
        seen = []
        @test length(Sizes(path; format = "text", progress = (done, total) -> push!(seen, total))) == 3
        @test all(==(filesize(path)), seen)
    end
end

@testset "joined sizes know part and row, and keep what the parts borrow" begin
    joined = vcat(Sizes([12, 7]; copy = false), Sizes(fill(3.5, 1000); copy = false))
    for _ in 1:3
        GC.gc()
        [rand(1000) for _ in 1:100]
    end
    @test collect(joined) == [12; 7; fill(3.5, 1000)]
    @test SAB.source(joined, 2) == (1, 2) && SAB.source(joined, 1002) == (2, 1000)
    @test thrown(() -> SAB.source(joined, 1003)) isa BoundsError
    @test SAB.source(Sizes([1]), 1) == (1, 1)
    closed = Sizes([1])
    close(closed)
    @test thrown(() -> vcat(joined, closed)) isa ArgumentError
    @test length(vcat(joined, joined)) == 2004
end
