"""Work that the library runs on a device: what its functions become in C."""

from __future__ import annotations

import gc
import traceback
from typing import Any, Callable, Optional, Sequence

from sab._batch import batch_of
from sab._devices import is_out_of_memory
from sab._native import Calls, Progress, ffi, keep_exception, lib

Reduce = Callable[[Sequence[int]], Sequence[int]]


def forget(error: BaseException) -> None:
    """Lets go of what the frames of an exception hold, and of those behind it: the tensors of the step that failed."""
    seen: set[int] = set()
    waiting: list[Optional[BaseException]] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:  # an exception may be its own cause
            continue
        seen.add(id(one))
        traceback.clear_frames(one.__traceback__)
        one.__traceback__ = None
        waiting += [one.__cause__, one.__context__]


def _keep_work(kind: Any, error: BaseException, where: Any) -> Optional[int]:
    # As _keep, but running out of memory is an answer, and its frames are let go before anything is tried again.
    if is_out_of_memory(error):
        del where
        forget(error)
        gc.collect()
        return int(lib.SAB_OUT_OF_MEMORY)
    keep_exception(kind, error, where)
    return None


class Work(Calls):
    """The functions of a call that runs work on a device."""

    def __init__(
        self, progress: "bool | Progress | None" = None, what: str = "", **functions: Any
    ) -> None:
        super().__init__(progress=progress, what=what)
        self.functions = functions


def _functions(ctx: Any) -> dict[str, Any]:
    return ffi.from_handle(ctx).functions  # type: ignore[no-any-return]


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_work(ctx: Any, item: int, features: Any, capacity: int, count: Any) -> int:
    numbers = _functions(ctx)["work"](item)
    if numbers is None:
        return int(lib.SAB_END)
    if numbers is False:
        return -1
    count[0] = len(numbers)
    if len(numbers) <= capacity:
        features[0 : len(numbers)] = [float(number) for number in numbers]
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_cleanup(ctx: Any, item: int) -> int:
    _functions(ctx)["cleanup"]()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_collect_garbage(ctx: Any) -> int:
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_begin(ctx: Any) -> int:
    _functions(ctx)["begin"]()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_trial(ctx: Any, count: int, length: float) -> int:
    _functions(ctx)["trial"](count, length)
    gc.collect()
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_chunk(ctx: Any, first: int, count: int, weight: float) -> int:
    _functions(ctx)["chunk"](first, count, weight)
    return 0


@ffi.def_extern(error=-1, onerror=_keep_work)  # type: ignore[misc]
def sab_py_batch(ctx: Any, batch: Any) -> int:
    _functions(ctx)["run"](batch_of(batch))
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_reduce(ctx: Any, values: Any, count: int) -> int:
    least = [int(value) for value in _functions(ctx)["reduce"]([values[i] for i in range(count)])]
    if len(least) != count:
        raise ValueError(f"reduce gave {len(least)} numbers for {count}")
    for i in range(count):
        values[i] = least[i]
    return 0


@ffi.def_extern(error=-1, onerror=keep_exception)  # type: ignore[misc]
def sab_py_increase(ctx: Any, epoch: int, current: int, increase: Any) -> int:
    increase[0] = int(_functions(ctx)["increase"](epoch, current))
    return 0


def reduce_function(reduce: "str | Reduce | None") -> Optional[Reduce]:
    if reduce != "torch":
        if reduce is not None and not callable(reduce):
            raise ValueError(f"reduce = {reduce!r}: must be 'torch' or a function")
        return reduce

    def least(values: Sequence[int]) -> Sequence[int]:
        import torch

        dist: Any = torch.distributed
        device = "cuda" if dist.get_backend() == "nccl" else "cpu"
        tensor = torch.tensor(list(values), dtype=torch.int64, device=device)
        dist.all_reduce(tensor, dist.ReduceOp.MIN)
        return tensor.tolist()  # type: ignore[no-any-return]

    return least
