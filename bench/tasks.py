"""Tasks that are learned in seconds, and the model that learns them. The texts are installed."""

import ast
import dataclasses
import pathlib
import re
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Optional, Union

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from bench.data import EXAMPLES

WORDS = 1 << 10
Texts = list[tuple[list[str], int]]  # the words of a sample, and its class
Indices = Union[Sequence[int], npt.NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class Task:
    """Samples are their words as numbers below WORDS. `labels`: their classes; None: the model
    tells the next word, and the loss is a mean over words."""

    name: str
    words: Sequence[npt.NDArray[np.int64]]
    labels: Optional[torch.Tensor]
    held: int  # the first so many samples are held out
    classes: int
    epochs: int
    step: int  # samples of a step
    rate: float  # of learning: the best one for static batches

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        return np.array([len(each) for each in self.words])


def glosses() -> Texts:
    """WordNet's glosses and their part of speech (Debian: wordnet-base)."""
    sys.path.insert(0, EXAMPLES)
    from wordnet import glosses as texts

    return [(text.lower().split(), part) for text, part in texts()]


def functions() -> Texts:
    """The functions of Python's library of 8 to 256 words, and the module that each is of; of
    the 24 modules that have most."""
    found: list[tuple[list[str], str]] = []
    folder = pathlib.Path(sysconfig.get_path("stdlib", "posix_prefix"))
    for path in sorted(folder.glob("**/*.py")):
        module = path.relative_to(folder).parts[0]
        if "packages" in module or {"test", "tests"} & set(path.parts):
            continue
        text = path.read_text(errors="replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes = list(ast.walk(ast.parse(text)))
        lines = text.splitlines()
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                words = re.findall(
                    r"\w+|[^\w\s]", "\n".join(lines[node.lineno - 1 : node.end_lineno])
                )
                if 8 <= len(words) <= 256:
                    found.append((words, module))
    most = [module for module, _ in Counter(module for _, module in found).most_common(24)]
    return [(words, most.index(module)) for words, module in found if module in most]


def numbered(texts: Iterable[list[str]]) -> list[npt.NDArray[np.int64]]:
    """The most frequent words have numbers of their own, the others share the last one."""
    texts = list(texts)
    counts = Counter(word for text in texts for word in text)
    ids = {word: i for i, (word, _) in enumerate(counts.most_common(WORDS - 1))}
    return [np.array([ids.get(word, WORDS - 1) for word in text] or [WORDS - 1]) for text in texts]


def tasks(quick: bool) -> list[Task]:
    most = 2_400 if quick else 24_000

    def drawn(texts: Texts, samples: int) -> tuple[list[npt.NDArray[np.int64]], torch.Tensor, int]:
        chosen = np.random.default_rng(0).permutation(len(texts))[: min(samples, most)]
        words = numbered(texts[i][0] for i in chosen)
        return words, torch.tensor([texts[i][1] for i in chosen]), len(chosen) // 6

    speech, told, modules = (
        drawn(glosses(), 24_000),
        drawn(glosses(), 9_600),
        drawn(functions(), 4_800),
    )
    return [
        Task("glosses, part of speech", *speech, classes=4, epochs=3, step=256, rate=2e-2),
        Task("glosses, next word", told[0], None, told[2], WORDS, epochs=3, step=128, rate=1e-2),
        Task("functions, module", *modules, classes=24, epochs=6, step=128, rate=2e-2),
    ]


def moved(hidden: torch.Tensor, places: torch.Tensor, by: int) -> torch.Tensor:
    """Each word gets what the word so many before it in its sample has, or zeros."""
    if by == 0:
        return hidden
    before = nn.functional.pad(hidden, (0, 0, by, 0))[:, : hidden.shape[1]]
    return before * (places >= by).unsqueeze(2)


class Model(nn.Module):
    """Two layers that see four words each, this one and those before it in the sample. Then for
    each word the next one, or of a mean over the words of the sample its class.

    Samples may be rows that are padded, or one row that holds them end to end."""

    def __init__(self, task: Task, width: int = 48) -> None:
        super().__init__()
        self.a_word = task.labels is None
        self.embedding = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList([nn.Linear(4 * width, width), nn.Linear(4 * width, width)])
        self.tell = nn.Linear(width, task.classes)

    def forward(
        self, words: torch.Tensor, places: torch.Tensor, samples: torch.Tensor, count: int
    ) -> torch.Tensor:
        """`places`: the place of each word in its sample, -1 for padding. `samples`: the number of
        its sample in the batch."""
        hidden = self.embedding(words)
        if self.a_word:  # what is told is not seen
            hidden = moved(hidden, places, 1)
        for layer in self.layers:
            seen = torch.cat([moved(hidden, places, back) for back in range(4)], 2)
            hidden = hidden + torch.relu(layer(seen))
        if self.a_word:
            return self.tell(hidden)
        there = (places >= 0).unsqueeze(2)
        flat = (hidden * there).reshape(-1, hidden.shape[2])
        sums = torch.zeros(count, hidden.shape[2]).index_add(0, samples.reshape(-1), flat)
        lengths = torch.zeros(count).index_add(0, samples.reshape(-1), there.reshape(-1).float())
        return self.tell(sums / lengths.unsqueeze(1))


def in_rows(samples: Sequence[npt.NDArray[np.int64]]) -> tuple[torch.Tensor, ...]:
    """Padded to the longest."""
    words = np.zeros((len(samples), max(map(len, samples))), np.int64)
    places = np.full(words.shape, -1)
    for i, each in enumerate(samples):
        words[i, : len(each)] = each
        places[i, : len(each)] = np.arange(len(each))
    numbers = np.repeat(np.arange(len(samples)), words.shape[1]).reshape(words.shape)
    return torch.from_numpy(words), torch.from_numpy(places), torch.from_numpy(numbers)


def in_one_row(samples: Sequence[npt.NDArray[np.int64]]) -> tuple[torch.Tensor, ...]:
    words = np.concatenate(samples)[None]
    places = np.concatenate([np.arange(len(each)) for each in samples])[None]
    numbers = np.repeat(np.arange(len(samples)), [len(each) for each in samples])[None]
    return torch.from_numpy(words), torch.from_numpy(places), torch.from_numpy(numbers)


def loss_of(model: Model, task: Task, indices: Indices, packed: bool) -> torch.Tensor:
    """The mean over the samples of a batch, or over their words."""
    samples = [task.words[i] for i in indices]
    words, places, numbers = (in_one_row if packed else in_rows)(samples)
    told = model(words, places, numbers, len(samples))
    if task.labels is not None:
        return nn.functional.cross_entropy(told, task.labels[list(indices)])
    wanted = words.masked_fill(places < 0, -100)
    return nn.functional.cross_entropy(told.reshape(-1, WORDS), wanted.reshape(-1))
