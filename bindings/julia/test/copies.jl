# Deep copies of handles, and handles as bytes.

serialized(value) = (io = IOBuffer(); serialize(io, value); take!(io))
again(value) = deserialize(IOBuffer(serialized(value)))

# Features of batches, and peaks of 1000 + 100 * count * length bytes.
function made_measurements()
    shapes = [(count, length) for count in 1:5 for length in (1, 3, 9, 20)]
    return [shape[row] for row in 1:2, shape in shapes], [1000 + 100count * length for (count, length) in shapes]
end

indices_of(batches) = [collect(batch.indices) for batch in batches]

@testset "a plan goes through bytes" begin
    plan = SAB.Plan(made_sizes(300, 50); budget = 256)
    for other in (again(plan), deepcopy(plan))
        @test SAB.info(other).fingerprint == SAB.info(plan).fingerprint
        @test indices_of(SAB.BucketSampler(other; seed = 1)) == indices_of(SAB.BucketSampler(plan; seed = 1))
    end
    @test deepcopy(plan) === plan
    @test again((plan = plan, count = 3)).count == 3
    both = again([plan, plan])
    @test both[1] === both[2] && both[1] !== plan
    # One is closed, or collected, without the other.
    other = again(plan)
    close(other)
    @test isopen(plan) && !isopen(other)
    @test occursin("Plan is closed", message(() -> serialized(other)))
    foreach(_ -> deepcopy(Dict("plan" => plan)), 1:100)
    GC.gc()
    @test SAB.info(plan).samples == 300
end

@testset "another process reads a plan and a sampler" begin
    mktempdir() do folder
        sampler = SAB.BucketSampler(SAB.Plan(made_sizes(300, 50); budget = 256); seed = 3)
        foreach(_ -> SAB.next_batch!(sampler), 1:4)
        path = joinpath(folder, "sampler")
        open(io -> serialize(io, sampler), path, "w")
        code = "using SAB, Serialization; print(collect(next_batch!(open(deserialize, $(repr(path)))).indices))"
        package = dirname(dirname(pathof(SAB)))
        @test read(`$(Base.julia_cmd()) --project=$package --startup-file=no -e $code`, String) == string(collect(SAB.next_batch!(sampler).indices))
    end
end

@testset "what does not change is shared by deep copies" begin
    sizes, cost = SAB.Sizes([3, 1, 2]), SAB.Cost(:quadratic)
    features, peaks = made_measurements()
    model = SAB.MemoryModel(features, peaks)
    histogram = SAB.Histogram(sizes)
    shared = [sizes, cost.given, model, SAB.Grouping([1, 9, 3] => [5]), SAB.plan_step([3, 1, 2]; budget = 4), SAB.ContextPlan([4, 2]; world_size = 2, budget = 8),
        SAB.Packing(histogram, 4), SAB.Cache("memory:")]
    for handle in shared
        @test deepcopy(handle) === handle
        @test deepcopy([handle, handle])[2] === handle
    end
    mixture = SAB.Mixture((a = [1, 2], b = [3]))
    @test deepcopy(mixture).sizes === mixture.sizes
    # A histogram changes.
    other = deepcopy(histogram)
    SAB.merge!(other, histogram)
    @test (SAB.info(histogram).samples, SAB.info(other).samples) == (3, 6)
    @test SAB.info(again(histogram)).fingerprint == SAB.info(histogram).fingerprint
end

@testset "what can be made again is serialized" begin
    features, peaks = made_measurements()
    model = SAB.MemoryModel(features, peaks)
    @test again(model)(4, 100) == model(4, 100)
    for cost in (SAB.Cost(:quadratic), SAB.Cost([1.0, 2.0, 3.0]), SAB.Cost(model), SAB.weighted([2.0]))
        @test again(cost)(4, 100) == cost(4, 100)
    end
    @test again(SAB.Budget(9; cost = :quadratic)).limit == 9
    histogram = SAB.Histogram([3, 1, 2, 2])
    packing = SAB.Packing(histogram, 4)
    SAB.merge!(histogram, histogram)
    @test SAB.patterns(again(packing)) == SAB.patterns(packing)
    for given in ((budget = 40,), (budget = SAB.Budget(600; cost = :quadratic), world_size = 2, groups = [1, 1, 2, 2, 3, 3], layout = :padded))
        lengths = [9, 20, 3, 14, 7, 7]
        plan = SAB.plan_step(lengths; given...)
        lengths .= 1
        other = again(plan)
        @test (other.indices, other.offsets, other.costs) == (plan.indices, plan.offsets, plan.costs)
    end
    mktempdir() do folder
        cache = SAB.Cache("lmdb:" * joinpath(folder, "cache"); dataset_name = "set", writer_buffer_size = 10)
        cache["a"] = [1, 2]
        bytes = serialized(cache)
        close(cache)
        @test get(deserialize(IOBuffer(bytes)), "a", nothing) == [1, 2]
    end
end

@testset "mixtures and their plans are serialized" begin
    a, b = made_sizes(100, 50), made_sizes(60, 50)
    ids = repeat([5, 9]; inner = 80)
    for mixture in (SAB.Mixture((a = a, b = b); repeat = (b = 2.5,), seed = 4), SAB.Mixture(["a" => (x = a, y = a), "b" => (x = b, y = b)]; temperature = 2),
                    SAB.Mixture([a; b]; sources = ids, repeat = Dict(5 => 0.5), schedule = [2 => Dict(9 => 2)]))
        other = again(mixture)
        for epoch in (0, 2)
            @test SAB.sources(other; epoch = epoch) == SAB.sources(mixture; epoch = epoch)
            @test SAB.counts(other; epoch = epoch) == SAB.counts(mixture; epoch = epoch)
        end
        plan = SAB.Plan(mixture; budget = 512)
        @test indices_of(SAB.BucketSampler(again(plan))) == indices_of(SAB.BucketSampler(plan))
    end
end

# Samplers that can be made again.
function remade_samplers()
    sizes = made_sizes(300, 50)
    plan = SAB.Plan(sizes; budget = 256)
    pairs = (source = sizes, target = reverse(sizes))
    return [
        () -> SAB.BucketSampler(plan; seed = 3, rank = 1, world_size = 2, micro_batches = 2), () -> SAB.SequentialSampler(plan), () -> SAB.OrderedSampler(sizes, 100),
        () -> SAB.OrderedSampler(SAB.Sizes(sizes; copy = false), 100; indices = reverse(1:300)), () -> SAB.PackedSampler(sizes, 64; seed = 2, balance = :quadratic),
        () -> SAB.PackedSampler(pairs, (source = 100, target = 120)), () -> SAB.PackedSampler(SAB.Mixture((a = sizes, b = sizes)), 64),
        () -> SAB.BalancedSampler(sizes; samples = 20, seed = 5), () -> SAB.BalancedSampler(SAB.Sizes(pairs); budget = (source = 600,), balance = (count, lengths, totals) -> sum(totals)),
        () -> SAB.BaguaSampler(sizes; batch_size = 3, shuffle = false), () -> SAB.BaguaBatchSampler(sizes; budget = 200),
        () -> SAB.BaguaBatchSampler(sizes; make_batches = samples -> [samples[1:100], samples[101:300]])
    ]
end

@testset "a copy of a bionemo sampler walks its passes again" begin
    plan = SAB.Plan(made_sizes(300, 50); boundaries = [0, 20, 51], batch_size = 4)
    for make in (() -> SAB.BionemoSampler(plan; seed = 3), () -> SAB.BionemoSampler(plan; seed = 3, budget = 90, sizes = made_sizes(300, 50))), copied in (deepcopy, again)
        sampler = make()
        @test indices_of(copied(sampler)) == indices_of(make())
        passes = [indices_of(sampler) for _ in 1:3]
        sampler = make()
        foreach(_ -> nothing, sampler)
        @test indices_of(copied(sampler)) == passes[2]
        SAB.begin!(sampler)
        SAB.next_batch!(sampler)
        other = copied(sampler)
        @test [collect(SAB.next_batch!(other).indices) for _ in 2:length(passes[2])] == passes[2][2:end]
        @test SAB.next_batch!(other) === nothing && indices_of(other) == passes[3]
    end
    sampler = SAB.set_generator!(SAB.BionemoSampler(plan), SAB.generator(SAB.BionemoSampler(plan; seed = 9)))
    @test thrown(() -> deepcopy(sampler)) isa ArgumentError
end

@testset "a copy of a sampler is where the sampler is, and goes on alone" begin
    for make in remade_samplers(), copied in (deepcopy, again)
        first = indices_of(make())
        second = indices_of(SAB.set_epoch!(make(), 1))
        # Nothing was taken.
        sampler = make()
        other = copied(sampler)
        @test indices_of(other) == first && position(sampler) == 0
        # A pass is under way: what is left of it, and then a loop from its start.
        sampler = make()
        SAB.next_batch!(sampler)
        other = copied(sampler)
        @test (position(other), SAB.epoch(other)) == (1, 0)
        @test [collect(SAB.next_batch!(other).indices) for _ in 2:length(first)] == first[2:end]
        @test position(sampler) == 1
        @test indices_of(copied(sampler)) == indices_of(sampler) == first
        # It has ended.
        @test indices_of(copied(sampler)) == indices_of(sampler) == second
        # A state was restored.
        sampler = SAB.restore!(make(), SAB.state(make(), 1))
        @test indices_of(copied(sampler)) == first[2:end]
    end
    sampler = SAB.BucketSampler(SAB.Plan(made_sizes(300, 50); budget = 256))
    SAB.set_budget!(sampler, 128)
    @test (SAB.budget(deepcopy(sampler)), SAB.batch_count(again(sampler))) == (128, SAB.batch_count(sampler))
    # It was lowered while a pass is under way, on ranks that others have become.
    plan = SAB.Plan(made_sizes(900, 50); budget = 256)
    four = SAB.BucketSampler(plan; rank = 1, world_size = 4)
    foreach(_ -> SAB.next_batch!(four), 1:3)
    sampler = SAB.restore!(SAB.BucketSampler(plan; rank = 1, world_size = 2), SAB.state(four))
    for taken in 1:3, copied in (deepcopy, again)
        SAB.next_batch!(sampler)
        taken == 2 && SAB.set_budget!(sampler, 128)
        other = copied(sampler)
        @test (position(other), SAB.budget(other), SAB.state(other)) == (position(sampler), SAB.budget(sampler), SAB.state(sampler))
    end
    # The sizes that it was made from have changed.
    sizes = collect(1:50)
    sampler = SAB.PackedSampler(sizes, 64)
    sizes .= 7
    @test status(() -> deepcopy(sampler)) == Raw.SAB_E_MISMATCH
end

@testset "what cannot be copied says what to do" begin
    plan = SAB.Plan([1, 2]; budget = 4)
    cases = [
        SAB.Probe("host") => "Probe cannot be copied or serialized: make a probe in each process",
        SAB.MemoryGuard(SAB.BucketSampler(plan), SAB.Probe("host"); budget = 2^40) => "MemoryGuard cannot be copied or serialized: make it in the process that trains",
        SAB.map_stream(identity, SAB.array_stream([1])) => "Stream cannot be copied or serialized: make the same pipeline, and restore!",
        SAB.ShardedSampler([1, 2], bytes -> [bytes]; rank = 0, world_size = 1, budget = 4) => "ShardedSampler cannot be copied or serialized: the ranks make it together",
        SAB.BionemoSizeAwareStream((epoch, position) -> nothing, 3) => "BionemoSizeAwareStream cannot be copied or serialized: it has no state"
    ]
    for (handle, words) in cases, attempt in (deepcopy, serialized)
        @test occursin(words, message(() -> attempt([handle])))
    end
    only_serialized = [
        SAB.Sizes([1]) => "Sizes cannot be copied or serialized: serialize the vector or path", SAB.Grouping([1, 9] => [5]) => "Grouping cannot be copied or serialized: serialize its group_of",
        SAB.ContextPlan([4, 2]; world_size = 2, budget = 8) => "ContextPlan cannot be copied or serialized: serialize the lengths"
    ]
    for (handle, words) in only_serialized
        @test occursin(words, message(() -> serialized(handle)))
    end
end
