# Values made once and kept.

@testset "cache" begin
    mktempdir() do folder
        for url in ("memory:", "lmdb:" * joinpath(folder, "cache"))
            cache = SAB.Cache(url; dataset_name = "set")
            made = Ref(0)
            @test [get!(() -> (made[] += 1; [1.5, 2]), cache, key) for key in ("a", "b", "a", 7, 7)] == fill([1.5, 2], 5)
            @test made[] == 3
            cache["c"] = Dict(:x => (1, "y"))
            @test get(cache, "c", nothing) == Dict(:x => (1, "y"))
            @test get(cache, "none", 5) == 5
            SAB.put_many!(cache, ["d" => 1, "e" => nothing])
            @test SAB.get_many(cache, ["d", "e", "f", UInt8[0, 1]], :none) == [1, nothing, :none, :none]
            flush(cache)
            @test SAB.key_count(cache) == 6
            @test SAB.stats(cache).loads == 3
            @test thrown(() -> get!(() -> throw(Mine(5)), cache, "g")) == Mine(5)
            # A value that needs another.
            @test get!(() -> get!(() -> 8, cache, "inner") + 1, cache, "outer") == 9
            @test occursin("makes a value", message(() -> get!(() -> close(cache), cache, "h")))
            @test startswith(repr(cache), "Cache(" * (url == "memory:" ? "memory:" : "lmdb:"))
            name = UInt8[1, 2, 3]
            # The key is read before the function runs.
            @test get!(() -> (fill!(name, 9); 7), cache, name) == 7
            @test get(cache, UInt8[1, 2, 3], 0) == 7
            empty!(cache)
            @test SAB.key_count(cache) == 0
        end
        SAB.Cache("lmdb:" * joinpath(folder, "own"))
        SAB.Cache("lmdb:" * joinpath(folder, "all"); file_mode = 0o666)
        @test filemode(joinpath(folder, "own")) & 0o777 == 0o600
        @test filemode(joinpath(folder, "all")) & 0o600 == 0o600
        @test occursin("file_mode = 256", message(() -> SAB.Cache("memory:"; file_mode = 0o400)))
        @test occursin("call_timeout = -1", message(() -> SAB.Cache("memory:"; call_timeout = -1)))
        @test !occursin("secret", repr(SAB.Cache("redis://:secret@127.0.0.1:1")))
        url = "lmdb:" * joinpath(folder, "bytes")
        SAB.put_many!(SAB.Cache(url; serializer = :bytes), ["a" => UInt8[255, 255], "b" => UInt8[1]])
        # Nothing that Julia has serialized.
        @test thrown(() -> SAB.get_many(SAB.Cache(url), ["a", "b"])) !== nothing
        raw = SAB.Cache("memory:"; serializer = :bytes)
        raw["a"] = UInt8[1, 2]
        raw["empty"] = UInt8[]
        @test (get(raw, "a", 0), get(raw, "empty", 0)) == ([1, 2], [])
        # A value that another call is making is waited for, unless load_wait is 0.
        hasty = SAB.Cache("memory:"; load_wait = 0)
        @test get!(() -> fetch(Threads.@spawn get!(() -> 1, hasty, "k")) + 1, hasty, "k") == 2
    end
end
