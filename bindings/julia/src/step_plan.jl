# The samples of one step on ranks and micro-batches.

export StepPlan, plan_step, loss_weights

const Segment = NamedTuple{(:node, :sample, :parent, :position, :offset, :length),NTuple{6,Int}}
segment(each) = Segment((each.node + 1, each.sample + 1, each.parent + 1, each.position, each.offset, each.length))

"""
The samples of one step, divided among ranks and micro-batches: what [`plan_step`](@ref) returns.
Immutable.

- `world_size`, `micro_batches`: ranks, and micro-batches of each
- `least_micro_batches`: a lower bound on them, rounded up to `multiple`
- `indices`: the samples of the first micro-batch of the first rank, then of its second, ...
- `offsets`: from 0: the number of samples before each micro-batch, of all ranks
- `inverse`: the position of each sample in `indices`, which restores the order of results; with
  `parent` in the order of the leaves
- `cu_seqlens`: for each micro-batch of all ranks its cumulative lengths, from 0, of its segments if
  it has some; of sizes with several columns a vector for each column; `nothing` in the padded layout, and when sizes are not
  whole numbers with sums below 2^31
- `segments`: with `prefix` or `parent`, for each micro-batch of all ranks what it computes once: a
  vector of named tuples in the order of the tokens. `node`: the node, or with `prefix` the sample
  whose own tokens these are, 0 for a prefix; `sample`: the first that has these tokens; `parent`:
  the segment before it in its samples, 0 at their beginning; `position` and `offset`: tokens before
  it in its samples, and in the micro-batch; `length`. A segment attends to itself and to those
  above it. Otherwise `nothing`
- `costs`: the cost of each micro-batch (by micro-batch, rank and balanced cost)
- `rank_imbalance`, `least_rank_imbalance`, `micro_step_imbalance`: for each balanced cost the
  costliest rank to the mean, a lower bound on it, and the sum over micro-steps of the costliest
  micro-batch to the mean of the ranks

`plan[rank]`, from 1, has the indices of each micro-batch of a rank.
"""
mutable struct StepPlan <: Handle{Raw.sab_step_plan}
    pointer::Ptr{Raw.sab_step_plan}
    world_size::Int
    micro_batches::Int
    least_micro_batches::Int
    indices::OneBased
    offsets::Vector{Int64}
    inverse::OneBased
    cu_seqlens::Union{Nothing,Vector{Vector{Int32}},Vector{Vector{Vector{Int32}}}}
    segments::Union{Nothing,Vector{Vector{Segment}}}
    costs::Array{Float64,3}
    rank_imbalance::Vector{Float64}
    least_rank_imbalance::Vector{Float64}
    micro_step_imbalance::Vector{Float64}
    nodes::Int
    made_from::Vector{Any} # arguments of plan_step, the named ones last
    function StepPlan(pointer::Ptr{Raw.sab_step_plan}, made_from)
        plan = finalizer(finish, new(pointer))
        plan.made_from = made_from
        seen = filled(out -> Raw.sab_step_plan_get_view(plan, out), Raw.sab_step_plan_view)
        parts, kinds = Int(seen.world_size * seen.micro_batches), Int(seen.balance_count)
        plan.world_size, plan.micro_batches, plan.least_micro_batches = seen.world_size, seen.micro_batches, seen.least_micro_batches
        plan.indices, plan.inverse = OneBased(shown(seen.indices, seen.samples)), OneBased(shown(seen.inverse, seen.samples))
        plan.offsets = shown(seen.offsets, parts + 1)
        plan.costs = reshape(shown(seen.costs, kinds * parts), plan.micro_batches, plan.world_size, kinds)
        plan.rank_imbalance, plan.least_rank_imbalance = shown(seen.rank_imbalance, kinds), shown(seen.least_rank_imbalance, kinds)
        plan.micro_step_imbalance = shown(seen.micro_step_imbalance, kinds)
        rows = seen.segments == C_NULL ? plan.offsets : shown(seen.segment_offsets, parts + 1)
        segments = seen.segments == C_NULL ? Raw.sab_step_segment[] : shown(seen.segments, rows[end])
        plan.segments = seen.segments == C_NULL ? nothing : [segment.(segments[(rows[part] + 1):rows[part + 1]]) for part in 1:parts]
        columns = seen.cu_seqlens == C_NULL ? Vector{Int32}[] : [shown(each, rows[end] + parts) for each in shown(seen.cu_seqlens, seen.columns)]
        places = [(rows[part] + part):(rows[part + 1] + part) for part in 1:parts]
        plan.nodes = seen.nodes
        plan.cu_seqlens = isempty(columns) ? nothing : length(columns) == 1 ? [columns[1][place] for place in places] : [[column[place] for column in columns] for place in places]
        return plan
    end
end
free(plan::Ptr{Raw.sab_step_plan}) = Raw.sab_step_plan_free(plan)

Base.length(plan::StepPlan) = plan.world_size
Base.eltype(::Type{StepPlan}) = Vector{Vector{Int64}}
Base.iterate(plan::StepPlan, rank = 1) = rank > length(plan) ? nothing : (plan[rank], rank + 1)
function Base.getindex(plan::StepPlan, rank::Integer)
    1 <= rank <= plan.world_size || throw(BoundsError(plan, rank))
    parts = ((rank - 1) * plan.micro_batches + 1):(rank * plan.micro_batches)
    return [plan.indices[(plan.offsets[part] + 1):plan.offsets[part + 1]] for part in parts]
end
Base.show(io::IO, plan::StepPlan) =
    print(io, "StepPlan(", length(plan.indices), " samples, ", plan.world_size, " ranks, ", plan.micro_batches, " micro-batches each, slowest rank ",
        join(round.(plan.rank_imbalance; digits = 4), ", "), " of the mean)")

const MICRO_BATCH_ORDERS = (ascending = Raw.SAB_MICRO_BATCHES_ASCENDING, descending = Raw.SAB_MICRO_BATCHES_DESCENDING, bell = Raw.SAB_MICRO_BATCHES_BELL)
const STEP_LAYOUTS = (row = false, padded = true)
const LOSS_WEIGHTINGS = (sample = Raw.SAB_LOSS_BY_SAMPLE, token = Raw.SAB_LOSS_BY_TOKEN, group = Raw.SAB_LOSS_BY_GROUP)

# Numbers of a keyword, one for each size; nothing without it.
function as_many(name, numbers, sizes)
    numbers === nothing && return nothing
    all = dense(Int64, numbers)
    length(all) == length(sizes) || throw(ArgumentError("$name: must be as many as lengths, $(length(sizes)), not $(length(all))"))
    return all
end

"""
    plan_step(lengths; world_size = 1, budget, cost, micro_batches, multiple = 1, layout = :row,
              balance, groups, prefix, parent, whole_groups = false, order = :descending, progress)

Divides the samples of one step among ranks and micro-batches, when their lengths are known only as
the step begins: a [`StepPlan`](@ref). No micro-batch exceeds a `budget`: a number of tokens, a
[`Budget`](@ref) with a cost, or a vector of them. All ranks have the same number of micro-batches:
the fewest that were found or `micro_batches`, rounded up to a `multiple`. Ranks cost nearly the
same by `balance`, by default the cost of the first budget, in sum and in each micro-step. Samples
with the same id in `groups` are of the same rank.

`prefix` has for each sample the number of leading tokens that it shares with its group. A
micro-batch computes them once. A group may then be on several ranks, unless `whole_groups`. In place
of `groups` and `prefix`, `parent` has for each node of a forest its parent, or 0. `lengths` are then
the tokens of the nodes, the samples are the leaves, and the index of a sample is that of its leaf.

`layout = :padded`: micro-batches are padded to their longest sample. `order` of the micro-batches
of a rank by cost: `:descending`, `:ascending`, or `:bell` with the costliest in the middle.
"""
function plan_step(lengths; world_size = nothing, budget = nothing, cost = nothing, micro_batches = nothing, multiple = nothing, layout = nothing,
                   balance = nothing, groups = nothing, prefix = nothing, parent = nothing, whole_groups = nothing, order = nothing, progress = nothing)
    calls, costs, names = Calls(; progress = progress), Costs(), column_names(lengths)
    given = options(Raw.sab_step_plan_options; world_size = world_size, micro_batches = micro_batches, multiple = multiple, padded = choice(:layout, layout, STEP_LAYOUTS),
        order = choice(:order, order, MICRO_BATCH_ORDERS), whole_groups = whole_groups, progress = progress_pointer(), progress_ctx = pointer_from_objref(calls))
    set_budgets!(given, budget, cost, costs, names)
    set_balance!(given, balance, costs, names)
    sizes = read_sizes(lengths, progress, costs.functions...)
    ids, shared = as_many(:groups, groups, sizes), as_many(:prefix, prefix, sizes)
    above = parent === nothing ? nothing : as_many(:parent, parent, sizes) .- 1
    outside = above === nothing ? nothing : findfirst(node -> !(-1 <= node < length(above)), above)
    outside === nothing || throw(ArgumentError("parent[$outside] = $(above[outside] + 1): must be 0, or at most the number of nodes, $(length(above))"))
    ids === nothing || (given.groups = pointer(ids))
    shared === nothing || (given.prefix = pointer(shared))
    above === nothing || (given.parents = pointer(above))
    own = (world_size = world_size, budget = budget, cost = cost, micro_batches = micro_batches, multiple = multiple, layout = layout, balance = balance,
        groups = ids, prefix = shared, parent = above === nothing ? nothing : above .+ 1, whole_groups = whole_groups, order = order)
    made_from = Any[lengths isa StridedVector{<:Sized} ? copy(lengths) : sizes, own]
    return GC.@preserve calls costs ids shared above StepPlan(created(out -> Raw.sab_step_plan_new(sizes, given, out), Raw.sab_step_plan, calls, costs.functions...), made_from)
end

"""
    loss_weights(plan::StepPlan, by = :token; tokens)

The weight of each sample in the loss of the step, with a sum of 1. The loss of a sample is the mean
over its tokens. `by`: each `:sample`, each `:token`, or each `:group` counts equally. `tokens` has
those of each sample that count in the loss, such as those of a response; by default all. A framework
that averages gradients over ranks needs `world_size` times this loss. With `parent` there is one
number for each node, 0 for those that are not leaves.
"""
function loss_weights(plan::StepPlan, by::Symbol = :token; tokens = nothing)
    counted = tokens === nothing ? C_NULL : dense(Float64, tokens)
    tokens === nothing || length(counted) == plan.nodes || throw(ArgumentError("tokens: must be as many as lengths, $(plan.nodes), not $(length(counted))"))
    weights = Vector{Float64}(undef, plan.nodes)
    check(Raw.sab_step_plan_get_loss_weights(plan, choice(:by, by, LOSS_WEIGHTINGS), counted, weights))
    return weights
end
