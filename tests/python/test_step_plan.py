"""Step plans: properties, golden vectors, arrays of numpy and torch, and the functions of verl."""

import copy
import inspect
import pathlib
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import sab

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "steps" / "step_plans.txt"


def golden_cases():
    lines = []
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] == "end":
            yield lines
        lines = [] if words[0] in ("case", "end") else [*lines, words]


def keywords(lines):
    """The lengths and options of a golden case."""
    lengths, options = [], {}
    for key, *values in lines:
        if key == "sizes":
            lengths.append([int(value) for value in values])
        elif key == "budget":
            cost = "quadratic" if len(values) > 1 else None
            options.setdefault("budget", []).append(sab.Budget(float(values[0]), cost=cost))
        elif key in ("groups", "prefix"):
            options[key] = [int(value) for value in values]
        elif key == "parents":
            options["parent"] = [int(value) for value in values]
        elif key == "whole_groups":
            options[key] = True
        elif key in ("world_size", "micro_batches", "multiple"):
            options[key] = int(values[0])
        elif key in ("layout", "order", "balance"):
            options[key] = values[0]
    columns = dict(zip(("first", "second"), lengths))
    return columns if len(lengths) > 1 else lengths[0], options


@pytest.mark.parametrize("lines", list(golden_cases()), ids=lambda lines: lines[0][1])
def test_golden_vectors(lines):
    lengths, options = keywords(lines)
    plan = sab.plan_step(lengths, **options)
    results = ("plan", "indices", "offsets", "segments")
    expected = {key: list(map(int, values)) for key, *values in lines if key in results}
    assert [plan.micro_batches] == expected["plan"]
    assert plan.indices.tolist() == expected["indices"]
    assert plan.offsets.tolist() == expected["offsets"]
    if "segments" in expected:
        found = [
            np.stack(each, 1) for rank in range(plan.world_size) for each in plan.segments(rank)
        ]
        assert np.concatenate(found).ravel().tolist() == expected["segments"]


def test_arrays_and_measures():
    lengths = np.array([7, 2, 5, 3, 6, 1])
    plan = sab.plan_step(lengths, world_size=2, budget=8, order="ascending")
    assert (lengths[plan.indices][plan.inverse] == lengths).all()
    assert plan.costs.shape == (2, 2) and plan.costs.sum() == 24
    assert (np.diff(plan.costs, axis=1) >= 0).all()
    for rank in range(2):
        for batch, cu_seqlens in zip(plan.rank(rank), plan.cu_seqlens(rank)):
            assert cu_seqlens.dtype == np.int32
            assert np.diff(cu_seqlens).tolist() == lengths[batch].tolist()
    assert plan.rank(-1)[0].tolist() == plan.rank(1)[0].tolist()
    with pytest.raises(IndexError, match="rank = 2: there are 2 ranks"):
        plan.rank(2)
    assert (plan.world_size, plan.micro_batches, plan.least_micro_batches) == (2, 2, 2)
    assert repr(plan) == (
        "<sab.StepPlan: 6 samples, 2 ranks, 2 micro-batches each, slowest rank 1.0000 of the mean>"
    )
    with pytest.raises(TypeError, match=r"made by sab\.plan_step"):
        sab.StepPlan()


def test_several_columns_and_costs():
    lengths = {"images": [1, 2, 3, 4], "tokens": [10, 20, 30, 40]}
    plan = sab.plan_step(
        lengths,
        world_size=2,
        budget={"images": 6, "tokens": 60},
        balance=[{"images": 1}, {"tokens": 1}],
    )
    assert plan.rank_imbalance == [1, 1] and len(plan.costs) == 2
    assert set(plan.cu_seqlens(0)[0]) == {"images", "tokens"}
    assert "slowest rank 1.0000, 1.0000 of the mean" in repr(plan)
    padded = sab.plan_step(lengths, world_size=2, budget=400, layout="padded")
    with pytest.raises(ValueError, match="only rows of whole numbers"):
        padded.cu_seqlens(0)


def test_loss_weights_make_the_mean_of_the_step():
    rng = np.random.default_rng(0)
    lengths, groups = rng.integers(1, 50, 64), np.arange(64) // 4
    losses = rng.random(64)
    plan = sab.plan_step(lengths, world_size=4, budget=100, groups=groups)
    means = {
        "sample": losses.mean(),
        "token": (losses * lengths).sum() / lengths.sum(),
        "group": losses.reshape(16, 4).mean(axis=1).mean(),
    }
    for by, mean in means.items():
        weights = plan.loss_weights(by)
        parts = [(weights * losses)[batch].sum() for r in range(4) for batch in plan.rank(r)]
        assert np.isclose(sum(parts), mean)
    responses = rng.integers(0, 9, 64)
    assert np.allclose(plan.loss_weights(tokens=responses), responses / responses.sum())
    with pytest.raises(ValueError, match="tokens has 1 numbers"):
        plan.loss_weights(tokens=[1])
    with pytest.raises(ValueError, match="by = 'word': must be one of 'sample'"):
        plan.loss_weights("word")
    with pytest.raises(ValueError, match="tokens: their sum is 0"):
        plan.loss_weights(tokens=np.zeros(64))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"budget": 8}, "lengths[0] = 9: must fit budget = 8 alone; 1 of 4 samples do not"),
        ({"budget": 0}, "budget = 0: must be finite and above 0"),
        ({}, "micro_batches = None and budget = None: micro-batches of a rank, or a budget"),
        ({"budget": 10, "micro_batches": 1}, "micro_batches = 1: must be at least 2 to keep"),
        ({"budget": 10, "groups": [1]}, "groups has 1 ids: must have one for each of 4 samples"),
        ({"budget": 10, "cost": lambda count, length: -1.0}, "must be finite and not negative"),
        ({"budget": 10, "prefix": [1] * 4}, "prefix: groups must be given, too"),
        (
            {"budget": 10, "groups": [0, 0, 1, 1], "prefix": [1, 2, 1, 1]},
            "prefix[1] = 2: must be 1, that of sample 0 of the same group",
        ),
        (
            {"budget": 10, "groups": [0] * 4, "prefix": [2, 2, 2, 2], "layout": "padded"},
            "prefix: is for micro-batches in rows, not for padded ones",
        ),
        ({"budget": 20, "parent": [-1, 0, 4, 0]}, "parent[2] = 4: must be -1, or below the number"),
        ({"budget": 20, "parent": [-1, 0]}, "parent has 2 numbers: must have one for each of 4"),
        ({"budget": 20, "parent": [-1, 0, 3, 2]}, "parent[2] = 3: its node must not be above"),
        ({"budget": 12, "parent": [-1, 0, 0, 0]}, "lengths[1] = 4: its sample, of 13 tokens, must"),
        ({"budget": 10, "whole_groups": True}, "whole_groups = True: must be False without"),
        (
            {"budget": 16, "groups": [5] * 4, "micro_batches": 1, "world_size": 2},
            "groups[3] = 5: its samples must fit 1 micro-batches of budget = 16, which hold 16",
        ),
    ],
)
def test_bad_input_is_named(options, message):
    with pytest.raises(ValueError) as caught:
        sab.plan_step([9, 4, 3, 2], **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "lengths, message",
    [
        ([], "len(lengths) = 0: must be at least 1"),
        ([1, -1], "lengths[1] = -1: must not be negative"),
        ([1, np.nan], "lengths[1] = nan: must be a number"),
        (np.array([True]), "lengths has dtype bool: must be"),
        ({"a": [1], "b": [1, 2]}, "lengths['b'] has 2 samples: must have as many as lengths['a']"),
    ],
)
def test_lengths_are_named(lengths, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        sab.plan_step(lengths, micro_batches=1)
    assert message in str(caught.value)


def test_segments_lay_out_what_a_micro_batch_computes():
    lengths, groups, prefix = [7, 9, 6, 4], [4, 4, 8, 8], [5, 5, 0, 0]
    plan = sab.plan_step(lengths, budget=12, groups=groups, prefix=prefix, micro_batches=2)
    shared, others = plan.segments(0)
    assert plan.rank(0)[0].tolist() == [0, 1] and plan.cu_seqlens(0)[0].tolist() == [0, 5, 7, 11]
    assert [each.tolist() for each in shared] == [
        [-1, 0, 1],  # node
        [0, 0, 1],  # sample
        [-1, 0, 0],  # parent
        [0, 5, 5],  # position
        [0, 5, 7],  # offset
        [5, 2, 4],  # length
    ]
    assert others.node.tolist() == [2, 3] and others.parent.tolist() == [-1, -1]
    again = pickle.loads(pickle.dumps(plan))
    assert again.segments(0)[0].offset.tolist() == shared.offset.tolist()
    with pytest.raises(ValueError, match="only plans with prefix or parent have them"):
        sab.plan_step(lengths, budget=12).segments(0)


def test_samples_of_a_forest_are_its_leaves():
    parent, tokens = [2, 2, -1, 0, 0, -1], [3, 4, 10, 1, 2, 6]
    plan = sab.plan_step(tokens, world_size=2, budget=20, parent=parent, micro_batches=1)
    assert sorted(plan.indices.tolist()) == [1, 3, 4, 5]
    assert plan.indices[plan.inverse].tolist() == [1, 3, 4, 5]
    assert plan.costs.sum() == sum(tokens)
    weights = plan.loss_weights("token", tokens=[9, 1, 9, 1, 2, 4])
    assert weights.tolist() == [0, 1 / 8, 0, 1 / 8, 2 / 8, 4 / 8]
    assert plan.loss_weights("group").tolist() == [0, 1 / 6, 0, 1 / 6, 1 / 6, 1 / 2]
    assert plan.loss_weights("token")[3] == 14 / (14 + 14 + 15 + 6)
    torch = pytest.importorskip("torch")
    tensors = sab.plan_step(torch.tensor(tokens), budget=30, parent=torch.tensor(parent))
    assert isinstance(tensors.segments(0)[0].node, torch.Tensor)


def test_groups_may_be_texts():
    lengths, texts = [3, 1, 2, 4, 5], ["x", "y", "x", "z", "y"]
    expected = sab.plan_step(lengths, world_size=2, budget=9, groups=[0, 1, 0, 2, 1])
    for groups in (texts, tuple(texts), np.array(texts), np.array(texts, object)):
        plan = sab.plan_step(lengths, world_size=2, budget=9, groups=groups)
        assert plan.indices.tolist() == expected.indices.tolist()


def test_pickled_and_copied_plans_are_the_same():
    lengths, groups = np.array([7, 2, 5, 3, 6, 1]), np.array([0, 0, 1, 1, 2, 2])
    columns = {"images": [1, 2, 3, 4], "tokens": [10, 20, 30, 40]}
    for plan in (
        sab.plan_step(lengths, world_size=2, budget=8, groups=groups, balance="quadratic"),
        sab.plan_step(columns, world_size=2, budget={"images": 6, "tokens": 60}, order="bell"),
    ):
        numbers = plan.rank(0)[0].tolist(), repr(plan), plan.loss_weights("group").tolist()
        lengths[:], groups[:] = 1, 1  # the plan has copies
        for made in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan), copy.copy(plan)):
            assert made is not plan and repr(made) == numbers[1]
            assert made.rank(0)[0].tolist() == numbers[0]
            assert made.loss_weights("group").tolist() == numbers[2]
            assert repr(made.cu_seqlens(1)) == repr(plan.cu_seqlens(1))


def test_more_ranks_than_samples():
    plan = sab.plan_step([5, 6], world_size=4, budget=10)
    assert sorted(len(plan.rank(rank)[0]) for rank in range(4)) == [0, 0, 1, 1]


def test_an_exception_of_a_cost_or_of_progress_comes_through():
    def fail(*_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sab.plan_step([1, 2], budget=8, balance=fail)
    with pytest.raises(KeyError, match="mine"):
        sab.plan_step([1, 2], budget=8, progress=fail)


def test_tensors_in_and_out():
    torch = pytest.importorskip("torch")
    lengths = torch.tensor([7, 2, 5, 3, 6, 1])
    plan = sab.plan_step(lengths, world_size=2, budget=8, groups=torch.tensor([0, 0, 1, 1, 2, 2]))
    assert torch.equal(lengths[plan.indices][plan.inverse], lengths)
    assert plan.rank(0)[0].dtype == torch.int64 and plan.offsets.dtype == torch.int64
    assert plan.cu_seqlens(0)[0].dtype == torch.int32
    weights = plan.loss_weights("token", tokens=lengths)
    assert weights.dtype == torch.float64 and torch.allclose(weights, lengths.double() / 24)
    columns = {"first": lengths.int(), "second": [1] * 6}
    plan = pickle.loads(pickle.dumps(sab.plan_step(columns, world_size=2, micro_batches=2)))
    assert isinstance(plan.cu_seqlens(0)[0]["second"], torch.Tensor)
    assert torch.equal(lengths[plan.indices][plan.inverse], lengths)


# verl


class Batch(dict):
    """What the functions of verl use of a TensorDict."""

    def __init__(self, values, batch_size):
        super().__init__(values)
        self.batch_size = batch_size


class Proto:
    """What the functions of verl use of a DataProto."""

    def __init__(self, batch, non_tensor_batch, meta_info):
        self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, meta_info

    @classmethod
    def from_dict(cls, tensors, non_tensors, meta_info):
        return cls(tensors, non_tensors, meta_info)


def batch_of(torch, lengths):
    mask = (torch.arange(100) < torch.as_tensor(lengths)[:, None]).long()
    return Batch(
        {
            "input_ids": torch.arange(len(lengths) * 100).view(-1, 100),
            "attention_mask": mask,
            "name": torch.tensor(7),
        },
        len(lengths),
    )


@pytest.mark.parametrize("bell", [True, False])
def test_verl_micro_batches_keep_the_cap_and_are_restored(bell):
    torch = pytest.importorskip("torch")
    from sab.compat.verl import seqlen_balancing as verl

    lengths = np.random.default_rng(1).integers(20, 100, 37)
    batch = batch_of(torch, lengths)
    micros, indices = verl.rearrange_micro_batches(batch, 300, use_dynamic_bsz_balance=bell)
    assert all(lengths[each].sum() <= 300 for each in indices)
    assert len(micros) <= -(-lengths.sum() // 300) + 1
    assert [micro.batch_size for micro in micros] == [len(each) for each in indices]
    assert all(micro["name"] == 7 for micro in micros)
    work = [verl.calculate_workload(torch.as_tensor(lengths[each])).sum() for each in indices]
    if bell:
        top = int(np.argmax(work))
        assert work[: top + 1] == sorted(work[: top + 1]) and 0 < top < len(work) - 1
    else:
        assert work == sorted(work, reverse=True)
    flat = torch.cat([micro["input_ids"] for micro in micros])
    assert torch.equal(verl.restore_dynamic_batch(flat, indices), batch["input_ids"])
    with pytest.raises(AssertionError, match="max_token_len must be greater"):
        verl.rearrange_micro_batches(batch, 99)
    for kind in (AssertionError, ValueError):  # those of verl 0.9.0 and of 0.9.1
        with pytest.raises(kind, match="40 micro-batches of 37 groups"):
            verl.rearrange_micro_batches(batch, 300, min_num_micro_batch=40)
    assert len(verl.rearrange_micro_batches(batch, 300, num_batches_divided_by=6)[0]) % 6 == 0


def test_verl_signatures():
    pytest.importorskip("torch")
    from sab.compat.verl import seqlen_balancing as verl

    common = {
        "max_token_len": inspect.Parameter.empty,
        "dp_group": None,
        "num_batches_divided_by": None,
        "same_micro_num_in_dp": True,
        "min_num_micro_batch": None,
        "use_dynamic_bsz_balance": True,
    }
    empty = inspect.Parameter.empty
    for function, expected in (
        (verl.rearrange_micro_batches, {"batch": empty, **common, "force_group_size": 1}),
        (verl.prepare_dynamic_batch, {"data": empty, **common}),
    ):
        parameters = inspect.signature(function).parameters
        assert [(name, each.default) for name, each in parameters.items()] == [*expected.items()]


@pytest.mark.parametrize("size", [2, 4])
def test_verl_groups_stay_in_one_micro_batch(size):
    torch = pytest.importorskip("torch")
    from sab.compat.verl import seqlen_balancing as verl

    lengths = np.random.default_rng(2).integers(20, 100, 36)
    batch = batch_of(torch, lengths)
    _, indices = verl.rearrange_micro_batches(batch, 450, force_group_size=size)
    assert sorted(sum(indices, [])) == list(range(36))
    assert all(lengths[each].sum() <= 450 for each in indices)
    for each in indices:
        firsts = each[::size]
        assert each == [first + k for first in firsts for k in range(size)]
        assert all(first % size == 0 for first in firsts)
    with pytest.raises(AssertionError, match="divisible by force_group_size=5"):
        verl.rearrange_micro_batches(batch, 450, force_group_size=5)
    with pytest.raises(ValueError, match="a group has 200 tokens, more than max_token_len=199"):
        verl.rearrange_micro_batches(batch_of(torch, [99, 1, 100, 100]), 199, force_group_size=2)


def test_verl_proto_keeps_what_is_not_a_tensor():
    torch = pytest.importorskip("torch")
    from sab.compat.verl import seqlen_balancing as verl

    batch = batch_of(torch, [90, 80, 70, 60])
    names = np.array(["a", "b", "c", "d"], object)
    proto = Proto(batch, {"names": names}, {"step": [3]})
    micros, indices = verl.prepare_dynamic_batch(proto, 170)
    assert [micro.non_tensor_batch["names"].tolist() for micro in micros] == [
        names[each].tolist() for each in indices
    ]
    assert micros[0].meta_info == {"step": [3]} and micros[0].meta_info is not proto.meta_info


def test_verl_partitions():
    pytest.importorskip("torch")
    from sab.compat.verl import seqlen_balancing as verl

    lengths = [100] * 4 + [200] * 4 + [150] * 4 + [50] * 4
    uids = ["a"] * 4 + ["b"] * 4 + ["c"] * 4 + ["d"] * 4
    parts = verl.get_group_balanced_partitions(lengths, uids, 2)
    assert sorted(sum(parts, [])) == list(range(16))
    assert all(len({uids[i] for i in part}) == 2 for part in parts)
    assert {sum(lengths[i] for i in part) for part in parts} == {1000}
    for function in (verl.karmarkar_karp, verl.greedy_partition):
        assert {len(part) for part in function(lengths, 4, equal_size=True)} == {4}
        assert sorted(sum(function(lengths, 3, equal_size=False), [])) == list(range(16))
    assert all(verl.get_seqlen_balanced_partitions([5, 0, 0], 3, equal_size=False))
    with pytest.raises(AssertionError, match=r"number of items:\[1\] < k_partitions:\[2\]"):
        verl.get_seqlen_balanced_partitions([1], 2, equal_size=False)
    with pytest.raises(AssertionError, match="3 % 2 != 0"):
        verl.karmarkar_karp([1, 2, 3], 2, equal_size=True)
    with pytest.raises(AssertionError, match="Number of uid groups"):
        verl.get_group_balanced_partitions([1], ["a"], 2)
    logged = verl.log_seqlen_unbalance([4, 1, 1, 2], [[0], [1, 2, 3]], "len")
    assert logged == {
        "len/min": 3,
        "len/max": 5,
        "len/minmax_diff": 2,
        "len/balanced_min": 4,
        "len/balanced_max": 4,
        "len/mean": 4,
    }
    assert verl.get_reverse_idx([2, 0, 1]) == [1, 2, 0]


def test_verl_ranks_of_gloo_agree_on_micro_batches_and_errors(tmp_path):
    pytest.importorskip("torch")
    program = textwrap.dedent(
        f"""
        import sys
        import torch, torch.distributed as dist, torch.multiprocessing as mp
        sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})

        def work(rank):
            from test_step_plan import batch_of
            from sab.compat.verl.seqlen_balancing import rearrange_micro_batches
            dist.init_process_group("gloo", init_method="file://{tmp_path}/meet", rank=rank,
                                    world_size=2)
            batch = batch_of(torch, [60] * (20 + 10 * rank))
            own = rearrange_micro_batches(batch, 300, same_micro_num_in_dp=False)[0]
            same = rearrange_micro_batches(batch, 300, dp_group=dist.group.WORLD)[0]
            assert (len(own), len(same)) == (4 + 2 * rank, 6)
            if rank == 0:  # without a group nothing is synchronised
                assert len(rearrange_micro_batches(batch, 300)[0]) == 4
            wide = dict(batch, attention_mask=torch.ones(20, 100 + 300 * rank))
            uneven = batch_of(torch, [40 + 20 * rank] * 20)
            for kind, given, options in (  # what breaks a rule on rank 1 only, or rank 0
                (AssertionError, wide, {{"max_token_len": 300}}),
                (AssertionError, batch, {{"max_token_len": 300, "force_group_size": 4}}),
                (ValueError, batch, {{"max_token_len": 300, "min_num_micro_batch": 25}}),
                (ValueError, uneven, {{"max_token_len": 100, "force_group_size": 2}}),
            ):
                try:
                    rearrange_micro_batches(given, dp_group=dist.group.WORLD, **options)
                except kind:
                    continue
                raise RuntimeError(f"rank {{rank}} did not raise with {{options}}")
            dist.destroy_process_group()

        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
        """
    )
    path = tmp_path / "ranks.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
