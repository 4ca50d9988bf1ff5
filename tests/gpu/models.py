"""Models: how well MemoryModel.learn predicts, and how near find_max_batch comes to the limit.

Each network learns its model under a limit of the device's memory. Held-out batches that the model
predicts to take a third of the limit up to all of it are then measured. The true largest batch is
found by bisection, running out of memory.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import tempfile
from collections.abc import Generator
from typing import Any, Callable

import numpy as np
import torch
from torch import nn

import sab
from common import GIB, MIB, Part, percent, size_text
from workloads import (
    Chain,
    Decoder,
    Trainer,
    fused_attention,
    plain_attention,
    random_numbers,
    random_words,
)

COVERAGE = 0.9  # of MemoryModel.learn
HELD_OUT = 48  # batches
Make = Callable[[], Trainer]


class OfTransformers(nn.Module):
    """A network of transformers, with a loss."""

    def __init__(self, network: nn.Module, has_loss: bool) -> None:
        super().__init__()
        self.network, self.has_loss = network, has_loss

    def forward(self, words: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        if self.has_loss:
            return self.network(input_ids=words, labels=following, use_cache=False).loss
        return self.network(input_ids=words).last_hidden_state.float().square().mean()


def of_transformers(part: Part, longest: int) -> dict[str, Make]:
    try:
        import transformers
    except ImportError:
        part.leave_out("encoder and decoder of transformers: not installed")
        return {}
    gc.freeze()  # as in Part
    width, layers, heads, words = part.size((512, 6, 8, 8192), (16, 1, 2, 64))

    def encoder() -> Trainer:
        config = transformers.BertConfig(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
            vocab_size=words,
            max_position_embeddings=longest,
        )
        network = OfTransformers(transformers.BertModel(config, add_pooling_layer=False), False)
        return Trainer(network, random_words(words, part.device), part.device)

    def decoder() -> Trainer:
        config = transformers.GPT2Config(
            n_embd=width, n_layer=layers, n_head=heads, n_positions=longest, vocab_size=words
        )
        network = OfTransformers(transformers.GPT2LMHeadModel(config), True)
        return Trainer(network, random_words(words, part.device), part.device)

    return {"encoder of transformers": encoder, "decoder of transformers": decoder}


def networks(part: Part, longest: int) -> dict[str, Make]:
    """What makes each network with its training steps."""
    width, layers, heads, words = part.size((512, 6, 8, 8192), (16, 1, 2, 64))
    device = part.device

    def chain(layers_of: Callable[[], list[nn.Module]], channels_first: bool = False) -> Make:
        return lambda: Trainer(
            Chain(*layers_of()), random_numbers(width, device, channels_first), device
        )

    def linear() -> list[nn.Module]:
        pairs = [(nn.Linear(width, 4 * width), nn.Linear(4 * width, width)) for _ in range(layers)]
        return [layer for up, down in pairs for layer in (up, nn.GELU(), down)]

    def convolutions() -> list[nn.Module]:
        made = [nn.Conv1d(width, width, 5, padding=2) for _ in range(layers)]
        return [layer for each in made for layer in (each, nn.GELU())]

    def decoder(attention: Callable[..., torch.Tensor]) -> Make:
        return lambda: Trainer(
            Decoder((width, layers, heads), words, longest, attention),
            random_words(words, device),
            device,
        )

    found: dict[str, Make] = {
        "MLP": chain(linear),
        "CNN": chain(convolutions, channels_first=True),
        "GRU": chain(lambda: [nn.GRU(width, width, 2, batch_first=True)]),
        "transformer": decoder(plain_attention),
        "transformer, SDPA": decoder(fused_attention),
    }
    if not hasattr(nn.functional, "scaled_dot_product_attention"):
        part.leave_out(f"SDPA: torch {torch.__version__} has none; plain attention in its place")
    return {**found, **of_transformers(part, longest)}


@contextlib.contextmanager
def fresh() -> Generator[None, None, None]:
    """Leaves no tensors and no cache behind."""
    try:
        yield
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def held_out(
    model: sab.MemoryModel, limit: int, lengths: tuple[int, int], count: int
) -> list[tuple[int, int]]:
    """Batches that the model says take a third of the limit up to all of it."""
    random = np.random.default_rng(1)
    points: list[tuple[int, int]] = []
    while len(points) < count:
        length = int(np.exp(random.uniform(np.log(lengths[0]), np.log(lengths[1]))))
        aim = limit * random.uniform(1 / 3, 1)
        low, high = 1, 1 << 24  # the most samples that stay under the aim
        while high - low > 1:
            middle = (low + high) // 2
            fits = float(model.predict_upper([(middle, length)])[0]) <= aim
            low, high = (middle, high) if fits else (low, middle)
        points.append((low, length))
    return points


def errors_of(
    part: Part, model: sab.MemoryModel, trainer: Trainer, probe: sab.Probe, lengths: Any
) -> tuple[float, float, int]:
    """(99th percentile of the errors, share under the margin, batches that ran out)."""
    limit = probe.stats().total
    points = held_out(model, limit, lengths, part.size(HELD_OUT, 3))

    def work(point: tuple[int, int]) -> tuple[int, int]:
        trainer.trial(*point)
        return point

    measured = sab.collect_peak(work, points, probe, cleanup=trainer.clear)
    needed = np.maximum(measured.peaks, measured.reserved_peaks).astype(float)
    rows = np.array(measured.features, float).reshape(-1, 2)
    errors = np.abs(model.predict(rows) / needed - 1)
    under = needed <= model.predict_upper(rows)
    failed = len(measured.out_of_memory)
    share = float(under.sum()) / (len(under) + failed)
    return float(np.quantile(errors, 0.99)), share, failed


def fits(trainer: Trainer, count: int, length: int) -> bool:
    """Whether a step on such a batch fits the device as it is."""
    with fresh():
        try:
            trainer.trial(count, length)
            return True
        except RuntimeError as error:
            if not sab.is_out_of_memory(error):
                raise
            return False
        finally:
            trainer.clear()


def true_maximum(trainer: Trainer, length: int, start: int) -> int:
    """The largest batch that fits, found by running out, from a batch that is near it."""
    low, high, step = 0, start, max(1, start // 50)
    while fits(trainer, high, length):
        low, high, step = high, high + step, 2 * step
    if low == 0:  # the start does not fit
        low = 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(trainer, middle, length) else (low, middle)
    return low


class Counted:
    """Steps of others' searches; running out raises what all of them know."""

    def __init__(self, trainer: Trainer, length: int) -> None:
        self.trainer, self.length = trainer, length
        self.steps = self.failed = 0

    def __call__(self, count: int) -> None:
        self.steps += 1
        if not fits(self.trainer, count, self.length):
            self.failed += 1
            raise RuntimeError("CUDA out of memory.")


def by_accelerate(trainer: Trainer, length: int, start: int) -> tuple[int, int, int]:
    from accelerate.utils import find_executable_batch_size

    trial = Counted(trainer, length)

    def search(batch_size: int) -> int:
        trial(batch_size)
        return batch_size

    found = find_executable_batch_size(search, starting_batch_size=start)()
    return found, trial.steps, trial.failed


def by_lightning(trainer: Trainer, length: int, device: torch.device) -> tuple[int, int, int]:
    try:
        import lightning.pytorch as lightning
        from lightning.pytorch.tuner import Tuner
    except ImportError:
        import pytorch_lightning as lightning
        from pytorch_lightning.tuner import Tuner
    gc.freeze()  # as in Part
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    trial = Counted(trainer, length)

    class Module(lightning.LightningModule):
        """A parameter of its own: Lightning counts steps of the optimizers that it knows."""

        batch_size = 1

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def train_dataloader(self) -> Any:
            samples: Any = range(1 << 20)
            return torch.utils.data.DataLoader(samples, batch_size=self.batch_size, collate_fn=len)

        def training_step(self, count: int, _: int) -> torch.Tensor:
            trial(int(count))
            return self.weight.sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    kind = "cpu" if device.type == "cpu" else "gpu"
    run = lightning.Trainer(
        accelerator=kind,
        devices=1,
        default_root_dir=tempfile.mkdtemp(),  # for a checkpoint that it removes
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    found = Tuner(run).scale_batch_size(
        Module(), mode="binsearch", steps_per_trial=1, init_val=1, max_trials=30
    )
    return int(found or 0), trial.steps, trial.failed


def searches(part: Part, trainer: Trainer, length: int, found: sab.MaxBatch, true: int) -> None:
    """The same batch found by others, steps counted."""
    rows = [("libsab, predict", found.batch_size, found.trials, found.out_of_memory)]
    others: dict[str, Callable[[], tuple[int, int, int]]] = {
        "accelerate, from twice the true one": lambda: by_accelerate(trainer, length, 2 * true),
        "Lightning, binary search from 1": lambda: by_lightning(trainer, length, part.device),
    }
    for name, search in others.items():
        if part.is_over(0.95, name):
            continue
        try:
            rows.append((name, *search()))
        except Exception as error:  # of the other package: it is not there, or not for this torch
            part.leave_out(f"{name}: {type(error).__name__}: {str(error)[:100]}")
    shown = [(name, size, percent(size / true), *counts) for name, size, *counts in rows]
    columns = ("search", "batch size", "of the true one", "steps", "out of memory")
    part.table(f"The largest batch of samples of length {length}: {true}", columns, shown)


def measure(part: Part, name: str, make: Make, probe: sab.Probe, lengths: tuple[int, int]) -> list:
    """A row of the table, with the figures of one network."""
    torch.manual_seed(0)
    trainer = make()
    model = sab.MemoryModel.learn(
        trainer.trial,
        probe,
        shortest=lengths[0],
        longest=lengths[1],
        points=part.size(12, 8),
        coverage=COVERAGE,
        cleanup=trainer.clear,
    )
    error, share, failed = errors_of(part, model, trainer, probe, lengths)
    # So few batches may be two standard deviations below a margin that is right.
    least = COVERAGE - 2 * (COVERAGE * (1 - COVERAGE) / HELD_OUT) ** 0.5
    # Of samples so short that many fit: one sample must be less than 3 % of them.
    length = part.size(256, lengths[1])
    found = sab.find_max_batch(trainer.trial, probe, lengths=[length])
    trainer.clear()
    true = true_maximum(trainer, length, found.batch_size)
    near = found.batch_size / true
    part.figure(f"{name}: error, 99 %", "at most 3 %", percent(error), error <= 0.03)
    asked = f"{COVERAGE:.0%} under it, {least:.0%} of {HELD_OUT}"
    part.figure(f"{name}: margin", asked, percent(share), share >= least)
    is_near, failures = 0.97 <= near <= 1, found.out_of_memory
    part.figure(f"{name}: largest batch", "97 % to 100 %", percent(near), is_near, exact=True)
    part.figure(f"{name}: out of memory", "0", failures, failures == 0, exact=True)
    if name == "transformer, SDPA":
        searches(part, trainer, length, found, true)
    return [
        name,
        percent(error),
        percent(model.info.margin),
        percent(share),
        failed,
        f"{found.batch_size}/{true}",
        found.trials,
    ]


def rows_of(part: Part, limit: int, lengths: tuple[int, int]) -> list[list]:
    rows: list[list] = []
    for name, make in networks(part, lengths[1]).items():
        if part.is_over(0.85, name):
            continue
        with fresh(), part.attempt(name), sab.Probe("cuda:0", total_bytes=limit) as probe:
            rows.append(measure(part, name, make, probe, lengths))
    return rows


def main() -> None:
    with Part("models", 250) as part:
        torch.set_float32_matmul_precision("high")  # time is short, and memory is the same
        limit = part.size(8 * GIB, 4 * MIB)
        lengths = part.size((16, 1024), (4, 32))
        rows = rows_of(part, limit, lengths)
        columns = ("network", "error, 99 %", "margin", "under it", "failed", "found/true", "steps")
        title = f"Under a limit of {size_text(limit)}; lengths {lengths[0]} to {lengths[1]}"
        part.table(title, columns, rows)


if __name__ == "__main__":
    main()
