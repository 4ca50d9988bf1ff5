"""How a plan is told what to do."""

import numpy as np

import sab

random = np.random.default_rng(0)
sizes = np.minimum(random.lognormal(3, 0.7, 100_000).astype(int) + 1, 500)

# [targets]
for padding in (0.03, 0.1, 0.3):
    plan = sab.plan(sizes, budget=8192, padding=padding)
    report = plan.report()
    buckets, mates = len(plan.buckets), report.partners
    print(
        f"{padding}: {report.padding:.2%} padding, {buckets} buckets, {mates:,.0f} possible "
        f"mates, {report.meet_again:.1%} meet again"
    )
# [end]

# [kinds]
best_five = sab.plan(sizes, budget=8192, buckets=5)  # the five intervals that pad least
given = sab.plan(sizes, budget=8192, boundaries=[1, 16, 32, 64, 128, 501])
few_shapes = sab.plan(sizes, budget=8192, max_shapes=8)  # for compilers and CUDA graphs
wide = sab.plan(sizes, budget=8192, length_multiple=8, batch_size_multiple=8)  # for tensor cores
quadratic = sab.plan(sizes, budget=1e6, cost="quadratic")  # count * length ** 2: attention
one_size = sab.plan(sizes, batch_size=64)  # no budget: 64 samples a batch, of like lengths
# [end]
assert len(best_five.buckets) == len(given.buckets) == 5
assert best_five.report().padding < given.report().padding
assert few_shapes.report().shapes <= 8
assert all(bucket.batch_size % 8 == 0 and bucket.padded_length % 8 == 0 for bucket in wide.buckets)
assert max(bucket.cost for bucket in quadratic.buckets) <= 1e6
assert one_size.report().padding < 0.03

# [file]
plan = sab.plan(sizes, budget=8192)
plan.save("sentences.plan")
same = sab.Plan.open("sentences.plan")  # mapped: processes share its memory
assert same.fingerprint == plan.fingerprint
# [end]

# [skipped]
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    plan = sab.plan(sizes, budget=400, oversize="skip")
assert caught[0].category is sab.SkippedWarning
assert (sizes[plan.skipped] > 400).all() and len(plan.skipped) == (sizes > 400).sum()
# [end]

# [evaluate]
test = sab.SequentialSampler(sab.plan(sizes, budget=16384))  # unshuffled, by ascending size
outputs = np.empty(len(sizes))
for indices in test:
    outputs[indices] = sizes[indices]  # what a model says of the samples, back in their own order
assert (outputs == sizes).all()
# [end]

# [greedy]
order = random.permutation(len(sizes))
for indices in sab.BionemoSizeAwareSampler(
    order, sizes, budget=8192
):  # cut where the sum of sizes would exceed 8,192
    assert sizes[indices].sum() <= 8192
# [end]
