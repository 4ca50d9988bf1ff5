"""Work that the library runs on a device: what its functions become in C."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Sequence
from typing import Any, Callable, Literal

from sab._batch import batch_of
from sab._cost import ONE_COLUMN
from sab._devices import is_out_of_memory
from sab._native import Calls, CData, Progress, ffi, keep_exception, lib

Reduce = Callable[[Sequence[int]], Sequence[int]]


def forget(error: BaseException) -> None:
    """Clears the frames of an exception and of its causes, which hold the tensors of the failed
    step.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:  # an exception may be its own cause
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        one.__traceback__ = None
        waiting += [one.__cause__, one.__context__]


def _keep_work(kind: Any, error: BaseException, where: Any) -> int | None:
    # As _keep, but running out of memory is an answer, and its frames are let go before anything is
    # tried again.
    if is_out_of_memory(error):
        ffi.from_handle(where.tb_frame.f_locals["ctx"]).ran_out = error
        del where
        forget(error)
        gc.collect()
        return int(lib.SAB_OUT_OF_MEMORY)
    keep_exception(kind, error, where)
    return None


class Work(Calls):
    """The functions of a call that runs work on a device."""

    def __init__(
        self,
        progress: bool | Progress | None = None,
        what: str = "",
        columns: Sequence[str] = ONE_COLUMN,
        **functions: Any,
    ) -> None:
        super().__init__(progress=progress, what=what)
        self.columns = columns
        self.functions = functions


def _functions(ctx: CData) -> dict[str, Callable[..., Any]]:
    work: Work = ffi.from_handle(ctx)
    return work.functions


@ffi.def_extern(error=-1, onerror=_keep_work)
def sab_py_work(ctx: CData, item: int, features: CData, capacity: int, count: CData) -> int:
    numbers = _functions(ctx)["work"](item)
    if numbers is None:
        return int(lib.SAB_END)
    if numbers is False:
        return -1
    count[0] = len(numbers)
    if len(numbers) <= capacity:
        features[0 : len(numbers)] = [float(number) for number in numbers]
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_cleanup(ctx: CData, item: int) -> int:
    _functions(ctx)["cleanup"]()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_collect_garbage(ctx: CData) -> int:
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_begin(ctx: CData) -> int:
    _functions(ctx)["begin"]()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)
def sab_py_trial(ctx: CData, count: int, length: float) -> int:
    _functions(ctx)["trial"](count, length)
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)
def sab_py_chunk(ctx: CData, first: int, count: int, weight: float) -> int:
    _functions(ctx)["chunk"](first, count, weight)
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)
def sab_py_batch(ctx: CData, batch: CData) -> int:
    work: Work = ffi.from_handle(ctx)
    work.functions["run"](batch_of(batch, ffi.NULL, work.columns))
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)
def sab_py_reduce(ctx: CData, values: CData, count: int) -> int:
    least = [int(value) for value in _functions(ctx)["reduce"]([values[i] for i in range(count)])]
    if len(least) != count:
        raise ValueError(f"reduce gave {len(least)} numbers for {count}")
    for i in range(count):
        values[i] = least[i]
    return 0


def reduce_function(reduce: Literal["torch"] | Reduce | None) -> Reduce | None:
    if reduce is None or callable(reduce):
        return reduce
    if reduce != "torch":
        raise ValueError(f"reduce = {reduce!r}: must be 'torch' or a function")

    def least(values: Sequence[int]) -> Sequence[int]:
        import torch
        import torch.distributed

        dist: Any = torch.distributed
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.tensor(list(values), dtype=torch.int64, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.MIN)
        return tensor.tolist()  # type: ignore[no-any-return]

    return least
