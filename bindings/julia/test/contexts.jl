@testset "context plans" begin
    lengths = [1 + i^2 * 7919 % 9973 for i in 0:39]
    plan = SAB.ContextPlan(lengths; world_size = 16, budget = 1000, cost = [0, 0, 1, 2.0^-12], overhead = 16)
    @test plan.makespan == 32181.948364257812 && plan.lower_bound <= plan.makespan && plan.gap > 0
    places = [64 * (part.sample - 1) + part.part for rank in 0:15 for part in SAB.parts(plan, rank)]
    @test sum(i * place for (i, place) in enumerate(places)) == 41329840 # as in all languages
    seen = [zeros(Int, length) for length in lengths]
    for rank in 0:15, part in SAB.parts(plan, rank)
        @test length(part.head) + length(part.tail) <= 1000 && part.stop <= plan.makespan
        seen[part.sample][part.head] .+= 1
        seen[part.sample][part.tail] .+= 1
    end
    @test all(all(==(1), each) for each in seen)
    @test occursin("40 samples on 16 ranks", sprint(show, plan))
    any = SAB.ContextPlan(lengths; world_size = 16, budget = 1000, cost = (count, length) -> count * length, groups = :any_number)
    @test any.samples == 40 && any.world_size == 16
    @test thrown(() -> SAB.parts(plan, 16)) isa ArgumentError
    @test status(() -> SAB.ContextPlan(lengths; world_size = 0, budget = 1)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.ContextPlan(lengths; world_size = 2, budget = 1000)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.ContextPlan(lengths; world_size = 16, budget = 1000, overhead = -1)) == Raw.SAB_E_ARGUMENT
    @test thrown(() -> SAB.ContextPlan(lengths; world_size = 16, budget = 1000, groups = :two)) isa ArgumentError
    @test thrown(() -> SAB.ContextPlan(lengths; world_size = 16, budget = 1000, cost = (count, length) -> error("no"))) isa ErrorException
    @test status(() -> SAB.ContextPlan(lengths; world_size = 16, budget = 1000, overhead = 16, progress = (done, total) -> false)) == Raw.SAB_E_CANCELLED
end
