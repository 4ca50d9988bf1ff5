"""Ranks: which one this is, whether all agree, and steps that cost all of them the same."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Union

import numpy as np

from sab._native import Calls, Progress, SkippedWarning, UnsupportedError, check, ffi, lib, new_options, whole
from sab._plan import one_of, plan_options
from sab._samplers import _RandomAccessSampler, _sampler_options
from sab._sizes import SizesLike, as_sizes

Gather = Callable[[bytes], Sequence[bytes]]
BalanceCost = Union[str, Sequence[float], Callable[[float], float], Any]

_COSTS = {"linear": lib.SAB_COST_PADDED, "quadratic": lib.SAB_COST_QUADRATIC}
_METHODS = {"karmarkar_karp": lib.SAB_PARTITION_KARMARKAR_KARP, "longest_first": lib.SAB_PARTITION_LONGEST_FIRST}
_OVERSIZE = {"skip": lib.SAB_OVERSIZE_SKIP, "error": lib.SAB_OVERSIZE_ERROR}


def _torch_distributed() -> Any:
    """torch.distributed, where the program uses it already."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def ranks(group: Any = None) -> tuple[int, int]:
    """``(rank, world_size)`` of this process: of torch.distributed where it is initialised, else as torchrun, SLURM, Open MPI or MPICH say in the environment, else
    ``(0, 1)``.

    Args:
        group: a process group of torch.distributed, such as that of the data-parallel ranks; None: all.
    """
    dist = _torch_distributed()
    if dist is not None:
        rank = dist.get_rank(group)
        if rank < 0:
            raise ValueError("group: this process is not in it")
        return rank, dist.get_world_size(group)
    if group is not None:
        raise ValueError("group: torch.distributed is not initialised")
    rank, world_size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(lib.sab_ranks_from_environment(rank, world_size))
    return int(rank[0]), int(world_size[0])


def data_rank(mesh: Any, rank: Optional[int] = None, *, data: Iterable[str] = ("dp", "data")) -> tuple[int, int]:
    """``(rank, world_size)`` for samplers of a process in a mesh of parallelisms: processes that share the same samples (tensor, context, pipeline parallel) get the same.

    Args:
        mesh: the length of each axis by its name, the last one fastest; or a DeviceMesh of torch with names.
        rank: of the process; None: that of :func:`ranks`.
        data: names of the axes along which processes take different samples.

    >>> data_rank({"pp": 2, "dp": 4, "tp": 8}, rank=45)
    (1, 4)
    """
    if hasattr(mesh, "mesh_dim_names"):
        if not mesh.mesh_dim_names:
            raise ValueError("mesh: has no names: make it with mesh_dim_names")
        where = (mesh.mesh == (ranks()[0] if rank is None else rank)).nonzero()
        if len(where) != 1:
            raise ValueError("mesh: this process is not in it")
        shape = dict(zip(mesh.mesh_dim_names, mesh.mesh.shape))
        number = 0
        for place, length in zip(where[0].tolist(), shape.values()):
            number = number * length + place
    else:
        shape, number = dict(mesh), ranks()[0] if rank is None else whole("rank", rank)
    wanted = set(data)
    if not wanted & set(shape):
        raise ValueError(f"data = {sorted(wanted)}: none is an axis of the mesh, {list(shape)}")
    lengths = [whole(f"mesh[{name!r}]", length, 1) for name, length in shape.items()]
    own, world_size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(lib.sab_data_rank(lengths, [int(name in wanted) for name in shape], len(lengths), number, own, world_size))
    return int(own[0]), int(world_size[0])


_rounds: dict[tuple[int, ...], int] = {}


def _torch_gather(group: Any, timeout: float) -> Gather:
    """Gathers through the store that the process group was made with: unlike a collective it can say who did not come."""
    dist = _torch_distributed()
    if dist is None:
        return lambda mine: [mine]
    rank, world_size = ranks(group)
    c10d = dist.distributed_c10d
    store = c10d._get_default_store()
    members = tuple(range(world_size)) if group is None else tuple(c10d.get_global_rank(group, each) for each in range(world_size))

    def gather(mine: bytes) -> list[bytes]:
        _rounds[members] = _rounds.get(members, 0) + 1
        key = "sab/" + "-".join(map(str, members if group is not None else ())) + f"/{_rounds[members]}/"
        store.set(f"{key}{rank}", mine)
        store.add(f"{key}{rank}/set", 1)
        end = time.monotonic() + timeout

        def wait_for(counter: str, least: int) -> bool:
            pause = 0.001
            while store.add(key + counter, 0) < least:
                if time.monotonic() > end:
                    return False
                time.sleep(pause)
                pause = min(2 * pause, 0.05)
            return True

        gathered = []
        for each in range(world_size):
            if not wait_for(f"{each}/set", 1):
                missing = [str(members[other]) for other in range(each, world_size) if store.add(f"{key}{other}/set", 0) < 1]
                raise TimeoutError(f"rank{'s' if len(missing) > 1 else ''} {', '.join(missing[:8])} of {world_size} did not come within {timeout:g} s")
            gathered.append(bytes(store.get(f"{key}{each}")))
        store.add(f"{key}read", 1)
        if rank == 0:  # which holds the store, as a rule: it must not go before all have read
            wait_for("read", world_size)
        return gathered

    return gather


def check_ranks(sampler: Any, *, group: Any = None, gather: Optional[Gather] = None, rank: Optional[int] = None, world_size: Optional[int] = None, timeout: float = 300) -> None:
    """Checks that all ranks hold the same: data, seed, epoch, step, options, order version; and that each has a rank of its own. To be called on all of them at the start.

    Args:
        sampler: with random access.
        group: a process group of torch.distributed; None: all ranks, or this process alone where torch.distributed is not initialised.
        gather: instead: a function from this rank's bytes to those of all ranks, such as mpi4py's ``comm.allgather``; with ``rank`` and ``world_size``.
        timeout: seconds to wait for the others.

    Raises:
        MismatchError: on all ranks, naming those that differ, what in, and both values; TimeoutError: naming the ranks that did not come.
    """
    if gather is None:
        own, size = ranks(group) if group is not None or _torch_distributed() is not None else (0, 1)
        gather = _torch_gather(group, timeout)
    elif rank is None or world_size is None:
        raise TypeError("rank and world_size must be given with gather")
    else:
        own, size = rank, world_size
    calls = Calls(gather=_checked(gather, size))
    handle = sampler._handle
    if hasattr(sampler, "_seek"):
        sampler._seek(sampler._step)
    check(lib.sab_sampler_check_ranks(handle, own, size, lib.sab_py_all_gather, calls.handle), calls)


def _checked(gather: Gather, world_size: int) -> Gather:
    def checked(mine: bytes) -> Sequence[bytes]:
        gathered = gather(mine)
        if len(gathered) != world_size:
            raise ValueError(f"gather: gave {len(gathered)} values: must give {world_size}, one for each rank")
        return gathered

    return checked


class BalanceReport(NamedTuple):
    """How even an epoch is on all ranks: the fields of ``sab_balance_report``."""

    samples: int
    skipped: int
    dropped: int
    steps: int
    total: float
    fill: float
    rank_imbalance: float
    largest_rank_imbalance: float
    micro_batch_imbalance: float
    time: float
    least_time: float


class BalancedSampler(_RandomAccessSampler):
    """Steps of samples in random order, dealt to ranks and micro-batches so that all cost alike, under a hard cap of tokens or memory.

    For batches without padding (packed, nested, variable-length attention), whose cost is not their number of tokens. Iterating gives this rank's micro-batches;
    :meth:`batches` says of each its ``step``, ``micro_batch``, and the totals of the step over all ranks. ``len()``, :meth:`batch` and states count micro-batches.

    Args:
        sizes: anything that :class:`sab.Sizes` takes.
        samples: of a step, over all ranks and micro-batches; None: as many as the caps allow.
        max_total: no micro-batch's sizes sum to more.
        memory, memory_budget: no micro-batch needs more bytes by this :class:`sab.MemoryModel` of packed batches.
        micro_batches: that each rank takes in a step: gradient accumulation, a pipeline to be filled.
        fill: share of the caps that a step's samples may take; the rest is room in which costs are evened out.
        cost: of a sample: ``"linear"``, ``"quadratic"`` (attention), coefficients ``c`` of ``c[0] + c[1] + c[2] * length + ...`` as for plans, a :class:`sab.MemoryModel`
            fitted to times, or a function ``cost(length)``.
        method: ``"karmarkar_karp"`` or ``"longest_first"``.
        oversize: samples over a cap alone: ``"error"``, or ``"skip"`` with a SkippedWarning.
        seed, rank, world_size, output: as for :class:`sab.BucketSampler`.
        last_step: samples that fill no step: ``"split"`` (dealt out nevertheless), ``"drop"``, ``"wrap"`` (filled up from the epoch's beginning).
        progress: True for a bar, or ``progress(done, total)``.

    >>> import sab
    >>> sampler = sab.BalancedSampler([5, 3, 4, 1, 2, 3], max_total=10, fill=1, seed=3)
    >>> sorted(index for batch in sampler for index in batch.tolist())
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(
        self,
        sizes: SizesLike,
        *,
        samples: Optional[int] = None,
        max_total: Optional[float] = None,
        memory: Any = None,
        memory_budget: Optional[float] = None,
        micro_batches: int = 1,
        fill: float = 0.95,
        cost: BalanceCost = "linear",
        method: str = "karmarkar_karp",
        oversize: str = "error",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: str = "split",
        output: str = "numpy",
        progress: "bool | Progress | None" = None,
    ) -> None:
        of_sample = cost if callable(cost) else None
        calls = Calls(cost=None if of_sample is None else lambda count, length: of_sample(length), progress=progress, what="balance")
        options = new_options("sab_balanced_options")
        options.micro_batches = whole("micro_batches", micro_batches, 1)
        options.samples = 0 if samples is None else whole("samples", samples, 1)
        if max_total is not None:
            if not max_total > 0:
                raise ValueError(f"max_total = {max_total}: must be above 0")
            options.max_total = max_total
        if (memory is None) != (memory_budget is None):
            raise ValueError("memory and memory_budget: must be given together")
        if memory is not None:
            memory_terms = memory._cost_terms()
            options.memory_terms, options.memory_term_count, options.memory_budget = memory_terms, len(memory_terms), memory_budget
        options.fill = fill
        if of_sample is not None:
            options.cost, options.cost_fn, options.cost_ctx = lib.SAB_COST_CALLBACK, lib.sab_py_cost, calls.handle
        elif hasattr(cost, "_cost_terms"):
            terms = cost._cost_terms()
            options.cost, options.cost_terms, options.cost_term_count = lib.SAB_COST_TERMS, terms, len(terms)
        elif isinstance(cost, str):
            options.cost = one_of("cost", cost, _COSTS)
        else:
            coefficients = np.ascontiguousarray(cost, np.float64)
            if coefficients.ndim != 1:
                raise ValueError(f"cost: coefficients must have one dimension, not {coefficients.ndim}")
            options.cost, options.coefficient_count = lib.SAB_COST_POLYNOMIAL, coefficients.size
            options.coefficients = ffi.cast("double *", coefficients.ctypes.data)
        options.method = one_of("method", method, _METHODS)
        options.oversize = one_of("oversize", oversize, _OVERSIZE)
        options.progress, options.progress_ctx = lib.sab_py_progress, calls.handle
        source = as_sizes(sizes)
        handle = ffi.new("sab_sampler **")
        check(lib.sab_balanced_sampler_new(source._handle, options, _sampler_options(seed, rank, world_size, last_step, 0, True), handle), calls)
        self._adopt(handle, output)
        kept: Any = sizes if isinstance(sizes, np.ndarray) else np.array([source[i] for i in range(len(source))]) if isinstance(sizes, type(source)) else sizes
        self._make = (
            type(self),
            (kept,),
            {
                "samples": samples, "max_total": max_total, "memory": memory, "memory_budget": memory_budget, "micro_batches": micro_batches, "fill": fill, "cost": cost,
                "method": method, "oversize": oversize, "seed": seed, "rank": rank, "world_size": world_size, "last_step": last_step, "output": output,
            },
        )  # fmt: skip
        if self.skipped_count:
            warnings.warn(f"{self.skipped_count} of {len(source)} samples are over the cap alone and are skipped", SkippedWarning, stacklevel=2)

    def report(self, progress: "bool | Progress | None" = None) -> BalanceReport:
        """How even the current epoch is on all ranks, before any training."""
        calls = Calls(progress=progress, what="report")
        report = ffi.new("sab_balance_report *")
        report.struct_size = ffi.sizeof("sab_balance_report")
        check(lib.sab_sampler_balance_report(self._handle, lib.sab_py_progress, calls.handle, report), calls)
        return BalanceReport(*(getattr(report, field) for field in BalanceReport._fields))


class ShardedSampler(_RandomAccessSampler):
    """Batches of samples that are spread over the ranks, each of which knows and takes only those of its own shard.

    The ranks gather histograms of their sizes; from the sum of them all make the same plan. At each step all take a batch of the same bucket; all take the same number of
    steps, nothing is lost or repeated, and no batch is over the budget. Must be made on all ranks at once. Indices are those of the own shard.

    Args:
        sizes: of this rank's samples, maybe none.
        budget: as for :func:`sab.plan`, whose other options may be given by name, but for ``tail``.
        seed, output: as for :class:`sab.BucketSampler`.
        group: a process group of torch.distributed; None: all ranks.
        gather, rank, world_size, timeout: as for :func:`check_ranks`.
    """

    def __init__(
        self,
        sizes: SizesLike,
        budget: Optional[float] = None,
        *,
        seed: int = 0,
        group: Any = None,
        gather: Optional[Gather] = None,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        timeout: float = 300,
        output: str = "numpy",
        **plan: Any,
    ) -> None:
        if gather is None:
            own, size = ranks(group) if group is not None or _torch_distributed() is not None else (0, 1)
            gather = _torch_gather(group, timeout)
        elif rank is None or world_size is None:
            raise TypeError("rank and world_size must be given with gather")
        else:
            own, size = rank, world_size
        options, calls, keep = plan_options(budget, **plan)
        joined = Calls(gather=_checked(gather, size))
        source = as_sizes(sizes)
        handle = ffi.new("sab_sampler **")
        status = lib.sab_sharded_sampler_new(
            source._handle, options, _sampler_options(seed, own, size, "split", 0, True), lib.sab_py_all_gather, joined.handle, handle
        )
        del keep
        check(status, joined if joined.exception is not None else calls)
        self._adopt(handle, output)
        if self.skipped_count:
            warnings.warn(f"{self.skipped_count} of {len(source)} samples are outside the boundaries or over the budget and are skipped", SkippedWarning, stacklevel=2)

    def __reduce__(self) -> Any:
        raise UnsupportedError("ShardedSampler: cannot be pickled, since the ranks make it together; save its state_dict()")
