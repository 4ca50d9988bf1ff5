# Several threads at once: run with JULIA_NUM_THREADS=4, and as well with 1.

@testset "samplers in $(Threads.nthreads()) threads over one plan" begin
    plan = SAB.Plan(made_sizes(3000, 100); budget = 1024)
    alone = [walk(SAB.BucketSampler(plan; seed = seed)) for seed in 1:16]
    same = fill(false, 16)
    Threads.@threads for seed in 1:16
        sampler = SAB.BucketSampler(plan; seed = seed)
        batches = walk(sampler)
        seed % 4 == 0 && GC.gc(false)
        SAB.set_epoch!(sampler, 0)
        again = [collect(sampler[step].indices) for step in 1:SAB.batch_count(sampler)]
        same[seed] = batches == again == alone[seed]
    end
    @test all(same)
end

@testset "functions and failures in $(Threads.nthreads()) threads" begin
    outcomes = Vector{Any}(undef, 32)
    Threads.@threads for number in 1:32
        outcomes[number] = if number % 2 == 0
            thrown(() -> SAB.Sizes(i -> i == number ? throw(Mine(number)) : (isodd(i) && GC.gc(false); 1.0), 40))
        else
            message(() -> SAB.Plan([1, 2]; budget = -number)) # messages are of the thread
        end
    end
    @test all(number -> number % 2 == 0 ? outcomes[number] == Mine(number) : occursin("budget = -$number:", outcomes[number]), 1:32)
    walks = Vector{Any}(undef, 8)
    Threads.@threads for number in 1:8
        stream = SAB.map_stream(x -> fill(x, number), SAB.block_shuffle_stream(SAB.array_stream(1:500), 100; seed = number))
        number % 2 == 0 && (stream = SAB.buffered_shuffle_stream(stream, 50))
        walks[number] = sort(map(first, stream))
    end
    @test all(==(1:500), walks)
end

@testset "handles of other threads' making, finalized anywhere" begin
    held = [SAB.BucketSampler(SAB.Plan(fill(1, 100); budget = 10)) for _ in 1:200]
    Threads.@threads for number in 1:200
        @assert sum(length, held[number]) == 100
        number % 2 == 0 && close(held[number])
        number % 20 == 0 && GC.gc(false)
    end
    @test count(isopen, held) == 100
    held = nothing
    GC.gc()
    GC.gc()
end

@testset "one makes a value while other threads wait and collect garbage" begin
    cache, made = SAB.Cache("memory:"), Threads.Atomic{Int}(0)
    values = Vector{Any}(undef, 8)
    Threads.@threads for number in 1:8
        values[number] = get!(cache, "slow") do
            Threads.atomic_add!(made, 1)
            foreach(_ -> (GC.gc(false); zeros(1000)), 1:20) # needs all threads
            [1, 2, 3]
        end
    end
    @test all(==([1, 2, 3]), values)
    @test made[] == 1
end
