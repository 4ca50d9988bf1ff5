"""`sab.torch.LearningRateScaler` with optimizers and schedulers of torch."""

import copy

import pytest

torch = pytest.importorskip("torch", minversion="2.0")

import sab
import sab.torch

STEPS = [sab.Step(1, 4, total) for total in (64.0, 16.0, 128.0, 32.0)]


def optimizer_of(kind=torch.optim.SGD, **options):
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    return weight, kind([weight], lr=0.1, **options)


def walk(optimizer, weight, steps=STEPS, scheduler=None, scaler=None):
    """How far each step moved the weight, whose gradient is 1."""
    moves = []
    for step in steps:
        before = weight.item()
        weight.grad = torch.ones_like(weight)
        if scaler is not None:
            scaler.on_step(step)
        optimizer.step()
        moves.append(before - weight.item())
        if scheduler is not None:
            scheduler.step()
    return moves


@pytest.mark.parametrize("rule, power", [("linear", 1), ("sqrt", 0.5)])
def test_each_step_has_the_rate_of_its_tokens(rule, power):
    weight, optimizer = optimizer_of()
    scaler = sab.torch.LearningRateScaler(optimizer, 64, rule=rule)
    moves = walk(optimizer, weight, scaler=scaler)
    assert moves == pytest.approx([0.1 * (step.total / 64) ** power for step in STEPS], rel=1e-5)
    assert optimizer.param_groups[0]["lr"] == 0.1  # put back
    scaler.close()
    scaler = sab.torch.LearningRateScaler(optimizer, 2, rule=rule, of="samples")
    moves = walk(optimizer, weight, scaler=scaler)
    assert moves == pytest.approx([0.1 * 2**power] * len(STEPS), rel=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5),
        lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step),
    ],
    ids=["recursive", "closed form"],
)
def test_schedulers_go_on_from_rates_that_are_not_scaled(make):
    weight, optimizer = optimizer_of()
    scheduler = make(optimizer)
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    moves = walk(optimizer, weight, scheduler=scheduler, scaler=scaler)
    due = [0.1 * 0.5**number * step.total / 64 for number, step in enumerate(STEPS)]
    assert moves == pytest.approx(due, rel=1e-5)


def test_rates_that_are_tensors_stay_the_same_tensor():
    weight, optimizer = optimizer_of(torch.optim.Adam)
    rate = torch.tensor(0.1)
    optimizer.param_groups[0]["lr"] = rate
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    moves = walk(optimizer, weight, STEPS[:1], scaler=scaler)
    moves += walk(optimizer, weight, STEPS[1:2], scaler=scaler)
    assert moves == pytest.approx([0.1, 0.025], rel=1e-3)
    assert optimizer.param_groups[0]["lr"] is rate and rate.item() == pytest.approx(0.1)


def test_a_step_that_fails_leaves_no_scaled_rate_behind():
    weight, optimizer = optimizer_of(torch.optim.LBFGS)
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    scaler.on_step(STEPS[2])
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 // 0)
    optimizer.step(weight.sum)
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_fused_optimizers_are_scaled():
    weight, optimizer = optimizer_of()
    sab.torch.fuse_optimizer(optimizer, replace_step=True)
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    moves = walk(optimizer, weight, scaler=scaler)
    assert moves == pytest.approx([0.1 * step.total / 64 for step in STEPS], rel=1e-5)


def test_optimizers_of_accelerate_are_scaled():
    accelerate = pytest.importorskip("accelerate")
    weight, optimizer = optimizer_of()
    prepared = accelerate.Accelerator(cpu=True).prepare(optimizer)
    scaler = sab.torch.LearningRateScaler(prepared, 64)
    moves = walk(prepared, weight, scaler=scaler)
    assert moves == pytest.approx([0.1 * step.total / 64 for step in STEPS], rel=1e-5)


def test_close_takes_the_scaling_off():
    weight, optimizer = optimizer_of()
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    scaler.on_step(STEPS[1])
    scaler.close()
    assert walk(optimizer, weight, STEPS[:1]) == pytest.approx([0.1])


def test_what_is_refused():
    weight, optimizer = optimizer_of()
    with pytest.raises(ValueError, match="reference = 0: must be finite and above 0"):
        sab.torch.LearningRateScaler(optimizer, 0)
    with pytest.raises(ValueError, match="rule = 'cubic': must be one of 'linear', 'sqrt'"):
        sab.torch.LearningRateScaler(optimizer, 64, rule="cubic")
    with pytest.raises(sab.UnsupportedError, match="optimizer is a list"):
        sab.torch.LearningRateScaler([weight], 64)
    scaler = sab.torch.LearningRateScaler(optimizer, 64)
    with pytest.raises(ValueError, match="not known"):
        scaler.on_step(sab.Step(1, -1, -1.0))
    with pytest.raises(TypeError, match="cannot be pickled"):
        copy.deepcopy(scaler)


def test_a_step_that_fails_leaves_the_rate_that_was_set():
    _, optimizer = optimizer_of()
    scaler = sab.torch.LearningRateScaler(optimizer, 32)
    scaler.on_step(STEPS[0])

    def fails():
        assert optimizer.param_groups[0]["lr"] == 0.1  # checkpoints of a failure see it
        raise KeyError("the model")

    with pytest.raises(KeyError):
        optimizer.step(fails)
    assert optimizer.param_groups[0]["lr"] == 0.1
    optimizer.step(lambda: 3.0)
    with pytest.raises(RuntimeError, match="has a LearningRateScaler already"):
        sab.torch.LearningRateScaler(optimizer, 32)
    scaler.close()
    sab.torch.LearningRateScaler(optimizer, 32)
    assert optimizer.param_groups[0]["lr"] == 0.1
