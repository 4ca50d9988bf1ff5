# Costs of batches, and budgets: limits on costs.

export Cost, Budget

# A cost that the library evaluates itself.
mutable struct CostHandle <: Handle{Raw.sab_cost}
    pointer::Ptr{Raw.sab_cost}
    CostHandle(pointer::Ptr{Raw.sab_cost}) = finalizer(finish, new(pointer))
end
free(cost::Ptr{Raw.sab_cost}) = Raw.sab_cost_free(cost)

"""
    Cost(:padded)
    Cost(:quadratic)
    Cost(coefficients)
    Cost(terms)
    Cost(model)
    Cost(function)

The cost of a batch. `cost(count, length)` is the cost of `count` samples, padded to `length`:

- `:padded`: count × length. `:quadratic`: count × length².
- a vector `c` of numbers: `c[1] + count * (c[2] + c[3] * length + c[4] * length^2 + ...)`.
- a vector of tuples `(coefficient, count_power, length_power)`: the sum of these terms.
- a [`MemoryModel`](@ref) of batches: its upper prediction, in bytes.
- a function of `(count, length)` that never decreases.

Where a `cost` or `balance` is an option, these values can be given directly. In a row nothing is
padded: a term of the count is summed over the samples, each with its own length. A constant counts
once. A function is called for each sample alone.
"""
struct Cost{T}
    given::T # a CostHandle, or a function
    Cost{T}(given) where {T} = new{T}(given)
end
Cost(cost::Cost) = cost
Cost(given) = cost_of(:cost, given)

# The cost that the option of this name gives.
cost_of(name, cost::Cost) = cost
cost_of(name, handle::CostHandle) = Cost{CostHandle}(handle)
cost_of(name, word::Union{Symbol,AbstractString}) = cost_of(name, choice(name, word, (padded = [(1.0, 1, 1)], quadratic = [(1.0, 1, 2)])))
function cost_of(name, coefficients::AbstractVector{<:Real})
    length(coefficients) >= 2 || throw(ArgumentError("$name: must have at least 2 coefficients, not $(length(coefficients))"))
    powers(index) = index == 1 ? (0, 0) : (1, index - 2)
    return cost_of(name, [(each, powers(index)...) for (index, each) in enumerate(coefficients)])
end
function cost_of(name, terms::AbstractVector{<:Tuple{Real,Integer,Integer}})
    raw = map(terms) do (coefficient, count_power, length_power)
        powers = ntuple(column -> column == 1 ? converted(UInt32, "$name: a power", length_power) : UInt32(0), Int(Raw.SAB_MAX_COLUMNS))
        Raw.sab_cost_term(coefficient, converted(UInt32, "$name: a power", count_power), powers)
    end
    return cost_of(name, CostHandle(created(out -> Raw.sab_cost_terms_new(raw, length(raw), out), Raw.sab_cost)))
end
cost_of(name, values::AbstractVector) = throw(ArgumentError("$name: must be coefficients or tuples (coefficient, count_power, length_power), not $(typeof(values))"))
cost_of(name, number::Number) = throw(ArgumentError("$name = $number: must be :padded, :quadratic, coefficients, terms, a MemoryModel, a Cost or a function"))
cost_of(name, run) = Cost{typeof(run)}(run)

function (cost::Cost)(count::Integer, length::Real)
    costs, value = Costs(), Ref(0.0)
    handle = pointer!(costs, cost)
    count = converted(UInt64, :count, count)
    GC.@preserve costs check(calling(() -> Raw.sab_cost_evaluate(handle, count, [Float64(length)], [Float64(count * length)], 1, value)), costs.functions...)
    return value[]
end

Base.show(io::IO, cost::Cost) = print(io, "Cost(", cost.given isa CostHandle ? "terms" : cost.given, ")")

"""
    Budget(limit; cost = nothing)

A limit on the cost of a batch. `cost` is anything that [`Cost`](@ref) takes. By default it is the
padded size of a padded batch, and the sum of the sizes of a row.
"""
struct Budget{C<:Union{Nothing,Cost}}
    limit::Float64
    cost::C
end
Budget(limit::Real; cost = nothing) = Budget(Float64(limit), cost === nothing ? nothing : Cost(cost))

# The costs and budgets of one call: what its options point to, and the functions that it may run.
struct Costs
    functions::Vector{Calls}
    kept::Vector{Any}
    Costs() = new([], [])
end

cost_callback(ctx, count, lengths, totals, columns, cost) = guard(ctx) do calls
    unsafe_store!(cost, Float64(calls.main(Int(count), unsafe_load(lengths))))
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
raw!(costs::Costs, budget::Budget) = Raw.sab_budget(pointer!(costs, budget.cost), budget.limit)

# Budgets as the options `budget` and `cost` give them.
function budget_list(budget, cost)
    cost === nothing || budget isa Real || throw(ArgumentError("cost: goes with a budget that is a number; a Budget has a cost of its own"))
    budget === nothing && return Budget[]
    budget isa Real && return [Budget(budget; cost = cost)]
    budget isa Budget && return [budget]
    return [each isa Budget ? each : Budget(each) for each in budget]
end

# Sets the budgets of options.
function set_budgets!(given, budget, cost, costs::Costs)
    array = Raw.sab_budget[raw!(costs, each) for each in budget_list(budget, cost)]
    isempty(array) && return nothing
    push!(costs.kept, array)
    given.budgets, given.budget_count = pointer(array), length(array)
    return nothing
end

# Sets the cost that options even out.
function set_balance!(given, balance, costs::Costs)
    balance === nothing && return nothing
    array = [pointer!(costs, cost_of(:balance, balance))]
    push!(costs.kept, array)
    given.balance, given.balance_count = pointer(array), length(array)
    return nothing
end
