# Step plans: their rules, the golden vectors, and what is refused.

# The plan of the lines of a golden case.
function golden_step_plan(lines)
    sizes, budgets, given = Vector{UInt32}[], Any[], Dict{Symbol,Any}()
    for words in lines
        key, values = words[1], words[2:end]
        key == "sizes" && push!(sizes, numbers(values))
        key == "budget" && push!(budgets, length(values) == 1 ? SAB.Budget(parse(Float64, values[1])) : SAB.Budget(parse(Float64, values[1]); cost = :quadratic))
        key in ("groups", "prefix") && (given[Symbol(key)] = parse.(Int64, values))
        key == "parents" && (given[:parent] = parse.(Int64, values) .+ 1)
        key == "whole_groups" && (given[:whole_groups] = true)
        key == "balance" && (given[:balance] = :quadratic)
        key in ("layout", "order") && (given[Symbol(key)] = Symbol(values[1]))
        key in ("world_size", "micro_batches", "multiple") && (given[Symbol(key)] = parse(Int, values[1]))
    end
    isempty(budgets) || (given[:budget] = budgets)
    return SAB.plan_step(length(sizes) == 1 ? sizes[1] : (first = sizes[1], second = sizes[2]); given...)
end

@testset "golden step plans" begin
    lines, cases = Any[], 0
    for line in eachline(joinpath(GOLDEN, "steps", "step_plans.txt"))
        words = String.(split(line))
        (isempty(words) || startswith(line, "#")) && continue
        words[1] == "case" && empty!(lines)
        words[1] == "end" || (push!(lines, words); continue)
        plan = golden_step_plan(lines)
        expected = Dict(words[1] => numbers(words[2:end]) for words in lines if words[1] in ("plan", "indices", "offsets"))
        @test [plan.micro_batches] == expected["plan"]
        @test parent(plan.indices) == expected["indices"]
        @test plan.offsets == expected["offsets"]
        segments = [parse.(Int64, words[2:end]) for words in lines if words[1] == "segments"]
        found = plan.segments === nothing ? [] : [[(collect(each) .- (1, 1, 1, 0, 0, 0))...] for part in plan.segments for each in part]
        @test reduce(vcat, found; init = Int64[]) == reduce(vcat, segments; init = Int64[])
        cases += 1
    end
    @test cases > 10
end

@testset "step plans" begin
    lengths = [7, 2, 5, 3, 6, 1]
    plan = SAB.plan_step(lengths; world_size = 2, budget = 8)
    @test sort(vcat(vcat(plan[1]...), vcat(plan[2]...))) == 1:6
    @test all(sum(lengths[micro_batch]) <= 8 for rank in plan for micro_batch in rank)
    @test lengths[plan.indices][plan.inverse] == lengths
    @test plan.cu_seqlens[1] == cumsum([0; lengths[plan[1][1]]])
    @test plan.rank_imbalance == [1.0] == plan.least_rank_imbalance
    @test size(plan.costs) == (2, 2, 1) && sum(plan.costs) == sum(lengths)
    @test repr(plan) == "StepPlan(6 samples, 2 ranks, 2 micro-batches each, slowest rank 1.0 of the mean)"
    @test_throws BoundsError plan[3]
    padded = SAB.plan_step(lengths; world_size = 2, budget = 8, layout = :padded, order = :bell)
    @test padded.cu_seqlens === nothing
    @test all(length(each) * maximum([0; lengths[each]]) <= 8 for rank in padded for each in rank)
    grouped = SAB.plan_step([1, 2, 3, 4]; world_size = 2, budget = 10, groups = [7, -1, 7, 7])
    @test SAB.loss_weights(grouped) == [0.1, 0.2, 0.3, 0.4]
    @test SAB.loss_weights(grouped, :group)[2] == 0.5
    @test SAB.loss_weights(grouped, :token; tokens = [0, 1, 1, 2]) == [0, 0.25, 0.25, 0.5]
    @test_throws ArgumentError SAB.loss_weights(grouped, :token; tokens = [1])
    @test_throws ArgumentError SAB.plan_step(lengths; budget = 8, groups = [1])
    shared = SAB.plan_step([7, 9, 6]; budget = 16, groups = [0, 0, 1], prefix = [5, 5, 0])
    @test shared.segments[1] == [(node = 0, sample = 1, parent = 0, position = 0, offset = 0, length = 5),
        (node = 1, sample = 1, parent = 1, position = 5, offset = 5, length = 2), (node = 2, sample = 2, parent = 1, position = 5, offset = 7, length = 4)]
    @test shared.cu_seqlens == [[0, 5, 7, 11], [0, 6]] && plan.segments === nothing
    forest = SAB.plan_step([7, 9, 6]; budget = 30, parent = [0, 1, 1])
    @test parent(forest.indices) == [1, 2] && SAB.loss_weights(forest, :sample) == [0, 0.5, 0.5]
    @test thrown(() -> SAB.plan_step([7, 9]; budget = 30, parent = [2, 1])).message == "parent[1] = 2: its node must not be above itself"
    @test thrown(() -> SAB.plan_step([7, 9]; budget = 30, parent = [0, 3])) == ArgumentError("parent[2] = 3: must be 0, or at most the number of nodes, 2")
    @test thrown(() -> SAB.plan_step(lengths; budget = 6)).message == "sizes[1] = 7: must fit budget = 6 alone; 1 of 6 samples do not"
    @test thrown(() -> SAB.plan_step(lengths; budget = 8, balance = (count, length) -> error("mine"))) isa ErrorException
    both = SAB.plan_step((images = [1, 2, 3, 4], tokens = [10, 20, 30, 40]); world_size = 2, budget = (images = 6, tokens = 60))
    @test length(both.cu_seqlens[1]) == 2
end
