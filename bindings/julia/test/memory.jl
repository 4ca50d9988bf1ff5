# Memory of a device of one's own, whose bytes are exactly 1000 + 100 * count * length.

mutable struct Toy
    held::Int
    peak::Int
    total::Int
    states::Dict{Int,Int}
    state::Int
end
function toy(total = 1_000_000)
    toy = Toy(0, 0, total, Dict(), 0)
    device = SAB.Device(; reset = () -> (toy.peak = toy.held), current = () -> toy.held, peak = () -> toy.peak, total = () -> toy.total, reserved = () -> (toy.peak + 1, 5),
        release_cache = () -> nothing, rng_save = depth -> (toy.states[depth] = toy.state), rng_restore = depth -> (toy.state = toy.states[depth]))
    return toy, SAB.Probe(device)
end
function run!(toy, count, length)
    toy.state += 1
    bytes = 1000 + 100count * length
    bytes > toy.total && throw(OutOfMemoryError())
    toy.peak = max(toy.peak, bytes)
    return (count, length)
end

@testset "memory" begin
    device, probe = toy()
    @test SAB.stats(probe) == (current = 0, peak = 0, reserved_peak = 1, largest_free = 5, total = 1_000_000)
    shapes = [(count, length) for count in 1:5 for length in (1, 3, 9, 20)]
    seen = SAB.collect_peak(shape -> run!(device, shape...), [shapes; (10_000, 10)], probe; cleanup = () -> device.held = 0)
    @test seen.items == 1:20
    @test seen.out_of_memory == [21]
    @test seen.features == [shape[row] for row in 1:2, shape in shapes]
    @test seen.peaks == [1000 + 100count * length for (count, length) in shapes]
    @test device.state == 0 # random generators are as before
    none = SAB.collect_peak(shape -> run!(device, shape...), [], probe)
    @test (none.items, none.peaks, none.out_of_memory) == ([], [], [])
    model = SAB.MemoryModel(seen.features, seen.peaks)
    @test SAB.predict(model, [7 8; 9 10]) ≈ [1000 + 100 * 63, 1000 + 100 * 80]
    @test model(10, 20) >= SAB.predict(model, reshape([10, 20], 2, 1))[1] - 1e-6
    @test sort(map(last, SAB.terms(model))) == [[0, 0], [1, 1]]
    @test SAB.info(model).measurements == 20
    for other in (read(image(model), SAB.MemoryModel), mktempdir(folder -> (write(joinpath(folder, "model"), model); read(joinpath(folder, "model"), SAB.MemoryModel))))
        @test SAB.terms(other) == SAB.terms(model)
    end
    @test occursin("2 terms", repr(model))
    @test length(SAB.terms(SAB.MemoryModel(seen.features, seen.peaks; select_terms = true))) == 2
    @test length(SAB.terms(SAB.MemoryModel(seen.features, seen.peaks; select_terms = false))) > 2
    releases = 0
    counting = SAB.Probe(SAB.Device(; reset = () -> nothing, current = () -> 0, peak = () -> 0, release_cache = () -> releases += 1))
    SAB.collect_peak(identity, 1:2, counting; release_cache = false)
    @test releases == 0
    @test all(((count, length),) -> 1 <= count <= 64 && 1 <= length <= 50, SAB.measurement_points(1, 50, 12; max_count = 64))
    @test SAB.Cost(model)(10, 20) == model(10, 20)
    near = SAB.measurement_points(1, 50, 12; max_count = 64, budget = 100_000, cost = model)
    @test all(((count, length),) -> 0.3 * 100_000 <= model(count, length) <= 0.95 * 100_000, near)
    plan = SAB.Plan(made_sizes(2000, 20); cost = model, budget = 100_000)
    @test all(batch -> 1000 + 100SAB.padded_total(batch) <= 100_000 * 1.001, SAB.BucketSampler(plan))
    largest = SAB.find_max_batch((count, length) -> run!(device, count, length), probe; lengths = [10, 100])
    @test all(0.98 .<= largest.batch_sizes ./ [999, 99] .<= 1)
    @test SAB.find_max_batch((count, length) -> run!(device, count, length), probe; search = :binary, lengths = [10]).batch_size == 999
    @test SAB.find_max_batch((count, length) -> run!(device, count, length), probe; search = :binary, lengths = [10], rounding = :power_of_two).batch_sizes == [512]
    @test SAB.find_max_batch((count, length) -> run!(device, count, length), probe; search = :binary, lengths = [10], multiple = 100, reduce = least -> least).batch_sizes == [900]
    @test status(() -> SAB.find_max_batch((count, length) -> throw(OutOfMemoryError()), probe)) == Raw.SAB_E_DEVICE_MEMORY
    parts = []
    @test SAB.step_in_chunks((samples, weight) -> length(samples) > 3 ? throw(OutOfMemoryError()) : push!(parts, samples => weight), 10, probe; prepare = () -> empty!(parts)) == 2
    @test map(first, parts) == [1:2, 3:4, 5:6, 7:8, 9:10]
    @test sum(map(last, parts)) ≈ 1
    @test SAB.verify(batch -> run!(device, length(batch), batch.padded_length), plan, probe; count = 3).batches == 3
    sampler = SAB.BucketSampler(plan)
    guard = SAB.MemoryGuard(sampler, probe; budget = 101_000)
    for batch in sampler
        SAB.step!((samples, weight) -> run!(device, length(samples), batch.padded_length), guard, batch)
    end
    @test SAB.info(guard).steps == SAB.batch_count(sampler)
    batch = sampler[1]
    @test SAB.measure!(() -> 5, guard, batch) == 5
    @test thrown(() -> SAB.measure!(() -> throw(Mine(4)), guard, batch)) == Mine(4)
    @test thrown(() -> SAB.measure!(() -> throw(OutOfMemoryError()), guard, batch)) isa OutOfMemoryError
    @test SAB.info(guard).out_of_memory == 1
    for handle in (guard, sampler)
        @test occursin("functions that it calls", message(() -> SAB.step!((samples, weight) -> close(handle), guard, batch)))
    end
    close(sampler)
    @test thrown(() -> SAB.measure!(() -> 5, guard, batch)) isa ArgumentError
    host = SAB.Probe("host")
    @test SAB.stats(host).current > 10^7
    SAB.release_cache!(SAB.reset!(host))
    @test (SAB.grow_batch_size((epoch, current) -> 4, 1, 8, 100), SAB.grow_batch_size_linear(5, 8, 2, 2, 100), SAB.grow_batch_size_doubling(3, 2, [1, 2], 100)) == (12, 12, 8)
end

# The peak of a step of pairs, with attention from target to source.
pair_bytes(count, (source, target)) = 1_000_000 + count * (300 * (source + target) + 2 * source * target)

@testset "memory of samples with several sizes" begin
    held = Ref(0)
    probe = SAB.Probe(SAB.Device(; reset = () -> (held[] = 0), current = () -> 0, peak = () -> held[], total = () -> 4_000_100))
    function step(count, lengths)
        held[] = max(held[], pair_bytes(count, Int.(lengths)))
        return (count, lengths)
    end
    shortest, longest = (source = 1, target = 1), (target = 83, source = 60)
    points = SAB.measurement_points(shortest, longest, 24; max_count = 1000)
    @test all(((count, lengths),) -> 1 <= lengths[:source] <= 60 && 1 <= lengths[:target] <= 83, points)
    seen = SAB.collect_peak(point -> step(point...), points, probe)
    @test size(seen.features) == (3, 24)
    model = SAB.MemoryModel(seen.features, seen.peaks; columns = [:source, :target])
    @test SAB.columns(model) == SAB.columns(read(image(model), SAB.MemoryModel)) == [:source, :target]
    @test SAB.predict(model, [7 8; 30 40; 50 60]) ≈ [pair_bytes(7, (30, 50)), pair_bytes(8, (40, 60))]
    @test model(7, 30, 50) == model(7, [30, 50]) == model(7, (target = 50, source = 30)) == SAB.Cost(model)(7, [30, 50])
    unnamed = SAB.MemoryModel(seen.features, seen.peaks)
    others = (nodes = [1, 2], edges = [3, 4])
    @test SAB.columns(unnamed) == [] && SAB.Plan(others; cost = unnamed, budget = 4_000_000) isa SAB.Plan
    @test occursin("source and target", message(() -> SAB.Plan(others; cost = model, budget = 4_000_000)))
    @test status(() -> SAB.Cost(model)(7, 30)) == Raw.SAB_E_ARGUMENT
    for (call, words) in [(() -> model(7, 30), "3 rows"), (() -> model(7, (source = 30,)), ":target"),
                          (() -> SAB.MemoryModel(seen.features, seen.peaks; columns = [:source]), "must be 2"),
                          (() -> SAB.MemoryModel(seen.features, seen.peaks; columns = "source"), "names"),
                          (() -> SAB.measurement_points((a = 1,), (b = 2,), 24), "same columns"),
                          (() -> SAB.measurement_points(shortest, longest, 1001), "1000")]
        exception = thrown(call)
        @test exception isa ArgumentError && occursin(words, exception.msg)
    end
end
