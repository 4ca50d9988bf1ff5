# Samples with several sizes.

const SOURCE = made_sizes(2000, 60)
const TARGET = reverse(made_sizes(2000, 83))
pair_sizes() = (source = SOURCE, target = TARGET)

@testset "sizes have named columns" begin
    sizes = Sizes(pair_sizes())
    @test (length(sizes), SAB.columns(sizes)) == (2000, [:source, :target])
    @test sizes[7] == [SOURCE[7], TARGET[7]] && sizes[7][:target] == TARGET[7]
    @test SAB.column(sizes, :target) == SAB.column(sizes, 2) == TARGET
    @test collect(sizes)[end] == [SOURCE[end], TARGET[end]]
    @test thrown(() -> SAB.column(sizes, :other)) isa ArgumentError && thrown(() -> sizes[1][:other]) isa ArgumentError
    @test thrown(() -> SAB.column(sizes, 3)) isa ArgumentError
    @test SAB.columns(Sizes(["a b" => [1, 2], "c" => Sizes([3, 4])])) == [Symbol("a b"), :c]
    @test SAB.columns(Sizes([1])) == [] && SAB.column(Sizes([4, 5]), 1) == [4, 5]
    @test occursin("3", thrown(() -> Sizes((a = [1, 2], b = [1, 2, 3]))).message)
    @test status(() -> Sizes([string(number) => [1] for number in 1:9])) == Raw.SAB_E_ARGUMENT
    @test status(() -> Sizes([:a => [1], :a => [1]])) == Raw.SAB_E_ARGUMENT
    @test occursin("bad", thrown(() -> Plan((good = [1, 2], bad = [1, NaN]); budget = 9)).message)
    kept = Sizes((a = [rand(1:9) for _ in 1:1000], b = fill(3, 1000)); copy = false)
    GC.gc()
    @test SAB.column(kept, :b) == fill(3, 1000)
end

@testset "batches, buckets and reports have a number for each column" begin
    plan = Plan(pair_sizes(); budget = 2048, length_multiple = (target = 4,))
    @test SAB.columns(plan) == [:source, :target] && SAB.info(plan).columns == 2
    seen = Int[]
    for batch in BucketSampler(plan)
        append!(seen, batch.indices)
        @test batch.total == [sum(SOURCE[batch.indices]), sum(TARGET[batch.indices])]
        @test batch.longest[:source] == batch.padded_length[:source] == maximum(SOURCE[batch.indices])
        @test batch.padded_length[:target] == 4 * cld(maximum(TARGET[batch.indices]), 4)
        @test padded_total(batch) == length(batch) * sum(batch.padded_length) <= 2048
    end
    @test sort(seen) == 1:2000
    report = SAB.report(plan)
    @test sum(report.totals) == report.total && sum(report.padded_totals) == report.padded_total
    @test report.totals[:source] == sum(SOURCE) == sum(bucket.total[:source] for bucket in SAB.buckets(plan))
    sampler = BucketSampler(plan)
    next_batch!(sampler)
    @test SAB.step(sampler).total == SAB.BucketSampler(plan)[1].total
    @test costliest_batches(plan)[1].longest[:target] <= 83
    seen = SAB.verify(batch -> (@assert batch.longest[:target] <= 83), plan, SAB.Probe("host"); count = 2)
    @test seen.batches == 2
    restored = read(image(plan), Plan)
    @test SAB.columns(restored) == [:source, :target]
end

@testset "costs and budgets of several columns" begin
    lengths(plan) = [(bucket.batch_size, collect(bucket.longest)) for bucket in SAB.buckets(plan)]
    of_pairs(; given...) = lengths(Plan(pair_sizes(); given...))
    weights = of_pairs(budget = 4000, cost = (source = 1, target = 2.5))
    @test weights == of_pairs(budget = 4000, cost = [(1, 1, (1, 0)), (2.5, 1, (0, 1))])
    @test weights == of_pairs(budget = 4000, cost = (count, lengths, totals) -> (@assert totals == count * lengths; count * (lengths[1] + 2.5 * lengths[2])))
    @test of_pairs(budget = 4000) == of_pairs(budget = 4000, cost = :padded) != weights
    @test of_pairs(budget = 50_000, cost = :product) == of_pairs(budget = Budget(50_000; cost = [(1, 1, (1, 1))]))
    both = Plan(pair_sizes(); budget = (source = 1500, target = 2000))
    @test SAB.budgets(both) == [1500, 2000]
    @test all(batch -> length(batch) * batch.padded_length[:source] <= 1500 && length(batch) * batch.padded_length[:target] <= 2000, BucketSampler(both))
    @test Cost([(1, 1, (1, 1))])(2, [3, 5]) == 30
    for wrong in ((budget = 9, cost = :quadratic), (budget = 9, cost = [0, 1]), (budget = 9, cost = (other = 1,)), (budget = (other = 1,),), (budget = 9, length_multiple = (other = 1,)),
        (budget = 9, length_multiple = [8]), (batch_size = 4, boundaries = [0, 30, 90]), (batch_size = 4, boundaries = [(0, 0), (90,)]), (batch_size = 4, boundaries = (source = [0, 90],)))
        @test (wrong, thrown(() -> Plan(pair_sizes(); wrong...))) isa Tuple{Any,ArgumentError}
    end
    @test thrown(() -> Cost((a = 1,))) isa ArgumentError
    @test status(() -> Cost([(1, 1, ntuple(identity, 9))])) == Raw.SAB_E_ARGUMENT
end

@testset "boundaries of several columns" begin
    plan = Plan(pair_sizes(); boundaries = [(0, 0), (30, 40), (61, 84)], batch_size = [8, 4])
    first, second = SAB.buckets(plan)
    @test (first.batch_size, first.lower, first.upper) == (8, [0, 0], [30, 40]) && first.longest[:source] < 30 && first.longest[:target] < 40
    @test (second.batch_size, first.samples + second.samples) == (4, 2000)
    grid = SAB.buckets(Plan(pair_sizes(); boundaries = (target = [84, 0, 40], source = [0, 30, 61]), batch_size = 4))
    @test [collect(bucket.upper) for bucket in grid] == [[30, 40], [30, 84], [61, 40], [61, 84]]
end

@testset "samples of different ids never share a batch" begin
    ids = [mod1(i, 3) - 2 for i in 1:2000]
    plan = Plan(pair_sizes(); budget = 2048, separate_by = ids, max_shapes = Dict(1 => 5, -1 => 3, 0 => 4))
    shapes = Dict(id => Set() for id in -1:1)
    for batch in BucketSampler(plan)
        id = ids[batch.indices[1]]
        @test all(==(id), ids[batch.indices]) && SAB.buckets(plan)[batch.bucket].id == id
        push!(shapes[id], (length(batch), collect(batch.padded_length)))
    end
    @test length(shapes[-1]) <= 3 && length(shapes[0]) <= 4 && length(shapes[1]) <= 5
    @test thrown(() -> Plan(pair_sizes(); budget = 2048, separate_by = ids, max_shapes = Dict(1 => 5))) isa ArgumentError
    texts, numbers = [["de", "en", "fr"][id + 2] for id in ids], [id + 1 for id in ids]
    plans = [Plan(pair_sizes(); budget = 2048, separate_by = texts, max_shapes = Dict("fr" => 5, "de" => 3, "en" => 4)),
             Plan(pair_sizes(); budget = 2048, separate_by = numbers, max_shapes = Dict(2 => 5, 0 => 3, 1 => 4))]
    @test isequal((map(batch -> batch.indices, BucketSampler(plan)) for plan in plans)...)
    @test thrown(() -> Plan(pair_sizes(); budget = 2048, separate_by = texts, max_shapes = Dict("fr" => 5))) isa ArgumentError
    @test status(() -> Plan(pair_sizes(); budget = 2048, separate_by = [1])) == Raw.SAB_E_ARGUMENT
end

@testset "rows under several capacities" begin
    sampler = PackedSampler(pair_sizes(), (target = 200, source = 128); window = 200, tries = 5)
    rows = collect(sampler)
    @test sort(reduce(vcat, row.indices for row in rows)) == 1:2000 && SAB.info(sampler).bins == length(rows)
    for row in rows
        @test row.padded_length == [128, 200] && padded_total(row) == 328
        @test row.cu_seqlens[:source] == [0; cumsum(SOURCE[row.indices])] && row.cu_seqlens[2] == [0; cumsum(TARGET[row.indices])]
        @test row.cu_seqlens[:source][end] <= 128 && row.cu_seqlens[:target][end] <= 200
    end
    report = SAB.report(sampler)
    @test report.samples == 2000 && report.steps == length(rows) && report.total[:source] == sum(SOURCE) && report.rank_imbalance == 1
    mixed = SAB.report(PackedSampler(SOURCE, 500))
    @test mixed.meet_again < 1 && 0 < mixed.random_meet_again < 1
    @test mixed.length_deviation > 0 && mixed.random_length_deviation > 0
    @test collect(PackedSampler(pair_sizes(), [128, 200]; window = 200, tries = 5))[1].indices == rows[1].indices
    @test next_batch!(PackedSampler(pair_sizes(), [128, 200]); copy = false).cu_seqlens isa PerColumn
    @test thrown(() -> PackedSampler(pair_sizes(), (source = 128,))) isa ArgumentError
    @test status(() -> PackedSampler(pair_sizes(), [128])) == Raw.SAB_E_ARGUMENT
end

@testset "balanced steps of several columns" begin
    sampler = BalancedSampler(pair_sizes(); budget = (source = 1500, target = 2500), world_size = 2)
    report = SAB.report(sampler)
    @test length(report.rank_imbalance) == 2 && all(<(1.05), report.rank_imbalance) && report.total[:source] == sum(SOURCE)
    @test all(batch -> batch.total[:source] <= 1500 && batch.total[:target] <= 2500, sampler)
    guarded = MemoryGuard(BucketSampler(Plan(pair_sizes(); budget = 2048)), SAB.Probe("host"); budget = 2^50)
    batch = next_batch!(guarded.sampler)
    @test SAB.measure!(() -> 3, guarded, batch) == 3
end
