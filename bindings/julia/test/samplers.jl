# Sizes, plans and samplers as Julia shows them.

# Lists end to end.
joined(lists) = reduce(append!, lists; init = Int[])
walk(sampler) = [collect(batch.indices) for batch in sampler]

@testset "sizes" begin
    for T in (Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float32, Float64)
        @test [SAB.Sizes(T[3, 1, 2])[i] for i in 1:3] == [3, 1, 2] == collect(SAB.Sizes(T[3, 1, 2]))
    end
    for copy in (true, false)
        every_other = SAB.Sizes(view([3, 9, 1, 9, 2, 9], 1:2:5); copy = copy)
        @test (length(every_other), every_other[1], every_other[2], every_other[end]) == (3, 3.0, 1.0, 2.0)
    end
    @test SAB.Sizes(1:4)[4] == 4 # a range is copied
    @test SAB.Sizes(BigFloat[2.5])[1] == 2.5
    @test SAB.Sizes(i -> 10i, 3)[1] == 10 # functions are asked about 1:count
    @test length(SAB.Sizes(Int[])) == 0
    mktempdir() do folder
        path = joinpath(folder, "sizes.npy")
        header = rpad("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", 117) * "\n"
        write(path, "\x93NUMPY\x01\x00", UInt16(length(header)), header, Int32[7, 8, 9])
        @test SAB.Sizes(path)[3] == 9
    end
    @test repr(SAB.Sizes([1, 2])) == "Sizes(2 samples)"
end

@testset "plan" begin
    plan = quietly(() -> SAB.Plan([3, 1, 2, 3, 9]; budget = 6, boundaries = [1, 3, 4], oversize = :skip))
    facts = SAB.info(plan)
    @test (facts.samples, facts.skipped, facts.buckets, facts.total) == (5, 1, 2, 9.0)
    @test SAB.skipped(plan) == [5] # from 1
    @test [(b.lower, b.upper, b.samples, b.batch_size) for b in SAB.buckets(plan)] == [(1.0, 3.0, 2, 3), (3.0, 4.0, 2, 2)]
    report = SAB.report(plan)
    @test (report.samples, report.batches, report.skipped) == (5, 2, 1)
    @test 0 < report.padding < 0.2
    @test occursin("padding", string(report))
    @test repr(plan) == "Plan(5 samples in 2 batches, 2 buckets)"
    @test_logs (:warn, r"1 samples are outside") SAB.Plan([1, 99]; budget = 6, oversize = :skip)
    mktempdir() do folder
        @test write(joinpath(folder, "plan"), plan) == filesize(joinpath(folder, "plan")) == write(IOBuffer(), plan)
        for other in (read(joinpath(folder, "plan"), SAB.Plan), read(image(plan), SAB.Plan))
            @test SAB.info(other).fingerprint == facts.fingerprint
            @test walk(SAB.BucketSampler(other; seed = 3)) == walk(SAB.BucketSampler(plan; seed = 3))
        end
    end
    @test SAB.create_buckets([1, 2, 3, 4, 5], 2, 2) == ([1, 3, 5, 6], [2, 2, 1])
    sizes = made_sizes(3000, 90)
    # A constant, 1 a sample, 1 a token.
    @test SAB.report(SAB.Plan(sizes; budget = 512, cost = [10.0, 1.0, 1.0])).batches > SAB.report(SAB.Plan(sizes; budget = 512)).batches
    @test all(b -> b.cost <= 5000, SAB.buckets(quietly(() -> SAB.Plan(sizes; budget = 5000, cost = :quadratic, oversize = :skip))))
    few = SAB.Plan(sizes; budget = 512, max_shapes = 5)
    @test length(SAB.shapes(few)) <= 5 && isempty(SAB.shape_paddings(few))
    for rank in 0:3
        sampler = SAB.BucketSampler(few; rank = rank, world_size = 4)
        @test SAB.shapes(sampler) == SAB.shapes(few)
        @test all(isempty(batch.indices) || (length(batch) => batch.padded_length) in SAB.shapes(few) for batch in sampler)
    end
    auto = SAB.Plan(sizes; budget = 512, shapes = :auto, padding = 0.05)
    @test SAB.report(auto).padding <= 0.05 && length(SAB.shapes(auto)) <= last(first.(SAB.shape_paddings(auto)))
    @test SAB.info(SAB.Plan(sizes; budget = 512, max_shapes = 0)).fingerprint == SAB.info(SAB.Plan(sizes; budget = 512)).fingerprint
    @test SAB.info(SAB.Plan(sizes; budget = 512, length_multiple = 8)).fingerprint != SAB.info(SAB.Plan(sizes; budget = 512, length_multiple = 0)).fingerprint
    @test all(b -> b.batch_size <= 3, SAB.buckets(SAB.Plan(sizes; batch_size = 3)))
    @test length(SAB.buckets(SAB.Plan(sizes; budget = 512, buckets = 7))) == 7
end

@testset "an epoch is a pure function of seed and epoch" begin
    plan = SAB.Plan(made_sizes(2000, 100); budget = 1024)
    sampler = SAB.BucketSampler(plan; seed = 1)
    first = walk(sampler)
    @test SAB.next_batch!(sampler) === nothing # the end stays the end
    second = walk(SAB.set_epoch!(sampler, 1))
    @test first != second
    @test walk(SAB.set_epoch!(sampler, 0)) == first
    @test walk(SAB.BucketSampler(plan; seed = 2)) != first
    @test walk(SAB.BucketSampler(plan; seed = 1, epoch = 1)) == second
    SAB.set_epoch!(sampler, 0)
    # And the cursor has not moved.
    @test [collect(sampler[step].indices) for step in 1:SAB.batch_count(sampler)] == first
    @test (position(sampler), SAB.epoch(sampler)) == (0, 0)
    @test collect(sampler[end].indices) == first[end]
    seek(sampler, 4)
    @test position(sampler) == 4
    @test walk(sampler) == first[5:end]
    @test repr(seek(sampler, 2)) == "BucketSampler(batch 2 of epoch 0)"
    costs = [SAB.padded_total(batch) for batch in SAB.costliest_batches(plan, 5)]
    @test issorted(costs; rev = true)
    @test costs[1] >= maximum(SAB.padded_total(batch) for batch in seek(sampler, 0))
end

# The table of decision 3.
@testset "what a second loop over a sampler gives" begin
    plan = SAB.Plan(made_sizes(60, 30); budget = 100)
    fresh() = SAB.BucketSampler(plan; seed = 3)
    taken(sampler, count) = [collect(batch.indices) for batch in Iterators.take(sampler, count)]
    first, second = walk(fresh()), walk(SAB.set_epoch!(fresh(), 1))
    @test length(first) > 4 && first != second
    sampler = fresh() # nothing was taken; the last pass was finished
    SAB.begin!(sampler)
    @test walk(sampler) == first
    @test walk(sampler) == second
    sampler = fresh() # it was broken off
    @test taken(sampler, 2) == first[1:2]
    middle = SAB.state(sampler)
    @test walk(sampler) == first
    @test SAB.state(sampler, 2) == middle
    ended = SAB.state(sampler)
    sampler = SAB.restore!(fresh(), middle) # a state was restored, its end had not been reported
    @test walk(sampler) == first[3:end]
    @test walk(sampler) == second
    sampler = fresh() # nothing may be left
    foreach(_ -> SAB.next_batch!(sampler), first)
    SAB.restore!(sampler, SAB.state(sampler))
    @test walk(sampler) == []
    @test walk(sampler) == second
    @test walk(SAB.restore!(fresh(), ended)) == second # its end had been reported
    @test Base.IteratorSize(sampler) === Base.SizeUnknown() && !applicable(length, sampler)
end

@testset "micro-batches of a step" begin
    plan = SAB.Plan(made_sizes(300, 30); budget = 100)
    samplers = [SAB.BucketSampler(plan; micro_batches = 3, rank = rank, world_size = 2) for rank in 0:1]
    weights, samples = Dict{Int,Float64}(), Int[]
    for sampler in samplers, number in 1:SAB.batch_count(sampler)
        batch = sampler[number]
        step = SAB.step(sampler)
        @test (batch.step, batch.micro_batch) == divrem(number - 1, 3)
        weights[batch.step] = get(weights, batch.step, 0.0) + length(batch) / step.samples
        append!(samples, batch.indices)
    end
    @test all(isapprox(1), values(weights))
    @test sort(samples) == 1:300
    @test SAB.capabilities(samplers[1]) == (batch_count = true, random_access = true, budget = true, schedule = true)
    @test SAB.capabilities(SAB.BionemoSizeAwareStream((epoch, position) -> nothing, 7)) == (batch_count = false, random_access = false, budget = false, schedule = false)
end

@testset "indices from 1, and from 0 underneath" begin
    sampler = SAB.BucketSampler(SAB.Plan([5, 3, 4]; budget = 100))
    batch = SAB.next_batch!(sampler)
    @test sort(batch.indices) == 1:3
    @test parent(batch.indices) == batch.indices .- 1
    @test [10, 20, 30][batch.indices] == [10, 20, 30][collect(batch.indices)]
    @test batch.bucket == 1
    @test_throws BoundsError batch.indices[4]
    @test_throws BoundsError batch.indices[0]
    kept = SAB.next_batch!(seek(sampler, 0)).indices
    before = copy(kept)
    borrowed = SAB.next_batch!(seek(sampler, 0); copy = false)
    @test borrowed.indices == before
    SAB.set_epoch!(sampler, 1)
    SAB.next_batch!(sampler)
    @test kept == before # a copy stays
    @test occursin("3 samples", repr(batch))
end

@testset "the library reads no memory of vectors that the caller may change, unless it is told to" begin
    totals(sampler) = [batch.total for batch in sampler]
    for T in (Int32, Float64)
        values = ones(T, 10)
        sizes, borrowed = SAB.Sizes(values), SAB.Sizes(values; copy = false)
        samplers = [SAB.OrderedSampler(given, 5) for given in (values, view(values, 1:1:10), sizes)]
        torch = SAB.BionemoSampler(SAB.Plan(values; boundaries = [1, 2], batch_size = 10); budget = 5, sizes = values)
        fill!(values, 4)
        @test (sizes[10], borrowed[10]) == (1, 4) # copy = false shows later changes
        resize!(values, 1)
        @test all(sampler -> totals(sampler) == [5, 5], samplers)
        @test length(collect(torch)) == 2
    end
    @test occursin("copy = false: values must be a strided vector", sprint(showerror, thrown(() -> SAB.Sizes(1:4; copy = false))))
    # Functions that run during the call change the vector.
    lengths = fill(3, 1000)
    spoil(arguments...) = (fill!(lengths, 4); nothing)
    spoiling(call) = (fill!(lengths, 3); call())
    @test spoiling(() -> SAB.info(SAB.Plan(lengths; budget = 30, progress = spoil)).total) == 3000
    @test spoiling(() -> SAB.info(SAB.PackedSampler(lengths, 30; progress = spoil)).total) == 3000
    # The vectors behind options.
    coefficients = [0.0, 0.0, 1.0]
    calls = 0
    SAB.Plan(lengths; budget = 30, cost = coefficients, progress = (done, total) -> (calls += 1; resize!(coefficients, 0); sizehint!(coefficients, 0); nothing))
    @test calls > 0 && isempty(coefficients)
end

@testset "arrays of copy = false are the caller's to keep" begin
    sampler = SAB.PackedSampler(made_sizes(3000, 50), 1000; split = true)
    expected = collect(SAB.next_batch!(sampler).indices)
    borrowed = SAB.next_batch!(seek(sampler, 0); copy = false)
    cu_seqlens, starts = copy(borrowed.cu_seqlens), copy(borrowed.starts)
    close(sampler) # the library frees what it showed
    GC.gc()
    @test borrowed.indices == expected
    @test (borrowed.cu_seqlens, borrowed.starts) == (cu_seqlens, starts)
    sampler = SAB.BucketSampler(SAB.Plan(made_sizes(3000, 50); budget = 500))
    expected = walk(sampler)
    seek(sampler, 0)
    shared, found, batch = Any[], Vector{Int}[], SAB.next_batch!(sampler; copy = false)
    while batch !== nothing
        push!(found, collect(batch.indices))
        # A vector that is shared cannot be resized.
        push!(shared, reshape(parent(batch.indices), 1, :))
        batch = SAB.next_batch!(sampler; copy = false)
    end
    @test found == expected
end

@testset "a state goes on, also from a file" begin
    plan = SAB.Plan(made_sizes(4000, 150); budget = 1500)
    uninterrupted = walk(SAB.BucketSampler(plan; seed = 9))
    sampler = SAB.BucketSampler(plan; seed = 9)
    head = [collect(SAB.next_batch!(sampler).indices) for _ in 1:10]
    other = SAB.restore!(SAB.BucketSampler(plan; seed = 9), SAB.state(sampler))
    @test [head; walk(other)] == uninterrupted
    mktempdir() do folder
        path = joinpath(folder, "state")
        @test write(path, SAB.state(sampler)) == length(SAB.state(sampler))
        @test SAB.state(SAB.restore!(SAB.BucketSampler(plan; seed = 9), read(path))) == SAB.state(sampler)
    end
end

@testset "budgets are lowered" begin
    sampler = SAB.BucketSampler(SAB.Plan(made_sizes(1000, 50); budget = 1000))
    @test SAB.budget(sampler) == 1000
    SAB.set_budget!(sampler, 400)
    @test all(batch -> SAB.padded_total(batch) <= 400, sampler)
    plan = SAB.Plan(made_sizes(1000, 50); budget = [1000, SAB.Budget(20_000; cost = :quadratic)])
    @test SAB.budgets(plan) == [1000, 20_000]
    sampler = SAB.BucketSampler(plan)
    SAB.set_budget!(sampler, 10_000; index = 2)
    @test (SAB.budget(sampler), SAB.budget(sampler; index = 2)) == (1000, 10_000)
    @test all(batch -> length(batch) * batch.padded_length^2 <= 10_000, sampler)
end

@testset "costs" begin
    @test SAB.Cost(:padded)(3, 10) == 30
    @test SAB.Cost(:quadratic)(3, 10) == 300
    @test SAB.Cost([5, 1, 2])(3, 10) == 5 + 3 + 60
    @test SAB.Cost([(5, 0, 0), (2.0, 1, 1)])(3, 10) == 65
    @test SAB.Cost((count, length) -> count + length)(3, 10) == 13
    @test SAB.Cost(SAB.Cost(:padded))(3, 10) == 30
    sizes = made_sizes(500, 50)
    plans = [SAB.Plan(sizes; budget = 9000, cost = cost) for cost in (:quadratic, [0, 0, 0, 1], (count, length) -> count * length^2)]
    push!(plans, SAB.Plan(sizes; budget = SAB.Budget(9000; cost = SAB.Cost([(1, 1, 2)]))))
    @test length(unique(SAB.buckets.(plans))) == 1
    samplers = [SAB.PackedSampler(sizes, 100; given...) for given in ((;), (balance = :quadratic,), (balance = (count, length) -> count * length^2,))]
    @test length(unique(walk.(samplers))) == 1
end

@testset "greedy batches" begin
    sizes = [3, 4, 5, 6, 1, 20]
    sampler = SAB.OrderedSampler(sizes, 8)
    @test walk(sampler) == [[1, 2], [3], [4, 5]]
    @test SAB.skipped_count(sampler) == 1
    @test walk(SAB.OrderedSampler(sizes, 8; indices = [5, 4, 5])) == [[5, 4, 5]]
    stream = SAB.BionemoSizeAwareStream((epoch, position) -> position < 4 ? (10 + position, 3.0) : nothing, 7)
    @test walk(stream) == [[10, 11], [12, 13]]
    @test walk(SAB.set_epoch!(stream, 1)) == [[10, 11], [12, 13]]
    @test status(() -> SAB.batch_count(stream)) == Raw.SAB_E_UNSUPPORTED
end

@testset "torch's order" begin
    plan = SAB.Plan([1, 2, 3, 4, 5, 6]; boundaries = [1, 4, 7], batch_size = 2)
    sampler = SAB.BionemoSampler(plan; seed = 3)
    words = SAB.generator(sampler)
    first = walk(sampler)
    SAB.set_generator!(sampler, words)
    other = SAB.BionemoSampler(plan; seed = 3)
    @test walk(other) == first
    @test sort(joined(first)) == 1:6
    @test walk(SAB.BionemoSampler(plan; shuffle = :none, budget = 5, sizes = i -> i)) == walk(SAB.BionemoSampler(plan; shuffle = :none, budget = 5, sizes = [1, 2, 3, 4, 5, 6]))
end

@testset "packed rows" begin
    sizes = made_sizes(1000, 100)
    sampler = SAB.PackedSampler(sizes, 256; seed = 1)
    facts = SAB.info(sampler)
    rows = collect(sampler)
    @test length(rows) == facts.bins >= facts.lower_bound
    @test sort(joined(row.indices for row in rows)) == 1:1000
    for row in rows
        @test row.layout === :row && SAB.padded_total(row) == row.padded_length == 256
        @test row.cu_seqlens == [0; cumsum(sizes[row.indices])]
        @test row.cu_seqlens[end] <= 256
    end
    pieces = collect(SAB.PackedSampler([10, 3], 4; split = true))
    @test sum(length, pieces) == 4
    @test all(row -> row.starts !== nothing, pieces)
    @test SAB.skipped(SAB.PackedSampler([1, 9, 2], 4; oversize = :skip)) == [2]
end

@testset "balanced steps" begin
    sizes = made_sizes(2000, 300)
    samplers = [SAB.BalancedSampler(sizes; budget = 4096, micro_batches = 2, balance = :quadratic, seed = 4, rank = rank, world_size = 3) for rank in 0:2]
    @test length(unique(SAB.batch_count.(samplers))) == 1
    batches = [collect(sampler) for sampler in samplers]
    @test sort(joined(b.indices for each in batches for b in each)) == 1:2000
    @test all(b -> b.total <= 4096, Iterators.flatten(batches))
    report = SAB.report(samplers[1])
    @test report.samples == 2000 && 1 <= report.rank_imbalance < 1.1
    even = SAB.report(SAB.BalancedSampler(sizes; samples = 500, balance = [:quadratic, :padded], world_size = 4))
    @test length(even.rank_imbalance) == 2 && all(even.time .>= even.least_time)
    padded = SAB.report(SAB.BalancedSampler(sizes; samples = 250, micro_batches = 8, padded = true))
    @test padded.total == sum(sizes) < padded.padded_total
    bytes = SAB.Budget(9000; cost = [1000.0, 0.0, 3.0])
    @test all(batch -> batch.total <= 1000 && 1000 + 3batch.total <= 9000, SAB.BalancedSampler(sizes; budget = [bytes, 1000]))
    parts = SAB.partition([4, 5, 6, 7, 8], 2)
    @test [sum([4, 5, 6, 7, 8][parts .== part]) for part in 1:2] == [15, 15]
    @test sort([count(==(part), SAB.partition(ones(6), 3; equal_counts = true)) for part in 1:3]) == [2, 2, 2]
    both = [1 .+ (0:511) .* 7919 .% 5 1 .+ (0:511) .* 104_729 .% 997]
    most = 1.05 .* sum(both; dims = 1) ./ 8
    parts = SAB.partition(both, 8; weights = both, capacity = most)
    @test all(sum(both[parts .== part, kind]) <= most[kind] for part in 1:8, kind in 1:2)
    @test SAB.ranks_from_mesh([2, 4, 8], [0, 1, 0], 9) == (1, 4)
    withenv("RANK" => "2", "WORLD_SIZE" => "5") do
        @test SAB.ranks() == (2, 5)
    end
    balancing = [SAB.BaguaSampler(sizes; rank = rank, world_size = 2, batch_size = 10) for rank in 0:1]
    @test sort(joined(joined(walk(each)) for each in balancing)) == 1:2000
    @test walk(SAB.BaguaBatchSampler([1, 2, 3]; budget = 3, shuffle = false)) == [[1, 2], [3]]
end

# Ranks of one process, a task each: what each gives is waited for by all.
mutable struct Meeting
    given::Vector{Any}
    changed::Threads.Condition
    round::Int
    result::Vector{Vector{UInt8}}
end
Meeting(world_size) = Meeting(fill!(Vector{Any}(undef, world_size), nothing), Threads.Condition(), 0, [])
function meet(meeting, rank, bytes)
    lock(meeting.changed) do
        round = meeting.round
        meeting.given[rank + 1] = bytes
        if all(!isnothing, meeting.given)
            meeting.result = Vector{UInt8}[meeting.given...]
            fill!(meeting.given, nothing)
            meeting.round += 1
            notify(meeting.changed)
        end
        while meeting.round == round
            wait(meeting.changed)
        end
        return meeting.result
    end
end

@testset "ranks with shards of their own meet in tasks" begin
    shards = [made_sizes(300, 60), made_sizes(500, 60), UInt32[]]
    three, two = Meeting(3), Meeting(2)
    walks = Vector{Any}(undef, 3)
    @sync for rank in 0:2
        @async begin # all in one thread: the callbacks wait in the middle of the library's calls
            sampler = SAB.ShardedSampler(shards[rank + 1], bytes -> meet(three, rank, bytes); rank = rank, world_size = 3, budget = 256, seed = 2, micro_batches = 2)
            SAB.check_ranks(sampler, bytes -> meet(three, rank, bytes); rank = rank, world_size = 3)
            walks[rank + 1] = walk(sampler)
        end
    end
    @test map(each -> sort(joined(each)), walks[1:2]) == [1:300, 1:500]
    @test length(unique(length.(walks))) == 1
    failures = Vector{Any}(undef, 2)
    @sync for rank in 0:1
        @async begin
            sampler = SAB.BucketSampler(SAB.Plan([1, 2, 3]; budget = 10); seed = rank, rank = rank, world_size = 2)
            failures[rank + 1] = thrown(() -> SAB.check_ranks(sampler, bytes -> meet(two, rank, bytes); rank = rank, world_size = 2))
        end
    end
    @test all(failure -> failure isa SABError && failure.status == Raw.SAB_E_MISMATCH && occursin("seed", failure.message), failures)
end

@testset "blocks are the batches" begin
    pairs = SAB.Sizes((source = made_sizes(500, 40), target = made_sizes(500, 60)))
    kinds = (() -> SAB.BucketSampler(SAB.Plan(made_sizes(500, 40); budget = 400); seed = 3, world_size = 2),
        () -> SAB.BucketSampler(SAB.Plan(pairs; budget = 800); seed = 3), () -> SAB.PackedSampler(made_sizes(500, 40), 100; seed = 3))
    for kind in kinds, most in (1, 7, 1024)
        sampler, other, count = kind(), kind(), 0
        while (block = SAB.next_block!(sampler, most)) !== nothing
            @test 1 <= length(block) <= most
            for i in 1:length(block)
                batch, places = SAB.next_batch!(other), block.offsets[i]+1:block.offsets[i+1]
                @test block.indices[places] == batch.indices && block.layout == batch.layout && block.epoch == batch.epoch
                @test (block.bucket[i], block.step[i], block.micro_batch[i], block.id[i]) == (batch.bucket, batch.step, batch.micro_batch, batch.id)
                @test block.sample_weight[i] == batch.sample_weight
                for name in (:longest, :padded_length, :total, :token_weight)
                    mine, theirs = getfield(block, name), getfield(batch, name)
                    @test theirs isa Float64 ? mine[i] == theirs : (mine[:source][i], mine[:target][i]) == (theirs[:source], theirs[:target])
                end
                @test batch.cu_seqlens === nothing || block.cu_seqlens[block.offsets[i]+i:block.offsets[i+1]+i] == batch.cu_seqlens
                count += 1
            end
        end
        @test SAB.next_batch!(other) === nothing && count == SAB.batch_count(sampler)
    end
    sampler = kinds[1]()
    @test_throws SAB.SABError SAB.next_block!(sampler, 0)
    @test_throws ArgumentError SAB.next_block!(sampler, -1)
    @test repr(SAB.next_block!(sampler, 2))[1:16] == "Block(2 batches,"
end

@testset "A balance is the cost that ranks have in common" begin
    sizes = made_sizes(3000, 90)
    plan = SAB.Plan(sizes; budget = 1024)
    model = SAB.Cost(:transformer; hidden = 64, layers = 2)
    @test model(3, 10) == 2 * (24 * 3 * 10 * 64^2 + 4 * 3 * 10^2 * 64)
    @test status(() -> SAB.Cost(:transformer; hidden = 0, layers = 1)) == Raw.SAB_E_ARGUMENT
    @test thrown(() -> SAB.Cost(:padded; hidden = 1)) isa ArgumentError
    for balance in (:quadratic, model, (count, length) -> count * length^2)
        order = (seed = 3, world_size = 4, balance = balance)
        @test 1 <= SAB.report(plan; order...).rank_imbalance < 1.1
        sampler = SAB.BucketSampler(plan; order...)
        @test thrown(() -> SAB.restore!(SAB.BucketSampler(plan; seed = 3, world_size = 4), SAB.state(sampler))) isa SABError
    end
    @test thrown(() -> SAB.BucketSampler(plan; balance = (count, length) -> error("no"))) isa ErrorException
end
