# Functions that the library runs: what they throw, stop, and collect.

struct Mine <: Exception
    number::Int
end

many() = SAB.Sizes(i -> 1 + i % 40, 1000)

@testset "what a function throws comes out as it is" begin
    plan = SAB.Plan(many(); boundaries = [0, 20, 41], batch_size = 4)
    probe = SAB.Probe(SAB.Device(; reset = () -> 0, current = () -> 0, peak = () -> 10, total = () -> 100))
    broken = SAB.Probe(SAB.Device(; reset = () -> throw(Mine(7)), current = () -> 0, peak = () -> 0, total = () -> 1))
    fail = (arguments...) -> throw(Mine(3))
    calls = [
        () -> SAB.Sizes(i -> i == 7 ? throw(Mine(3)) : 1, 10),
        () -> SAB.Sizes(i -> 1, 10; progress = fail),
        () -> SAB.Plan(many(); budget = 100, cost = fail),
        () -> SAB.Plan(many(); budget = 100, progress = fail),
        () -> SAB.report(plan; progress = fail),
        () -> SAB.next_batch!(SAB.BionemoSizeAwareStream(fail, 10)),
        () -> collect(SAB.BionemoSampler(plan; budget = 10, sizes = fail)),
        () -> SAB.PackedSampler([1, 2], 4; progress = fail),
        () -> SAB.Plan(many(); budget = [100, SAB.Budget(100; cost = fail)]),
        () -> SAB.Cost(fail)(1, 2),
        () -> SAB.measurement_points(1, 9, 4; max_count = 8, budget = 9, cost = fail, degree = 1),
        () -> SAB.PackedSampler(many(), 50; balance = fail),
        () -> SAB.BalancedSampler(many(); budget = 100, cost = fail),
        () -> SAB.BalancedSampler(many(); samples = 10, balance = fail),
        () -> SAB.partition(fill(1.5, 100_000), 7; progress = fail),
        () -> SAB.BaguaBatchSampler(many(); make_batches = fail),
        () -> SAB.check_ranks(SAB.BucketSampler(plan), fail; rank = 0, world_size = 1),
        () -> SAB.ShardedSampler(many(), fail; rank = 0, world_size = 1, budget = 100),
        () -> SAB.ShardedSampler(many(), bytes -> [bytes]; rank = 0, world_size = 1, budget = 100, cost = fail),
        () -> SAB.find_max_batch(fail, probe),
        () -> SAB.collect_peak(fail, [1], probe),
        () -> SAB.collect_peak(identity, [1], probe; cleanup = fail),
        () -> SAB.step_in_chunks(fail, 3, probe),
        () -> SAB.step_in_chunks((samples, weight) -> 0, 3, probe; prepare = fail),
        () -> SAB.verify(fail, plan, probe),
        () -> SAB.find_max_batch((count, length) -> 0, probe; reduce = fail),
        () -> SAB.grow_batch_size(fail, 1, 2, 3),
        () -> SAB.find_thresholds(many(), 2; cost = fail),
        () -> get!(fail, SAB.Cache("memory:"), "key"),
        () -> collect(SAB.map_stream(fail, SAB.array_stream([1]))),
        () -> collect(SAB.size_stream(fail, SAB.array_stream([1]))),
        () -> collect(SAB.select_stream(fail, SAB.array_stream([1]))),
        () -> collect(SAB.recurrent_stream(fail, SAB.array_stream([1]), 0)),
        () -> collect(SAB.random_map_stream(fail, SAB.array_stream([1]))),
        () -> collect(SAB.iterable_stream(throw(Mine(3)) for _ in 1:2)),
        () -> collect(SAB.readahead_stream(SAB.array_stream([1, 2]); batch_size = fail)),
        () -> collect(SAB.readahead_stream(SAB.array_stream([1, 2]); batch_size = 1, boundary_key = fail)),
    ]
    for (number, call) in enumerate(calls)
        @test (number, thrown(call)) == (number, Mine(3))
    end
    @test thrown(() -> SAB.stats(broken)) === nothing
    @test thrown(() -> SAB.reset!(broken)) == Mine(7)
    @test thrown(() -> SAB.Sizes(i -> "three", 3)) isa MethodError # what Julia itself throws
    @test thrown(() -> SAB.Sizes(i -> throw(InterruptException()), 3)) isa InterruptException
    # After failures, the library's own.
    @test status(() -> SAB.Sizes(i -> NaN, 3)) == Raw.SAB_E_ARGUMENT
end

@testset "a handle that a function closes is freed after the call" begin
    freed = Ref(0)
    for (use, make) in (
        ((sizes, shut) -> SAB.Plan(sizes; budget = 100, progress = shut), () -> SAB.Sizes(made_sizes(1000, 50))),
        ((sizes, shut) -> SAB.Plan(sizes; budget = 100, cost = (count, length) -> (shut(); count * length)), () -> SAB.Sizes(made_sizes(1000, 50))),
        ((plan, shut) -> SAB.report(plan; progress = shut), () -> SAB.Plan(made_sizes(1000, 50); budget = 100)),
        ((probe, shut) -> SAB.step_in_chunks((samples, weight) -> shut(), 3, probe), () -> SAB.Probe("host")),
        ((plan, shut) -> SAB.verify(batch -> shut(), plan, SAB.Probe("host")), () -> SAB.Plan(made_sizes(1000, 50); budget = 100)),
        ((sampler, shut) -> SAB.check_ranks(sampler, bytes -> (shut(); [bytes]); rank = 0, world_size = 1), () -> SAB.BucketSampler(SAB.Plan([1, 2]; budget = 9))),
    )
        handle, waiting = make(), Int[]
        use(handle, (arguments...) -> (close(handle); push!(waiting, length(task_local_storage(SAB.CLOSED))); nothing))
        @test waiting[end] == 1 # not freed by the function
        @test !isopen(handle)
        @test !haskey(task_local_storage(), SAB.CLOSED)
    end
end

@testset "progress stops a call by false" begin
    seen = Tuple{Int,Int}[]
    SAB.Plan(many(); budget = 100, progress = (done, total) -> (push!(seen, (done, total)); nothing))
    @test !isempty(seen) && all(((done, total),) -> 0 <= done <= total, seen)
    @test status(() -> SAB.Plan(many(); budget = 100, progress = (done, total) -> false)) == Raw.SAB_E_CANCELLED
end

@testset "a sampler goes on after its function failed" begin
    failing = Ref(true)
    source = (epoch, position) -> position == 3 && failing[] ? throw(Mine(1)) : position < 5 ? (position, 1.0) : nothing
    sampler = SAB.BionemoSizeAwareStream(source, 2)
    @test SAB.next_batch!(sampler).indices == [0, 1]
    @test thrown(() -> SAB.next_batch!(sampler)) == Mine(1)
    failing[] = false
    @test SAB.next_batch!(sampler).indices == [2, 3]
    @test SAB.next_batch!(sampler).indices == [4]
    @test SAB.next_batch!(sampler) === nothing
end

@testset "a function may yield, and keep its task in its thread" begin
    order = String[]
    other = @async push!(order, "other task")
    thread = Threads.threadid()
    threads = Int[]
    sizes = SAB.Sizes(i -> (yield(); push!(threads, Threads.threadid()); i), 5)
    @test unique(threads) == [thread]
    wait(other)
    @test sizes[5] == 5
    @test !current_task().sticky || Threads.threadid() == thread
end

@testset "garbage collected inside functions and between calls" begin
    plans = map(1:20) do round
        sizes = SAB.Sizes(i -> (i % 20 == 0 && GC.gc(false); [i % 9 + 1][1]), 200; progress = (done, total) -> GC.gc(false))
        plan = SAB.Plan(sizes; budget = 40, cost = (count, length) -> (GC.gc(false); count * length), boundaries = [1.0, 5.0, 10.0])
        GC.gc()
        plan
    end
    GC.gc()
    for plan in plans
        @test sort(joined(walk(SAB.BucketSampler(plan)))) == 1:200
    end
    # temporaries that only the library's handles know: sizes of a sampler, functions of a sampler
    # and of a stream, what a stream's records hold
    samplers = [SAB.OrderedSampler(fill(round, 100), 5round) for round in 1:50]
    streams = [SAB.BionemoSizeAwareStream(let count = round; (epoch, position) -> position < count ? (position, 1) : nothing end, 3) for round in 1:50]
    buffered = [SAB.buffered_shuffle_stream(SAB.map_stream(x -> (GC.gc(false); [x, round]), SAB.array_stream(1:20)), 8) for round in 1:3]
    GC.gc()
    @test all(round -> all(==(5), length.(walk(samplers[round]))) && length(joined(walk(streams[round]))) == round, 1:50)
    @test all(round -> sort(map(first, collect(buffered[round]))) == 1:20, 1:3)
    samplers = streams = buffered = nothing
    GC.gc() # finalizers, of streams that hold records of Julia's too
    half = SAB.buffered_shuffle_stream(SAB.map_stream(x -> fill(x, 10), SAB.array_stream(1:100)), 50)
    foreach(_ -> SAB.next!(half), 1:30)
    home = half.stages[1].main.home
    @test length(home) >= 20 # kept for the library
    close(half)
    @test isempty(home) # and let go of
    for _ in 1:20 # handles dropped at once, whose finalizers run while others work
        foreach(round -> SAB.BucketSampler(SAB.Plan([1, 2, 3]; budget = 5)), 1:50)
        GC.gc(false)
    end
    iterated = 0
    # Nothing else holds the sampler.
    for batch in SAB.BucketSampler(SAB.Plan(fill(1, 1000); budget = 10))
        GC.gc(false)
        iterated += length(batch)
    end
    @test iterated == 1000
end
