"""Plans of small and skewed data with several columns, against sorted cuts.

A sorted cut takes the samples in one order, each batch as many as fit. Here the order is by the
cost of a sample under each budget, or by a column, from the largest down; c is the least number of
batches of these cuts. A plan has at most max(1.3 * c, c + 1) batches.
"""

import math
import warnings

import numpy as np
import pytest

import sab


class Rules:
    """The budgets and the other limits of a plan, written without the library."""

    def __init__(self, sizes, costs, limits, multiples, largest, multiple):
        self.sizes = sizes
        self.padded = np.stack(
            [
                column if each == 0 else np.ceil(column / each) * each
                for column, each in zip(sizes.T.astype(float), multiples)
            ],
            axis=1,
        )
        self.costs, self.limits = costs, limits
        whole = -(-len(sizes) // multiple) * multiple  # what is left over may be a tail
        self.largest, self.multiple = min(largest or whole, whole), multiple
        nonzero = [column[column > 0] for column in self.padded.T]
        self.least = [float(column.min()) if len(column) else 1.0 for column in nonzero]

    def cost(self, which, lengths):
        """Of one sample; a length of 0 costs what the cheapest length above 0 does."""
        cost = self.costs[which]
        if (value := cost(lengths)) > 0:
            return value
        tried = []
        for j, length in enumerate(lengths):
            if length == 0:
                tried.append(cost([*lengths[:j], self.least[j], *lengths[j + 1 :]]))
        tried = [value for value in tried if value > 0]
        return min(tried) if tried else cost(self.least)

    def fits(self, lengths):
        """How many samples of these lengths make a batch."""
        count = self.largest
        for which, limit in enumerate(self.limits):
            count = min(count, int(limit / self.cost(which, lengths) * (1 + 1e-12)))
        return count - count % self.multiple if count >= self.multiple else count

    def single_costs(self):
        points, inverse = np.unique(self.padded, axis=0, return_inverse=True)
        rows = np.array(
            [[self.cost(b, list(p)) for b in range(len(self.costs))] for p in points.tolist()]
        )
        return rows[inverse.reshape(-1)]


def sorted_cut(rules, rows):
    """The batches of the rows in this order."""
    batches = place = 0
    known = {}
    rows = [tuple(row) for row in rows.tolist()]
    while place < len(rows):
        corner, count = rows[place], 1
        while place + count < len(rows):
            wider = tuple(map(max, corner, rows[place + count]))
            if wider not in known:
                known[wider] = rules.fits(list(wider))
            if known[wider] <= count:
                break
            corner, count = wider, count + 1
        if count >= rules.multiple:
            count -= count % rules.multiple
        place += count
        batches += 1
    return batches


def fewest_batches(rules, enough):
    """c; or any smaller number, if the bound says that `enough` batches keep the rule."""
    costs = rules.single_costs()
    alone = (costs <= np.array(rules.limits)).all(axis=1)
    shares = costs[alone] / np.array(rules.limits)
    if not alone.any():
        return 0, int((~alone).sum())
    bound = max(math.ceil(shares.sum(axis=0).max() - 1e-9), 1)
    if enough(bound):
        return bound, int((~alone).sum())
    rows, costs = rules.padded[alone], costs[alone]
    keys = [*costs.T, *rows.T, shares.max(axis=1)]
    cuts = [sorted_cut(rules, rows[np.lexsort((costs[:, 0], key))[::-1]]) for key in keys]
    return min(cuts), int((~alone).sum())


def any_sizes(random, columns):
    count = int(3 * (2000 / 3) ** random.random() ** 1.7)
    sizes = np.empty((count, columns), int)
    for j in range(columns):
        kind, scale = random.integers(7), np.exp(random.uniform(1, 6))
        if kind == 0:
            column = scale * np.exp(random.normal(0, random.uniform(0.1, 1.5), count))
        elif kind == 1:  # outliers
            column = random.uniform(1, scale, count)
            column[random.random(count) < random.choice([0.01, 0.1])] *= random.choice([10, 1000])
        elif kind == 2:  # plateaus
            column = random.choice([1, scale, 10 * scale], count, p=[0.6, 0.3, 0.1])
        elif kind == 3:  # few sizes
            column = random.choice(np.exp(random.uniform(0, 7, 4)), count)
        elif kind == 4:
            column = np.minimum(random.exponential(scale, count), 2 * scale)
        elif kind == 5 and j > 0:  # like the column before
            column = sizes[:, j - 1] * random.uniform(0.5, 1.5, count)
        else:
            column = random.uniform(1, scale, count)
        sizes[:, j] = np.maximum(column, 1)
    if random.random() < 0.25:
        sizes[random.random(count) < 0.3, random.integers(columns)] = 0
    return sizes


def any_budgets(random, sizes):
    """The library's budgets, and their costs of one sample, with limits."""
    columns = sizes.shape[1]
    weights = [random.choice([0.5, 1, 2], columns).tolist() for _ in range(3)]
    kinds = [(None, sum)]
    kinds += [
        (sab.Cost.padded(w), lambda lengths, w=w: sum(map(float.__mul__, w, map(float, lengths))))
        for w in weights
    ]
    kinds.append(("product", math.prod))
    for j in range(columns):
        powers = [int(i == j) for i in range(columns)]
        term = sab.Cost.terms([(1.0, 1, powers)])
        kinds.append((term, lambda lengths, j=j: float(lengths[j])))
        square = sab.Cost.terms([(1.0, 1, [2 * power for power in powers])])
        kinds.append((square, lambda lengths, j=j: float(lengths[j]) ** 2))
    picked = random.permutation(len(kinds))[: random.integers(1, 4)]
    chosen = [kinds[i] for i in picked]
    if random.random() < 0.3:
        chosen = kinds[:1]
    factor = np.exp(random.uniform(0, 4))
    rows = sizes.astype(float).tolist()
    limits = []
    for _, cost in chosen:
        most = max(1, *(cost(row) for row in rows))
        limits.append(float(most * factor * random.choice([1, 1, 1.5, 0.7])))
    return chosen, limits


def any_case(seed):
    random = np.random.default_rng(seed)
    columns = int(random.integers(2, 5))
    sizes = any_sizes(random, columns)
    chosen, limits = any_budgets(random, sizes)
    multiples = [0] * columns
    options = {"oversize": str(random.choice(["skip", "single"]))}
    if random.random() < 0.3:
        multiples = [int(m) for m in random.choice([1, 4, 8, 64], columns)]
        options["length_multiple"] = {str(j): m for j, m in enumerate(multiples)}
    largest = int(random.choice([0, 0, 0, 4, 33])) or None
    multiple = int(random.choice([1, 1, 1, 2, 8]))
    if random.random() < 0.3:
        options["bucket_batches"] = int(random.choice([1, 2, 4, 16]))
    if largest:
        options["max_batch_size"] = largest
    options["batch_size_multiple"] = multiple
    budgets = [sab.Budget(limit, cost=cost) for (cost, _), limit in zip(chosen, limits)]
    return sizes, budgets, options, (chosen, limits, multiples, largest, multiple)


def most_batches(cut):
    return max(13 * cut // 10, cut + 1)


def warnless(sizes, budgets, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sab.SkippedWarning)
        return sab.plan(sizes, budgets, **options)


@pytest.mark.parametrize("part", range(4))
def test_no_plan_has_many_more_batches_than_a_sorted_cut(part):
    wrong, compared = [], 0
    for seed in range(part, 3040, 4):
        sizes, budgets, options, (chosen, limits, *rest) = any_case(seed)
        rules = Rules(sizes, [cost for _, cost in chosen], limits, *rest)
        try:
            plan = warnless(sizes, budgets, **options)
        except ValueError as error:
            assert "no sample is left" in str(error)
            continue
        cut, singles = fewest_batches(
            rules, lambda c, plan=plan: plan.batch_count <= most_batches(c)
        )
        compared += 1
        singles = singles if options["oversize"] == "single" else 0
        if plan.batch_count > singles + (most_batches(cut) if cut > 0 else 0):
            wrong.append((seed, len(sizes), plan.batch_count, cut, singles))
    assert not wrong, f"{len(wrong)} of {compared}: {wrong[:12]}"
    assert compared > 720


def test_batches_hold_the_budgets_and_have_each_sample_once():
    for seed in range(100):
        sizes, budgets, options, (chosen, limits, *rest) = any_case(seed)
        rules = Rules(sizes, [cost for _, cost in chosen], limits, *rest)
        try:
            plan = warnless(sizes, budgets, **options)
        except ValueError:
            continue
        seen = np.zeros(len(sizes), int)
        for batch in sab.BucketSampler(plan, seed=seed).batches():
            seen[batch.indices] += 1
            corner = rules.padded[batch.indices].max(axis=0).tolist()
            assert batch.count == 1 or batch.count <= rules.fits(corner)
        assert seen.max() == 1 and seen.sum() == len(sizes) - plan.skipped_count


def test_ids_are_cut_apart():
    wrong = []
    for seed in range(120):
        sizes, budgets, options, (chosen, limits, *rest) = any_case(seed)
        ids = np.random.default_rng(seed).integers(0, 5, len(sizes))
        try:
            plan = warnless(sizes, budgets, separate_by=ids, **options)
        except ValueError:
            continue
        cut = singles = 0
        for each in np.unique(ids):
            own = sizes[ids == each]
            rules = Rules(sizes, [cost for _, cost in chosen], limits, *rest)
            rules.sizes, rules.padded = own, rules.padded[ids == each]
            fewest, alone = fewest_batches(rules, lambda _: False)
            cut += fewest
            singles += alone if options["oversize"] == "single" else 0
        if plan.batch_count > singles + most_batches(cut):
            wrong.append((seed, len(sizes), plan.batch_count, cut, singles))
    assert not wrong, f"{len(wrong)}: {wrong[:12]}"


def pairs(count, seed=0):
    random = np.random.default_rng(seed)
    prompt = np.minimum(random.lognormal(5, 1.2, count).astype(int) + 1, 4096)
    return np.stack([prompt, np.minimum(random.lognormal(5, 1, count).astype(int) + 1, 4096)], 1)


def rules_of(sizes, costs, limits):
    return Rules(sizes, costs, limits, [0, 0], None, 1)


def test_a_budget_for_hardly_one_of_the_longest_pairs():
    sizes = pairs(20_000)
    budget = int(sizes.max(axis=0).sum())
    cut, _ = fewest_batches(rules_of(sizes, [sum], [budget]), lambda _: False)
    plan = sab.plan(sizes, budget)
    assert plan.batch_count < 0.8 * cut  # boxes are better than one order
    mixed = sum(bucket.batches for bucket in plan.buckets if bucket.batches >= 4)
    assert mixed > 0.95 * plan.batch_count
    assert plan.report().partners > 50


@pytest.mark.parametrize("factor", [1, 2, 16])
def test_a_budget_for_each_column(factor):
    random = np.random.default_rng(0)
    source = np.minimum(random.gamma(2, 30, 20_000).astype(int) + 1, 256)
    target = np.minimum((source * random.lognormal(0, 0.3, 20_000)).astype(int) + 1, 256)
    limit = 256 * factor
    costs = [lambda lengths: lengths[0], lambda lengths: lengths[1]]
    rules = rules_of(np.stack([source, target], 1), costs, [limit, limit])
    cut, _ = fewest_batches(rules, lambda _: False)
    plan = sab.plan({"a": source, "b": target}, {"a": limit, "b": limit})
    assert plan.batch_count <= most_batches(cut)
    if factor < 16:
        mixed = sum(bucket.batches for bucket in plan.buckets if bucket.batches >= 4)
        assert mixed > 0.8 * plan.batch_count


def test_a_function_of_the_longest_column():
    sizes = pairs(200)
    cost = sab.Cost(lambda count, lengths, totals: count * max(lengths))
    cut, _ = fewest_batches(rules_of(sizes, [max], [4096]), lambda _: False)
    plan = sab.plan(sizes, sab.Budget(4096, cost=cost))
    assert plan.batch_count <= most_batches(cut)


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


def test_the_nearest_target_is_met():
    met = 0
    for seed in range(250):
        sizes, budgets, options, _ = any_case(seed)
        try:
            report = warnless(sizes, budgets, **options).report()
        except ValueError:
            continue
        if report.target_met or not 0.01 < report.nearest_target < 0.99:
            continue
        options["padding"] = report.nearest_target * (1 + 1e-9)
        assert warnless(sizes, budgets, **options).report().target_met, seed
        met += 1
    assert met > 50


def test_few_shapes_separate_long_samples():
    lengths = [100, 10, 10, 10, 100]
    assert sab.plan({"a": lengths, "b": lengths}, 300, max_shapes=3).batch_count == 3
    sizes = np.ones((101, 2), int) * 20
    sizes[50] = [4000, 4000]
    report = sab.plan(sizes, 8192, max_shapes=3).report()
    assert (report.batches, report.padding) == (2, 0)


def test_no_more_shapes_than_given():
    for seed in range(150):
        sizes, budgets, options, _ = any_case(seed)
        options.pop("bucket_batches", None)
        shapes = 3 + seed % 6
        try:
            plan = warnless(sizes, budgets, max_shapes=shapes, **options)
        except ValueError:
            continue
        assert plan.report().shapes <= shapes
