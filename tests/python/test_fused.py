"""Fused optimizers against the plain ones: bit for bit, whatever happens to parameters, gradients
and state between two steps."""

import copy
import io
import pickle
import random
import subprocess
import sys
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")
import torch.multiprocessing.reductions  # noqa: F811
from hypothesis import given, settings, strategies as st

import sab.torch
from sab.torch import fuse_optimizer, fuse_step, is_fused_optimizer

optim = torch.optim
TORCH_2 = int(torch.__version__.split(".")[0]) >= 2
SHAPES = [(4, 8), (7,), (3, 5, 2), (1,), (33,), (16, 16), (2, 3, 3, 3), (1, 1), (129,)]
ELEMENTWISE: list[tuple[type, dict]] = [
    (optim.SGD, dict(lr=0.1)),
    (optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.1, nesterov=True)),
    (optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5, maximize=True)),
    (optim.Adam, dict()),
    (optim.Adam, dict(weight_decay=0.1, amsgrad=True)),
    (optim.Adam, dict(maximize=True)),
    (optim.AdamW, dict(amsgrad=True)),
    (optim.AdamW, dict(weight_decay=0.3)),
    (optim.RMSprop, dict(momentum=0.5, centered=True, weight_decay=0.1)),
    (optim.RMSprop, dict()),
    (optim.Rprop, dict()),
    (optim.ASGD, dict(weight_decay=0.1)),
    (optim.Adamax, dict(weight_decay=0.1)),
    (optim.Adadelta, dict(weight_decay=0.1)),
    (optim.Adagrad, dict(lr_decay=0.1, initial_accumulator_value=0.3)),
    (optim.NAdam, dict()),
    (optim.RAdam, dict(weight_decay=0.1)),
]
NAMES = [f"{kind.__name__}-{'-'.join(options) or 'defaults'}" for kind, options in ELEMENTWISE]
every_optimizer = pytest.mark.parametrize("kind, options", ELEMENTWISE, ids=NAMES)


def make_parameters(count=12, seed=0, dtypes=(torch.float32,), shapes=SHAPES):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.nn.Parameter(
            torch.randn(shapes[i % len(shapes)], generator=generator).to(dtypes[i % len(dtypes)])
        )
        for i in range(count)
    ]


def set_gradients(params, seed, missing=(), add=False):
    generator = torch.Generator().manual_seed(seed)
    for i, param in enumerate(params):
        gradient = torch.randn(param.shape, generator=generator).to(param.dtype)
        if i in missing:
            param.grad = None
        elif add and param.grad is not None:
            param.grad.add_(gradient)
        else:
            param.grad = gradient


def same(one, other):
    if isinstance(one, torch.Tensor):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and (
                torch.equal(one, other)
                or (
                    torch.equal(one.isnan(), other.isnan())
                    and torch.equal(one.nan_to_num(), other.nan_to_num())
                )
            )
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


class Pair:
    """A plain optimizer and a fused one over equal parameters, fed alike."""

    def __init__(self, kind, options, make=make_parameters, groups=lambda params: params, **fuse):
        self.params = make(), make()
        self.plain, self.fused = (kind(groups(params), **options) for params in self.params)
        fuse_optimizer(self.fused, **fuse)

    def feed(self, seed, missing=(), add=False):
        for params in self.params:
            set_gradients(params, seed, missing, add)

    def step(self, fuse=True):
        self.plain.step()
        self.fused.fuse_step() if fuse else self.fused.step()

    def run(self, steps, first=0):
        for seed in range(first, first + steps):
            self.feed(seed)
            self.step()
            self.check()

    def check(self):
        assert same(*self.params)
        assert same(self.plain.state_dict(), self.fused.state_dict())

    @property
    def runs(self):
        """How many parameters each stretch had in the last fused step."""
        return [len(run.params) for plan in self.fused._sab_fuser.plans for run in plan.runs]


@every_optimizer
@pytest.mark.parametrize("set_to_none", [False, True])
def test_every_optimizer_as_its_plain_step(kind, options, set_to_none):
    pair = Pair(kind, options)
    for seed in range(12):
        pair.plain.zero_grad(set_to_none=set_to_none)
        pair.fused.zero_grad(set_to_none=set_to_none)
        pair.feed(seed, add=True)
        pair.step(fuse=seed % 4 != 2)
        pair.check()
    assert pair.runs == [12]


def moves(draw_from):
    return st.lists(draw_from, min_size=1, max_size=8)


@settings(max_examples=120, deadline=None)
@given(
    which=st.sampled_from(ELEMENTWISE),
    seed=st.integers(0, 1000),
    count=st.integers(1, 14),
    dtypes=st.sampled_from(
        [
            (torch.float32,),
            (torch.float64,),
            (torch.float32, torch.float64),
            (torch.float32, torch.float32, torch.bfloat16),
        ]
    ),
    flatten=st.booleans(),
    steps=moves(
        st.tuples(
            st.sampled_from(
                [
                    "fuse",
                    "fuse",
                    "fuse",
                    "plain",
                    "reload",
                    "moved",
                    "state moved",
                    "state replaced",
                    "lr",
                ]
            ),
            st.sets(st.integers(0, 13)),
            st.booleans(),
        )
    ),
)
def test_any_history_as_the_plain_one(which, seed, count, dtypes, flatten, steps):
    kind, options = which
    chance = random.Random(seed)
    split = chance.randrange(count + 1)

    def groups(params):
        return [
            {"params": part, "lr": 0.05 + 0.1 * i}
            for i, part in enumerate((params[:split], params[split:]))
            if part
        ]

    def make():
        params = make_parameters(count, seed, dtypes, chance_shapes)
        if not flatten:  # some lie end to end already
            flat = torch.cat([param.detach().flatten().float() for param in params])
            for param, view in zip(params, flat.split([param.numel() for param in params])):
                if param.dtype == torch.float32:
                    param.data = view.view_as(param)
        return params

    chance_shapes = chance.sample(SHAPES, 4)
    pair = Pair(kind, options, make, groups, do_flatten=flatten, check_flatten=False)
    for number, (step, missing, add) in enumerate(steps):
        pair.feed(number, missing, add)
        which = chance.randrange(count)
        for optimizer, params in zip((pair.plain, pair.fused), pair.params):
            if step == "reload":
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            elif step == "moved":
                params[which].data = params[which].data.clone()
            elif step == "lr":
                optimizer.param_groups[0]["lr"] *= 0.5
            state = optimizer.state.get(params[which], {})
            for name, value in list(state.items()):
                if isinstance(value, torch.Tensor) and step == "state moved":
                    value.data = value.data.clone()
                elif isinstance(value, torch.Tensor) and step == "state replaced":
                    state[name] = value + 1
        pair.step(fuse=step != "plain")
        pair.check()


def test_more_than_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for kind, options in ELEMENTWISE:
            pair = Pair(
                kind, options, lambda: make_parameters(40, shapes=[(1999,), (31, 77), (4001,)])
            )
            pair.run(3)
            assert sum(pair.runs) == 40 and len(pair.runs) == 4  # stretches of up to 32,768
    finally:
        torch.set_num_threads(threads)


# Bagua's own test


def bagua_model():
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.Sigmoid(), torch.nn.Linear(3, 1), torch.nn.Sigmoid()
    )
    values = [
        [[-0.2109, -0.4976], [-0.1413, -0.3420], [-0.2524, 0.6976]],
        [-0.1085, -0.2979, 0.6892],
        [[-0.0508, -0.3941, -0.2843]],
        [-0.0711],
    ]
    model.load_state_dict(dict(zip(model.state_dict(), map(torch.tensor, values))))
    named = list(model.named_parameters())
    groups = [
        {
            "params": [param for name, param in named if ("bias" in name) == bias],
            "weight_decay": 0.0 if bias else 0.1,
        }
        for bias in (False, True)
    ]
    return model, groups


@pytest.mark.parametrize(
    "kind, options",
    [each for each in ELEMENTWISE if each[0] not in (optim.Adagrad, optim.NAdam, optim.RAdam)]
    + [
        (optim.SGD, dict(lr=0.2, momentum=1, dampening=0, weight_decay=1, nesterov=True)),
        (optim.SGD, dict(lr=0.2, momentum=1, dampening=0.5, weight_decay=1)),
        (optim.Rprop, dict(lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50))),
        (optim.RMSprop, dict(weight_decay=1, momentum=1, centered=True)),
    ],
)
def test_bagua_fused_optimizer(kind, options):
    from sab.compat.bagua import contrib

    results = []
    for fused in (False, True):
        model, groups = bagua_model()
        optimizer = kind(groups, **options)
        if fused:
            assert contrib.fuse_optimizer(optimizer, do_flatten=True) is optimizer
        for epoch in range(101):
            optimizer.zero_grad()
            model(torch.tensor([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])).sum().backward()
            optimizer.fuse_step() if fused and epoch % 2 == 0 else optimizer.step()
        results.append(list(model.parameters()))
    assert all(map(torch.equal, *results))
    assert optimizer._bagua_fused_count == 102


def test_bagua_calculate_mutual_groups():
    from sab.compat.bagua.contrib.fuse.optimizer import calculate_mutual_groups

    pieces = torch.rand(100).split(10)

    def tensors(*places):
        return [torch.rand(10) if place is None else pieces[place] for place in places]

    first = tensors(3, 1, 2, 0, 8, 9, None)
    assert calculate_mutual_groups([first, tensors(*[None] * 7)]) == []
    assert calculate_mutual_groups([first, tensors(3, 1, 2, 0, None, None, None)]) == [[3, 1, 2, 0]]
    assert calculate_mutual_groups([first, tensors(None, 1, 2, 0, 8, 9, None)]) == [[4, 5]]
    assert calculate_mutual_groups([first, first]) == [[3, 1, 2, 0], [4, 5]]
    with pytest.raises(AssertionError, match="equal size"):
        calculate_mutual_groups([first, first[1:]])


def test_bagua_names():
    import sab.compat.bagua.contrib.fuse.optimizer as module
    from sab.compat.bagua.contrib import (
        LoadBalancingDistributedSampler,  # noqa: F401
        fuse_optimizer as fuse,
    )

    assert fuse is module.fuse_optimizer
    optimizer = optim.Adam(make_parameters())
    assert not module.is_fused_optimizer(optimizer)
    with pytest.raises(RuntimeError, match="fuse_optimizer"):
        module.fuse_step(optimizer)
    assert (
        fuse(optimizer, True, True) is optimizer
        and module.is_fused_optimizer(optimizer)
        and is_fused_optimizer(optimizer)
    )
    with pytest.raises(RuntimeError, match="twice"):
        fuse(optimizer)
    set_gradients(optimizer.param_groups[0]["params"], 0)
    module.fuse_step(optimizer)
    fuse_step(optimizer)
    assert optimizer._bagua_fused_count == 2


def test_another_optimizer_of_the_class_is_not_fused():
    fuse_optimizer(optim.Adam(make_parameters()))
    with pytest.raises(RuntimeError, match="fuse_optimizer"):
        optim.Adam(make_parameters()).fuse_step()


def test_sab_imports_without_torch():
    program = "import sys, sab, sab.compat.bagua; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


# Which parameters


@pytest.mark.parametrize("kind, options", [(optim.SGD, dict(lr=0.1)), (optim.Adam, {})])
def test_groups_whose_list_is_changed_in_place(kind, options):
    pair = Pair(kind, options)
    pair.run(2)
    lists = [optimizer.param_groups[0]["params"] for optimizer in (pair.plain, pair.fused)]
    assert pair.fused.param_groups[0]["params"] is lists[1]
    for members, params, optimizer in zip(lists, pair.params, (pair.plain, pair.fused)):
        optimizer.state.pop(members[3], None)
        params[3] = members[3] = torch.nn.Parameter(torch.ones(7))  # another in its place
    pair.run(2, 2)
    for members, params in zip(lists, pair.params):
        params.append(torch.nn.Parameter(torch.ones(4, 8)))
        members.append(params[-1])
    pair.run(2, 4)
    for members, optimizer in zip(lists, (pair.plain, pair.fused)):
        members.reverse()
        optimizer.state.pop(members.pop(5), None)
    pair.run(2, 6)
    assert sum(pair.runs) == 9  # the others lie alone


def test_options_that_ask_for_the_plain_step_midway():
    pair = Pair(optim.Adam, {})
    pair.run(2)
    for optimizer in (pair.plain, pair.fused):
        optimizer.param_groups[0]["differentiable"] = True
    for params in pair.params:
        for param in params:
            param.requires_grad_(False)
    pair.run(2, 2)
    assert pair.runs == []
    for optimizer in (pair.plain, pair.fused):
        optimizer.param_groups[0]["differentiable"] = False
    pair.run(2, 4)
    assert sum(pair.runs) == 12


def test_a_parameter_alone_drags_little_memory_along():
    params = [torch.nn.Parameter(torch.ones(1000)) for _ in range(100)]
    fuse_optimizer(optim.SGD(params, lr=0.1))
    written = io.BytesIO()
    torch.save(params[50], written)
    assert written.tell() < 140_000 and all(
        sab.torch._optimizers._storage(param).nbytes() <= 131_072 for param in params
    )


def test_what_is_no_optimizer():
    for value in (None, torch.nn.Linear(1, 1), make_parameters(2)):
        with pytest.raises(
            TypeError, match=f"optimizer is a {type(value).__name__}: must be an optimizer"
        ):
            fuse_optimizer(value)
    assert not hasattr(torch.nn.Linear, "fuse_step")


def test_parameters_without_gradient_are_skipped_with_their_state():
    for kind, options in ELEMENTWISE:
        pair = Pair(kind, options)
        for seed, missing in enumerate(
            [(3,), (), (3, 4), (0, 11), (), range(12), (), range(11), ()]
        ):
            pair.feed(seed, missing)
            pair.step()
            pair.check()


def test_frozen_parameters_stay_and_join_when_unfrozen():
    pair = Pair(
        optim.Adam,
        {},
        lambda: [
            param.requires_grad_(i not in (2, 3, 7)) for i, param in enumerate(make_parameters())
        ],
    )
    for seed in range(3):
        pair.feed(seed, missing=(2, 3, 7))
        pair.step()
        pair.check()
    assert pair.runs == [9]
    for params in pair.params:
        for i in (2, 3, 7):
            params[i].requires_grad_()
    pair.run(3)
    assert sorted(pair.runs) == [3, 9]  # they have had fewer steps


@pytest.mark.parametrize("kind, options", [(optim.SGD, dict(lr=0.1)), (optim.Adagrad, {})])
def test_sparse_gradients(kind, options):
    def make():
        return [torch.nn.Parameter(torch.linspace(-1, 1, 40).reshape(10, 4)), *make_parameters()]

    pair = Pair(kind, options, make)
    for seed in range(6):
        for params in pair.params:
            set_gradients(params[1:], seed)
            gradient = torch.zeros(10, 4)
            gradient[seed] = 1 + seed
            params[0].grad = gradient if seed == 4 else gradient.to_sparse(1)
        pair.step()
        pair.check()
    assert sum(pair.runs) == 12


def test_types_are_fused_with_their_like():
    pair = Pair(
        optim.Adam,
        {},
        lambda: make_parameters(
            16, dtypes=(torch.float32, torch.float64, torch.bfloat16, torch.complex64)
        ),
    )
    pair.run(4)
    assert pair.runs == [4, 4] and len(pair.fused._sab_fuser.plans[0].rest) == 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(
    "options", [{}, dict(foreach=False), dict(fused=True), dict(capturable=True)]
)
def test_devices_are_fused_apart(options):
    def make():
        return [
            torch.nn.Parameter(
                param.detach().to(
                    "cuda" if i % 2 or "fused" in options or "capturable" in options else "cpu"
                )
            )
            for i, param in enumerate(make_parameters())
        ]

    pair = Pair(optim.Adam, options, make)
    for seed in range(5):
        for params in pair.params:
            generator = torch.Generator().manual_seed(seed)
            for param in params:
                param.grad = torch.randn(param.shape, generator=generator).to(param.device)
        pair.step()
        pair.check()
    assert pair.runs == ([] if "fused" in options or "capturable" in options else [6, 6])


def test_what_is_not_contiguous_or_shared_stays_where_it_is():
    def make():
        params = make_parameters()
        tied, base = (
            torch.randn(5, 5, generator=torch.Generator().manual_seed(1)),
            torch.arange(64.0),
        )
        shared = torch.nn.Parameter(torch.ones(9))
        shared.share_memory_()
        odd = [
            torch.nn.Parameter(torch.arange(12.0).reshape(3, 4).t()),
            torch.nn.Parameter(
                torch.arange(96.0).reshape(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
            ),
            torch.nn.Parameter(tied),
            torch.nn.Parameter(tied.t()),
            torch.nn.Parameter(tied),
            torch.nn.Parameter(base[::2]),
            torch.nn.Parameter(base[1:9]),
            shared,
            torch.nn.Parameter(torch.tensor(3.0)),
            torch.nn.Parameter(torch.empty(0)),
        ]
        return [*params[:5], *odd, *params[5:]]

    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9), make)
    strides, addresses = (
        [(param.stride(), param.data_ptr()) for param in params[5:15]] for params in pair.params
    )
    pair.run(4)
    assert [stride for stride, _ in strides] == [param.stride() for param in pair.params[1][5:15]]
    assert [address for _, address in addresses] == [
        param.data_ptr() for param in pair.params[1][5:15]
    ]
    assert sum(pair.runs) == 12
    assert (
        pair.params[1][7].data_ptr() == pair.params[1][8].data_ptr() == pair.params[1][9].data_ptr()
        and pair.params[1][12].is_shared()
    )


def test_expanded_parameters_stay_where_they_are():
    param = torch.nn.Parameter(torch.ones(1).expand(6))
    optimizer = fuse_optimizer(optim.SGD([param, *make_parameters()], lr=0.1))
    assert param.stride() == (0,)
    set_gradients(optimizer.param_groups[0]["params"][1:], 0)
    optimizer.fuse_step()


@pytest.mark.parametrize("holder", ["tensor", "detached", "view", "array", "from array"])
def test_memory_that_another_uses_is_not_left(holder):
    params = make_parameters(4)
    before = params[1].detach().clone()
    if holder == "tensor":
        other = torch.nn.Parameter(params[1].data)
    elif holder == "detached":
        other = params[1].detach()
    elif holder == "view":
        other = params[1].detach()[:1]
    else:
        other = params[1].detach().numpy()
    if holder == "from array":
        if not hasattr(getattr(torch, "UntypedStorage", None), "resizable"):
            pytest.skip("this torch does not say")
        params[1] = torch.nn.Parameter(torch.from_numpy(other))
        del other
    address = params[1].data_ptr()
    optimizer = fuse_optimizer(optim.SGD(params, lr=1.0))
    assert params[1].data_ptr() == address and torch.equal(params[1], before)
    set_gradients(params, 0)
    optimizer.fuse_step()
    if holder in ("tensor", "detached"):
        assert torch.equal(other, params[1]) and not torch.equal(other, before)


def test_a_graph_from_before_is_still_right():
    params = make_parameters(4)
    loss = (params[1] * params[1]).sum()
    fuse_optimizer(optim.SGD(params, lr=1.0))
    loss.backward()
    assert torch.equal(params[1].grad, 2 * params[1])


def test_parameters_twice_or_overlapping_in_a_group():
    def make():
        params = make_parameters()
        return [*params, params[3], torch.nn.Parameter(params[5].data[4:9])]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pair = Pair(optim.SGD, dict(lr=0.1), make)
    pair.run(3)


def test_large_parameters_stay_where_they_are():
    pair = Pair(
        optim.Adam, {}, lambda: [*make_parameters(), torch.nn.Parameter(torch.ones(200, 200))]
    )
    pair.run(3)
    assert pair.runs == [12]


def test_every_parameter_begins_at_a_multiple_of_its_alignment():
    params = make_parameters(30)
    fuse_optimizer(optim.SGD(params, lr=0.1))
    for param in params:
        assert param.data_ptr() % (4 * min(16, param.numel() & -param.numel())) == 0


def test_subclasses_of_tensor_are_left():
    class Odd(torch.Tensor):
        pass

    def make():
        return [*make_parameters(), torch.ones(3).as_subclass(Odd).requires_grad_()]

    pair = Pair(optim.SGD, dict(lr=0.1), make)
    pair.run(2)
    assert pair.runs == [12]


# Where the memory is


def test_moved_parameters_are_found_and_told_of_once():
    pair = Pair(optim.Adam, {})
    pair.run(2)
    params = pair.params[1]
    params[4].data, params[9].data = params[4].data.clone(), params[9].data.clone()
    with pytest.warns(UserWarning, match="2 parameters have moved"):
        pair.run(1, 2)
    assert sum(pair.runs) < 12
    params[0].data = params[0].data.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair.run(3, 3)


def test_moved_parameters_without_check_are_still_right():
    pair = Pair(optim.Adam, {}, check_flatten=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pair.run(2)
        for param in pair.params[1]:
            param.data = param.data.clone()
        old = [weakref.ref(run.flat) for run in pair.fused._sab_fuser.plans[0].runs]
        pair.run(2, 2)
    assert pair.runs == [] and [each() for each in old] == [None]  # the memory is given back


def test_same_address_and_another_layout():
    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9), check_flatten=False)
    pair.run(2)
    for params in pair.params:
        params[5].data = params[5].data.t()
    for seed in range(3):
        for params in pair.params:
            set_gradients(params, seed)
        pair.step()
        assert same(*pair.params)


@pytest.mark.skipif(not hasattr(torch.utils, "swap_tensors"), reason="this torch cannot")
def test_a_model_whose_tensors_are_swapped():
    model = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(4)))
    optimizer = fuse_optimizer(optim.SGD(model.parameters(), lr=0.1), check_flatten=False)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        for dtype in (torch.float32, torch.float32, torch.float64):
            model.to(dtype)
            before = model[0].weight.detach().clone()
            optimizer.zero_grad(set_to_none=False)
            model(torch.ones(2, 3, dtype=dtype)).sum().backward()
            optimizer.fuse_step()
            assert not torch.equal(before, model[0].weight)
        model.float()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_parameters_that_left_are_let_go_of():
    params = make_parameters()
    optimizer = fuse_optimizer(optim.SGD(params, lr=0.1))
    gone = weakref.ref(params.pop(3))
    del optimizer.param_groups[0]["params"][3]
    for seed in range(2):
        set_gradients(params, seed)
        optimizer.fuse_step()
    assert gone() is None


def test_a_model_of_another_type():
    models = [
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        for _ in range(2)
    ]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optim.Adam(model.parameters()) for model in models]
    fuse_optimizer(optimizers[1], check_flatten=False)
    for dtype in (torch.float32, torch.float64):
        for model, optimizer, fuse in zip(models, optimizers, (False, True)):
            model.to(dtype)
            if dtype is torch.float64:
                optimizer.load_state_dict(optimizer.state_dict())
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(3, 4, dtype=dtype)).sum().backward()
                optimizer.fuse_step() if fuse else optimizer.step()
        assert same(*(list(model.parameters()) for model in models))


def test_only_what_lies_end_to_end_without_flattening():
    def make():
        params = make_parameters()
        flat = torch.cat([param.detach().flatten() for param in params[2:7]])
        for param, view in zip(params[2:7], flat.split([param.numel() for param in params[2:7]])):
            param.data = view.view_as(param)
        return params

    pair = Pair(optim.Adam, {}, make, do_flatten=False)
    addresses = [param.data_ptr() for param in pair.params[1]]
    pair.run(4)
    assert pair.runs == [5] and addresses == [param.data_ptr() for param in pair.params[1]]


def memory_of(optimizer):
    """Bytes of all that an optimizer's tensors lie in."""
    storages = {}
    for group in optimizer.param_groups:
        for param in group["params"]:
            for tensor in [param, param.grad, *optimizer.state[param].values()]:
                if isinstance(tensor, torch.Tensor):
                    storage = tensor.untyped_storage() if TORCH_2 else tensor.storage()
                    storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def weak_storage(tensor):
    return torch.multiprocessing.reductions.StorageWeakRef(
        tensor.untyped_storage() if TORCH_2 else tensor.storage()
    )


@pytest.mark.parametrize("set_to_none", [False, True])
def test_no_memory_is_left_behind(set_to_none):
    params = make_parameters()
    old = list(map(weak_storage, params))
    fused, plain = fuse_optimizer(optim.Adam(params)), optim.Adam(make_parameters())
    assert all(each.expired() for each in old)
    for seed in range(4):
        for optimizer in (plain, fused):
            set_gradients(optimizer.param_groups[0]["params"], seed, add=not set_to_none)
        plain.step()
        fused.fuse_step()
        assert memory_of(fused) == memory_of(plain)
    gradients = [weak_storage(param.grad) for param in params]
    fused.zero_grad(set_to_none=True)
    assert all(each.expired() for each in gradients)
    everything = [
        *map(weak_storage, params),
        *(
            weak_storage(value)
            for state in fused.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ),
    ]
    del fused, optimizer, params
    assert all(each.expired() for each in everything)


# Gradients


def test_gradients_that_are_kept_come_to_lie_end_to_end():
    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9))
    pair.feed(0)
    kept = [param.grad for param in pair.params[1]]
    for seed in range(5):
        pair.feed(seed, add=True)
        pair.step()
        pair.check()
        assert same(
            [param.grad for param in pair.params[0]], [param.grad for param in pair.params[1]]
        )
        assert all(
            param.grad is gradient for param, gradient in zip(pair.params[1], kept)
        )  # whoever holds them may go on
    run = pair.fused._sab_fuser.plans[0].runs[0]
    begin = run.params[0].grad.data_ptr()
    assert [param.grad.data_ptr() - begin for param in run.params] == [
        4 * place for place in run.places
    ]
    pair.params[1][2].grad.data = pair.params[1][2].grad.data.clone()
    pair.feed(9, add=True)
    pair.step()
    pair.check()


def test_gradients_that_others_use_stay_where_they_are():
    """As buckets of DDP: in another order, and their owner writes there."""
    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9))
    buckets = []
    for params in pair.params:
        buckets.append(torch.zeros(sum(param.numel() for param in params)))
        for param, view in zip(
            reversed(params), buckets[-1].split([param.numel() for param in reversed(params)])
        ):
            param.grad = view.view_as(param)
    addresses = [param.grad.data_ptr() for param in pair.params[1]]
    for seed in range(5):
        for bucket in buckets:
            bucket.copy_(torch.randn(len(bucket), generator=torch.Generator().manual_seed(seed)))
        pair.step()
        pair.check()
    assert addresses == [param.grad.data_ptr() for param in pair.params[1]] and pair.runs == [12]


def test_gradients_that_lie_in_order_are_not_copied(monkeypatch):
    import sab.torch

    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9))
    pair.run(1)
    order = [
        next(i for i, param in enumerate(pair.params[1]) if param is each)
        for each in pair.fused._sab_fuser.plans[0].runs[0].params
    ]
    for params in pair.params:
        bucket = torch.randn(
            sum(param.numel() for param in params), generator=torch.Generator().manual_seed(3)
        )
        for place, view in zip(order, bucket.split([params[place].numel() for place in order])):
            params[place].grad = view.view_as(params[place])

    def fail(tensors):
        raise AssertionError("copied")

    monkeypatch.setattr(sab.torch._optimizers, "_flatten", fail)
    pair.step()
    pair.check()


def test_gradients_of_odd_layout():
    pair = Pair(optim.SGD, dict(lr=0.1, momentum=0.9))
    for seed in range(3):
        for params in pair.params:
            set_gradients(params, seed)
            params[5].grad = params[5].grad.t()
            params[4].grad = torch.full((), 0.5).expand(33)
            params[2].grad = torch.randn(3, 5, 2, requires_grad=True)
            with torch.no_grad():
                params[2].grad.copy_(torch.arange(30.0).reshape(3, 5, 2))
        pair.step()
        pair.check()


def test_clipped_gradients():
    pair = Pair(optim.Adam, {})
    for seed in range(4):
        pair.feed(seed, add=True)
        for params in pair.params:
            torch.nn.utils.clip_grad_norm_(params, 0.1)
        pair.step()
        pair.check()


def test_distributed_data_parallel(tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("torch is built without torch.distributed")
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    try:
        for as_views in (False, True):
            for set_to_none in (False, True):
                models = [
                    torch.nn.Sequential(
                        torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)
                    )
                    for _ in range(2)
                ]
                models[1].load_state_dict(models[0].state_dict())
                optimizers = [optim.Adam(model.parameters()) for model in models]
                fuse_optimizer(optimizers[1])
                wrapped = [
                    torch.nn.parallel.DistributedDataParallel(
                        model, gradient_as_bucket_view=as_views
                    )
                    for model in models
                ]
                for seed in range(5):
                    for model, optimizer, fuse in zip(wrapped, optimizers, (False, True)):
                        optimizer.zero_grad(set_to_none=set_to_none)
                        model(
                            torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))
                        ).sum().backward()
                        optimizer.fuse_step() if fuse else optimizer.step()
                    assert same(*(list(model.parameters()) for model in models))
                assert optimizers[1]._sab_fuser.count == 5
    finally:
        torch.distributed.destroy_process_group()


# State


@every_optimizer
def test_state_goes_from_and_to_plain_optimizers(kind, options):
    pair = Pair(kind, options)
    pair.run(3)
    file = io.BytesIO()
    torch.save(pair.fused.state_dict(), file)
    for fuse in (False, True):
        file.seek(0)
        params = [torch.nn.Parameter(param.detach().clone()) for param in pair.params[1]]
        other = kind(params, **options)
        if fuse:
            fuse_optimizer(other)
        other.load_state_dict(torch.load(file))
        assert same(other.state_dict(), pair.plain.state_dict())
        for seed in range(3):
            set_gradients(params, seed)
            other.fuse_step() if fuse else other.step()
        if not fuse:
            expected = params
    pair.fused.load_state_dict(copy.deepcopy(pair.plain.state_dict()))
    pair.run(3)
    assert same(params, expected) and same(params, pair.params[1]) and pair.runs == [12]


def test_parameters_whose_state_differs_are_fused_with_their_like():
    pair = Pair(optim.Adam, {})
    pair.feed(0, missing=range(6))
    pair.step()
    pair.run(3, 1)
    assert sum(pair.runs) > 6 and len(pair.runs) > 1


def test_state_that_is_reset_or_changed_by_hand():
    pair = Pair(optim.Adam, {})
    pair.run(2)
    for change in (
        lambda optimizer, params: optimizer.state.clear(),
        lambda optimizer, params: optimizer.state.pop(params[3]),
        lambda optimizer, params: (
            optimizer.state[params[5]]["step"].add_(3)
            if isinstance(optimizer.state[params[5]]["step"], torch.Tensor)
            else None
        ),
        lambda optimizer, params: optimizer.state[params[5]].update(
            exp_avg=torch.ones_like(params[5])
        ),
        lambda optimizer, params: optimizer.state[params[5]]["exp_avg"].zero_(),
        lambda optimizer, params: [
            state.__setitem__("exp_avg", state["exp_avg"].clone())
            for state in optimizer.state.values()
        ],
    ):
        for optimizer, params in zip((pair.plain, pair.fused), pair.params):
            change(optimizer, params)
        pair.run(2)


def test_state_of_large_numbers_of_steps():
    pair = Pair(optim.RMSprop, {})
    pair.run(300)  # beyond the small integers that Python keeps
    assert pair.runs == [12]


# Optimizers


class Normed(optim.SGD):
    """Looks at a parameter as a whole."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                param -= group["lr"] * param.grad / param.grad.norm()


def other_optimizers():
    yield lambda params: Normed(params, lr=0.1)
    yield lambda params: optim.LBFGS(params, lr=0.1)
    if hasattr(optim, "Adafactor"):
        yield optim.Adafactor
    if hasattr(optim, "Muon"):
        yield lambda params: optim.Muon([param for param in params if param.dim() == 2])


@pytest.mark.parametrize("make", list(other_optimizers()))
def test_other_optimizers_take_their_plain_step(make):
    params = make_parameters(), make_parameters()
    plain, fused = map(make, params)
    addresses = [param.data_ptr() for param in params[1]]
    with pytest.warns(UserWarning, match="not known to treat every element alike"):
        fuse_optimizer(fused)
    for _ in range(4):
        losses = []
        for optimizer, mine, step in zip((plain, fused), params, (plain.step, fused.fuse_step)):

            def closure():
                optimizer.zero_grad()
                loss = sum((param**2).sum() for param in mine)
                loss.backward()
                return loss

            closure()
            losses.append(step(closure) if isinstance(optimizer, optim.LBFGS) else step())
        assert same(*params) and same(*losses) and same(plain.state_dict(), fused.state_dict())
    assert fused._sab_fuser.count == 0 and addresses == [param.data_ptr() for param in params[1]]


def test_sparse_adam_takes_its_plain_step():
    params = [
        [torch.nn.Parameter(torch.ones(10, 4)), torch.nn.Parameter(torch.ones(5, 4))]
        for _ in range(2)
    ]
    optimizers = [optim.SparseAdam(mine) for mine in params]
    with pytest.warns(UserWarning, match="SparseAdam"):
        fuse_optimizer(optimizers[1])
    for seed in range(3):
        for mine in params:
            for param in mine:
                param.grad = (
                    torch.zeros_like(param).index_fill_(0, torch.tensor([seed]), 2.0).to_sparse(1)
                )
        optimizers[0].step()
        optimizers[1].fuse_step()
        assert same(*params)


class Signed(optim.Optimizer):
    """Elementwise, and not of torch."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    state = self.state[param]
                    if not state:
                        state.update(mean=torch.zeros_like(param), count=0, on=True, nothing=None)
                    state["count"] += 1
                    state["mean"] = state["mean"] * 0.9 + param.grad * 0.1
                    param.sub_(torch.sign(state["mean"]), alpha=group["lr"] / state["count"])
        return loss


def test_an_optimizer_that_its_caller_knows():
    pair = Pair(Signed, {}, elementwise=True)
    pair.run(1)
    assert pair.runs == []  # its first step shows what its state is like
    pair.run(4)
    assert pair.runs == [12]
    pair.feed(0, missing=(3,))
    pair.step()
    pair.run(2)


class Factored(Signed):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["row"] = param.grad.mean(0)
                param.sub_(self.state[param]["row"].expand_as(param))


def test_state_that_is_not_of_each_element_is_stepped_plainly():
    pair = Pair(Factored, {}, lambda: make_parameters(6, shapes=[(4, 3)]), elementwise=True)
    pair.run(3)
    assert pair.runs == []


def test_subclasses_of_torch_optimizers():
    class Mine(optim.Adam):
        def __init__(self, params):
            super().__init__(params, lr=0.3)

    pair = Pair(Mine, {})
    pair.run(3)
    assert pair.runs == [12]


@pytest.mark.parametrize(
    "options",
    [
        dict(capturable=True),
        dict(differentiable=True),
        dict(foreach=True),
        dict(foreach=False),
        dict(fused=True),
    ],
)
@pytest.mark.parametrize("kind", [optim.Adam, optim.SGD])
def test_options_of_speed(kind, options):
    try:
        kind(make_parameters(), lr=0.1, **options)
    except (TypeError, RuntimeError) as error:
        pytest.skip(str(error))
    if not TORCH_2 and ("fused" in options or "capturable" in options):
        pytest.skip("for CUDA only")
    if "differentiable" in options:
        pair = Pair(
            kind, dict(lr=0.1, **options), lambda: [param.clone() for param in make_parameters()]
        )
        for params in pair.params:
            for param in params:
                param.retain_grad()
        pair.feed(0)
        pair.step()
        pair.check()
        assert pair.params[1][0].requires_grad
        return
    pair = Pair(kind, dict(lr=0.1, **options))
    if "capturable" in options:
        pair.feed(0)
        with pytest.raises((AssertionError, RuntimeError)):
            pair.fused.fuse_step()
    else:
        pair.run(4)
    assert pair.runs == ([12] if "foreach" in options else [])


@pytest.mark.skipif(not TORCH_2, reason="torch 2")
def test_a_learning_rate_that_is_a_tensor():
    pair = Pair(optim.Adam, dict(lr=torch.tensor(0.1)))
    pair.run(3)
    assert pair.runs == [12]


# What else a training loop does


def test_groups_have_their_options_and_can_be_added():
    pair = Pair(
        optim.Adam,
        {},
        groups=lambda params: [
            {"params": params[:5], "lr": 0.3},
            {"params": params[5:], "betas": (0.5, 0.9), "amsgrad": True},
        ],
    )
    pair.run(3)
    assert pair.runs == [5, 7] and pair.fused._sab_fuser.count == 6
    for optimizer, params in zip((pair.plain, pair.fused), pair.params):
        params.extend(make_parameters(6, seed=1))
        optimizer.add_param_group({"params": params[12:], "weight_decay": 0.3})
    pair.run(3)
    assert pair.runs == [5, 7, 6]


@pytest.mark.parametrize("replace_step", [False, True])
@pytest.mark.parametrize("first", ["fuse", "scheduler"])
def test_schedulers(replace_step, first):
    params = make_parameters(), make_parameters()
    plain, fused = (optim.SGD(mine, lr=0.1, momentum=0.9) for mine in params)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if first == "fuse":
            fuse_optimizer(fused, replace_step=replace_step)
        schedulers = [
            optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=3)
            for optimizer in (plain, fused)
        ]
        if first == "scheduler":
            fuse_optimizer(fused, replace_step=replace_step)
        for seed in range(8):
            for mine in params:
                set_gradients(mine, seed)
            plain.step()
            fused.step() if replace_step and seed % 2 else fused.fuse_step()
            for scheduler in schedulers:
                scheduler.step()
            assert same(*params) and same(plain.state_dict(), fused.state_dict())
    assert fused._sab_fuser.count == 8


def test_grad_scaler():
    scalers = []
    for _ in range(2):
        if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler"):
            scalers.append(torch.amp.GradScaler("cpu", init_scale=2.0**10))
        else:
            scalers.append(torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available()))
    pair = Pair(optim.Adam, {}, replace_step=True)
    for seed in range(6):
        for optimizer, params, scaler in zip((pair.plain, pair.fused), pair.params, scalers):
            optimizer.zero_grad()
            weights = torch.Generator().manual_seed(seed)
            loss = sum(
                (param * torch.randn(param.shape, generator=weights)).sum() for param in params
            )
            scaler.scale(loss).backward()
            if seed == 3 and scaler.is_enabled():
                params[2].grad[0] = float("inf")  # this step is left out
            if seed % 2:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(params, 1.0)
            scaler.step(optimizer)
            scaler.update()
        pair.check()
    assert pair.fused._sab_fuser.count == (5 if scalers[0].is_enabled() else 6)


def test_closures():
    pair = Pair(optim.Adam, {})
    for _ in range(4):
        losses = []
        for optimizer, params, call in zip(
            (pair.plain, pair.fused), pair.params, (pair.plain.step, pair.fused.fuse_step)
        ):

            def closure():
                assert (
                    torch.is_grad_enabled() and optimizer.param_groups[0]["params"][0] is params[0]
                )
                optimizer.zero_grad()
                loss = sum((param**2).sum() for param in params)
                loss.backward()
                return loss

            losses.append(call(closure))
        assert same(*losses)
        pair.check()
    assert pair.runs == [12]


class Broken(Exception):
    pass


def test_a_step_that_fails_leaves_the_optimizer_whole():
    pair = Pair(optim.Adam, {})
    pair.run(2)

    def closure():
        raise Broken

    with pytest.raises(Broken):
        pair.fused.fuse_step(closure)
    pair.run(1)
    betas = pair.fused.param_groups[0].pop("betas")
    with pytest.raises(KeyError):
        pair.fused.fuse_step()
    pair.fused.param_groups[0]["betas"] = betas
    assert all(
        map(lambda one, other: one is other, pair.fused.param_groups[0]["params"], pair.params[1])
    )
    pair.run(2)


@pytest.mark.skipif(not TORCH_2, reason="hooks of a step are torch 2's")
@pytest.mark.parametrize("replace_step", [False, True])
def test_hooks_see_the_optimizer_as_it_is(replace_step):
    pair = Pair(optim.Adam, {}, replace_step=replace_step)
    seen = []

    def pre(optimizer, args, kwargs):
        params = optimizer.param_groups[0]["params"]
        seen.append(("pre", len(params), len(args)))
        for param in params:
            param.grad = param.grad * 2

    def post(optimizer, args, kwargs):
        params = optimizer.param_groups[0]["params"]
        seen.append(("post", len(params), int(optimizer.state[params[3]]["step"])))
        with torch.no_grad():
            params[1].mul_(0.5)

    for optimizer in (pair.plain, pair.fused):
        optimizer.register_step_pre_hook(pre)
        optimizer.register_step_post_hook(post)
    from torch.optim.optimizer import register_optimizer_step_post_hook

    handle = register_optimizer_step_post_hook(
        lambda optimizer, args, kwargs: seen.append(
            ("all", len(optimizer.param_groups[0]["params"]))
        )
    )
    for seed in range(3):
        pair.feed(seed)
        del seen[:]
        pair.step()
        assert len(seen) == 6 and seen[:3] == seen[3:]
        pair.check()
    handle.remove()
    for optimizer, params in zip((pair.plain, pair.fused), pair.params):
        (optimizer.fuse_step if optimizer is pair.fused else optimizer.step)(
            lambda: [set_gradients(params, 9)]
        )
    pair.check()
    assert pair.runs == [12]


def test_copies_and_pickles_are_plain():
    pair = Pair(optim.Adam, {})
    pair.run(3)
    # With the parameters, as a model and its optimizer are copied together.
    for copied in (copy.deepcopy(pair.fused), pickle.loads(pickle.dumps(pair.fused))):
        params = copied.param_groups[0]["params"]
        assert not is_fused_optimizer(copied) and same(copied.state_dict(), pair.plain.state_dict())
        with pytest.raises(RuntimeError, match="fuse_optimizer"):
            copied.fuse_step()
        fuse_optimizer(copied)
        reference = copy.deepcopy(pair.plain)
        for seed in range(3):
            set_gradients(params, seed)
            set_gradients(reference.param_groups[0]["params"], seed)
            copied.fuse_step()
            reference.step()
        assert same(params, reference.param_groups[0]["params"])
    pair.run(2)


class Kept(Signed):
    """Copies all of its attributes."""

    def __getstate__(self):
        return dict(self.__dict__)


@pytest.mark.parametrize("replace_step", [False, True])
def test_copies_that_keep_all_attributes_are_fused(replace_step):
    pair = Pair(Kept, {}, elementwise=True, replace_step=replace_step)
    pair.run(3)
    copied, reference = copy.deepcopy(pair.fused), copy.deepcopy(pair.plain)
    before = copy.deepcopy(pair.params[1])
    for seed in range(3):
        for optimizer in (copied, reference):
            set_gradients(optimizer.param_groups[0]["params"], seed)
        copied.fuse_step()
        reference.step()
    assert same(copied.param_groups[0]["params"], reference.param_groups[0]["params"]) and same(
        before, pair.params[1]
    )
    assert copied._sab_fuser.count == 2
    pair.run(2)


def test_models_are_saved_and_copied_as_before():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
    values = copy.deepcopy(model.state_dict())
    fuse_optimizer(optim.SGD(model.parameters(), lr=0.1))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    assert same(dict(torch.load(file)), dict(values)) and same(
        dict(copy.deepcopy(model).state_dict()), dict(values)
    )
    model.load_state_dict(values)


def test_two_optimizers_of_one_model():
    params = make_parameters(), make_parameters()
    plain = [optim.Adam(params[0][:6]), optim.SGD(params[0][6:], lr=0.1)]
    fused = [
        fuse_optimizer(optim.Adam(params[1][:6])),
        fuse_optimizer(optim.SGD(params[1][6:], lr=0.1), replace_step=True),
    ]
    for seed in range(3):
        for mine in params:
            set_gradients(mine, seed)
        for one, other in zip(plain, fused):
            one.step()
            other.fuse_step()
        assert same(*params)


@pytest.mark.skipif(not TORCH_2, reason="torch before 2 cannot be told")
def test_autograd_notices_a_fused_step():
    pair = Pair(optim.SGD, dict(lr=0.1))
    pair.run(1)
    param = pair.params[1][0]
    loss = (param**2 * param).sum()
    pair.run(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def lines_of_a_step(count, set_to_none):
    params = make_parameters(count)
    optimizer = fuse_optimizer(optim.Adam(params))
    for seed in range(4):
        set_gradients(params, seed, add=not set_to_none)
        optimizer.fuse_step()
    set_gradients(params, 9, add=not set_to_none)
    lines = 0

    def trace(frame, event, arg):
        nonlocal lines
        frame.f_trace_opcodes = True
        lines += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        optimizer.fuse_step()
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("set_to_none", [False, True])
def test_python_work_of_a_step_does_not_grow(set_to_none):
    assert lines_of_a_step(200, set_to_none) == lines_of_a_step(20, set_to_none)
