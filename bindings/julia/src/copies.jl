# Copies of handles, and handles as bytes: deepcopy, and serialize of the standard library.

# Handles that do not change, or that threads may share: a deep copy is the same handle.
const Unchanging = Union{Plan,Sizes,CostHandle,MemoryModel,Grouping,StepPlan,ContextPlan,Packing,Cache}

"""
    deepcopy(handle)

Plans, sizes, costs, memory models, groupings, packings and caches are shared: the deep copy is the
same handle, and closing one closes the other. A [`Histogram`](@ref) is copied. A [`Sampler`](@ref)
is made again from its arguments and its state: it continues where the other is, and both are then
independent. Streams, probes, memory guards, a [`ShardedSampler`](@ref) and samplers without a state
throw an `ArgumentError` that says what to do instead.
"""
function Base.deepcopy_internal(handle::Handle, copies::IdDict)
    haskey(copies, handle) && return copies[handle]
    return copies[handle] = deep_copy(handle)
end

deep_copy(handle::Unchanging) = handle
function deep_copy(handle::Handle)
    make, arguments = recipe(handle, identity)
    return make(arguments...)
end

# What stands for a handle among serialized values: a function and its arguments, which make it again.
struct Recipe end

"""
    serialize(io, handle)
    deserialize(io)

A [`Plan`](@ref), [`MemoryModel`](@ref), [`Histogram`](@ref), [`Cost`](@ref) or [`Packing`](@ref) is
written as a whole. A [`Sampler`](@ref) is written as its arguments, with all sizes, and its state; a
[`StepPlan`](@ref) as its arguments, with all sizes; a [`Cache`](@ref) as its URL, with passwords, and
options. Other handles throw an `ArgumentError` that says what to do instead.
"""
function Serialization.serialize(io::Serialization.AbstractSerializer, handle::Union{Handle,Mixture})
    Serialization.serialize_cycle(io, handle) && return nothing # it is there already
    made = recipe(handle, portable)
    Serialization.serialize_type(io, Recipe, true)
    serialize(io, made)
    return nothing
end
function Serialization.deserialize(io::Serialization.AbstractSerializer, ::Type{Recipe})
    make, arguments = deserialize(io)
    handle = make(arguments...)
    Serialization.deserialize_cycle(io, handle)
    return handle
end

# The function that makes a handle again, and its arguments, after `taken` of those that it keeps.
recipe(handle::Handle, taken) = cannot(handle, "make it in each process that needs one")
cannot(handle, instead) = throw(ArgumentError("$(name_of(typeof(handle))) cannot be copied or serialized: $instead"))
alive(handle::Handle) = isopen(handle) || throw(ArgumentError("$(name_of(typeof(handle))) is closed"))

read_image(type, image) = read(IOBuffer(image), type)
function image_of(handle)
    io = IOBuffer()
    write(io, handle)
    return take!(io)
end
recipe(handle::Union{MemoryModel,Histogram}, taken) = (read_image, (typeof(handle), image_of(handle)))
recipe(plan::Plan, taken) = isempty(plan.made_from) ? (read_image, (Plan, image_of(plan))) : (alive(plan); (again, (Plan, taken(plan.made_from)...)))
recipe(mixture::Mixture, taken) = (again, (Mixture, taken(mixture.made_from)...))
recipe(sizes::Sizes, taken) = cannot(sizes, "serialize the vector or path that they were made from, or collect(sizes)")
recipe(cost::CostHandle, taken) = (cost.made_from[1], (cost.made_from[2:end]...,))
recipe(grouping::Grouping, taken) = cannot(grouping, "serialize its group_of, and make it by predefined_grouping, or serialize the lengths and thresholds")
recipe(plan::ContextPlan, taken) = cannot(plan, "serialize the lengths and options that it was made from, which give the same plan")
recipe(packing::Packing, taken) = (again, (packing_of, packing.made_from...))
packing_of(image, capacity; given...) = Packing(read_image(Histogram, image), capacity; given...)
recipe(plan::StepPlan, taken) = (again, (plan_step, taken(plan.made_from)...))
recipe(cache::Cache, taken) = (flush(cache); (again, (Cache, url(cache), cache.made_from...)))
recipe(probe::Probe, taken) = cannot(probe, "make a probe in each process that needs one")
recipe(guard::MemoryGuard, taken) = cannot(guard, "make it in the process that trains; the state of its sampler has the budget")
recipe(stream::Stream, taken) = cannot(stream, "make the same pipeline, and restore!(stream, state) with the SAB.state of this one")

# Calls a constructor with the arguments that a handle keeps: those with a name are the last one.
again(make, arguments...) = make(arguments[1:end-1]...; arguments[end]...)

function recipe(sampler::Sampler, taken)
    alive(sampler)
    isempty(sampler.made_from) && cannot(sampler, without_recipe(sampler))
    return (continued, (typeof(sampler).parameters[1], taken(sampler.made_from), state(sampler), sampler.is_running))
end
without_recipe(::ShardedSampler) = "the ranks make it together; save its SAB.state"
without_recipe(::Sampler) = "it has no state; make it anew from its arguments"

function continued(kind::Symbol, arguments, saved, is_running)
    sampler = restore!(again(Sampler{kind}, arguments...), saved)
    sampler.is_copy, sampler.is_running = true, is_running
    return sampler
end

# It has no state, but its passes give the same batches again.
function recipe(sampler::BionemoSampler, taken)
    alive(sampler)
    return (walked_again, (taken(sampler.made_from), tell(sampler)..., generator(sampler), sampler.is_running))
end
function walked_again(arguments, epoch, position, words, is_running)
    sampler = again(BionemoSampler, arguments...)
    for _ in 1:epoch
        foreach(_ -> nothing, sampler)
    end
    begin!(sampler)
    for _ in 1:position
        next_batch!(sampler)
    end
    position == 0 || is_running || next_batch!(sampler) # which reports the end
    generator(sampler) == words || cannot(sampler, "it began a pass twice, or at another epoch, or its generator was set; make it anew from its arguments")
    return sampler
end

# Arguments that another process can use: sizes as numbers.
portable(arguments::Vector{Any}) = Any[portable(each) for each in arguments]
portable(argument) = argument
portable(columns::NamedTuple) = map(portable, columns)
portable(columns::Vector{<:Pair}) = [name => portable(column) for (name, column) in columns]
portable(values::AbstractVector) = is_of_arrow(values) || is_chained(values) ? portable(Sizes(values)) : values
portable(path::AbstractString) = path
function portable(sizes::Sizes)
    names = columns(sizes)
    column_count(sizes) == 1 && isempty(names) && return column(sizes, 1)
    return [name => column(sizes, number) for (number, name) in enumerate(names)]
end
