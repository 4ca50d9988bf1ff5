"""What a peer is, and all of them in the order of the tables.

A peer is a class with `name`, `distribution` (its package on PyPI), `setting` (in words) and
`source` (the documentation that recommends the setting). A method that a peer has not is absent,
and tables say so. The constructor takes a Work and raises when the peer cannot run.
"""

import dataclasses
import importlib
import importlib.machinery
import importlib.util
import itertools
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Union

import numpy as np
import numpy.typing as npt

Batch = Union[Sequence[int], npt.NDArray[np.int64]]


@dataclasses.dataclass(frozen=True)
class Work:
    """Lengths of samples, the budget of a batch (its samples times its longest), a place in a job.
    `global_count` is for peers whose batches have a fixed number of samples."""

    lengths: npt.NDArray[np.int64]
    budget: int
    seed: int = 0
    rank: int = 0
    world_size: int = 1
    global_count: int = 0  # samples of a step of all ranks; 0: what fills the budget on average
    capacity: tuple[int, ...] = ()  # of samples with several sizes, whose lengths are rows
    sources: tuple[int, ...] = ()  # samples of each data set, one after the other
    repeats: tuple[float, ...] = ()  # of each

    @property
    def count(self) -> int:
        """Samples of one rank in a step, for batches of a fixed number of samples."""
        if self.global_count:
            return self.global_count // self.world_size
        if self.sources:
            ends = np.cumsum(self.sources)[:-1]
            means = [part.mean() for part in np.split(self.lengths, ends)]
            return max(1, int(self.budget / np.average(means, weights=self.asked)))
        return max(1, int(self.budget / self.lengths.mean()))

    @property
    def asked(self) -> tuple[int, ...]:
        """Samples of each data set in an epoch."""
        return tuple(round(n * repeat) for n, repeat in zip(self.sources, self.repeats))

    @property
    def steps(self) -> int:
        """Batches of an epoch of the data sets."""
        return -(-sum(self.asked) // self.count)


class Peer:
    name: ClassVar[str]
    distribution: ClassVar[str]
    setting: ClassVar[str]
    source: ClassVar[str]
    padded: ClassVar[bool] = True  # its batches are padded to their longest sample

    def __init__(self, work: Work) -> None:
        self.work = work

    # Optional methods, where the peer has what they stand for:
    #   epoch(number) -> iterator of batches of this rank
    #   state(number, taken) -> state after `taken` batches of that epoch, in progress
    #   resume(state) -> iterator of the rest of the epoch, of another object of the class
    #   pack(capacity, epoch) -> bins of an epoch, each a list of samples
    #   pairs(number) -> batches of samples with two sizes, padded in both; they cost their samples
    #       times the sum of the longest
    #   mixed(number) -> batches of samples of several data sets; `state` and `resume` are of it
    #   step() -> for each rank its micro-batches of one step, which has all samples
    #   graphs(number) -> batches of samples with two sizes, each of whose sums has a capacity


class SkippingPeer(Peer):
    """Resumes as transformers' Trainer does: the epoch is made anew, and its batches skipped."""

    def epoch(self, number: int) -> Iterator[Batch]:
        raise NotImplementedError

    def state(self, number: int, taken: int) -> tuple[int, int]:
        return number, taken

    def resume(self, state: tuple[int, int]) -> Iterator[Batch]:
        return itertools.islice(self.epoch(state[0]), state[1], None)


def chunks(indices: Iterable[int], count: int) -> Iterator[Batch]:
    """Cuts an order into batches of `count` samples, as a DataLoader does."""
    iterator = iter(indices)
    return iter(lambda: list(itertools.islice(iterator, count)), [])


class _AbsentType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *_: object, **__: object) -> Any:
        return cls

    def __bool__(cls) -> bool:
        return False


class _Absent(metaclass=_AbsentType):
    """Takes the place of what a module imports and its sampler does not use. Attributes and results
    of calls are absent, too. False, and a class, so that annotations and issubclass() accept it."""


class _AbsentModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return sys.modules.get(f"{self.__name__}.{name}", _Absent)


def alone(module: str, *absent: str, **names: object) -> Any:
    """Imports a module of an installed package without running the __init__ of the packages around
    it: these import a newer torch, CUDA or Ray, which the sampler does not need. The modules
    `absent` are not imported at all; `names` are there when the module is run."""
    if module in sys.modules:
        return sys.modules[module]
    parents = [module[:at] for at, letter in enumerate(module) if letter == "."]
    before = set(sys.modules)
    try:
        for name in [*parents, *absent]:
            stand_in = sys.modules.setdefault(name, _AbsentModule(name))
            if name in parents and "__path__" not in vars(stand_in):
                stand_in.__path__ = list(_spec(name).submodule_search_locations or [])
        spec = _spec(module)
        made = sys.modules[module] = importlib.util.module_from_spec(spec)
        vars(made).update(names)
        assert spec.loader is not None
        spec.loader.exec_module(made)
    except BaseException:
        for name in set(sys.modules) - before:
            del sys.modules[name]
        raise
    return made


def _spec(name: str) -> importlib.machinery.ModuleSpec:
    parent = name.rpartition(".")[0]
    path = sys.modules[parent].__path__ if parent else None
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}")
    return spec


def all_peers() -> list[type[Peer]]:
    """The classes of bench/peers/*.py: libsab first, static batches second, then by file."""
    found: list[type[Peer]] = []
    for path in sorted(pathlib.Path(__file__).parent.glob("[!_]*.py")):
        module = importlib.import_module(f"{__name__}.{path.stem}")
        found += [
            each
            for each in vars(module).values()
            if isinstance(each, type)
            and issubclass(each, Peer)
            and each.__module__ == module.__name__
        ]
    first = {"libsab": 0, "torch": 1}
    return sorted(found, key=lambda peer: first.get(peer.distribution, 2))
