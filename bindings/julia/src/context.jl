# Samples that are split over several ranks.

export ContextPlan, parts

const CONTEXT_GROUPS = (powers_of_two = Raw.SAB_CONTEXT_POWERS_OF_TWO, any_number = Raw.SAB_CONTEXT_ANY_NUMBER)

"""
    ContextPlan(lengths; world_size, budget, cost = the length, overhead = 0, groups = :powers_of_two,
                progress)

Samples that are split over groups of ranks, so that the ranks end early: context parallelism with
groups of different sizes. The same arguments give the same plan on all ranks.

A rank holds at most `budget` tokens at a time. It computes its parts one after another, and begins a
part when all ranks of the group are free. On k ranks a sample takes `cost / k + overhead * (k - 1)`.
`cost` is anything that [`Cost`](@ref) takes: `[0, 0, a, b]` is `a * length + b * length^2`. Groups
have 1, 2, 4, ... ranks, or with `groups = :any_number` any number of them.

    plan = ContextPlan([40, 8, 8, 8]; world_size = 4, budget = 16, overhead = 0.5)
    for part in SAB.parts(plan, rank)
        tokens = [samples[part.sample][part.head]; samples[part.sample][part.tail]]
    end

- `samples`, `world_size`: their numbers
- `makespan`: when the last rank ends, if each takes the time that cost and overhead say
- `lower_bound`: no plan for these groups has a lower makespan
- `gap`: `makespan / lower_bound - 1`
"""
mutable struct ContextPlan <: Handle{Raw.sab_context_plan}
    pointer::Ptr{Raw.sab_context_plan}
    world_size::Int
    samples::Int
    makespan::Float64
    lower_bound::Float64
    gap::Float64
    function ContextPlan(pointer::Ptr{Raw.sab_context_plan})
        plan = finalizer(finish, new(pointer))
        seen = context_view(plan)
        plan.world_size, plan.samples = seen.world_size, seen.samples
        plan.makespan, plan.lower_bound, plan.gap = seen.makespan, seen.lower_bound, seen.gap
        return plan
    end
end
free(plan::Ptr{Raw.sab_context_plan}) = Raw.sab_context_plan_free(plan)
context_view(plan) = filled(out -> Raw.sab_context_plan_get_view(plan, out), Raw.sab_context_plan_view)

function ContextPlan(lengths; world_size::Integer, budget::Integer, cost = nothing, overhead = nothing, groups = nothing, progress = nothing)
    calls, costs = Calls(; progress = progress), Costs()
    given = options(Raw.sab_context_options; overhead = overhead, groups = choice(:groups, groups, CONTEXT_GROUPS), progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    given.cost = pointer!(costs, cost === nothing ? nothing : Cost(cost))
    lengths = read_sizes(lengths, progress, costs.functions...)
    ranks, tokens = converted(UInt64, :world_size, world_size), converted(UInt64, :budget, budget)
    return GC.@preserve costs calls ContextPlan(created(out -> Raw.sab_context_plan_new(lengths, ranks, tokens, given, out), Raw.sab_context_plan, calls, costs.functions...))
end

"""
    parts(plan, rank)

The parts of a rank, from 0, in the order in which it computes them. Each has

- `sample`: the index of the sample, from 1
- `part` and `of`: the number of the part, from 0, and the number of parts: the rank in the group,
  and the number of ranks in it
- `head` and `tail`: ranges of tokens, from 1. With causal attention all parts have the same work
- `start` and `stop`: when all ranks of the group begin and end the sample
"""
function parts(plan::ContextPlan, rank::Integer)
    0 <= rank < plan.world_size || throw(ArgumentError("rank = $rank: must be from 0 to below $(plan.world_size)"))
    return GC.@preserve plan begin
        seen = context_view(plan)
        first, last = unsafe_load(seen.offsets, rank + 1) + 1, unsafe_load(seen.offsets, rank + 2)
        map(i -> context_part(unsafe_load(seen.parts, i)), first:last)
    end
end
context_part(part) = (sample = Int(part.sample) + 1, part = Int(part.part), of = Int(part.of), head = Int(part.head_begin)+1:Int(part.head_end),
    tail = Int(part.tail_begin)+1:Int(part.tail_end), start = part.start, stop = part.end_)

Base.show(io::IO, plan::ContextPlan) = print(io, "ContextPlan($(plan.samples) samples on $(plan.world_size) ranks, makespan $(plan.makespan))")
