# The first example in Julia.
using SAB

lengths = [1 + mod(i * 7919, 199) for i in 1:10_000]   # the size of each sample
plan = Plan(lengths; budget = 4096)                # padded tokens a batch
println(SAB.report(plan))

seen = Int[]
for batch in BucketSampler(plan; seed = 0)
    @assert length(batch.indices) * batch.padded_length <= 4096
    append!(seen, batch.indices)                       # from 1, as in all of Julia
end
@assert sort(seen) == 1:10_000
