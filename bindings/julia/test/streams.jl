# Streams: what they give, and that they go on where they stopped.

# A state after `count` records, restored into a pipeline made alike, gives the rest.
function resumes(make, count)
    all, stream = collect(make()), make()
    head = [something(SAB.next!(stream)) for _ in 1:count]
    saved = SAB.state(stream)
    rest = collect(SAB.restore!(make(), saved))
    return isequal([head; rest], all) && isequal(collect(stream), rest)
end

mktempdir() do folder
    names = map(1:3) do number
        path = joinpath(folder, "part$number.txt")
        write(path, join(["$number.$line " * "word "^(line % 7) for line in 1:40], "\n"))
        path
    end
    lines() = SAB.files_stream(SAB.list_stream(names))

    @testset "sources and stages" begin
        @test collect(SAB.list_stream(["a", "bc"])) == ["a", "bc"]
        @test collect(SAB.list_stream([UInt8[1, 2], UInt8[]])) == [[1, 2], []]
        @test collect(SAB.array_stream(Float32[1, 2])) == Float32[1, 2]
        @test collect(SAB.list_stream(["a", "b", "c"]; rank = 1, world_size = 2)) == ["c"]
        @test length(collect(lines())) == 120
        @test first(lines()) == "1.1 word "
        @test first(SAB.files_stream(SAB.list_stream(names); type = Vector{UInt8})) == Vector{UInt8}("1.1 word ")
        @test length(collect(SAB.files_stream(SAB.iterable_stream(names; bytes = true)))) == 120
        @test collect(SAB.prefetch_stream(lines(), 10)) == collect(lines())
        @test 0 <= first(SAB.random_stream(3)) < 1
        @test collect(SAB.map_stream(x -> x^2, SAB.array_stream(1:3))) == [1, 4, 9]
        @test collect(SAB.batch_stream(SAB.array_stream(1:5), 2)) == [[1, 2], [3, 4], [5]]
        @test collect(SAB.window_stream(SAB.array_stream(1:4), 3)) == [[1, 2, 3], [2, 3, 4]]
        @test collect(SAB.flatten_stream(SAB.batch_stream(SAB.array_stream(1:5), 2))) == 1:5
        @test collect(SAB.select_stream(x -> 1:x, SAB.array_stream(1:3))) == [1, 1, 2, 1, 2, 3]
        @test collect(SAB.select_stream(x -> SAB.map_stream(y -> 10y, SAB.array_stream(1:x)), SAB.array_stream(1:3))) == [10, 10, 20, 10, 20, 30]
        @test thrown(() -> collect(SAB.select_stream(x -> SAB.array_stream(1:x), SAB.array_stream(1:3)))) isa ArgumentError
        @test collect(SAB.recurrent_stream((sum, x) -> (sum + x, (sum, x)), SAB.array_stream(1:4), 0)) == [(0, 1), (1, 2), (3, 3), (6, 4)]
        @test collect(SAB.zip_stream(SAB.array_stream(1:3), SAB.array_stream(4:9))) == [[1, 4], [2, 5], [3, 6]]
        control = SAB.size_stream(x -> x, SAB.array_stream([0, 1, 0]))
        @test collect(SAB.multiplex_stream(control, SAB.array_stream(1:9), SAB.array_stream(11:19))) == [1, 11, 2]
        mix(; keywords...) = SAB.mix_stream(SAB.array_stream(1:9), SAB.array_stream(11:12); proportions = [2, 1], keywords...)
        @test collect(mix()) == [1, 11, 2, 3, 12, 4, 5]
        @test collect(mix(until = :all)) == [1, 11, 2, 3, 12, 4, 5, 6, 7, 8, 9]
        @test occursin("proportions[2] = -1: must be finite", message(() -> SAB.mix_stream(SAB.array_stream(1:2), SAB.array_stream(1:2); proportions = (1, -1))))
        @test occursin("must be the number of sources, 1", message(() -> SAB.mix_stream(SAB.array_stream(1:2); proportions = [1, 2])))
        @test thrown(() -> mix(until = :last)) isa ArgumentError
        @test sort(collect(SAB.block_shuffle_stream(SAB.array_stream(1:50), 10))) == 1:50
        @test collect(SAB.shard_stream(SAB.array_stream(1:5), 1, 2)) == [2, 4, []]
        @test all(row -> sum(row) <= 20, SAB.pack_stream(SAB.size_stream(identity, SAB.array_stream(1:15)), 20))
        long() = SAB.size_stream(identity, SAB.array_stream([1, 9, 2]))
        @test occursin("record 1: has size 9", message(() -> collect(SAB.readahead_stream(long(); budget = 5))))
        @test sort(reduce(vcat, collect(SAB.readahead_stream(long(); budget = 5, oversize = :skip)))) == [1, 2]
        @test sort(reduce(vcat, collect(SAB.pack_stream(long(), 5; oversize = :skip)))) == [1, 2]
        @test all(batch -> length(batch) * maximum(length, batch) <= 100, SAB.readahead_stream(lines(); budget = 100))
        @test all(batch -> length(unique(x -> x % 2, batch)) == 1, SAB.readahead_stream(SAB.array_stream(1:40); batch_size = largest -> 3, boundary_key = x -> x % 2))
        escaped = Ref{Any}()
        drawn = collect(SAB.random_map_stream((random, x) -> (escaped[] = random; (rand(random), rand(random, 1:x), rand(random, UInt64))), SAB.array_stream(1:9)))
        @test all(((real, below, bits),) -> 0 <= real < 1 && 1 <= below <= 9, drawn)
        @test thrown(() -> rand(escaped[])) isa ArgumentError
        write(joinpath(folder, "cut.gz"), UInt8[0x1f, 0x8b, 8, 0, 0])
        broken = SAB.files_stream(SAB.list_stream([joinpath(folder, "cut.gz"), names[1]]); on_error = :skip)
        @test length(collect(broken)) == 40
        @test SAB.skipped_count(broken) == 1
        @test status(() -> collect(SAB.files_stream(SAB.list_stream([joinpath(folder, "none")])))) == Raw.SAB_E_IO
    end

    @testset "resume" begin
        tokens(source) = SAB.map_stream(line -> split(line), source)
        for (make, count) in (
            (() -> SAB.block_shuffle_stream(lines(), 30; seed = 1), 45),
            (() -> tokens(SAB.prefetch_stream(lines(), 16)), 33),
            (() -> SAB.readahead_stream(tokens(SAB.block_shuffle_stream(lines(), 50)); batch_size = 8, seed = 2), 7),
            # Its state holds what Julia made.
            (() -> SAB.buffered_shuffle_stream(tokens(lines()), 20; seed = 3), 50),
            (() -> SAB.recurrent_stream((sum, x) -> (sum + x, (sum, x)), SAB.array_stream(1:20), 0), 9),
            (() -> SAB.random_map_stream((random, x) -> rand(random, 1:x), SAB.array_stream(1:20)), 9),
            (() -> SAB.select_stream(x -> 1:x, SAB.array_stream(1:8)), 12),
            (() -> SAB.buffered_shuffle_stream(SAB.select_stream(x -> 1:x, SAB.array_stream(1:8)), 10), 12),
            (() -> SAB.iterable_stream((x, x^2) for x in 1:20), 9),
        )
            @test resumes(make, count)
        end
        stream = tokens(lines())
        SAB.next!(stream)
        @test length(collect(seekstart(stream))) == 120
        @test status(() -> SAB.restore!(SAB.array_stream(1:3), SAB.state(lines()))) == Raw.SAB_E_MISMATCH
        parts = [SAB.shard_stream(SAB.batch_stream(SAB.array_stream(1:40), 3), rank, 2) for rank in 0:1]
        head = [something(SAB.next!(part)) for _ in 1:3 for part in parts]
        saved = SAB.state(parts[1])
        rest = [collect(SAB.restore!(SAB.shard_stream(SAB.batch_stream(SAB.array_stream(1:40), 3), rank, 3), saved)) for rank in 0:2]
        @test sort(joined([head; reduce(vcat, rest)])) == 1:40
    end

    @testset "a record of another width than its type is refused" begin
        narrow = SAB.buffered_shuffle_stream(SAB.array_stream(UInt8[1, 2, 3]), 2)
        SAB.next!(narrow)
        wide = SAB.buffered_shuffle_stream(SAB.array_stream([1, 2, 3]), 2)
        @test thrown(() -> collect(SAB.restore!(wide, SAB.state(narrow)))) !== nothing
        @test thrown(() -> SAB.decoded(Int64, pointer(zeros(UInt8, 1)), 1)) isa ArgumentError
        @test all(drawn -> drawn in -128:127, collect(SAB.random_map_stream((random, x) -> rand(random, Int8(-128):Int8(127)), SAB.array_stream(1:200))))
    end

    @testset "a stream goes on after its function failed" begin
        failing = Ref(true)
        stream = SAB.map_stream(x -> x == 3 && failing[] ? throw(Mine(2)) : x, SAB.array_stream(1:4))
        @test [something(SAB.next!(stream)) for _ in 1:2] == [1, 2]
        @test thrown(() -> SAB.next!(stream)) == Mine(2)
        failing[] = false
        @test collect(stream) == [3, 4]
        stopped = SAB.set_progress!(SAB.block_shuffle_stream(SAB.array_stream(1:100_000), 100_000), (done, total) -> false)
        @test status(() -> SAB.next!(stopped)) == Raw.SAB_E_CANCELLED
        failed = SAB.set_progress!(SAB.block_shuffle_stream(SAB.array_stream(1:100_000), 100_000), (done, total) -> throw(Mine(9)))
        @test thrown(() -> SAB.next!(failed)) == Mine(9)
    end

    @testset "a function does not use or close what calls it" begin
        used = Ref{Any}()
        for use in (close, SAB.next!, SAB.state)
            used[] = SAB.map_stream(x -> (use(used[]); x), SAB.array_stream(1:3))
            @test occursin("functions that it calls", message(() -> SAB.next!(used[])))
        end
        for use in (close, SAB.next_batch!)
            used[] = SAB.BionemoSizeAwareStream((epoch, position) -> (position == 2 && use(used[]); position < 5 ? (position, 1.0) : nothing), 2)
            @test occursin("functions that it calls", message(() -> collect(used[])))
            @test isopen(used[])
        end
        once = SAB.iterable_stream(1:3)
        @test occursin("taken before", message(() -> collect(SAB.select_stream(x -> once, SAB.array_stream(1:2)))))
        @test thrown(() -> collect(SAB.random_map_stream((random, x) -> rand(random, 1:0), SAB.array_stream(1:2)))) isa ArgumentError
    end

    @testset "records of several sizes" begin
        key = (words = line -> count(==('w'), line), bytes = length)
        largest(batch) = [maximum(size_of, batch) for size_of in key]
        reading(; given...) = SAB.readahead_stream(lines(); key = key, read_ahead = 50, carry_over = true, given...)
        batches = collect(reading(; budget = 200))
        @test sort(reduce(vcat, batches)) == sort(collect(lines())) && length(batches) > 10
        @test all(batch -> length(batch) * sum(largest(batch)) <= 200, batches)
        limits = [SAB.Budget(200), SAB.Budget(12; cost = (words = 1,))]
        @test all(batch -> length(batch) * largest(batch)[1] <= 12, reading(; budget = limits))
        rows() = SAB.pack_stream(lines(), (bytes = 90, words = 12); key = key, read_ahead = 50)
        @test sort(reduce(vcat, collect(rows()))) == sort(collect(lines()))
        @test all(row -> sum(key.words, row) <= 12 && sum(key.bytes, row) <= 90, rows())
        @test resumes(rows, 7) && resumes(() -> reading(; budget = (words = 12, bytes = 200)), 7)
        @test occursin("capacity = (bytes = 90,)", message(() -> SAB.pack_stream(lines(), (bytes = 90,); key = key)))
        @test thrown(() -> SAB.pack_stream(lines(), 90; key = key)) isa ArgumentError
        @test thrown(() -> reading(; key = length, budget = 200)) isa ArgumentError
        @test occursin("callback", message(() -> reading(; budget = SAB.Budget(9; cost = (count, lengths, totals) -> count))))
        @test occursin("no size", message(() -> collect(reading(; budget = 200, key = (a = length, b = line -> error("no size"))))))
    end

    @testset "calls of tasks that take turns do not mix" begin
        seen = Set()
        waiting(name, last) = SAB.set_progress!(SAB.readahead_stream(SAB.map_stream(x -> (yield(); x), SAB.array_stream(1:9000)); batch_size = 4), (done, total) -> (push!(seen, name => task_local_storage(:name)); done < last))
        outcome = Dict()
        streams = Dict("goes on" => waiting("goes on", 10_000), "is stopped" => waiting("is stopped", 4096))
        @sync for (name, stream) in streams
            @async (task_local_storage(:name, name); outcome[name] = status(() -> SAB.next!(stream)))
        end
        @test outcome == Dict("goes on" => nothing, "is stopped" => Raw.SAB_E_CANCELLED)
        @test seen == Set(name => name for name in keys(streams))
    end

    @testset "Julia functions do not run in threads of the library" begin
        for stream in (SAB.map_stream(identity, lines()), SAB.size_stream(length, lines()), SAB.batch_stream(SAB.iterable_stream(1:3), 2), SAB.select_stream(x -> 1:2, lines()),
                       SAB.zip_stream(SAB.map_stream(length, lines()), SAB.array_stream(1:3)), SAB.readahead_stream(lines(); batch_size = largest -> 2))
            @test thrown(() -> SAB.prefetch_stream(stream)) isa ArgumentError
            @test isopen(stream) # refused, not taken
        end
        @test occursin("thread of the library", message(() -> SAB.prefetch_stream(SAB.map_stream(identity, lines()))))
        thread = Threads.threadid()
        @test collect(SAB.map_stream(line -> Threads.threadid(), SAB.prefetch_stream(lines(), 8))) == fill(thread, 120)
    end
end
