# Keeps a run within its memory.

"""
    MemoryGuard(sampler, probe; limit, interval = 16, window = 64, reduce)

Watches real steps: lowers the sampler's budget before memory runs out, on all ranks alike by `reduce(values)`, which gives the least over them, and brings a step that runs out through in
halves. For the task of its sampler.
"""
mutable struct MemoryGuard <: Handle{Raw.sab_memory_guard}
    pointer::Ptr{Raw.sab_memory_guard}
    sampler::Sampler
    probe::Probe
    calls::Calls
    running::Vector{Calls} # of the step that is under way
    MemoryGuard(pointer::Ptr{Raw.sab_memory_guard}, sampler, probe, calls) = finalizer(release, new(pointer, sampler, probe, calls, Calls[]))
end
free(guard::Ptr{Raw.sab_memory_guard}) = Raw.sab_memory_guard_free(guard)
is_busy(guard::MemoryGuard) = any(calls -> calls.depth > 0, guard.running)

function MemoryGuard(sampler::Sampler, probe::Probe; limit = nothing, interval = nothing, window = nothing, reduce = nothing)
    calls = Calls(Work(nothing, probe, reduce))
    given = options(Raw.sab_memory_guard_options; limit = limit, interval = interval, window = window)
    reduce === nothing || (given.reduce = reduce_pointer(); given.reduce_ctx = pointer_from_objref(calls))
    pointer = GC.@preserve calls created(out -> Raw.sab_memory_guard_new(probe, sampler, given, out), Raw.sab_memory_guard, probe.calls, calls)
    return MemoryGuard(pointer, sampler, probe, calls)
end

# What the library looks at of a batch.
function shape(batch::Batch)
    raw = Raw.sab_batch()
    raw.struct_size = sizeof(Raw.sab_batch)
    raw.indices, raw.cu_seqlens, raw.starts = C_NULL, C_NULL, C_NULL
    raw.count, raw.longest, raw.total, raw.padded_length, raw.padded_total = length(batch), batch.longest, batch.total, batch.padded_length, batch.padded_total
    raw.bucket, raw.epoch, raw.step, raw.step_samples, raw.step_total = batch.bucket - 1, batch.epoch, batch.step, batch.step_samples, batch.step_total
    raw.micro_batch, raw.micro_batches = batch.micro_batch, batch.micro_batches
    return raw
end

# The guard goes on using its sampler.
guarding(run, guard::MemoryGuard, functions::Calls...) = GC.@preserve guard begin
    isopen(guard.sampler) || throw(ArgumentError("the sampler of the MemoryGuard is closed"))
    refuse_busy(guard)
    append!(guard.running, filter(calls -> calls !== nothing, [guard.probe.calls, guard.calls, functions...]))
    guard.sampler.guard = guard
    try
        check(calling(run), guard.probe.calls, guard.calls, functions...)
    finally
        empty!(guard.running)
        guard.sampler.guard = nothing
    end
end

"""
    step!(chunk, guard, batch; prepare, weights, chunk_size)

Runs a step under the guard, the whole batch first: see [`chunked_step`](@ref).
"""
function step!(chunk, guard::MemoryGuard, batch::Batch; given...)
    values, calls, kept = step_options(chunk, guard.probe; given...)
    seen = shape(batch)
    GC.@preserve kept calls guarding(() -> Raw.sab_memory_guard_step(guard, seen, values), guard, calls)
    return nothing
end

"""
    watch!(run, guard, batch)

Runs `run()`, a step of the caller's own, under the guard. What it throws is thrown on, after the guard has seen whether memory ran out.
"""
function watch!(run, guard::MemoryGuard, batch::Batch)
    seen = shape(batch)
    guarding(() -> Raw.sab_memory_guard_begin(guard), guard)
    ran_out = false
    try
        return run()
    catch exception
        probe = guard.probe.calls
        ran_out = probe === nothing ? exception isa OutOfMemoryError : probe.main.is_out_of_memory(exception)
        rethrow()
    finally
        guarding(() -> Raw.sab_memory_guard_end(guard, seen, ran_out), guard)
    end
end

"""
    info(guard)

What a [`MemoryGuard`](@ref) has seen and done: `steps`, `out_of_memory`, `lowered`, `budget`, `peak`, `mean_peak`, `creep`.
"""
info(guard::MemoryGuard) = fields(filled(out -> Raw.sab_memory_guard_get_info(guard, out), Raw.sab_memory_guard_info))
Base.show(io::IO, guard::MemoryGuard) = print(io, "MemoryGuard(", isopen(guard) ? "$(info(guard).steps) steps" : "closed", ")")
