"""Lengths, texts, networks and training steps.

Run as a program it prints the table of quantiles anew, from Debian's wordnet-base and
mmseqs2-examples: `python workloads.py GLOSSES.txt DB.fasta.gz`.
"""

from __future__ import annotations

import gzip
import inspect
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, Callable, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

import sab

PERCENTS = [0, *range(5, 100, 5), 97.5, 99, 99.5, 99.9, 100]
# Words of WordNet's 117,659 glosses; residues of the 20,007 proteins of mmseqs2-examples.
QUANTILES = {
    "glosses": "1 4 5 6 6 7 8 9 9 10 11 12 13 14 15 16 17 19 22 26 31 37 42 54 82",
    "proteins": "1 71 100 129 158 189 216 246 280 313 345 376 416 464 517 582 639 717 872 1188 "
    "1490 2210 2874 5080 8081",
}
SOURCE = "lengths drawn from recorded quantiles of WordNet's glosses and mmseqs2's proteins"
IGNORED = -100  # cross_entropy's own


def lengths(
    kind: str, count: int, longest: int, parts: int = 1, shortest: int = 1
) -> npt.NDArray[np.int64]:
    """Lengths distributed as those of a data set, divided by `parts`; longer ones are cut, shorter
    ones are made longer."""
    quantiles = [int(each) for each in QUANTILES[kind].split()]
    drawn = np.interp(np.random.default_rng(0).random(count) * 100, PERCENTS, quantiles)
    return np.clip(drawn / parts, shortest, longest).astype(np.int64)


class Texts:
    """Samples of tokens on a device. A token follows from the one before it, up to noise, by a rule
    that depends on the sample's length, so that batches of one length are no random sample."""

    def __init__(
        self, sizes: npt.NDArray[np.int64], words: int, device: torch.device, seed: int = 0
    ) -> None:
        random = np.random.default_rng(seed)
        self.sizes, self.device = sizes, device
        first = np.concatenate([[0], np.cumsum(sizes)])
        place = np.arange(first[-1]) - np.repeat(first[:-1], sizes)
        rule = np.searchsorted(np.quantile(sizes, [0.25, 0.5, 0.75]), sizes)
        start = random.integers(0, words, len(sizes))
        step = np.array([1, 17, 129, 1021])[rule]
        tokens = np.repeat(start, sizes) + place * np.repeat(step, sizes)
        tokens = (tokens + random.integers(0, 4, len(tokens))) % words
        self.tokens = torch.from_numpy(tokens).to(device)
        self.begins, self.first = first[:-1], torch.from_numpy(first).to(device)

    def padded(
        self, indices: npt.NDArray[np.int64], length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Words and the words that follow them, (samples, length); IGNORED beyond their ends."""
        chosen = torch.as_tensor(indices, device=self.device)
        begin, end = self.first[chosen][:, None], self.first[chosen + 1][:, None]
        places = begin + torch.arange(length + 1, device=self.device)
        words = self.tokens[places.clamp(max=len(self.tokens) - 1)]
        words = torch.where(places < end, words, torch.full_like(words, IGNORED))
        return words[:, :-1].clamp(min=0), words[:, 1:]

    def packed(self, indices: npt.NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """The same end to end, (tokens,)."""
        sizes = self.sizes[indices]
        ends = np.cumsum(sizes)
        shifts = np.repeat(self.begins[indices] - (ends - sizes), sizes)
        places = torch.from_numpy(np.arange(ends[-1]) + shifts).to(self.device)
        following = self.tokens[(places + 1).clamp(max=len(self.tokens) - 1)]
        following[torch.from_numpy(ends - 1).to(self.device)] = IGNORED
        return self.tokens[places], following


# Attention: of padded samples (samples, heads, length, width), and of packed ones


def plain_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal, with the matrix of scores in memory."""
    length = q.shape[-2]
    later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    return scores.masked_fill(later, float("-inf")).softmax(-1).to(v.dtype) @ v


def fused_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal, by torch's kernels; plain where torch has none (before 2.0)."""
    fused = getattr(nn.functional, "scaled_dot_product_attention", None)
    return plain_attention(q, k, v) if fused is None else fused(q, k, v, is_causal=True)


class Packed(NamedTuple):
    """Where samples begin in a row."""

    cu_seqlens: torch.Tensor
    longest: int


def masked_packed_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, packed: Packed
) -> torch.Tensor:
    """(tokens, heads, width): causal inside each sample, with a matrix of all pairs in memory."""
    tokens = torch.arange(len(q), device=q.device)
    sample = torch.searchsorted(packed.cu_seqlens.to(tokens.dtype), tokens, right=True)
    allowed = (sample[:, None] == sample[None, :]) & (tokens[:, None] >= tokens[None, :])
    scores = torch.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
    shares = scores.masked_fill(~allowed, float("-inf")).softmax(-1).to(v.dtype)
    return torch.einsum("hij,jhd->ihd", shares, v)


PackedAttention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, Packed], torch.Tensor]


def packed_attention(device: torch.device) -> tuple[str, PackedAttention]:
    """The attention for rows of samples that this torch has, and its name."""
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        varlen_attn = None
    if varlen_attn is None or device.type == "cpu":
        return "a block-diagonal mask (no kernel here)", masked_packed_attention
    # The argument's name changed after torch 2.10.
    has_flag = "is_causal" in inspect.signature(varlen_attn).parameters
    causal: dict[str, Any] = {"is_causal": True} if has_flag else {"window_size": (-1, 0)}

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, packed: Packed) -> torch.Tensor:
        starts, longest = packed
        return varlen_attn(q, k, v, starts, starts, longest, longest, **causal)

    return "torch.nn.attention.varlen", attend


# Networks: each is called with what a step is given, and returns its loss


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(
        self, x: torch.Tensor, attention: Callable[..., torch.Tensor], packed: Packed | None
    ) -> torch.Tensor:
        heads = (self.heads, x.shape[-1] // self.heads)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, *heads)).unbind(-3)
        if packed is not None:
            mixed = attention(q, k, v, packed)
        else:
            mixed = attention(*(each.transpose(1, 2) for each in (q, k, v))).transpose(1, 2)
        x = x + self.out(mixed.flatten(-2))
        return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))


class Decoder(nn.Module):
    """A causal language model of (width, layers, heads). Called with words and the words that
    follow, padded or, with `packed`, end to end."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        words: int,
        longest: int,
        attention: Callable[..., torch.Tensor] = fused_attention,
    ) -> None:
        super().__init__()
        width, layers, heads = shape
        self.attention = attention
        self.packed_attention: PackedAttention = masked_packed_attention
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(
        self, words: torch.Tensor, following: torch.Tensor, packed: Packed | None = None
    ) -> torch.Tensor:
        places = torch.arange(words.shape[-1], device=words.device)
        if packed is not None:
            starts = packed.cu_seqlens.to(places.dtype)
            sample = torch.searchsorted(starts, places, right=True) - 1
            places = places - starts[sample]
        x = self.words(words) + self.places(places)
        attention = self.attention if packed is None else self.packed_attention
        for block in self.blocks:
            x = block(x, attention, packed)
        told = self.head(self.norm(x)).flatten(0, -2)
        return nn.functional.cross_entropy(told.float(), following.flatten(), ignore_index=IGNORED)


class Chain(nn.Module):
    """Layers in a row; the loss is the mean square of what the last one gives."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if isinstance(x, tuple):  # of a recurrent layer
                x = x[0]
        return x.square().mean()


class Trainer:
    """Training steps of a network. `inputs(count, length)` gives what the network is called with
    for a batch of that shape."""

    def __init__(
        self,
        network: nn.Module,
        inputs: Callable[[int, int], tuple[torch.Tensor, ...]],
        device: torch.device,
        half: bool = False,
    ) -> None:
        self.network, self.inputs, self.device = network.to(device), inputs, device
        self.half = half
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4)

    def part(self, inputs: Sequence[Any], weight: float = 1.0) -> torch.Tensor:
        """Forward and backward of a batch or a part of it; its loss."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            loss = self.network(*inputs)
        (loss * weight).backward()
        return loss.detach()

    def trial(self, count: int, length: float) -> None:
        self.clear()
        self.part(self.inputs(int(count), int(length)))
        self.optimizer.step()

    def clear(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)


def guarded_step(guard: sab.MemoryGuard, batch: sab.Batch, texts: Texts, trainer: Trainer) -> None:
    """Forward and backward of a batch under a guard, in parts if need be. The optimizer's step is
    the caller's."""
    data = texts.padded(batch.indices, int(batch.padded_length))
    guard.step(
        batch,
        lambda first, count, weight: trainer.part(
            [each[first : first + count] for each in data], weight
        ),
        begin=trainer.clear,
    )


def random_words(words: int, device: torch.device) -> Callable[[int, int], tuple[Any, ...]]:
    def make(count: int, length: int) -> tuple[torch.Tensor, ...]:
        drawn = torch.randint(0, words, (count, length + 1), device=device)
        return drawn[:, :-1].clamp(min=0), drawn[:, 1:]  # the memory of Texts.padded()

    return make


def random_numbers(
    width: int, device: torch.device, channels_first: bool = False
) -> Callable[[int, int], tuple[Any, ...]]:
    def make(count: int, length: int) -> tuple[torch.Tensor, ...]:
        shape = (count, width, length) if channels_first else (count, length, width)
        return (torch.rand(shape, device=device),)

    return make


def main() -> None:
    glosses, proteins = (pathlib.Path(name) for name in sys.argv[1:3])
    with gzip.open(proteins, "rt") as file:
        records = file.read().split(">")[1:]
    found = {
        "glosses": [len(line.split()) for line in glosses.read_text().splitlines()],
        "proteins": [len("".join(record.split("\n")[1:])) for record in records],
    }
    for kind, sizes in found.items():
        quantiles = np.percentile(sizes, PERCENTS).astype(int)
        print(kind, len(sizes), *np.maximum(quantiles, 1))


if __name__ == "__main__":
    main()
