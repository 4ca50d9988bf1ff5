# call.c from Julia: the raw call (`julia`), and `for batch in sampler` (`julia-batches`).

using Printf: @printf
using SAB

const CALLS, PASSES = 2000, 500

function raw(sampler)
    batch = SAB.Raw.sab_batch()
    batch.struct_size = sizeof(SAB.Raw.sab_batch)
    total = 0
    while SAB.Raw.sab_next_batch(sampler, batch) == SAB.Raw.SAB_OK
        total += unsafe_load(batch.indices)
    end
    return total
end

function batches(sampler)
    total = 0
    for batch in sampler
        total += batch.indices[1] - 1
    end
    return total
end

function nanoseconds(walk, sampler)
    best = Inf
    for pass in 1:PASSES
        SAB.set_epoch!(sampler, 0)
        took = @elapsed total = walk(sampler)
        total == CALLS * (CALLS - 1) ÷ 2 || error("$total: not every sample once")
        best = min(best, took)
    end
    return 1e9 * best / CALLS
end

sampler = SAB.SequentialSampler(SAB.Plan(fill(0x01, CALLS); budget = 1))
@printf("julia %.1f\n", nanoseconds(raw, sampler))
@printf("julia-batches %.1f\n", nanoseconds(batches, sampler))
