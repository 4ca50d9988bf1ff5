"""Ranks: which one this is, whether all agree, and steps that cost all of them the same."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
)

from sab._arguments import brief, elements, flag, function, kind_of, one_of, real, whole
from sab._batch import PerColumn, per_column
from sab._cost import (
    ONE_COLUMN,
    BalanceLike,
    BudgetLike,
    CostLike,
    set_balance,
    set_budgets,
)
from sab._display import Facts, as_html, plain
from sab._mixture import Mixture, Name, SourceReport, reports_of, source_table
from sab._native import (
    Calls,
    CData,
    MismatchError,
    Progress,
    UnsupportedError,
    check,
    ffi,
    lib,
    new_struct,
    record_of,
    warn_of_skipped,
)
from sab._order import LastStep, Order, options_of, order_of, sampler_options
from sab._plan_options import (
    SKIP_OR_ERROR,
    Multiple,
    PlanOptions,
    plan_options,
    set_multiples,
    why_skipped,
)
from sab._random_access import RandomAccessSampler, remake
from sab._report import OF_EACH_BALANCE, report_text, step_samples_fact
from sab._sampler import OUTPUTS, Output
from sab._sizes import Sizes, SizesLike, as_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "BalancedReport",
    "BalancedSampler",
    "ShardedReport",
    "ShardedSampler",
    "check_ranks",
    "ranks",
    "ranks_from_mesh",
]

Made = TypeVar("Made")
Gather = Callable[[bytes], Sequence[bytes]]


def _torch_distributed() -> Any:
    """torch.distributed, where the program uses it already."""
    dist = sys.modules.get("torch.distributed")
    return dist if dist is not None and dist.is_available() and dist.is_initialized() else None


def _ray_ranks() -> tuple[int, int] | None:
    """Rank and world size of a worker of Ray Train."""
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        return int(context.get_world_rank()), int(context.get_world_size())
    except (AttributeError, RuntimeError):  # this process is no worker
        return None


def ranks(group: Any = None) -> tuple[int, int]:
    """``(rank, world_size)`` of this process: of torch.distributed where it is initialised, else of
    the worker of Ray Train, else as torchrun, SLURM, Open MPI or MPICH say in the environment, else
    ``(0, 1)``.

    Args:
        group: a process group of torch.distributed, such as that of the data-parallel ranks; None:
            all.
    """
    dist = _torch_distributed()
    if dist is not None:
        rank = dist.get_rank(group)
        if rank < 0:
            raise ValueError("group: this process is not in it")
        return rank, dist.get_world_size(group)
    if group is not None:
        raise ValueError("group: torch.distributed is not initialised")
    of_ray = _ray_ranks()
    if of_ray is not None:
        return of_ray
    rank, world_size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(lib.sab_ranks_get_from_environment(rank, world_size))
    return int(rank[0]), int(world_size[0])


def ranks_from_mesh(
    mesh: Any, rank: int | None = None, *, data: str | Iterable[str] | None = None
) -> tuple[int, int]:
    """``(rank, world_size)`` for samplers of a process in a mesh of parallelisms: processes that
    share the same samples (tensor, context, pipeline parallel) get the same.

    Args:
        mesh: the length of each axis by its name, the last one fastest; or a DeviceMesh of torch
            with names.
        rank: of the process; None: that of :func:`ranks`.
        data: names of the axes along which processes take different samples; None: those of "dp"
            and "data" that there are.

    >>> ranks_from_mesh({"pp": 2, "dp": 4, "tp": 8}, rank=45)
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
        if not isinstance(cast("object", mesh), Mapping):
            raise TypeError(
                f"mesh = {brief(mesh)}: must be a dictionary with the length of each axis, or a "
                "DeviceMesh of torch"
            )
        number = ranks()[0] if rank is None else whole("rank", rank)
        shape = dict(mesh)
    wanted = (
        {"dp", "data"} & set(shape)
        if data is None
        else {data}
        if isinstance(data, str)
        else {str(name) for name in elements("data", data)}
    )
    if not wanted or not wanted <= set(shape):
        raise ValueError(
            f"data = {data!r}: must name axes of the mesh, which has {', '.join(map(repr, shape))}"
        )
    lengths = [whole(f"mesh[{name!r}]", length, 1) for name, length in shape.items()]
    own, world_size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
    check(
        lib.sab_ranks_get_from_mesh(
            lengths, [int(name in wanted) for name in shape], len(lengths), number, own, world_size
        )
    )
    return int(own[0]), int(world_size[0])


_FINE, _MISSING, _UNLIKE = b"\0", b"\1", b"\2"  # first byte of what rank 0 tells
_GRACE = 10.0  # seconds that rank 0 stays for others to hear it


def _torch_gather(group: Any, timeout: float) -> Gather:
    """Gathers through the store that the process group was made with: unlike a collective it can
    say who did not come.

    Rank 0 collects, and tells all what it has got, or who is missing: so all hear the same.
    """
    if not 0 < real("timeout", timeout) <= 1e6:
        raise ValueError(f"timeout = {timeout}: must be above 0 and at most 1000000 seconds")
    dist = _torch_distributed()
    if dist is None:
        return lambda mine: [mine]
    rank, world_size = ranks(group)
    c10d = dist.distributed_c10d
    store = c10d._get_default_store()
    members = (
        tuple(range(world_size))
        if group is None
        else tuple(c10d.get_global_rank(group, each) for each in range(world_size))
    )
    prefix = "sab/" + "-".join(map(str, members if group is not None else ())) + "/"

    def wait_for(counter: str, least: int, end: float) -> bool:
        pause = 0.001
        while store.add(counter, 0) < least:
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        return True

    def not_come(missing: list[int]) -> bytes:
        names = ", ".join(str(members[each]) for each in missing[:8]) + (
            f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        )
        word = "ranks" if len(missing) > 1 else "rank"
        text = f"{word} {names} of {world_size} did not come within {timeout:g} s"
        return _MISSING + text.encode()

    def collect(key: str, size: int) -> bytes:
        end = time.monotonic() + timeout
        missing = [each for each in range(world_size) if not wait_for(f"{key}{each}/set", 1, end)]
        values = [
            bytes(store.get(f"{key}{each}")) for each in range(world_size) if each not in missing
        ]
        unlike = [each for each, value in enumerate(values) if len(value) != size]
        told = _FINE + b"".join(values)
        if missing:
            told = not_come(missing)
        elif unlike:
            other, given = members[unlike[0]], len(values[unlike[0]])
            text = f"rank {other} gave {given} bytes, rank {members[0]} {size}: "
            told = _UNLIKE + (text + "they do not call the same").encode()
        store.set(key + "all", told)
        store.add(key + "all/set", 1)
        wait_for(
            key + "heard", len(values) - 1, time.monotonic() + _GRACE
        )  # this process may hold the store
        return told

    def hear(key: str) -> bytes:
        begin = time.monotonic()
        # Where rank 0 is there, its time counts, which began at most as much later.
        if not wait_for(key + "all/set", 1, begin + timeout) and not (
            store.add(f"{key}0/set", 0) > 0
            and wait_for(key + "all/set", 1, begin + 2 * timeout + _GRACE)
        ):
            return not_come([0])
        told = bytes(store.get(key + "all"))
        store.add(key + "heard", 1)
        return told

    def gather(mine: bytes) -> list[bytes]:
        key = f"{prefix}{store.add(f'{prefix}round/{rank}', 1)}/"
        store.set(f"{key}{rank}", mine)
        store.add(f"{key}{rank}/set", 1)
        told = collect(key, len(mine)) if rank == 0 else hear(key)
        if told[:1] != _FINE:
            raise (TimeoutError if told[:1] == _MISSING else MismatchError)(told[1:].decode())
        return [
            told[1 + each * len(mine) : 1 + (each + 1) * len(mine)] for each in range(world_size)
        ]

    return gather


def _joined(
    group: Any,
    gather: Gather | None,
    rank: int | None,
    world_size: int | None,
    timeout: float,
) -> tuple[Gather, int, int]:
    """How to reach the other ranks, which one this is, and how many there are."""
    function("gather", gather)
    if gather is None:
        for name, value in (("rank", rank), ("world_size", world_size)):
            if value is not None:
                raise TypeError(f"{name} = {value!r}: goes with gather only")
        own, size = (
            ranks(group) if group is not None or _torch_distributed() is not None else (0, 1)
        )
        gather = _torch_gather(group, timeout)
    elif rank is None or world_size is None:
        raise TypeError("gather: rank and world_size must be given, too")
    else:
        own, size = whole("rank", rank), whole("world_size", world_size, 1)
    reach = gather

    def checked(mine: bytes) -> Sequence[bytes]:
        gathered = reach(mine)
        if len(gathered) != size:
            raise ValueError(
                f"gather: gave {len(gathered)} values: must give {size}, one for each rank"
            )
        return gathered

    return checked, own, size


def _together(gather: Gather, begin: Callable[[], Made]) -> Made:
    """What `begin` returns on this rank. If it fails on one rank, it fails on all ranks."""
    failure: BaseException | None = None
    made: Made | None = None
    try:
        made = begin()
    except BaseException as error:  # Ctrl-C, too
        failure = error
    statuses = gather(b"\0" if failure is None else b"\1")
    if failure is not None:
        raise failure
    for rank, status in enumerate(statuses):
        if status != b"\0":
            raise MismatchError(f"rank {rank} failed; see the error on that rank")
    return cast(Made, made)


def check_ranks(
    sampler: RandomAccessSampler,
    *,
    group: Any = None,
    gather: Gather | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    timeout: float = 300,
) -> None:
    """Checks that all ranks hold the same: data, seed, epoch, step, options, order version; and
    that each has a rank of its own. To be called on all of them at the start.

    Args:
        sampler: with random access.
        group: a process group of torch.distributed; None: all ranks, or this process alone where
            torch.distributed is not initialised.
        gather: instead: a function from this rank's bytes to those of all ranks, such as mpi4py's
            ``comm.allgather``; with ``rank`` and ``world_size``.
        timeout: seconds to wait for the others.

    Raises:
        MismatchError: on all ranks, naming those that differ, what in, and both values;
            TimeoutError: naming the ranks that did not come.
    """
    reach, own, size = _joined(group, gather, rank, world_size, timeout)

    def begin() -> CData:
        if not isinstance(sampler, RandomAccessSampler):
            raise TypeError(
                f"sampler is {kind_of(sampler)}: must be a sampler with random access, such as "
                "sab.BucketSampler"
            )
        if sampler._handle == ffi.NULL:
            raise ValueError("sampler: is closed")
        return sampler._catch_up()

    handle = _together(reach, begin)
    calls = Calls(gather=reach)
    check(lib.sab_ranks_check(handle, own, size, lib.sab_py_all_gather, calls.handle), calls)


class BalancedReport(NamedTuple):
    """How even an epoch is on all ranks: the fields of ``sab_balanced_report``. Of sizes with
    several columns ``total`` and ``padded_total`` are dictionaries. With several balanced costs,
    ``rank_imbalance`` and the fields after it are lists, in the order of ``balance``.
    """

    samples: int
    skipped: int
    dropped: int
    steps: int
    least_step_samples: int
    most_step_samples: int
    step_samples_deviation: float
    total: PerColumn
    padded_total: PerColumn
    fill: float
    rank_imbalance: Any
    largest_rank_imbalance: Any
    micro_batch_imbalance: Any
    time: Any
    least_time: Any
    sources: dict[Name, SourceReport]

    @property
    def padding(self) -> float:
        """Share of the padded total, over all columns, that is padding; 0 without ``padded``."""
        total, padded_total = (
            sum(cast("Mapping[str, float]", amount).values())
            if isinstance(amount, Mapping)
            else amount
            for amount in (self.total, self.padded_total)
        )
        return 1 - total / padded_total if padded_total else 0.0

    def __str__(self) -> str:
        return report_text(self._facts(), self.sources)

    def _repr_html_(self) -> str:
        return as_html(
            f"Balance over {self.steps:,} steps", self._facts(), source_table(self.sources)
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers, lists and dictionaries, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))

    def _facts(self) -> Facts:
        def each(numbers: Any, form: str) -> str:
            return "; ".join(format(number, form) for number in _as_list(numbers))

        pairs = zip(_as_list(self.time), _as_list(self.least_time))
        waiting = [100 * (1 - least / time) if time else 0.0 for time, least in pairs]
        return [
            ("samples", f"{self.samples:,}"),
            ("skipped, dropped", f"{self.skipped:,}, {self.dropped:,}"),
            ("steps", f"{self.steps:,}"),
            step_samples_fact(self),
            ("padding", f"{100 * self.padding:.2f} %"),
            (
                "share of the budgets that is filled",
                f"{100 * self.fill:.2f} %" if self.fill else "no budget",
            ),
            ("rank imbalance (1: none)", each(self.rank_imbalance, ".4f")),
            ("largest rank imbalance", each(self.largest_rank_imbalance, ".3f")),
            ("micro-batch imbalance", each(self.micro_batch_imbalance, ".4f")),
            ("time spent waiting (%)", each(waiting, ".2f")),
        ]


def _as_list(numbers: Any) -> list[float]:
    """The numbers of a field of a report, one a balanced cost."""
    return cast("list[float]", numbers) if isinstance(numbers, list) else [numbers]


class BalancedSampler(RandomAccessSampler):
    """Steps of samples in random order, assigned to ranks and micro-batches of nearly equal cost,
    under budgets of tokens or memory.

    For batches without padding (packed, nested, variable-length attention), whose cost is not their
    number of tokens. With ``padded=True`` for padded batches: each step is a random sample of the
    data, as with shuffled batches of one size, and only its division into micro-batches goes by
    length. Iterating gives this rank's micro-batches; :meth:`batches` says of each its
    ``step`` and ``micro_batch``, and :meth:`step` gives the totals over all ranks. ``len()``,
    :meth:`batch` and states count micro-batches. In the last step a micro-batch may be empty, when
    fewer samples than micro-batches are left: its loss has the weight 0, but its rank must take
    part in the step.

    Args:
        sizes: anything that :class:`sab.Sizes` takes, also several columns, such as ``{"images": v,
            "tokens": t}``.
        samples: of a step, over all ranks and micro-batches; None: as many as the budgets allow.
            With ``padded`` exactly as many, but in the last step.
        budget: the largest cost of a micro-batch: of the sum of its sizes by default. A
            :class:`sab.Budget` has a cost of its own. A dictionary has a limit for the sum of each
            column that it names. A micro-batch keeps all budgets.
        cost: of a micro-batch, with a single number as budget: as for :func:`sab.plan`, without
            padding. A term of the count is summed over the samples, each with its own length; a
            constant counts once; a function is called as ``cost(1, length)`` for each length. A
            :class:`sab.MemoryModel` of packed batches takes a budget in bytes.
        balance: what micro-batches and ranks have in common: as ``cost``, without the constant.
            Such as ``"quadratic"`` (attention), or a :class:`sab.MemoryModel` fitted to times. A
            list has several costs, all of which are balanced: ``[{"images": 1}, {"tokens": 1}]``.
            By default the cost of the first budget; with several columns those of all budgets;
            without a budget the sum of sizes.
        micro_batches: batches that each rank takes in a step (gradient accumulation).
        fill: share of the budgets that a step's samples may take; the rest stays free so that costs
            can be balanced. None: 0.95. Not with ``padded``.
        padded: steps are random samples, and micro-batches are padded. ``budget``, ``cost`` and
            ``balance`` are then costs of a padded batch; a function cannot be one of them. The
            micro-batches of a step are sorted, the costliest of each rank first. They have any
            shapes; for few, give a :class:`sab.BucketSampler` a plan with ``max_shapes``.
        length_multiple: each sample is rounded up to a multiple of this, or with ``padded`` the
            longest of a micro-batch; budgets and costs are those of the rounded lengths. Of several
            columns one number, or a dictionary.
        row_multiple: ``padded_length`` of a row is its total, rounded up to a multiple of this,
            within the budgets. Not with ``padded``.
        oversize: samples over a budget alone: ``"error"``, or ``"skip"`` with a SkippedWarning.
        seed, rank, world_size, steps_per_epoch, output: as for :class:`sab.BucketSampler`.
        last_step: samples that fill no step: ``"split"`` (they are the last step), ``"drop"``,
            ``"wrap"`` (filled up from the beginning of the epoch).
        progress: True for a bar, or ``progress(done, total)``.

    >>> import sab
    >>> sampler = sab.BalancedSampler([5, 3, 4, 1, 2, 3], budget=10, fill=1, seed=3)
    >>> sorted(index for batch in sampler for index in batch.tolist())
    [0, 1, 2, 3, 4, 5]
    >>> graphs = {"nodes": [5, 3, 4, 1], "edges": [8, 4, 6, 0]}
    >>> sampler = sab.BalancedSampler(graphs, budget={"nodes": 9, "edges": 14}, fill=1)
    >>> all(b.total["nodes"] <= 9 and b.total["edges"] <= 14 for b in sampler.batches())
    True
    >>> steps = sab.BalancedSampler([9, 2, 5, 1, 8, 3], samples=6, micro_batches=3, padded=True)
    >>> [batch.padded_length for batch in steps.batches()]
    [8.0, 9.0, 3.0]
    """

    def __init__(
        self,
        sizes: SizesLike,
        *,
        samples: int | None = None,
        budget: BudgetLike | None = None,
        cost: CostLike | None = None,
        balance: BalanceLike | None = None,
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        fill: float | None = None,
        padded: bool = False,
        length_multiple: Multiple = 0,
        row_multiple: Multiple = 0,
        oversize: Literal["error", "skip"] = "error",
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        last_step: LastStep = "split",
        output: Output = "numpy",
        progress: bool | Progress | None = None,
    ) -> None:
        own, order = options_of(locals(), "sizes"), order_of(locals())
        calls = Calls(progress=progress, what="balance")
        options = calls.options("sab_balanced_options")
        options.samples = 0 if samples is None else whole("samples", samples, 1)
        source = as_sizes(sizes)
        self._columns = source.columns
        set_budgets(options, budget, cost, calls, source.columns)
        if samples is None and options.budget_count == 0:
            raise ValueError(
                f"samples = None and budget = {budget!r}: samples of a step, or a budget, must be "
                "given"
            )
        set_balance(options, balance, calls, source.columns)
        options.fill = 0 if fill is None else real("fill", fill, "must be above 0 and at most 1")
        options.padded = flag("padded", padded)
        set_multiples(options, "length_multiple", length_multiple, calls, source.columns)
        set_multiples(options, "row_multiple", row_multiple, calls, source.columns)
        options.oversize = one_of("oversize", oversize, SKIP_OR_ERROR)
        self._construct(
            output,
            lib.sab_balanced_sampler_new,
            source._handle,
            options,
            sampler_options(order),
            calls=calls,
        )
        self._source = source
        self._made_from = (source,), own
        warn_of_skipped(self.skipped_count, len(source), "over a budget alone")

    def __reduce__(self) -> tuple[Any, ...]:
        source, options = self._source, self._made_from[1]
        sizes: Any = source if isinstance(source, Mixture) else source.values()
        if source.columns != ONE_COLUMN and not isinstance(source, Mixture):
            sizes = {name: source.column(name).values() for name in source.columns}
        return remake, (type(self), (sizes,), options, self.state_dict(), self._under_way)

    def _sample_count(self) -> int:
        return len(self._source)

    def report(self, *, progress: bool | Progress | None = None) -> BalancedReport:
        """How even the current epoch is on all ranks, before any training."""
        calls = Calls(progress=progress, what="report")
        report = new_struct("sab_balanced_report")
        check(lib.sab_balanced_sampler_get_report(self._handle, calls.options(), report), calls)

        def each(name: str) -> Any:
            numbers = ffi.unpack(getattr(report, name), report.balance_count)
            return numbers if len(numbers) > 1 else numbers[0]

        mixture = self._source if isinstance(self._source, Mixture) else None
        return record_of(
            BalancedReport,
            report,
            total=per_column(report.totals, self._columns),
            padded_total=per_column(report.padded_totals, self._columns),
            **{name: each(name) for name in OF_EACH_BALANCE},
            sources=reports_of(mixture, self._handle, calls),
        )


class ShardedReport(NamedTuple):
    """What an epoch of a mixture has, over all ranks.

    Attributes:
        samples: in the batches, with repeats.
        micro_batches: that each rank takes.
        total: sum of the sizes.
        padded_total: what they take up.
        padding: share of padding in ``padded_total``.
        sources: of each source (:class:`sab.SourceReport`).
    """

    samples: int
    micro_batches: int
    total: float
    padded_total: float
    padding: float
    sources: dict[Name, SourceReport]

    def __str__(self) -> str:
        return report_text(self._facts(), self.sources)

    def _repr_html_(self) -> str:
        return as_html("Mixture of all shards", self._facts(), source_table(self.sources))

    def to_dict(self) -> dict[str, Any]:
        """The report as numbers, lists and dictionaries, which ``json.dumps`` takes."""
        return cast("dict[str, Any]", plain(self))

    def _facts(self) -> Facts:
        return [
            ("samples", f"{self.samples:,}"),
            ("micro-batches of a rank", f"{self.micro_batches:,}"),
            ("padding", f"{100 * self.padding:.2f} %"),
        ]


class ShardedSampler(RandomAccessSampler):
    """Batches of samples that are spread over the ranks. Each rank knows and takes only the samples
    of its own shard.

    The ranks gather histograms of their sizes, and all make the same plan from the sum. In each
    step all ranks take a batch of the same bucket. All take the same number of steps, no batch
    exceeds the budget, and no sample is lost or repeated, but for those that ``min_batch_size``
    leaves no room for. Must be made on all ranks at once. Indices are those of this rank's shard.

    Of a :class:`sab.Mixture` the ranks gather the size and the source of each sample. In a step
    they may take batches of different buckets, so that every source stays near its due.

    Args:
        sizes: of this rank's samples; may be empty. A mixture with ``all_sources`` may lack
            sources.
        budget: as for :func:`sab.plan`. Its other options, except ``tail``, may be given by name;
            ``separate_by="source"`` with a mixture only.
        seed, micro_batches, steps_per_epoch, output: as for :class:`sab.BucketSampler`.
        group: a process group of torch.distributed; None: all ranks.
        gather, rank, world_size, timeout: as for :func:`check_ranks`.
    """

    def __init__(
        self,
        sizes: SizesLike,
        budget: BudgetLike | None = None,
        *,
        seed: int = 0,
        micro_batches: int = 1,
        steps_per_epoch: int = 0,
        group: Any = None,
        gather: Gather | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        timeout: float = 300,
        output: Output = "numpy",
        **plan: Unpack[PlanOptions],
    ) -> None:
        reach, own, size = _joined(group, gather, rank, world_size, timeout)

        def begin() -> tuple[Sizes, tuple[CData, Calls], CData]:
            one_of("output", output, OUTPUTS)
            order: Order = {
                "seed": seed,
                "rank": own,
                "world_size": size,
                "micro_batches": micro_batches,
                "steps_per_epoch": steps_per_epoch,
            }
            own_sizes = as_sizes(sizes)
            options = plan_options(budget, plan, source=own_sizes)
            return own_sizes, options, sampler_options(order)

        source, (options, calls), order = _together(reach, begin)
        joined = Calls(gather=reach)
        handle = ffi.new("sab_sampler **")
        status = lib.sab_sharded_sampler_new(
            source._handle, options, order, lib.sab_py_all_gather, joined.handle, handle
        )
        check(status, joined if joined.exception is not None else calls)
        self._adopt(handle, output)
        self._made_from = (), {"rank": own, "world_size": size}
        self._mixture = source if isinstance(source, Mixture) else None
        why = why_skipped(plan.get("min_batch_size", 0))
        warn_of_skipped(self.skipped_count, len(source), why)

    def report(self, *, progress: bool | Progress | None = None) -> ShardedReport:
        """What the current epoch has of each source of a mixture, over all ranks. Needs no call of
        the others: every rank knows the sizes and sources of all shards.

        Raises:
            UnsupportedError: the sizes are no mixture. Other ranks then know no sizes of this one.
        """
        if self._mixture is None:
            raise UnsupportedError(
                "report: the sizes are no mixture: this rank knows only the sizes of its own shard"
            )
        sources = reports_of(self._mixture, self._handle, Calls(progress=progress, what="report"))
        each = list(sources.values())
        total, padded = sum(of.total for of in each), sum(of.padded_total for of in each)
        return ShardedReport(
            sum(of.samples for of in each),
            len(self),
            total,
            padded,
            1 - total / padded if padded else 0.0,
            sources,
        )

    def _of_rank(self, rank: int, world_size: int) -> RandomAccessSampler:
        raise UnsupportedError(
            f"rank = {rank}: this ShardedSampler is rank {self.rank} of {self.world_size}, which "
            "the ranks agreed on when they made it"
        )

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "ShardedSampler: cannot be pickled, since the ranks make it together; save its "
            "state_dict()"
        )
