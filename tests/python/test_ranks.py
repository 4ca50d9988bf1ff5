"""Balanced steps, shards, and who is who; ranks as threads. As processes: test_distributed.py."""

import pickle
import threading

import numpy as np
import pytest

import sab

SIZES = np.minimum(np.random.default_rng(0).lognormal(4, 0.8, 3000).astype(np.int64) + 1, 900)


def balanced(**options):
    return sab.BalancedSampler(
        SIZES, **{"budget": 1000, "balance": "quadratic", "seed": 2, **options}
    )


def threads(world_size, work):
    """`work(gather, rank)` on each rank; what it gave or raised."""
    barrier = threading.Barrier(world_size)
    box, results = [b""] * world_size, [None] * world_size

    def run(rank):
        def gather(mine):
            box[rank] = mine
            barrier.wait(60)
            every = list(box)
            barrier.wait(60)
            return every

        try:
            results[rank] = work(gather, rank)
        except Exception as error:
            results[rank] = error

    started = [threading.Thread(target=run, args=(rank,)) for rank in range(world_size)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return results


@pytest.mark.parametrize("world_size, micro_batches", [(1, 1), (3, 1), (4, 3), (8, 2)])
def test_every_sample_once_in_even_steps_under_the_cap(world_size, micro_batches):
    samplers = [
        balanced(rank=rank, world_size=world_size, micro_batches=micro_batches)
        for rank in range(world_size)
    ]
    ranks = [list(sampler.batches()) for sampler in samplers]
    assert len({len(batches) for batches in ranks}) == 1 and len(ranks[0]) % micro_batches == 0
    assert sorted(
        index for batches in ranks for batch in batches for index in batch.indices
    ) == list(range(len(SIZES)))
    costs = np.zeros((len(ranks[0]) // micro_batches, world_size))
    for rank, batches in enumerate(ranks):
        for batch in batches:
            assert batch.total == SIZES[batch.indices].sum() <= 1000
            assert (
                np.diff(batch.cu_seqlens) == SIZES[batch.indices]
            ).all() and batch.padded_total == batch.total
            costs[batch.step, rank] += (SIZES[batch.indices] ** 2.0).sum()
    of_steps = []
    for step in range(len(costs)):
        parts = [batch for batches in ranks for batch in batches if batch.step == step]
        of_steps.append(sum(batch.count for batch in parts))
        whole = sab.Step(
            micro_batches, sum(batch.count for batch in parts), sum(batch.total for batch in parts)
        )
        assert {sampler.step(step * micro_batches) for sampler in samplers} == {whole}
    report = balanced(world_size=world_size, micro_batches=micro_batches).report()
    assert f"{report.rank_imbalance:.4f}" in str(report)
    assert (report.least_step_samples, report.most_step_samples) == (min(of_steps), max(of_steps))
    assert report.step_samples_deviation == pytest.approx(np.std(of_steps))
    assert (
        report.steps == len(costs)
        and report.time == pytest.approx(costs.max(1).sum())
        and report.least_time == pytest.approx(costs.sum() / world_size)
    )
    assert report.rank_imbalance == pytest.approx((costs.max(1) / costs.mean(1)).mean())


def test_a_pickle_stands_where_it_was():
    for sizes in (
        SIZES,
        SIZES.tolist(),
        sab.Sizes(SIZES),
        sab.Sizes(lambda index: float(SIZES[index]), count=len(SIZES)),
    ):
        sampler = sab.BalancedSampler(sizes, budget=1000, micro_batches=2)
        passed = iter(sampler)
        head = [next(passed) for _ in range(5)]
        copy = pickle.loads(pickle.dumps(sampler))
        assert copy.state_dict() == sampler.state_dict()
        copy.load_state_dict(sampler.state_dict())
        rest = list(copy)
        assert sorted(np.concatenate(head + rest)) == list(range(len(SIZES)))
        assert [batch.tolist() for batch in passed] == [batch.tolist() for batch in rest]


def test_costs_of_all_kinds():
    costs = (
        "padded",
        "quadratic",
        [1, 0, 2, 0.5],
        sab.Cost.terms([(2.0, 1, 1), (0.5, 1, 2)]),
        lambda count, length: count * length**1.5,
        None,
    )
    for cost in costs:
        assert balanced(balance=cost, world_size=4).report().rank_imbalance < 1.05
    for options in ({"balance": lambda count, length: {}[length]}, {"cost": lambda *_: {}[_]}):
        with pytest.raises(KeyError):
            balanced(**options)
    model = sab.MemoryModel.fit(
        [[n, length] for n in (1, 2, 4, 8) for length in (10, 50, 100, 200)],
        [1000 + 5 * n * length for n in (1, 2, 4, 8) for length in (10, 50, 100, 200)],
    )
    for options in ({"cost": model}, {"budget": sab.Budget(9000, model)}):
        sampler = balanced(**{"budget": 9000, "balance": None, **options})
        assert max(1000 + 5 * batch.total for batch in sampler.batches()) <= 9000 * 1.01
        assert max(batch.total for batch in sampler.batches()) > 1000
    both = balanced(budget=[sab.Budget(9000, cost=model), 1000])
    assert max(batch.total for batch in both.batches()) <= 1000
    assert pickle.loads(pickle.dumps(both)).state_dict() == both.state_dict()


def waits(plan, world_size, price, **options):
    """Mean over steps of the costliest rank over the mean rank."""
    ranks = [
        [
            price(batch.count, batch.longest)
            for batch in sab.BucketSampler(
                plan, seed=1, rank=rank, world_size=world_size, **options
            ).batches()
        ]
        for rank in range(world_size)
    ]
    costs = np.array(ranks)
    return float((costs.max(0) / costs.mean(0)).mean())


def squared(count, length):
    return count * length**2


def test_steps_of_like_length_and_a_balance():
    lengths = np.minimum(np.random.default_rng(1).lognormal(3, 0.6, 30_000).astype(int) + 1, 300)
    plan = sab.plan(lengths, budget=2048)
    assert waits(plan, 8, squared) < 1.1
    assert waits(plan, 8, squared, mix_lengths=True) > 1.5
    by_count = sab.plan(lengths, batch_size=32, max_batch_size=32)
    costs = ("quadratic", [0, 0, 1, 0.5], squared, sab.Cost.transformer(64, 2), None)
    for balance in costs:
        report = by_count.report(seed=1, world_size=8, balance=balance)
        assert report.rank_imbalance < 1.1
    model = sab.Cost.transformer(hidden=64, layers=2)
    assert model(3, 10) == 2 * (24 * 3 * 10 * 64**2 + 4 * 3 * 10**2 * 64)
    assert pickle.loads(pickle.dumps(model))(3, 10) == model(3, 10)
    assert repr(model) == "sab.Cost.transformer(64, 2)"
    for hidden, layers in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="= 0: must be at least 1"):
            sab.Cost.transformer(hidden, layers)


def test_states_name_another_balance_or_mix():
    plan = sab.plan(SIZES, budget=1000)
    state = sab.BucketSampler(plan, balance="quadratic", world_size=2).state_dict()
    sab.BucketSampler(plan, balance="quadratic", world_size=2).load_state_dict(state)
    sab.BucketSampler(plan, balance=squared, world_size=3).load_state_dict(state)
    for options in ({}, {"balance": "padded"}, {"balance": "quadratic", "mix_lengths": True}):
        with pytest.raises(sab.MismatchError, match=r"another plan or balance|mix_lengths"):
            sab.BucketSampler(plan, world_size=2, **options).load_state_dict(state)
    with pytest.raises(ValueError, match=r"balance.*at most 1"):
        sab.BucketSampler(plan, balance=["quadratic", "padded"])
    with pytest.raises(KeyError):
        sab.BucketSampler(plan, balance=lambda count, length: {}[length])
    with pytest.raises(TypeError, match="mix_lengths = 'no'"):
        sab.BucketSampler(plan, mix_lengths="no")


def test_places_of_a_balanced_order():
    histogram = sab.Histogram()
    numbers = histogram.number(SIZES)
    plan = sab.plan(SIZES, budget=1000)
    for options in ({}, {"balance": "quadratic"}, {"mix_lengths": True}, {"costliest_first": 5}):
        order = {"seed": 3, "world_size": 3, "micro_batches": 2, **options}
        places = plan.locate(SIZES, numbers, epoch=1, **order)
        for rank in range(3):
            sampler = sab.BucketSampler(plan, rank=rank, **order)
            sampler.set_epoch(1)
            for number, batch in enumerate(sampler):
                assert (places.ranks[batch] == rank).all()
                assert (places.batches[batch] == number).all()
                assert (places.slots[batch] == np.arange(len(batch))).all()


def test_a_balance_of_a_mixture():
    mixture = sab.Mixture({"a": SIZES, "b": SIZES[::2]}, repeat={"b": 2})
    plan = sab.plan(mixture, budget=1000)
    assert plan.report(world_size=4, balance="quadratic").rank_imbalance >= 1
    with pytest.raises(ValueError, match="must not be a callback"):
        sab.BucketSampler(plan, balance=squared)


def test_the_lines_of_a_report_are_as_long_as_each_other():
    for sampler in (balanced(world_size=4), sab.PackedSampler(SIZES, 1000, world_size=4)):
        assert {len(line) for line in str(sampler.report()).splitlines()} == {62}


def test_arguments_that_cannot_be():
    for options, error, words in (
        ({"budget": 0}, ValueError, "budget = 0"),
        ({"budget": None}, ValueError, "samples of a step, or a budget"),
        ({"budget": 100}, ValueError, "must fit budget = 100 alone"),
        ({"budget": [1000, sab.Budget(-5)]}, ValueError, r"^budget\[1\].limit = -5"),
        ({"budget": [1000, "x"]}, TypeError, r"^budget\[1\] = 'x'"),
        ({"budget": sab.Budget(5, "cubic")}, ValueError, "^budget.cost = 'cubic'"),
        ({"budget": sab.Budget(5), "cost": "padded"}, ValueError, "^cost: goes with a single"),
        ({"budget": [900], "cost": "padded"}, ValueError, "^cost: goes with a single"),
        ({"budget": [9] * 9}, ValueError, r"^len\(budget\) = 9"),
        ({"samples": 3, "world_size": 4}, ValueError, "samples = 3"),
        ({"samples": 2**70}, ValueError, "samples = "),
        ({"micro_batches": 0}, ValueError, "micro_batches = 0"),
        ({"micro_batches": 1.5}, TypeError, "micro_batches = 1.5"),
        ({"fill": 2}, ValueError, "fill = 2"),
        ({"balance": "cubic"}, ValueError, "^balance = 'cubic'"),
        ({"balance": [1, -2]}, ValueError, r"^balance\[1\] = -2"),
        ({"balance": lambda count, length: float("nan")}, ValueError, "= nan: must be finite"),
        ({"balance": lambda count, length: -length}, ValueError, "not negative"),
        ({"cost": sab.Cost.terms([(1, 2, 1)])}, ValueError, "^cost: its term 0"),
        ({"oversize": "single"}, ValueError, "oversize = 'single'"),
        ({"rank": 2, "world_size": 2}, ValueError, "rank = 2"),
    ):
        with pytest.raises(error, match=words):
            balanced(**options)
    with pytest.warns(sab.SkippedWarning, match="over a budget"):
        assert balanced(budget=100, oversize="skip").skipped_count == (SIZES > 100).sum()


def test_a_mesh_gives_the_data_rank():
    mesh = {"pp": 2, "dp": 4, "tp": 8}
    assert [sab.ranks_from_mesh(mesh, rank) for rank in (0, 7, 8, 63)] == [
        (0, 4),
        (0, 4),
        (1, 4),
        (3, 4),
    ]
    assert sab.ranks_from_mesh(mesh, 63, data=["pp", "dp"]) == (7, 8) and sab.ranks_from_mesh(
        mesh, 63, data="tp"
    ) == (7, 8)
    for wrong in (["dp", "dq"], "d", []):
        with pytest.raises(
            ValueError, match="must name axes of the mesh, which has 'pp', 'dp', 'tp'"
        ):
            sab.ranks_from_mesh(mesh, 0, data=wrong)
    with pytest.raises(ValueError, match="rank = 64"):
        sab.ranks_from_mesh(mesh, 64)
    with pytest.raises(ValueError, match="must name axes"):
        sab.ranks_from_mesh({"tp": 2}, 0)


def test_ranks_of_the_environment(monkeypatch):
    for name in (
        "RANK",
        "WORLD_SIZE",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
    ):
        monkeypatch.delenv(name, raising=False)
    assert sab.ranks() == (0, 1)
    monkeypatch.setenv("SLURM_PROCID", "5")
    with pytest.raises(ValueError, match="SLURM_NTASKS"):
        sab.ranks()
    monkeypatch.setenv("SLURM_NTASKS", "6")
    assert sab.ranks() == (5, 6)
    with pytest.raises(ValueError, match="not initialised"):
        sab.ranks(group=object())


def test_ranks_that_differ_are_named():
    def check(gather, rank):
        sampler = balanced(
            rank=rank, world_size=3, balance="padded" if rank == 1 else "quadratic", seed=9
        )
        return sab.check_ranks(sampler, gather=gather, rank=rank, world_size=3)

    said = threads(3, check)
    assert all(isinstance(each, sab.MismatchError) and "rank 1 has" in str(each) for each in said)
    assert (
        threads(
            3,
            lambda gather, rank: sab.check_ranks(
                balanced(rank=rank, world_size=3), gather=gather, rank=rank, world_size=3
            ),
        )
        == [None] * 3
    )
    sab.check_ranks(balanced())  # alone
    for timeout in (float("nan"), 0, -1):
        with pytest.raises(ValueError, match="timeout"):
            sab.check_ranks(balanced(), timeout=timeout)
    with pytest.raises(TypeError, match=r"^gather: rank and world_size must be given"):
        sab.check_ranks(balanced(), gather=lambda mine: [mine])
    with pytest.raises(ValueError, match="gave 2 values: must give 1"):
        sab.check_ranks(balanced(), gather=lambda mine: [mine, mine], rank=0, world_size=1)
    closed = balanced()
    closed.close()
    with pytest.raises(ValueError, match="is closed"):
        sab.check_ranks(closed)


def test_shards_take_the_same_steps():
    shards = np.array_split(SIZES, [100, 150, 2000])
    samplers = threads(
        4,
        lambda gather, rank: sab.ShardedSampler(
            shards[rank], budget=4000, padding=0.05, seed=3, gather=gather, rank=rank, world_size=4
        ),
    )
    for epoch in range(2):
        steps = list(zip(*(sampler.batches() for sampler in samplers)))
        assert len(steps) == len(samplers[0])
        for position, batches in enumerate(steps):
            assert {sampler.step(position) for sampler in samplers} == {
                (1, sum(batch.count for batch in batches), -1)
            }
            assert max(batch.padded_total for batch in batches) <= 4000
        for rank, shard in enumerate(shards):
            assert sorted(index for batches in steps for index in batches[rank].indices) == list(
                range(len(shard))
            )
        for sampler in samplers:
            sampler.set_epoch(epoch + 1)
    state = samplers[0].state_dict(5)
    samplers[3].load_state_dict(state)
    assert samplers[3].state_dict()["state"] == state["state"]
    with pytest.raises(sab.UnsupportedError, match="cannot be pickled"):
        pickle.dumps(samplers[0])

    def wrong(gather, rank):
        return sab.ShardedSampler(
            [3, -1] if rank == 2 else [3, 1], budget=10, gather=gather, rank=rank, world_size=3
        )

    said = threads(3, wrong)
    assert (
        "sizes[1] = -1" in str(said[2])
        and "rank 2 failed" in str(said[0])
        and "rank 2 failed" in str(said[1])
    )
    alone = sab.ShardedSampler(SIZES, budget=4000, micro_batches=2)
    assert sorted(np.concatenate(list(alone))) == list(range(len(SIZES)))
    assert [(b.step, b.micro_batch) for b in alone.batches()][:3] == [(0, 0), (0, 1), (1, 0)]


PAIRS = {
    "images": np.random.default_rng(3).integers(0, 6, 2000),
    "tokens": np.random.default_rng(4).integers(1, 900, 2000),
}


@pytest.mark.parametrize(
    "options",
    [
        {"budget": {"images": 60, "tokens": 9000}},
        {"budget": [sab.Budget(60, {"images": 1}), sab.Budget(9000, cost={"tokens": 1})]},
        {"budget": 9000, "cost": {"images": 1, "tokens": 1}, "balance": [{"images": 1}, "product"]},
        {"samples": 400, "balance": ["padded", lambda count, lengths, totals: lengths[1] ** 2]},
    ],
)
def test_balanced_steps_of_several_columns(options):
    seen = []
    for rank in range(3):
        sampler = sab.BalancedSampler(PAIRS, rank=rank, world_size=3, micro_batches=2, **options)
        for batch in sampler.batches():
            for name, column in PAIRS.items():
                sizes = column[batch.indices]
                assert batch.total[name] == sizes.sum()
                assert batch.cu_seqlens[name].tolist() == [0, *np.cumsum(sizes)]
            if isinstance(options.get("budget"), (dict, list)):
                assert batch.total["images"] <= 60 and batch.total["tokens"] <= 9000
            seen.extend(batch.indices.tolist())
    assert sorted(seen) == list(range(2000))
    report = sampler.report()
    assert len(report.rank_imbalance) == len(report.time) == 2
    assert max(report.rank_imbalance) < 1.1 and "; " in str(report)
    assert report.total == {name: column.sum() for name, column in PAIRS.items()}


def test_balanced_steps_of_several_columns_are_pickled():
    sampler = sab.BalancedSampler(PAIRS, budget={"images": 60, "tokens": 9000}, seed=2)
    copy = pickle.loads(pickle.dumps(sampler))
    assert [batch.tolist() for batch in copy] == [batch.tolist() for batch in sampler]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"budget": {"edges": 3}}, r"budget\['edges'\]: must be one of 'images', 'tokens'"),
        ({"budget": {"images": 5, "tokens": 600}}, r"must fit budget\['tokens'\] = 600 alone"),
        ({"samples": 9, "balance": [{"edges": 1}]}, r"balance\[0\]\['edges'\]: must be one of"),
        ({}, "samples = None and budget = None: samples of a step, or a budget, must be given"),
        ({"samples": 9, "balance": []}, r"balance = \[\]: must have at least one cost"),
        ({"samples": 9, "balance": ["padded"] * 9}, r"len\(balance\) = 9: must be at most 8"),
        (
            {"samples": 9, "balance": ["padded", sab.Cost.padded([1, 1, 1])]},
            r"balance\[1\]: uses 3 columns",
        ),
    ],
)
def test_wrong_options_of_several_columns_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        sab.BalancedSampler(PAIRS, **options)
