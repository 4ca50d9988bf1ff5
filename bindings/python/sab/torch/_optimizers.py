"""Optimizers of torch whose step updates many small parameters as one: for models of hundreds of
parameters, where calling costs more than computing.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, repeat
from operator import attrgetter, is_, is_not, mul, sub
from typing import Any, Callable, cast

import torch
import torch.multiprocessing.reductions

__all__ = ["fuse_optimizer", "fuse_step", "is_fused_optimizer"]

_torch: Any = torch
_WeakStorage: Any = torch.multiprocessing.reductions.StorageWeakRef
_Tensor: Any = torch.Tensor
_address: Callable[[Any], int] = _Tensor.data_ptr
_contiguous: Callable[[Any], bool] = _Tensor.is_contiguous
_numel: Callable[[Any], int] = _Tensor.numel
_values: Callable[[Any], Iterable[Any]] = cast(Any, dict.values)
_gradient, _layout, _dtype = attrgetter("grad"), attrgetter("layout"), attrgetter("dtype")
_flatten: Callable[[list[Any]], Any] = _torch._C._nn.flatten_dense_tensors
_unflatten: Callable[[Any, list[Any]], tuple[Any, ...]] = _torch._C._nn.unflatten_dense_tensors

# Torch's optimizers whose step treats every element alike, whatever tensor it is in.
_ELEMENTWISE = (
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ASGD",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
)
# Of a parameter, and of a stretch. Larger parameters gain nothing; on a CPU the numbers of a
# stretch stay in its cache from one operation of a step to the next.
_MOST_ELEMENTS = {"cpu": 1 << 12, "cuda": 1 << 20, "xpu": 1 << 20}
_MOST_TOGETHER = {"cpu": 1 << 15, "cuda": 1 << 40, "xpu": 1 << 40}


def fuse_optimizer(
    optimizer: Any,
    *,
    do_flatten: bool = True,
    check_flatten: bool = True,
    elementwise: bool | None = None,
    replace_step: bool = False,
) -> Any:
    """Gives an optimizer a second step, ``optimizer.fuse_step(closure=None)``, that updates small
    parameters together, with the results of ``step()``.

    The parameters of a group that are small (up to 4,096 elements on a CPU, 1,048,576 on a GPU),
    contiguous, of one type and on one device are laid end to end in memory, and the optimizer's own
    step is called with these stretches in their place. All else is as it was: groups and their
    options, schedulers, ``state_dict`` (entries and values of an unfused optimizer), hooks,
    closures, ``add_param_group``. ``step`` and ``fuse_step`` may alternate.

    >>> import torch, sab.torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = sab.torch.fuse_optimizer(torch.optim.Adam(model.parameters()))
    >>> optimizer.zero_grad()
    >>> model(torch.rand(8, 4)).sum().backward()
    >>> optimizer.fuse_step()

    Fused is what can be with the results of the plain step, bit for bit; the rest is updated by the
    plain step in the same call:

    - Of torch's optimizers Adadelta, Adagrad, Adam, AdamW, Adamax, ASGD, NAdam, RAdam, RMSprop,
      Rprop and SGD are fused. Others (LBFGS, SparseAdam, Adafactor, Muon, those of other libraries
      and subclasses with a step of their own) keep their plain step, also as ``fuse_step``, unless
      ``elementwise`` says otherwise.
    - Groups that are ``differentiable``, ``capturable`` or torch's own ``fused`` keep the plain
      step. ``foreach``, ``maximize``, ``amsgrad`` and all other options work.
    - Parameters that are large, without dimensions, not contiguous (transposed, channels_last,
      expanded), complex, sparse, of a subclass of Tensor or overlapping others stay where they are,
      as do those in shared memory and those whose memory another tensor uses, too (tied weights,
      arrays; an array that a parameter was made from is not seen by old versions of torch). On a
      CPU only float32 and float64 are fused: torch rounds half-precision numbers otherwise at the
      end of a tensor than in it.
    - A parameter without a gradient is skipped, with its state, as torch does; one with a sparse
      gradient is updated on its own.
    - Parameters whose state differs (one has had more steps than others) are fused with their like.

    Gradients may be anywhere and change their place at any time (buckets of DDP, a ``grad`` set by
    hand): where they do not lie end to end they are copied for the step, up to a third of its time.
    Where ``zero_grad(set_to_none=False)`` keeps them, and nobody else uses their memory, they are
    laid end to end, too.

    A copy or unpickled optimizer is a plain one, like torch's without hooks: call this for it.
    Checkpoints hold the same tensors; views of one piece of memory are written as that:
    ``torch.save`` of a parameter alone writes its stretch, on a CPU 32,768 elements at most. With
    torch before 2.0, autograd does not notice that a fused step changed a parameter that a graph
    from before it still needs.

    When torch's own is better: ``fused=True`` of torch 2 takes as long on a CPU for SGD over 1,000
    parameters of 32 elements (for Adam twice as long), and half as long where they have 4,000; its
    results are not the plain step's to the last bit. On GPUs, where ``foreach=True`` is torch 2's
    default, few kernels are launched already. A few large parameters gain nothing here.

    Args:
        optimizer: any ``torch.optim.Optimizer``; fused in place.
        do_flatten: lay the parameters end to end, now and those that come later. Otherwise only
            those that lie so already are fused, and no parameter is moved.
        check_flatten: warn, once, when parameters that were laid end to end have moved
            (``model.to(...)``, another library that flattens). They are updated where they are,
            with or without the warning.
        elementwise: whether the step treats every element alike, whatever parameter it is in; None:
            as listed above. An optimizer that is not of torch takes its first step plainly.
        replace_step: ``step`` is the fused one, too: for what calls it, such as ``GradScaler`` and
            trainers.

    Returns:
        the optimizer.

    Raises:
        RuntimeError: it is fused already.
        TypeError: it is no optimizer.
    """
    if not isinstance(getattr(optimizer, "param_groups", None), list) or not callable(
        getattr(optimizer, "step", None)
    ):
        raise TypeError(
            f"optimizer is a {type(optimizer).__name__}: must be an optimizer, with param_groups "
            "and step()"
        )
    if is_fused_optimizer(optimizer):
        raise RuntimeError("trying to fuse an optimizer twice!")
    known = _is_known(type(optimizer))
    if elementwise is None and not known:
        warnings.warn(
            f"{type(optimizer).__name__} is not known to treat every element alike: its "
            "fuse_step() is its plain step (elementwise=True where it does)",
            stacklevel=2,
        )
    fuser = _Fuser(
        do_flatten,
        check_flatten,
        known if elementwise is None else elementwise,
        not known,
        replace_step,
    )
    if replace_step:
        fuser.plain_step = optimizer.step
        optimizer.step = _stands_for(fuser.plain_step, optimizer)
    kind = cast(Any, type(optimizer))
    if not hasattr(kind, "fuse_step"):
        kind.fuse_step = fuse_step
    optimizer._sab_fuser = fuser
    if fuser.elementwise and do_flatten:
        for group in optimizer.param_groups:
            fuser.lay(group["params"])
    return optimizer


def is_fused_optimizer(optimizer: Any) -> bool:
    """Whether :func:`fuse_optimizer` was called for it."""
    return hasattr(optimizer, "_sab_fuser")


def fuse_step(optimizer: Any, closure: Callable[[], Any] | None = None) -> Any:
    """A step of an optimizer that :func:`fuse_optimizer` was called for; returns what the closure
    did.

    Raises:
        RuntimeError: the optimizer is not fused.
    """
    if not is_fused_optimizer(optimizer):
        raise RuntimeError("Should init fused optimizer by calling `fuse_optimizer`.")
    fuser: _Fuser = optimizer._sab_fuser
    if fuser.replaces:
        return optimizer.step() if closure is None else optimizer.step(closure)
    return fuser.step(optimizer, optimizer.step, closure)


def _replaced_step(optimizer: Any, closure: Callable[[], Any] | None = None) -> Any:
    fuser: _Fuser = optimizer._sab_fuser
    return fuser.step(
        optimizer,
        fuser.plain_step or types.MethodType(cast(Any, type(optimizer)).step, optimizer),
        closure,
    )


def _stands_for(step: Any, optimizer: Any) -> Any:
    """The fused step in the place of ``optimizer.step``; schedulers leave marks on that, or look
    for them and for a bound method.
    """
    if "step" not in optimizer.__dict__:
        return types.MethodType(_replaced_step, optimizer)
    owner = weakref.ref(optimizer)

    @functools.wraps(step)
    def marked(closure: Callable[[], Any] | None = None) -> Any:
        return _replaced_step(owner(), closure)

    return marked


def _is_known(kind: Any) -> bool:
    """Whether a class steps as one of torch's optimizers that are elementwise."""
    for name in _ELEMENTWISE:
        base = getattr(_torch.optim, name, None)
        if base is not None and issubclass(kind, base):
            return all(
                inspect.unwrap(getattr(kind, each)) is inspect.unwrap(getattr(base, each))
                for each in ("step", "_init_group")
                if hasattr(base, each)
            )
    return False


def _increment_versions() -> Callable[[list[Any]], Any] | None:
    """What tells autograd that parameters have changed; None where torch has no such thing."""
    increment: Any = getattr(_torch.autograd.graph, "increment_version", None)
    if increment is None:
        return None
    try:
        increment([_torch.zeros(1)])
        return increment  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        return lambda tensors: [increment(tensor) for tensor in tensors]


_tell_autograd = _increment_versions()


def _storage(tensor: Any) -> Any:
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def _is_plain(tensor: Any) -> bool:
    return type(tensor) in (_Tensor, _torch.nn.Parameter) and tensor.layout is _torch.strided


def _can_fuse(param: Any) -> bool:
    return (
        _is_plain(param)
        and param.is_leaf
        and (
            param.dtype in (_torch.float32, _torch.float64)
            or (param.device.type != "cpu" and param.is_floating_point())
        )
        and param.dim() > 0
        and 0 < param.numel() <= _MOST_ELEMENTS.get(param.device.type, 0)
        and param.is_contiguous()
    )


def _has_own_memory(tensor: Any) -> bool:
    storage = _storage(tensor)
    if hasattr(storage, "resizable") and not storage.resizable():  # an array's
        return False
    return bool(
        storage.nbytes() == tensor.numel() * tensor.element_size()
        and not (tensor.device.type == "cpu" and storage.is_shared())
    )


def _extent(tensor: Any) -> int:
    """Bytes from the first element to behind the last."""
    return int(
        (1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride())))
        * tensor.element_size()
    )


def _alignment(tensor: Any) -> int:
    """The largest power of two that divides the number of elements, up to 64 bytes. With those of
    most first, all begin at a multiple of their own.
    """
    count = tensor.numel()
    return int(min(count & -count, 64 // tensor.element_size()))


def _move(tensor: Any, to: Any) -> bool:
    """Gives a tensor the memory of another, equal one, unless somebody else uses the tensor's own
    memory.
    """
    place, shape, strides = tensor.storage_offset(), tensor.shape, tensor.stride()
    memory = _WeakStorage(_storage(tensor))
    tensor.data = to
    if memory.expired():
        return True
    storage = _torch.UntypedStorage._new_with_weak_ptr(memory.cdata)
    if storage is None:
        return True
    tensor.data = _torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        storage, place, shape, strides
    )
    return False


def _stretches(params: list[Any]) -> list[list[Any]]:
    """Those to lie in one piece of memory: as many as are updated together, so that one that is
    kept or saved alone keeps no more.
    """
    most, made, count = _MOST_TOGETHER[params[0].device.type], [[params[0]]], params[0].numel()
    for param in params[1:]:
        count += param.numel()
        if count > most:
            made.append([])
            count = param.numel()
        made[-1].append(param)
    return [each for each in made if len(each) > 1]


def _as_one(tensors: list[Any], addresses: list[int], places: list[int], count: int) -> Any:
    """The memory of tensors as one tensor, where they lie at these places of it; else None."""
    first = tensors[0]
    width = first.element_size()
    if addresses[-1] - addresses[0] != places[-1] * width or not all(map(_contiguous, tensors)):
        return None
    if (
        list(map(sub, addresses, repeat(addresses[0]))) != list(map(mul, places, repeat(width)))
        or len(set(map(_dtype, tensors))) > 1
    ):
        return None
    try:
        return first.detach().as_strided((count,), (1,), first.storage_offset())
    except RuntimeError:  # neighbours by chance
        return None


class _Run:
    """Parameters that lie end to end and have the same state, with what stands for them in a
    step.
    """

    def __init__(self, params: list[Any], flat: Any, places: list[int]) -> None:
        self.params, self.flat, self.places = params, flat, places
        self.state: dict[str, Any] = {}  # of the flat parameter
        self.counters: dict[
            str, Any
        ] = {}  # by name, that of all parameters: tensors without dimensions are views of it
        self.dicts: list[dict[str, Any]] = []  # the state of each parameter, where there is any
        self.published: dict[str, Any] = {}  # of the state, what the parameters' has been made of
        self.memory: Any = None  # of the first gradient of the step before, weakly
        self.lays_gradients = True

    def adopt_state(self, dicts: list[dict[str, Any]]) -> None:
        """Makes one state of those of the parameters, and views of it of theirs."""
        self.dicts, count = dicts, self.flat.numel()
        for name, value in dicts[0].items():
            values = [state[name] for state in dicts]
            if not isinstance(value, _Tensor):
                self.state[name] = value
            elif value.dim() == 0:
                self.state[name], self.counters[name] = value.clone(), _torch.stack(values)
                self._show(name, self.counters[name].unbind())
            else:
                flat = _as_one(values, list(map(_address, values)), self.places, count)
                if flat is None:
                    flat = _flatten(values)
                    self._show(name, _unflatten(flat, self.params))
                self.state[name] = flat
        self.published = dict(self.state)

    def _show(self, name: str, values: Iterable[Any]) -> None:
        for state, value in zip(self.dicts, values):
            state[name] = value

    def gather(self) -> bool:
        """Sets the gradient of the flat parameter; False where a gradient is missing or not a plain
        one.
        """
        gradients = list(map(_gradient, self.params))
        if (
            not all(map(is_not, gradients, repeat(None)))
            or set(map(type, gradients)) != {_Tensor}
            or set(map(_layout, gradients)) != {_torch.strided}
        ):
            return False
        flat = _as_one(gradients, list(map(_address, gradients)), self.places, self.flat.numel())
        if flat is None:
            flat = _flatten(gradients)
            if flat.dtype is not self.flat.dtype or flat.device != self.flat.device:
                return False
            # The gradients of the step before are in use again: next time they shall lie end to
            # end.
            if self.lays_gradients:
                memory, self.memory = self.memory, _WeakStorage(_storage(gradients[0]))
                if memory is not None and memory == self.memory:
                    self.lays_gradients, self.memory = False, None
                    if all(map(_has_own_memory, gradients)):
                        for gradient, view in zip(gradients, _unflatten(flat, gradients)):
                            _move(gradient, view)
        self.flat.grad = flat
        return True

    def publish(self, states: Any) -> bool:
        """Writes the state after a step to the parameters'; False where nothing but counts
        changed.
        """
        state = self.state
        if state.keys() == self.published.keys():
            for name, value in state.items():
                if name in self.counters and isinstance(value, _Tensor) and value.dim() == 0:
                    self.counters[name].fill_(value)
                elif value is not self.published[name]:
                    break
            else:
                return False
        if not self.dicts:
            if not state:
                return False
            self.dicts = [states[param] for param in self.params]
        for states_ in self.dicts:
            for name in states_.keys() - state.keys():
                del states_[name]
        count = len(self.params)
        for name, value in state.items():
            if not isinstance(value, _Tensor):
                self.counters.pop(name, None)
                self._show(name, repeat(value))
            elif value.dim() == 0:
                if name not in self.counters:
                    self.counters[name] = value.expand(count).clone()
                    self._show(name, self.counters[name].unbind())
                self.counters[name].fill_(value)
            elif value is not self.published.get(name):
                self._show(name, _unflatten(value, self.params))
        self.published = dict(state)
        return True


class _Plan:
    """Which parameters of a group are fused, and how what it rests on is found unchanged."""

    def __init__(self, group: dict[str, Any], runs: list[_Run]) -> None:
        fused = {id(param) for run in runs for param in run.params}
        members = list(group["params"])
        self.members, self.runs, self.is_plain = members, runs, _is_stepped_plainly(group)
        self.replaced: list[Any] = []  # the group's own list, while the stand-ins are in its place
        self.rest = [param for param in members if id(param) not in fused]
        self.stand_in = [run.flat for run in runs] + self.rest
        self.missing = [param.grad is None for param in self.rest]
        self.count = sum(run.flat.numel() for run in runs)
        self.fused = list(chain.from_iterable(run.params for run in runs))
        self.note_state()

    def note_state(self) -> None:
        self.dicts: list[dict[str, Any]] = list(chain.from_iterable(run.dicts for run in self.runs))
        self.entries: list[Any] = list(chain.from_iterable(map(_values, self.dicts)))
        self.tensors = self.fused + [entry for entry in self.entries if isinstance(entry, _Tensor)]
        self.addresses = list(map(_address, self.tensors))

    def holds(self, group: dict[str, Any]) -> bool:
        members = group["params"]
        return (
            self.is_plain == _is_stepped_plainly(group)
            and len(members) == len(self.members)
            and all(map(is_, members, self.members))
            and sum(map(len, self.dicts)) == len(self.entries)
            and all(map(is_, chain.from_iterable(map(_values, self.dicts)), self.entries))
            and list(map(_address, self.tensors)) == self.addresses
            and all(map(_contiguous, self.fused))
            and sum(map(_numel, self.fused)) == self.count
            and list(map(is_, map(_gradient, self.rest), repeat(None))) == self.missing
            and all(
                _torch.equal(all_, run.state[name].expand(all_.shape))
                for run in self.runs
                for name, all_ in run.counters.items()
            )
        )


def _is_stepped_plainly(group: dict[str, Any]) -> bool:
    return bool(group.get("differentiable") or group.get("capturable") or group.get("fused"))


def _signature(param: Any, state: dict[str, Any]) -> tuple[Any, ...] | None:
    """What the states of parameters that are fused agree in; None: it is not of each element."""
    made: list[Any] = []
    for name, value in state.items():
        if isinstance(value, _Tensor):
            if type(value) is not _Tensor or value.layout is not _torch.strided:
                return None
            if value.shape == param.shape and value.device == param.device:
                made.append((name, value.dtype))
            elif value.dim() == 0 and value.device.type == "cpu":
                made.append((name, value.dtype, value.item()))
            else:
                return None
        elif value is None or isinstance(value, (bool, int, float, str)):
            made.append((name, type(value), value))
        else:
            return None
    return tuple(made)


class _Fuser:
    """The fused step of one optimizer: puts flat parameters in the place of many while the
    optimizer's own step runs.
    """

    def __init__(
        self,
        do_flatten: bool,
        check_flatten: bool,
        elementwise: bool,
        rehearse: bool,
        replaces: bool,
    ) -> None:
        self.options = (do_flatten, check_flatten, elementwise, rehearse, replaces)
        self.do_flatten, self.check_flatten, self.elementwise, self.rehearse, self.replaces = (
            self.options
        )
        self.plain_step: Any = None  # where this one is in its place
        self.count = 0  # groups that were fused, over all steps
        self.plans: list[Any] = []
        self.began = False
        self.state: Any = None  # optimizer.state
        self.states: list[Any] = []  # its values
        # By id: the parameter and where it was laid. swap_tensors() refuses parameters with
        # weak references.
        self.laid: dict[int, tuple[Any, int | None]] = {}
        self.stepped: dict[int, Any] = {}  # id: the parameter has had its first step

    def __reduce__(self) -> Any:
        return _Fuser, self.options

    def __deepcopy__(self, memo: Any) -> _Fuser:
        return _Fuser(*self.options)

    def lay(self, params: list[Any]) -> None:
        """Lays the parameters end to end that were not looked at yet."""
        alike: dict[Any, list[Any]] = {}
        for param in params:
            if id(param) not in self.laid and param.requires_grad:
                self.laid[id(param)] = param, None
                if _can_fuse(param) and _has_own_memory(param):
                    alike.setdefault((param.dtype, param.device), []).append(param)
        with _torch.no_grad():
            for members in alike.values():
                members.sort(key=_alignment, reverse=True)
                for together in _stretches(members):
                    for param, view in zip(together, _unflatten(_flatten(together), together)):
                        if _move(param, view):
                            self.laid[id(param)] = param, param.data_ptr()

    def step(self, optimizer: Any, step: Any, closure: Callable[[], Any] | None) -> Any:
        if not self.elementwise:
            return step() if closure is None else step(closure)
        module = sys.modules["torch.optim.optimizer"]
        if any(
            getattr(optimizer, f"_optimizer_step_{when}_hooks", None)
            or getattr(module, f"_global_optimizer_{when}_hooks", None)
            for when in ("pre", "post")
        ):
            return self._step_with_hooks(optimizer, step, closure)
        loss = None
        if closure is not None:
            with _torch.enable_grad():
                loss = closure()
        try:
            self._begin(optimizer)
            return step() if closure is None else step(lambda: loss)
        finally:
            self._end(optimizer)

    def _step_with_hooks(self, optimizer: Any, step: Any, closure: Callable[[], Any] | None) -> Any:
        """Hooks see the optimizer as it is: the flat parameters come after the last hook before the
        step, and go before the first one after it.
        """

        def begin(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # As the hooks before this one have left them: (optimizer, closure).
            closure = kwargs.get("closure", next(iter(args[1:]), None))
            if closure is None:
                self._begin(optimizer)
                return None
            with _torch.enable_grad():
                loss = closure()
            self._begin(optimizer)
            return (args[0], lambda: loss), {}

        def end(*_: Any) -> None:
            self._end(optimizer)

        pre, post = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        optimizer._optimizer_step_pre_hooks = OrderedDict([*pre.items(), ("sab", begin)])
        optimizer._optimizer_step_post_hooks = OrderedDict([("sab", end), *post.items()])
        try:
            return step() if closure is None else step(closure)
        finally:
            optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks = pre, post
            self._end(optimizer)

    def _begin(self, optimizer: Any) -> None:
        groups, state = optimizer.param_groups, optimizer.state
        with _torch.no_grad():
            valid = (
                state is self.state
                and len(state) == len(self.states)
                and all(map(is_, state.values(), self.states))
            )
            plans: list[Any] = (
                self.plans if valid and len(self.plans) == len(groups) else [None] * len(groups)
            )
            self.plans = []
            for group, plan in zip(groups, plans):
                if (
                    plan is None
                    or not plan.holds(group)
                    or not all([run.gather() for run in plan.runs])  # noqa: C419  # all of them gather
                ):
                    plan = self._plan(group, state)
                self.plans.append(plan)
            if self.plans != plans:
                members = {id(param) for plan in self.plans for param in plan.members}
                self.laid, self.stepped = (
                    {key: noted[key] for key in noted.keys() & members}
                    for noted in (self.laid, self.stepped)
                )
        self.began = True
        for group, plan in zip(groups, self.plans):
            if plan.runs:
                plan.replaced, group["params"] = group["params"], plan.stand_in
                for run in plan.runs:
                    state[run.flat] = run.state
                self.count += 1

    def _end(self, optimizer: Any) -> None:
        if not self.began:
            return
        self.began = False
        failed = sys.exc_info()[0] is not None
        groups, state = optimizer.param_groups, optimizer.state
        for group, plan in zip(groups, self.plans):
            if group["params"] is plan.stand_in:
                group["params"] = plan.replaced
                for run in plan.runs:
                    run.state = state.pop(run.flat, run.state)
                    run.flat.grad = None
        with _torch.no_grad():
            for plan in self.plans:
                if any([run.publish(state) for run in plan.runs]):  # noqa: C419  # all of them publish
                    plan.note_state()
                if _tell_autograd is not None:
                    _tell_autograd(plan.fused)
        if self.rehearse:
            for plan in self.plans:
                for param in plan.rest:
                    if param.grad is not None and id(param) not in self.stepped:
                        self.stepped[id(param)], failed = param, True
        if failed:
            self.plans = []
        self.state, self.states = state, list(state.values())

    def _plan(self, group: dict[str, Any], state: Any) -> _Plan:
        params = group["params"]
        if self.do_flatten:
            self.lay(params)
        self._look_for_moved(params)
        return _Plan(group, [] if _is_stepped_plainly(group) else list(self._runs(params, state)))

    def _look_for_moved(self, params: list[Any]) -> None:
        moved = 0
        for param in params:
            _, address = self.laid.get(id(param), (None, None))
            if address is not None and param.data_ptr() != address:
                self.laid[id(param)] = param, None
                moved += 1
        if moved and self.check_flatten:
            self.check_flatten = False
            warnings.warn(
                f"{moved} parameters have moved since fuse_optimizer() laid them end to end: they "
                "are updated where they are, which is slower. "
                "Fuse the optimizer when the model is on its device and wrapped.",
                stacklevel=2,
            )

    def _runs(self, params: list[Any], state: Any) -> Iterator[_Run]:
        """The stretches of memory that hold two or more parameters, with gradients and the same
        state.
        """
        plain = [
            param
            for param in params
            if _is_plain(param) and param.grad is not None and param.numel()
        ]
        plain.sort(key=lambda param: (str(param.device), param.data_ptr()))
        found: list[tuple[Any, Any]] = []
        end, device, together = 0, None, 0
        for index, param in enumerate(plain):
            address, follower = (
                param.data_ptr(),
                plain[index + 1] if index + 1 < len(plain) else None,
            )
            overlaps = param.device == device and address < end
            if not overlaps:
                end, device = 0, param.device
            end = max(end, address + _extent(param))
            overlaps |= (
                follower is not None and follower.device == device and follower.data_ptr() < end
            )
            gradient = param.grad
            usable = (
                not overlaps
                and _can_fuse(param)
                and type(gradient) is _Tensor
                and gradient.layout is _torch.strided
                and gradient.dtype is param.dtype
            )
            if self.rehearse:
                usable = usable and id(param) in self.stepped
            signature = _signature(param, state.get(param, {})) if usable else None
            if signature is None:
                continue
            key = (
                param.device,
                param.dtype,
                address - param.storage_offset() * param.element_size(),
                signature,
            )
            follows = (
                found
                and found[-1][0] == key
                and found[-1][1].data_ptr() + found[-1][1].numel() * param.element_size() == address
            )
            if not follows or together + param.numel() > _MOST_TOGETHER[param.device.type]:
                yield from self._run(found, state)
                found, together = [], 0
            found.append((key, param))
            together += param.numel()
        yield from self._run(found, state)

    def _run(self, found: list[tuple[Any, Any]], state: Any) -> Iterator[_Run]:
        params = [param for _, param in found]
        if len(params) < 2:
            return
        places = [0, *accumulate(map(_numel, params))]
        flat = params[0].detach().as_strided((places[-1],), (1,), params[0].storage_offset())
        run = _Run(params, flat, places[:-1])
        if state.get(params[0]):
            run.adopt_state([state[param] for param in params])
        if run.gather():
            yield run
