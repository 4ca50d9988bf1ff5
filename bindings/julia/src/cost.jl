# Costs of batches, and budgets: limits on costs.

export Cost, Budget

# A cost that the library evaluates itself.
mutable struct CostHandle <: Handle{Raw.sab_cost}
    pointer::Ptr{Raw.sab_cost}
    made_from::Vector{Any} # a function, and its arguments; nothing of a cost of one call
    CostHandle(pointer::Ptr{Raw.sab_cost}, made_from...) = finalizer(finish, new(pointer, Any[made_from...]))
end
free(cost::Ptr{Raw.sab_cost}) = Raw.sab_cost_free(cost)

"""
    Cost(:padded)
    Cost(:quadratic)
    Cost(:transformer; hidden, layers)
    Cost(coefficients)
    Cost(terms)
    Cost(model)
    Cost(function)

The cost of a batch. `cost(count, length)` is the cost of `count` samples, padded to `length`, or to
a vector with a length for each column:

- `:padded`: count × length. `:quadratic`: count × length².
- `:transformer`: layers × (24 × count × length × hidden² + 4 × count × length² × hidden), the time of
  a transformer's step in floating-point operations of its forward pass.
- a vector `c` of numbers: `c[1] + count * (c[2] + c[3] * length + c[4] * length^2 + ...)`.
- a vector of tuples `(coefficient, count_power, length_power)`: the sum of these terms. With several
  columns `length_power` is a tuple with a power for each.
- a [`MemoryModel`](@ref) of batches: its upper prediction, in bytes.
- a function of `(count, length)` that never decreases; of several columns of `(count, lengths,
  totals)`, with a number for each.

Where a `cost` or `balance` is an option, these values can be given directly. With several columns
`:padded` is count × the sum of the lengths, `:product` is count × their product, and a `NamedTuple`
such as `(source = 1, target = 2.5)` is count × their sum with these weights.
In a row nothing is padded: a term of the count is summed over the samples, each with its own length.
A constant counts once. A function is called for each sample alone.
"""
struct Cost{T}
    given::T # a CostHandle, or a function
    Cost{T}(given) where {T} = new{T}(given)
end
Cost(cost::Cost) = cost
Cost(given) = cost_of(:cost, given)
function Cost(word::Symbol; model...)
    word === :transformer && return Cost{CostHandle}(transformer(; model...))
    isempty(model) || throw(ArgumentError("$(first(keys(model))): is for Cost(:transformer)"))
    return cost_of(:cost, word)
end
transformer(; hidden, layers) = transformer(hidden, layers)
transformer(hidden, layers) = CostHandle(created(out -> Raw.sab_cost_transformer_new(converted(UInt64, :hidden, hidden), converted(UInt64, :layers, layers), out), Raw.sab_cost), transformer, hidden, layers)

# The cost that the option of this name gives.
cost_of(name, cost::Cost) = cost
cost_of(name, handle::CostHandle) = Cost{CostHandle}(handle)
cost_of(name, word::Union{Symbol,AbstractString}) = cost_of(name, choice(name, word, (padded = [(1.0, 1, 1)], quadratic = [(1.0, 1, 2)])))
function cost_of(name, coefficients::AbstractVector{<:Real})
    length(coefficients) >= 2 || throw(ArgumentError("$name: must have at least 2 coefficients, not $(length(coefficients))"))
    powers(index) = index == 1 ? (0, 0) : (1, index - 2)
    return cost_of(name, [(each, powers(index)...) for (index, each) in enumerate(coefficients)])
end
cost_of(name, terms::AbstractVector{<:Tuple{Real,Integer,Union{Integer,Tuple}}}) = cost_of(name, sum_of_terms(collect(terms), name))
function sum_of_terms(terms, name = :terms)
    powers = [UInt32[converted(UInt32, "$name: a power", power) for power in length_power] for (_, _, length_power) in terms]
    return GC.@preserve powers begin
        raw = map(terms, powers) do (coefficient, count_power, _), each
            Raw.sab_cost_term(coefficient, converted(UInt32, "$name: a power", count_power), length(each), pointer(each), (0, 0))
        end
        CostHandle(created(out -> Raw.sab_cost_terms_new(raw, length(raw), out), Raw.sab_cost), sum_of_terms, terms)
    end
end
cost_of(name, values::AbstractVector) = throw(ArgumentError("$name: must be coefficients or tuples (coefficient, count_power, length_power), not $(typeof(values))"))
cost_of(name, number::Number) = throw(ArgumentError("$name = $number: must be :padded, :quadratic, coefficients, terms, a MemoryModel, a Cost or a function"))
cost_of(name, weights::NamedTuple) = throw(ArgumentError("$name = $weights: weights of columns are for the options of plans and samplers, which know the columns"))
cost_of(name, run) = Cost{typeof(run)}(run)

# The cost that the option of this name gives for sizes with these columns.
cost_of(name, given, columns) = cost_of(name, given)
cost_of(name, weights::NamedTuple, columns) = weighted(by_column(name, weights, columns))
function cost_of(name, word::Union{Symbol,AbstractString}, columns)
    count = length(columns)
    Symbol(word) === :padded && return weighted(ones(count))
    Symbol(word) === :product && return cost_of(name, [(1.0, 1, ntuple(_ -> 1, count))])
    count == 1 || Symbol(word) !== :quadratic || throw(ArgumentError("$name = $(repr(word)): is for one column, not $count; terms say which columns are squared"))
    return cost_of(name, choice(name, word, (padded = nothing, product = nothing, quadratic = :quadratic)))
end
function cost_of(name, coefficients::AbstractVector{<:Real}, columns)
    length(columns) == 1 || throw(ArgumentError("$name: coefficients are for one column, not $(length(columns)); a NamedTuple has a weight for each"))
    return cost_of(name, coefficients)
end
# count * (weights[1] * length of the first column + ...)
weighted(weights) = Cost{CostHandle}(weighted_handle(weights))
weighted_handle(weights) = CostHandle(created(out -> Raw.sab_cost_padded_new(weights, length(weights), out), Raw.sab_cost), weighted_handle, weights)

(cost::Cost)(count::Integer, length::Real) = cost(count, [length])
function (cost::Cost)(count::Integer, lengths::AbstractVector{<:Real})
    costs, value = Costs(), Ref(0.0)
    handle = pointer!(costs, cost)
    count, lengths = converted(UInt64, :count, count), dense(Float64, lengths)
    GC.@preserve costs check(calling(() -> Raw.sab_cost_evaluate(handle, count, lengths, C_NULL, length(lengths), value)), costs.functions...)
    return value[]
end

Base.show(io::IO, cost::Cost) = print(io, "Cost(", cost.given isa CostHandle ? "terms" : cost.given, ")")

"""
    Budget(limit; cost = nothing)

A limit on the cost of a batch. `cost` is anything that [`Cost`](@ref) takes. By default it is the
padded size of a padded batch, and the sum of the sizes of a row.
"""
struct Budget{C<:Union{Nothing,Cost,Symbol,NamedTuple,Vector{Float64}}}
    limit::Float64
    cost::C # words, weights and coefficients depend on the columns
end
Budget(limit::Real; cost = nothing) = Budget(Float64(limit), kept_cost(cost))
kept_cost(cost) = Cost(cost)
kept_cost(cost::Union{Nothing,NamedTuple}) = cost
kept_cost(coefficients::AbstractVector{<:Real}) = (Cost(coefficients); dense(Float64, coefficients)) # refused now, where they are wrong
kept_cost(word::Union{Symbol,AbstractString}) = choice(:cost, word, (padded = :padded, product = :product, quadratic = :quadratic))

# The costs and budgets of one call: what its options point to, and the functions that it may run.
struct Costs
    functions::Vector{Calls}
    kept::Vector{Any}
    Costs() = new([], [])
end

cost_callback(ctx, count, lengths, totals, columns, cost) = guard(ctx) do calls
    given = columns == 1 ? (unsafe_load(lengths),) : (shown(lengths, columns), shown(totals, columns))
    unsafe_store!(cost, Float64(calls.main(Int(count), given...)))
    0
end

# The handle of a cost, which is valid as long as `costs`.
function pointer!(costs::Costs, cost::Cost)
    handle = cost.given
    if !(handle isa CostHandle)
        calls = Calls(handle)
        push!(costs.functions, calls)
        callback = @cfunction(cost_callback, Int32, (Ptr{Cvoid}, UInt64, Ptr{Float64}, Ptr{Float64}, Csize_t, Ptr{Float64}))
        handle = CostHandle(created(out -> Raw.sab_cost_callback_new(callback, calls, C_NULL, out), Raw.sab_cost))
    end
    push!(costs.kept, handle)
    return Base.unsafe_convert(Ptr{Raw.sab_cost}, handle)
end
pointer!(costs::Costs, ::Nothing) = Ptr{Raw.sab_cost}(C_NULL)
function raw!(costs::Costs, budget::Budget, columns = ONE_COLUMN)
    cost = budget.cost === nothing ? nothing : cost_of(:cost, budget.cost, columns)
    return Raw.sab_budget(pointer!(costs, cost), budget.limit, (0, 0))
end

# Budgets as the options `budget` and `cost` give them.
function budget_list(budget, cost)
    cost === nothing || budget isa Real || throw(ArgumentError("cost: goes with a budget that is a number; a Budget has a cost of its own"))
    budget === nothing && return Budget[]
    budget isa Real && return [Budget(budget; cost = cost)]
    budget isa Budget && return [budget]
    budget isa NamedTuple && return [Budget(limit; cost = NamedTuple{(name,)}((1.0,))) for (name, limit) in pairs(budget)]
    return [each isa Budget ? each : Budget(each) for each in budget]
end

# Sets the budgets of options for sizes with these columns.
function set_budgets!(given, budget, cost, costs::Costs, columns)
    array = Raw.sab_budget[raw!(costs, each, columns) for each in budget_list(budget, cost)]
    isempty(array) && return nothing
    push!(costs.kept, array)
    given.budgets, given.budget_count = pointer(array), length(array)
    return nothing
end

# The costs that options even out: a vector or tuple of numbers is a single one.
balance_list(balance) = balance isa Union{AbstractVector,Tuple} && !all(each -> each isa Real, balance) ? collect(Any, balance) : Any[balance]

# Sets the costs that options even out, for sizes with these columns.
function set_balance!(given, balance, costs::Costs, columns)
    balance === nothing && return nothing
    array = [pointer!(costs, cost_of(:balance, each, columns)) for each in balance_list(balance)]
    push!(costs.kept, array)
    given.balance, given.balance_count = pointer(array), length(array)
    return nothing
end
