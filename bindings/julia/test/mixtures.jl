# Mixtures of data sets.

of_modulus(count, modulus) = [1 + 7i % modulus for i in 1:count]
three() = (wiki = of_modulus(300, 40), code = of_modulus(500, 60), web = of_modulus(41, 25))
mixed(; given...) = Mixture(three(); repeat = (code = 0.5, web = 3), given...)

function counted(batches, count)
    seen = zeros(Int, count)
    for batch in batches, index in batch.indices
        seen[index] += 1
    end
    return seen
end

@testset "sources and places are those of the data sets" begin
    mixture = mixed()
    @test [each.name for each in SAB.sources(mixture)] == [:wiki, :code, :web]
    @test SAB.sources(mixture; epoch = 4)[3] == (name = :web, samples = 41, repeat = 3.0, epoch_samples = 123)
    @test SAB.source(mixture, 300) == (:wiki, 300) && SAB.source(mixture, 301) == (:code, 1)
    @test thrown(() -> SAB.source(mixture, 842)) isa BoundsError
    flat = Mixture([5, 6, 7, 8]; sources = [9, 2, 9, 2], repeat = Dict(9 => 2))
    @test SAB.source(flat, 3) == (9, 2) && [each.repeat for each in SAB.sources(flat)] == [1, 2]
    @test sum(SAB.counts(flat)) == 6
    columns = Mixture((source = [1, 2, 3], target = [4, 5, 6]); sources = [0, 1, 1])
    @test SAB.columns(columns) == [:source, :target] && SAB.column(columns, :target) == [4, 5, 6]
    pairs = Mixture(["a b" => (source = [1, 2], target = [4, 5]), "c" => (source = [3], target = [6])])
    @test SAB.columns(pairs) == [:source, :target] && SAB.source(pairs, 3) == (:c, 1)
    @test length(collect(BucketSampler(Plan(pairs; budget = (source = 4, target = 8))))) >= 2
end

@testset "repeats, proportions, temperature and schedule" begin
    repeats(mixture, epoch = 0) = [each.repeat for each in SAB.sources(mixture; epoch = epoch)]
    @test repeats(Mixture(three())) == [1, 1, 1] && repeats(Mixture(three(); repeat = 2)) == [2, 2, 2]
    shared = repeats(Mixture(three(); proportions = (web = 1, wiki = 1, code = 2)))
    @test shared ≈ [841 / 4 / 300, 841 / 2 / 500, 841 / 4 / 41]
    even = repeats(Mixture(three(); temperature = 1e9, by = :size))
    @test isapprox(even[1] * sum(three().wiki), even[2] * sum(three().code); rtol = 1e-6)
    scheduled = mixed(schedule = [2 => (wiki = 0,), 5 => 1])
    @test repeats(scheduled, 1) == [1, 0.5, 3] && repeats(scheduled, 4) == [0, 0.5, 3] && repeats(scheduled, 5) == [1, 1, 1]
    @test SAB.counts(mixed()) != SAB.counts(mixed(seed = 1))
end

@testset "reports have each source" begin
    mixture = mixed()
    sampler = BucketSampler(Plan(mixture; budget = 500); world_size = 2)
    reports = SAB.report(sampler, mixture)
    @test [(each.name, each.samples, each.distinct, each.most) for each in reports] == [(:wiki, 300, 300, 1), (:code, 250, 250, 1), (:web, 123, 41, 3)]
    @test sum(each.proportion for each in reports) ≈ 1
    @test all(each -> each.deviation <= 1 && each.padded_total >= each.total, reports)
    @test position(sampler) == 0
    @test status(() -> SAB.report(sampler, mixture; progress = (done, total) -> false)) == Raw.SAB_E_CANCELLED
    @test thrown(() -> SAB.report(sampler, mixture; progress = (done, total) -> error("mine"))).msg == "mine"
    @test status(() -> SAB.report(BucketSampler(Plan([1, 2]; budget = 9)), mixture)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.report(sampler, Mixture([1, 2]; sources = [0, 1]))) == Raw.SAB_E_ARGUMENT
end

@testset "bad mixtures are refused" begin
    for (given, words) in ((repeat = (web = -1,),) => "repeat[3] = -1", (repeat = 0,) => "are all 0", (repeat = 1, temperature = 2) => "only one of",
        (temperature = -1,) => "temperature = -1", (schedule = [0 => 1],) => "schedule_epochs[1] = 0")
        exception = thrown(() -> Mixture(three(); given...))
        @test exception isa SABError && exception.status == Raw.SAB_E_ARGUMENT && occursin(words, exception.message)
    end
    for (given, words) in ((repeat = (books = 1,),) => "repeat has the source :books: the sources are :wiki, :code, :web", (by = :tokens,) => "by = :tokens",
        (proportions = (web = 1,),) => "must have all sources", (proportions = (web = 1, wiki = 1, code = 1), schedule = [1 => 1]) => "goes with repeat only")
        exception = thrown(() -> Mixture(three(); given...))
        @test exception isa ArgumentError && occursin(words, exception.msg)
    end
    @test occursin("sources[2]: has no sample", thrown(() -> Mixture((a = [1], b = Int[]))).message)
    @test occursin("ids[2] = -4", thrown(() -> Mixture([1, 2]; sources = [1, -4])).message)
    @test occursin("length(ids) = 1", thrown(() -> Mixture([1, 2]; sources = [1])).message)
    @test thrown(() -> Mixture([1, 2])) isa UndefKeywordError
    mixture = mixed()
    @test status(() -> vcat(Sizes(mixture), Sizes(mixture))) == Raw.SAB_E_ARGUMENT
    @test status(() -> image(Plan(mixture; budget = 500))) == Raw.SAB_E_UNSUPPORTED
    close(mixture)
    @test !isopen(mixture) && sprint(show, mixture) == "Mixture(closed)"
    @test thrown(() -> SAB.counts(mixture)) isa ArgumentError
end
