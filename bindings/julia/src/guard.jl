# The memory guard.

export MemoryGuard, step!, measure!

"""
    MemoryGuard(sampler, probe; budget, interval = 16, window = 64, reduce)

Measures the memory of real steps, and lowers the first budget of the sampler before their peaks
exceed `budget` bytes, by default the total of the device.
`reduce(values)` returns the minimum over all ranks, so that they lower alike. A step that runs out
is run again in halves. For the task of its sampler.
"""
mutable struct MemoryGuard{S<:Sampler,P<:Probe,C<:Calls} <: Handle{Raw.sab_memory_guard}
    pointer::Ptr{Raw.sab_memory_guard}
    sampler::S
    probe::P
    calls::C
    MemoryGuard(pointer::Ptr{Raw.sab_memory_guard}, sampler::S, probe::P, calls::C) where {S,P,C} = finalizer(finish, new{S,P,C}(pointer, sampler, probe, calls))
end
free(guard::Ptr{Raw.sab_memory_guard}) = Raw.sab_memory_guard_free(guard)
is_busy(guard::MemoryGuard) = is_running(guard.sampler.guarded)

function MemoryGuard(sampler::Sampler, probe::Probe; budget = nothing, interval = nothing, window = nothing, reduce = nothing)
    calls = Calls(Work(nothing, probe, reduce))
    given = options(Raw.sab_memory_guard_options; limit = budget, interval = interval, window = window)
    reduce === nothing || (given.reduce = reduce_pointer(); given.reduce_ctx = pointer_from_objref(calls))
    pointer = GC.@preserve calls created(out -> Raw.sab_memory_guard_new(probe, sampler, given, out), Raw.sab_memory_guard, probe.calls, calls)
    return MemoryGuard(pointer, sampler, probe, calls)
end

# A batch as C has it, and the numbers that it points to.
function shape(batch::Batch)
    raw, numbers = Raw.sab_batch(), Float64[batch.longest...; batch.padded_length...; batch.total...]
    columns = length(batch.longest)
    raw.indices, raw.count, raw.layout, raw.columns = C_NULL, length(batch), batch.layout === :row ? Raw.SAB_LAYOUT_ROW : Raw.SAB_LAYOUT_PADDED, columns
    raw.longest, raw.padded_length, raw.total = pointer(numbers, 1), pointer(numbers, columns + 1), pointer(numbers, 2columns + 1)
    raw.bucket, raw.epoch, raw.step, raw.micro_batch, raw.id = batch.bucket - 1, batch.epoch, batch.step, batch.micro_batch, batch.id
    return raw, numbers
end

# A call on a guard, which uses its sampler.
guarding(run, guard::MemoryGuard, functions::Calls...) = GC.@preserve guard begin
    isopen(guard.sampler) || throw(ArgumentError("the sampler of the MemoryGuard is closed"))
    refuse_busy(guard)
    called = (guard.probe.calls, guard.calls, functions...)
    append!(guard.sampler.guarded, filter(calls -> calls !== nothing, collect(Any, called)))
    try
        check(calling(run), called...)
    finally
        empty!(guard.sampler.guarded)
    end
end

"""
    step!(chunk, guard, batch; prepare, weights, chunk_size)

Runs a step under the guard, first with the whole batch: see [`step_in_chunks`](@ref).
"""
function step!(chunk, guard::MemoryGuard, batch::Batch; given...)
    values, calls, kept = step_options(chunk, guard.probe; given...)
    seen, numbers = shape(batch)
    GC.@preserve kept calls numbers guarding(() -> Raw.sab_memory_guard_step(guard, seen, values), guard, calls)
    return nothing
end

"""
    measure!(run, guard, batch)

Runs `run()`, a step of the caller's own, under the guard. Its exception is thrown again after the
guard has checked whether memory ran out.
"""
function measure!(run, guard::MemoryGuard, batch::Batch)
    seen, numbers = shape(batch)
    guarding(() -> Raw.sab_memory_guard_begin(guard), guard)
    ran_out = false
    try
        return run()
    catch exception
        probe = guard.probe.calls
        ran_out = probe === nothing ? exception isa OutOfMemoryError : probe.main.is_out_of_memory(exception)
        rethrow()
    finally
        GC.@preserve numbers guarding(() -> Raw.sab_memory_guard_end(guard, seen, ran_out), guard)
    end
end

"""
    info(guard)

Statistics of a [`MemoryGuard`](@ref): `steps`, `out_of_memory`, `lowered`, `limit`, `peak`,
`mean_peak`, `creep`.
"""
info(guard::MemoryGuard) = fields(filled(out -> Raw.sab_memory_guard_get_info(guard, out), Raw.sab_memory_guard_info))
Base.show(io::IO, guard::MemoryGuard) = print(io, "MemoryGuard(", isopen(guard) ? "$(info(guard).steps) steps" : "closed", ")")
