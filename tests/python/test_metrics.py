"""Metrics of a run."""

import threading

import numpy as np
import pytest

import sab

SIZES = np.minimum(np.random.default_rng(0).lognormal(3, 0.7, 2000).astype(int) + 1, 200)


class Kept:
    def __init__(self):
        self.lines = []

    def log(self, step, values):
        self.lines.append((step, values))


def walk(sampler, meter):
    for batch in sampler.batches():
        meter.on_batch(batch)
        step = sampler.step()
        if batch.micro_batch + 1 == step.micro_batches:
            meter.on_step(step)


def test_padding_and_fill_are_those_of_the_epoch():
    plan = sab.plan(SIZES, budget=2048)
    kept = Kept()
    meter = sab.Meter(kept.log, interval=10**6, budget=2048)
    walk(sab.BucketSampler(plan), meter)
    assert kept.lines == []
    meter.write()
    [(step, values)] = kept.lines
    report = plan.report()
    assert step == report.steps
    assert values["padding"] == pytest.approx(report.padding)
    assert values["fill"] == pytest.approx(report.padded_total / report.batches / 2048)
    assert values["tokens_per_second"] / values["samples_per_second"] == pytest.approx(SIZES.mean())


def test_an_interval_has_its_own_batches():
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=2048), micro_batches=2)
    kept = Kept()
    walk(sampler, sab.Meter(kept.log, interval=3))
    batches = [sampler.batch(position) for position in range(len(sampler))]
    padding = [
        1 - sum(each.total for each in part) / sum(each.padded_total for each in part)
        for part in (batches[first : first + 6] for first in range(0, len(batches) - 5, 6))
    ]
    assert [step for step, _ in kept.lines] == list(range(3, 3 * len(padding) + 1, 3))
    assert [values["padding"] for _, values in kept.lines] == pytest.approx(padding)


def test_costs_and_columns():
    sizes = {"source": [3, 5, 8, 8], "target": [2, 2, 4, 8]}
    cost = {"source": 1, "target": 2}
    plan = sab.plan(sizes, budget=48, cost=cost)
    kept = Kept()
    meter = sab.Meter(kept.log, budget=sab.Budget(48, cost=cost), interval=100)
    sampler = sab.BucketSampler(plan)
    walk(sampler, meter)
    meter.write()
    costs = [
        batch.count * (batch.padded_length["source"] + 2 * batch.padded_length["target"])
        for batch in map(sampler.batch, range(len(sampler)))
    ]
    assert kept.lines[0][1]["fill"] == pytest.approx(sum(costs) / len(costs) / 48)


def test_rows_are_filled_by_their_sum():
    sampler = sab.PackedSampler(SIZES, 512)
    kept = Kept()
    meter = sab.Meter(kept.log, budget=512, interval=10**6)
    walk(sampler, meter)
    meter.write()
    assert kept.lines[0][1]["fill"] == pytest.approx(sampler.info.fill)
    meter = sab.Meter(budget=sab.Budget(512, cost="quadratic"))
    with pytest.raises(ValueError, match="budget has a cost: must be a number for rows"):
        meter.on_batch(sampler.batch(0))


def test_imbalance_is_that_of_the_report():
    plan, world_size = sab.plan(SIZES, budget=512), 4
    barrier, shared = threading.Barrier(world_size), [b""] * world_size
    kept = [Kept() for _ in range(world_size)]

    def run(rank):
        def gather(mine):
            barrier.wait()
            shared[rank] = mine
            barrier.wait()
            return list(shared)

        meter = sab.Meter(kept[rank].log, interval=10**6, gather=gather)
        walk(sab.BucketSampler(plan, rank=rank, world_size=world_size), meter)
        meter.write()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    due = plan.report(world_size=world_size).rank_imbalance
    assert due > 1.01
    assert [each.lines[0][1]["imbalance"] for each in kept] == pytest.approx([due] * world_size)


def test_tokens_of_all_ranks_where_known(monkeypatch):
    times = iter([10.0, 14.0, 14.0, 18.0, 18.0])
    monkeypatch.setattr("time.monotonic", lambda: next(times))
    kept = Kept()
    meter = sab.Meter(kept.log)
    batch = sab.BucketSampler(sab.plan([4, 4], budget=8)).batch(0)
    meter.on_batch(batch)
    meter.on_step(sab.Step(1, 6, 24.0))
    meter.on_batch(batch)
    meter.on_step()
    rates = [(each["tokens_per_second"], each["samples_per_second"]) for _, each in kept.lines]
    assert rates == [(6.0, 1.5), (2.0, 0.5)]


def test_guard_events_are_logged():
    sampler = sab.BucketSampler(sab.plan(SIZES, budget=512))

    kept = Kept()
    with sab.MemoryGuard(sampler, "host", budget=1 << 40) as guard:
        meter = sab.Meter(kept.log, guard=guard)
        failed = False

        def chunk(first, count, weight):
            nonlocal failed
            if not failed:
                failed = True
                raise MemoryError("out of memory")

        batch = next(sampler.batches())
        guard.step(batch, chunk)
        meter.on_batch(batch)
        meter.on_step(sampler.step())
    values = kept.lines[0][1]
    assert values["guard_out_of_memory"] == 1
    assert values["guard_limit"] == 512 and values["guard_lowered"] == 0


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"log = 'run\.jsonl': must be a function"):
        sab.Meter("run.jsonl")
    with pytest.raises(ValueError, match="interval = 0: must be at least 1"):
        sab.Meter(interval=0)
    with pytest.raises(ValueError, match="budget = 0: must be finite and above 0"):
        sab.Meter(budget=0)
    with pytest.raises(TypeError, match="guard is a int"):
        sab.Meter(guard=3)
