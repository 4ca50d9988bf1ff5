# More than one machine.

@testset "histograms merge in any order" begin
    numbers = [1 + 7919i % 90 for i in 1:1000]
    parts = [Histogram(numbers[first:min(first + 129, end)]) for first in 1:130:1000]
    whole = Histogram(numbers)
    merged = merge!(Histogram(), reverse(parts)...)
    @test read(image(merged)) == read(image(whole))
    @test SAB.info(merged) == SAB.info(whole) && SAB.info(whole).samples == 1000
    @test SAB.entries(whole).sizes == sort(unique(numbers))
    @test sum(SAB.entries(whole).counts) == 1000 && SAB.entries(whole).sources === nothing
    SAB.subtract!(merged, parts[1])
    @test SAB.info(merged).samples == 870
    @test status(() -> SAB.subtract!(merged, whole)) == Raw.SAB_E_ARGUMENT
    @test SAB.info(read(image(whole), Histogram)) == SAB.info(whole)
    @test status(() -> read(IOBuffer("other"), Histogram)) == Raw.SAB_E_FORMAT
    @test SAB.number!(Histogram([7, 3, 7]), [7, 4, 3, 7]) == [2, 0, 1, 3]
end

@testset "places are those of the samplers" begin
    numbers = [1 + 7919i % 90 for i in 1:1000]
    histogram = Histogram()
    within = SAB.number!(histogram, numbers)
    counted, plan = Plan(histogram; budget = 500), Plan(numbers; budget = 500)
    places = SAB.locate(counted, numbers, within; seed = 5, world_size = 3)
    @test places == SAB.locate(plan, numbers, within; seed = 5, world_size = 3)
    for rank in 0:2, (position, batch) in enumerate(BucketSampler(plan; seed = 5, world_size = 3, rank = rank)), (slot, index) in enumerate(batch.indices)
        @test (places.ranks[index], places.batches[index], places.slots[index]) == (rank, position - 1, slot)
    end
    @test all(==(-1), SAB.locate(counted, numbers, within; which = ones(Int, 1000)).batches)
    @test status(() -> BucketSampler(counted)) == Raw.SAB_E_UNSUPPORTED
    @test status(() -> SAB.locate(counted, [0.5], [0])) == Raw.SAB_E_ARGUMENT
    @test thrown(() -> SAB.locate(counted, [1], [])) isa ArgumentError
end

@testset "packings and their places are those of the sampler" begin
    numbers = [1 + 7919i % 90 for i in 1:1000]
    histogram = Histogram()
    within = SAB.number!(histogram, numbers)
    given = (method = :histogram, max_sequences = 9)
    packing = Packing(histogram, 200; given...)
    places = SAB.locate(packing, numbers, within; seed = 5, world_size = 3)
    for rank in 0:2, (position, batch) in enumerate(PackedSampler(numbers, 200; seed = 5, world_size = 3, rank = rank, given...)), (slot, index) in enumerate(batch.indices)
        @test (places.ranks[index], places.batches[index], places.slots[index]) == (rank, position - 1, slot)
    end
    counted = zeros(Int, 90)
    for pattern in SAB.patterns(packing), (length, sequences) in zip(pattern.lengths, pattern.sequences)
        counted[length] += pattern.bins * sequences
    end
    @test counted == [count(==(length), numbers) for length in 1:90]
    @test sum(pattern.bins for pattern in SAB.patterns(packing)) == SAB.info(packing).bins
    @test startswith(repr(packing), "Packing(1000 sequences in ")
    @test status(() -> Packing(histogram, 200; method = :shuffled)) == Raw.SAB_E_UNSUPPORTED
    @test status(() -> SAB.locate(Packing(histogram, 50; split = true), [1], [0])) == Raw.SAB_E_UNSUPPORTED
end

@testset "an epoch of a mixture has the places that C gives" begin
    sources, sizes = repeat([0, 1], inner = 5), [3, 5, 3, 9, 5, 3, 7, 9, 3, 5]
    histogram = Histogram()
    within = SAB.number!(histogram, Mixture(sizes; sources = sources))
    plan = Plan(SAB.epoch(histogram, 1; repeats = [1, 1.4], seed = 7); budget = 18)
    places = SAB.locate(plan, sizes, within; sources = sources, seed = 5, epoch = 1)
    @test places.counts == [1, 1, 1, 1, 1, 1, 1, 2, 2, 1]
    @test places.batches == [3, 3, 0, 2, 0, 1, 2, 4, 0, 1]
    @test places.slots == [2, 1, 2, 1, 1, 1, 2, 2, 3, 2]
    @test status(() -> SAB.locate(plan, sizes, within; epoch = 1)) == Raw.SAB_E_ARGUMENT
    @test thrown(() -> SAB.locate(plan, sizes, within; sources = [1], epoch = 1)) isa ArgumentError
    @test status(() -> SAB.epoch(histogram; repeats = [-1, 1])) == Raw.SAB_E_ARGUMENT
end
