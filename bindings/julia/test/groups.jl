# Groups of like lengths, and padding.

@testset "groups" begin
    lengths = [1, 9, 3, 8, 20]
    grouping = SAB.Grouping(lengths => [10, 4])
    @test collect(grouping) == [[1, 3], [2, 4], [5]]
    @test length(grouping) == 3
    @test grouping.permutation[grouping.inverse] == 1:5
    @test grouping.group_of == [1, 2, 1, 2, 3]
    @test grouping.intervals == [1 2 3]
    both = SAB.Grouping(lengths => [5], [1, 1, 7, 7, 7] => [3])
    @test [both.intervals[:, group] => both[group] for group in 1:length(both)] == [[1, 1] => [1], [1, 2] => [3], [2, 1] => [2], [2, 2] => [4, 5]]
    @test collect(SAB.Grouping(3)) == [[1, 2, 3]]
    @test collect(SAB.predefined_grouping([2, 1, 2]; groups = 3)) == [[2], [1, 3], []]
    @test collect(SAB.predefined_grouping(Int[])) == []
    @test collect(SAB.partition_grouping([[3, 1], [2]])) == [[3, 1], [2]]
    @test collect(SAB.consecutive_grouping([2, 1])) == [[1, 2], [3]]
    @test repr(grouping) == "Grouping(5 samples in 3 groups)"
    found = SAB.find_thresholds([1, 2, 3, 9, 10, 20, 20], 2)
    @test (found.thresholds, found.total) == ([3.0, 10.0], 3 * 3 + 2 * 10 + 2 * 20)
    search(; given...) = SAB.find_thresholds([1 + i * 7919 % 97 for i in 0:199], 3; method = :randomised, num_trials = 20, given...)
    @test search(tolerate = 0).not_tolerated > search(tolerate = 10_000).not_tolerated
    @test search() == search(tolerate = 2 * 97)
    @test SAB.find_thresholds([1, 2, 3, 9, 10, 20, 20], 2; method = :least_largest, cost = (count, length) -> count * length).largest <= found.largest
end

@testset "padding" begin
    samples = [rand(Float32, length, 3) for length in (4, 1, 7)]
    padded = SAB.pad(samples; value = -1)
    @test size(padded) == (7, 3, 3)
    for (number, sample) in enumerate(samples)
        @test padded[1:size(sample, 1), :, number] == sample
        @test all(==(-1), padded[(size(sample, 1) + 1):end, :, number])
    end
    @test SAB.unpad(padded, size.(samples)) == samples
    @test SAB.pad([[1, 2], [3]]; repeat = true) == [1 3; 2 3]
    @test SAB.pad([fill(1.5), fill(2.5)]) == [1.5, 2.5]
    @test SAB.pad([[1, 2], [3]]; threads = 1) == [1 3; 2 0]
    @test SAB.ragged_mask([2, 0, 1]) == Bool[1 0 1; 1 0 0]
    mask = SAB.ragged_mask([1 2; 3 1]; shape = [2, 3]) # a column for each sample
    @test mask[:, :, 1] == Bool[1 1 1; 0 0 0] && mask[:, :, 2] == Bool[1 0 0; 1 0 0]
    @test SAB.ragged_mask([1 2; 3 1]; shape = [2, 3], rule = :any)[:, :, 2] == Bool[1 1 1; 1 1 1]
end
