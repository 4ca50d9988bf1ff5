"""Plans and batches of data sets of Ray: more than one machine. Needs ``ray[data]``.

    plan = sab.ray.plan(dataset, 16384, size="length")
    sab.ray.write_batches(dataset, plan, "/shared/batches", size="length", world_size=64)
    batches = sab.BatchDataset("/shared/batches")       # on each rank

A :class:`sab.Packing` of the :func:`histogram` in the place of the plan writes packed rows. Each
epoch of a mixture has a plan of its own, with the repeats of each source:

    given = {"size": "length", "source": "corpus", "sources": ["wiki", "code"]}
    whole = sab.ray.histogram(dataset, **given)
    plan = sab.plan(whole.epoch(3, repeat=[1, 2.5]), 16384)
    sab.ray.write_batches(dataset, plan, "/shared/epoch-3", epoch=3, world_size=64, **given)

The rows of a data set must come in the same order each time it is read, as those of files do. The
number of machines and of blocks does not change the batches. A call that goes on after it was
killed must read the same blocks as before: set ``override_num_blocks`` where the number of machines
changes. These blocks may come in another order, as those of ``union`` do: the order in which the
folder was begun is kept.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sab._batch_files import (
    Job,
    Measure,
    SizeOf,
    SourceOf,
    begin,
    digest_of,
    finish,
    make_job,
    order_of,
    write_file,
)
from sab._engine import Histogram
from sab._make_plan import plan as _plan
from sab._order import LastStep
from sab._plan import Plan
from sab._plan_options import PlanOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sab._cost import BudgetLike
    from sab._mixture import Name
    from sab._pack import Packing

__all__ = ["histogram", "plan", "write_batches"]

ray: Any = importlib.import_module("ray")
_data: Any = importlib.import_module("ray.data")


def _blocks(dataset: Any) -> list[Any]:
    """The blocks in the order of the data set."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        return list(dataset.to_arrow_refs())
    finally:
        options.preserve_order = before


def _count(block: Any, measure: Measure, number: int) -> tuple[bytes, str]:
    return measure.histogram(block, f"partition {number}").to_bytes(), digest_of(block)


def _counted(blocks: list[Any], measure: Measure) -> tuple[list[Histogram], list[str]]:
    """The histogram and the digest of each block."""
    task = ray.remote(_count)
    found = ray.get([task.remote(block, measure, number) for number, block in enumerate(blocks)])
    return [Histogram.from_bytes(image) for image, _ in found], [digest for _, digest in found]


def _merged(parts: list[Histogram]) -> Histogram:
    whole = Histogram()
    for part in parts:
        whole.merge(part)
    return whole


def histogram(
    dataset: Any,
    size: SizeOf,
    *,
    source: SourceOf | None = None,
    sources: Sequence[Name] | None = None,
) -> Histogram:
    """Counts the sizes of a data set, for :func:`sab.plan`.

    Args:
        dataset: read once.
        size: a column of numbers, or a function that gives the size of each row of a pyarrow table,
            such as one that tokenises texts. For samples with several sizes a list of columns, or a
            function that gives a dictionary of arrays, or a row of sizes for each row.
        source: of a mixture: a column with the name or number of the source of each row, or a
            function that gives it. :meth:`sab.Histogram.epoch` of the result has a plan then.
        sources: all names or numbers of sources, in the order of the repeats.
    """
    measure = Measure.checked(size, source, sources)
    return _merged(_counted(_blocks(dataset), measure)[0])


def plan(
    dataset: Any, budget: BudgetLike | None = None, *, size: SizeOf, **options: Unpack[PlanOptions]
) -> Plan:
    """Plans a data set: :func:`sab.plan` of its :func:`histogram`.

    Args:
        dataset: read once.
        budget: as for :func:`sab.plan`, and so are the options.
        size: as for :func:`histogram`.
    """
    return _plan(histogram(dataset, size), budget, **options)


def _locate(
    block: Any, job: Job, measure: Measure, parts: tuple[bytes, bytes], number: int, wanted: Any
) -> Any:
    """`parts`: the histograms of the blocks before, and of this one."""
    before, own = map(Histogram.from_bytes, parts)
    rows = measure.counted_rows(block, own, f"partition {number}")
    return job.rows_of_files(block, rows, before, wanted)


def _located(
    job: Job, partitions: list[tuple[int, Any, Histogram]], measure: Measure, missing: list[int]
) -> tuple[list[Any], int]:
    """The rows of the missing files, of each partition, and the samples of the epoch."""
    wanted = np.zeros(len(job.files), bool)
    wanted[missing] = True
    before = Histogram()
    located: list[Any] = []
    counts: list[Any] = []
    task, shared = ray.remote(_locate).options(num_returns=2), ray.put(job)
    for number, block, part in partitions:
        images = before.to_bytes(), part.to_bytes()
        rows, count = task.remote(block, shared, measure, images, number, wanted)
        located.append(rows)
        counts.append(count)
        before.merge(part)
    return located, sum(ray.get(counts))


def write_batches(
    dataset: Any,
    plan: Plan | Packing,
    path: str | os.PathLike[str],
    *,
    size: SizeOf,
    source: SourceOf | None = None,
    sources: Sequence[Name] | None = None,
    columns: Sequence[str] | None = None,
    seed: int = 0,
    epoch: int = 0,
    world_size: int = 1,
    micro_batches: int = 1,
    last_step: LastStep = "split",
    costliest_first: int = 0,
    batches_per_file: int = 1024,
) -> dict[str, Any]:
    """Writes the batches of an epoch as Parquet, with a row for each batch or pack, in the order of
    training. Reads the data set once and shuffles it once.

    The files are by rank and range of positions: ``rank-00003/batches-...parquet``. Each is written
    in one step. After a worker or the driver was killed, the same call writes only the files that
    are missing, also if the data set gives the same blocks in another order. ``manifest.json`` is
    written last. :class:`sab.BatchDataset` reads the folder.

    Args:
        dataset: the one whose sizes the plan was made of. Each partition must fit in memory, and
            the rows of each file.
        plan: of its histogram, or of all its sizes. With a :class:`sab.Packing` of its histogram a
            row also has ``cu_seqlens``: where each sample begins and ends.
        path: a folder that all machines share; a path, or a URL of fsspec.
        size: as for :func:`histogram`, and so are ``source`` and ``sources``: for the plan of an
            epoch of a mixture. A sample is written as often as the epoch has it.
        columns: those to write; None: all. With an empty list the column ``indices`` is written:
            the number of each sample in the data set.
        seed: as for :class:`sab.BucketSampler`, and so are ``epoch``, ``world_size``,
            ``micro_batches``, ``last_step`` and ``costliest_first``.
        batches_per_file: batches of a rank in a file.

    Returns:
        dict: the manifest: the fingerprint of the plan, the number of batches of each rank, and the
        name and the numbers of batches and samples of each file.

    Raises:
        MismatchError: the plan is of other data, the folder has other batches, or rows were changed
            while they were read.
        UnsupportedError: :meth:`sab.Plan.locate` refuses the plan, or a packing has a ``balance``
            that is a function or a :class:`sab.Cost`.
    """
    path = os.fspath(path)
    blocks = _blocks(dataset)
    measure = Measure.checked(size, source, sources)
    parts, digests = _counted(blocks, measure)
    filled = [number for number, part in enumerate(parts) if part.sample_count > 0]
    order = [filled[k] for k in order_of(path, [digests[number] for number in filled])]
    job = make_job(
        plan,
        _merged(parts),
        [digests[number] for number in order],
        list(columns) if columns is not None else list(dataset.schema().names),
        {
            "seed": seed,
            "epoch": epoch,
            "world_size": world_size,
            "micro_batches": micro_batches,
            "last_step": last_step,
            "costliest_first": costliest_first,
        },
        batches_per_file,
    )
    missing = begin(path, job, job.files, read=False)
    partitions = [(number, blocks[number], parts[number]) for number in order]
    located, samples = _located(job, partitions, measure, missing)
    if missing:
        rows = _data.from_arrow_refs(located)

        def write(table: Any) -> dict[str, list[int]]:
            return {"file": [write_file(path, job, table)]}

        groups = rows.groupby("sab_file", num_partitions=min(len(missing), 200))
        groups.map_groups(write, batch_format="pyarrow").count()
    return finish(path, job, samples)
