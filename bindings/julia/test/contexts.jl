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

@testset "pipelines" begin
    found = SAB.find_pipeline_order([1, 8, 2, 4]; stages = 3)
    @test found.order == [3, 4, 2, 1] && found.makespan == 80
    simulated = SAB.simulate_pipeline([1, 8, 2, 4]; stages = 3, order = found.order)
    @test simulated.makespan == 80 && simulated.lower_bound <= 80 && 0 < simulated.idle < 1
    @test size(simulated.tasks) == (8, 3) && maximum(task.stop for task in simulated.tasks) == 80
    @test [task.micro_batch for task in simulated.tasks[:, 3] if task.is_backward] == found.order
    @test SAB.simulate_pipeline([1, 8, 2, 4], [2, 16, 4, 8]; stages = 3).makespan == SAB.simulate_pipeline([1, 8, 2, 4]; stages = 3).makespan
    @test SAB.simulate_pipeline([1, 1]; stages = 2, chunks = 2, transfer = 0.5).tasks[1, 1].chunk == 1
    @test status(() -> SAB.simulate_pipeline([1, -1]; stages = 2)) == Raw.SAB_E_ARGUMENT
    @test status(() -> SAB.simulate_pipeline([1, 1]; stages = 2, order = [1, 1])) == Raw.SAB_E_ARGUMENT
    @test thrown(() -> SAB.simulate_pipeline([1, 1]; stages = 2, order = [0, 1])) isa ArgumentError
    @test thrown(() -> SAB.simulate_pipeline([1, 1], [1]; stages = 2)) isa ArgumentError
    @test status(() -> SAB.find_pipeline_order(1:9; stages = 2, progress = (done, total) -> false)) == Raw.SAB_E_CANCELLED
end
