# Every way in which the layer says no: what the library refuses, and what does not get so far.

message(call) = sprint(showerror, thrown(call))

@testset "refusals of the library" begin
    plan = SAB.Plan([1, 2, 3]; budget = 10)
    sampler = SAB.BucketSampler(plan)
    @test message(() -> SAB.Plan([1, 2]; budget = -1)) == "SABError: budget = -1: must be finite and above 0 (SAB_E_ARGUMENT)"
    @test status(() -> read(IOBuffer(take!(image(plan))[1:(end - 1)]), SAB.Plan)) == Raw.SAB_E_FORMAT
    saved = SAB.state(sampler)
    @test status(() -> SAB.restore!(sampler, saved[1:10])) == Raw.SAB_E_FORMAT
    @test status(() -> SAB.restore!(SAB.BucketSampler(plan; seed = 1), saved)) == Raw.SAB_E_MISMATCH
    @test status(() -> seek(sampler, 100)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.set_budget!(SAB.PackedSampler([1, 2], 4), 2)) == Raw.SAB_E_UNSUPPORTED
    @test status(() -> SAB.Probe("cpu")) == Raw.SAB_E_UNSUPPORTED
    @test status(() -> SAB.find_thresholds([1, 2, 3], 9)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.Cache("nothing:")) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.torch_open("/nowhere/libsab_torch.so")) == Raw.SAB_E_IO
    @test status(() -> SAB.ranks_from_mesh([2], [1], 2)) == Raw.SAB_E_ARGUMENT
    withenv("RANK" => "2", "WORLD_SIZE" => "x") do
        @test status(SAB.ranks) == Raw.SAB_E_ARGUMENT
    end
    @test SAB.position(sampler) == 0 # a failed call changes nothing
end

@testset "refusals of the layer" begin
    plan = SAB.Plan([1, 2, 3]; budget = 10)
    sampler = SAB.BucketSampler(plan)
    @test message(() -> SAB.Plan([1]; budget = 1, tail = :lose)) == "ArgumentError: tail = :lose: must be one of :keep, :drop, :wrap"
    @test message(() -> SAB.Plan([1]; budget = 1, max_batch_size = -1)) == "ArgumentError: max_batch_size = -1: must be a whole number from 0 to 18446744073709551615"
    @test message(() -> SAB.BucketSampler(plan; seed = 1.5)) == "ArgumentError: seed = 1.5: must be a whole number from 0 to 18446744073709551615"
    for call in (() -> SAB.Plan([1]; budget = 1, buckets = 2, boundaries = [0, 2]), () -> SAB.Plan([1]; budget = 1, drop_last = true, tail = :keep), () -> SAB.Plan([1]; budget = 1, buckets = :few),
                 () -> SAB.Plan([1]; budget = 1, cost = :cubic), () -> SAB.BucketSampler(plan; last_step = "lose"), () -> SAB.set_epoch!(sampler, -1), () -> seek(sampler, -1),
                 () -> SAB.Plan([1]; budget = SAB.Budget(1), cost = :padded), () -> SAB.Plan([1]; budget = 1, cost = [1]), () -> SAB.Cost(["a"]), () -> SAB.Cost(1),
                 () -> SAB.BalancedSampler([1]; samples = 1, balance = :cubic), () -> SAB.measurement_points(1, 2, 3; budget = [1, 2]), () -> SAB.budget(sampler; index = 0),
                 () -> SAB.partition([1, 2], 2; weights = [1], capacity = 1), () -> SAB.ranks_from_mesh([1, 2], [1], 0),
                 () -> SAB.set_generator!(SAB.BionemoSampler(SAB.Plan([1, 2]; boundaries = [1, 3], batch_size = 1)), UInt32[1]), () -> SAB.array_stream(["a"]),
                 () -> SAB.zip_stream(SAB.array_stream([1]), SAB.list_stream(["a"])), () -> SAB.unpad(zeros(2, 2), [1]), () -> SAB.ragged_mask([1 2]; shape = [1, 2]),
                 () -> SAB.Cache("memory:"; serializer = :pickle), () -> setindex!(SAB.Cache("memory:"; serializer = :bytes), 1, "key"), () -> SAB.MemoryModel([1.0 2; 3 4], [1.0]))
        @test thrown(call) isa ArgumentError
    end
    array() = SAB.array_stream([1, 2])
    for (call, name) in ((() -> SAB.check_ranks(sampler, bytes -> [bytes]; rank = -1, world_size = 1), "rank"), (() -> SAB.Sizes(identity, -1), "count"), (() -> SAB.Grouping(-1), "samples"),
                         (() -> SAB.predefined_grouping([1]; groups = -1), "groups"), (() -> SAB.find_thresholds([1, 2], -1), "k"), (() -> SAB.random_stream(-1), "seed"),
                         (() -> SAB.shard_stream(array(), -1, 2), "rank"), (() -> SAB.shard_stream(array(), 0, -1), "world_size"), (() -> SAB.batch_stream(array(), -1), "batch_size"),
                         (() -> SAB.window_stream(array(), -1), "width"), (() -> SAB.block_shuffle_stream(array(), -1), "size"),
                         (() -> SAB.buffered_shuffle_stream(array(), 2; seed = -1), "seed"), (() -> SAB.random_map_stream(rand, array(); seed = -1), "seed"),
                         (() -> SAB.prefetch_stream(array(), -1), "buffer_size"), (() -> SAB.grow_batch_size_linear(-1, 1, 1, 1, 1), "epoch"), (() -> SAB.grow_batch_size_doubling(1, -1, [1], 1), "start"),
                         (() -> SAB.measurement_points(1, 2, -1), "points"))
        least = name == "start" ? 1 : 0
        @test startswith(message(call), "ArgumentError: $name = -1: must be a whole number from $least to ")
    end
    for (given, index) in ((sampler, 0), (sampler, 2), (SAB.Sizes([1]), 2), (SAB.Sizes([1]), 0))
        @test thrown(() -> given[index]) isa BoundsError
    end
    @test thrown(() -> SAB.Plan([1]; budget = 1, nonsense = 1)) isa MethodError
end

@testset "closed handles" begin
    plan = SAB.Plan([1, 2, 3]; budget = 10)
    sampler = SAB.BucketSampler(plan)
    sizes, cache, stream, grouping = SAB.Sizes([1, 2]), SAB.Cache("memory:"), SAB.array_stream([1]), SAB.Grouping(2)
    for handle in (plan, sizes, cache, stream, grouping)
        @test isopen(handle)
        close(handle)
        close(handle) # again
        @test !isopen(handle)
    end
    @test SAB.batch_count(sampler) == 1 # what was made from a handle lives on
    close(sampler)
    for call in (() -> SAB.info(plan), () -> SAB.BucketSampler(plan), () -> SAB.next_batch!(sampler), () -> SAB.batch_count(sampler), () -> SAB.state(sampler), () -> SAB.next!(stream),
                 () -> SAB.map_stream(identity, stream), () -> get(cache, "key", 0), () -> SAB.Plan(sizes; budget = 1))
        @test thrown(call) isa ArgumentError
    end
    @test message(() -> SAB.info(plan)) == "ArgumentError: Plan is closed"
    @test repr.((plan, sampler, sizes, cache)) == ("Plan(closed)", "BucketSampler(closed)", "Sizes(closed)", "Cache(closed)")
    source = SAB.array_stream([1, 2])
    taken = SAB.batch_stream(source, 2)
    @test !isopen(source) # a stage takes its source
    other = SAB.array_stream([1, 2])
    @test status(() -> SAB.batch_stream(other, 0)) == Raw.SAB_E_ARGUMENT
    @test collect(other) == [1, 2] # but not when it fails
end
