"""Plans of small and skewed data with several columns: examples.

tests/plan/small_plans_columns_test.cpp compares plans with sorted cuts, over random data.
"""

import numpy as np

import sab


def test_a_function_of_the_longest_column():
    random = np.random.default_rng(0)
    sizes = np.minimum(random.lognormal(5, 1, (200, 2)).astype(int) + 1, 4096)
    longest = sizes.max(axis=1)

    def cost(count, lengths, totals):
        return count * max(lengths)

    plan = sab.plan(sizes, sab.Budget(4096, cost=cost))
    batches = [batch.tolist() for batch in sab.BucketSampler(plan)]
    assert sorted(index for batch in batches for index in batch) == list(range(200))
    assert all(len(batch) * longest[batch].max() <= 4096 for batch in batches)
    assert plan.batch_count < 1.5 * longest.sum() / 4096 + 1


def test_one_outlier_is_alone():
    sizes = np.ones((101, 2), int) * 20
    sizes[50] = [4000, 4000]
    for tail in ("keep", "wrap", "drop"):
        plan = sab.plan(sizes, 8192, tail=tail)
        assert plan.batch_count == 2
        report = plan.report()
        assert report.dropped == report.repeated == 0
    assert sab.plan(sizes, 8192, bucket_batches=4).batch_count == 2
    shifted = np.concatenate([sizes, sizes + 1])
    assert sab.plan(shifted, 8192, separate_by=np.arange(202) // 101).batch_count == 4


def test_mixtures_with_a_small_source_of_long_samples():
    short, long = np.full((400, 2), 10), np.full((3, 2), 500)
    mixture = sab.Mixture({"short": short, "long": long}, repeat={"short": 1, "long": 1})
    plan = sab.plan(mixture, 1000)
    assert plan.batch_count == 8 + 3
    assert len(list(sab.BucketSampler(plan, seed=1).batches())) == 11


def test_few_shapes_separate_long_samples():
    lengths = [100, 10, 10, 10, 100]
    assert sab.plan({"a": lengths, "b": lengths}, 300, max_shapes=3).batch_count == 3
    sizes = np.ones((101, 2), int) * 20
    sizes[50] = [4000, 4000]
    report = sab.plan(sizes, 8192, max_shapes=3).report()
    assert (report.batches, report.padding) == (2, 0)
