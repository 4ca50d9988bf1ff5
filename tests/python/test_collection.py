"""Collections against the same written out in plain torch: sample by sample, with gradients, on the
core's path and on torch's."""

import collections
import copy
import functools
import itertools
import operator
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import sab

torch = pytest.importorskip("torch")
from torch.autograd import forward_ad

from sab import _columns

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
]
gradcheck = torch.autograd.gradcheck


@pytest.fixture(params=["core", "torch"])
def path(request, monkeypatch):
    """Memory of the CPU is moved by the core; that of other devices by torch's own operations,
    which run here on the CPU."""
    monkeypatch.setattr(_columns, "_only_torch", request.param == "torch")


class Pinned(torch.Tensor):
    pass


def both_paths(test):
    """The same for tests that hypothesis calls many times."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        for only_torch in (False, True):
            _columns._only_torch = only_torch
            try:
                test(*args, **kwargs)
            finally:
                _columns._only_torch = False

    return run


def numbers(shape, dtype, rng):
    values = torch.from_numpy(rng.integers(-50 if dtype.is_signed else 0, 50, tuple(shape)))
    if dtype.is_complex:
        return torch.complex(
            values.float(), torch.from_numpy(rng.integers(-50, 50, tuple(shape))).float()
        )
    return values % 2 == 0 if dtype == torch.bool else values.to(dtype)


def padded(tensor, shape, padding, value_dims=()):
    """One sample, padded element by element."""
    made = torch.empty(tuple(shape), dtype=tensor.dtype)
    for index in itertools.product(*map(range, shape)):
        inside = all(i < size for i, size in zip(index, tensor.shape))
        if inside:
            made[index] = tensor[index]
        elif padding == "repeat":  # as the innermost rule would: 0 where there is nothing to repeat
            made[index] = (
                tensor[tuple(min(i, size - 1) for i, size in zip(index, tensor.shape))]
                if tensor.numel()
                else 0
            )
        elif isinstance(padding, torch.Tensor):
            made[index] = (
                padding[tuple(index[dim] for dim in value_dims)] if padding.dim() else padding
            )
        else:
            made[index] = padding
    return made


def stacked(tensors, batch_dim, padding=0, value_dims=()):
    shape = [max(sizes) for sizes in zip(*(tensor.shape for tensor in tensors))]
    return torch.stack(
        [padded(tensor, shape, padding, value_dims) for tensor in tensors], batch_dim
    )


def leaves_of(value):
    if isinstance(value, dict):
        return [leaf for below in value.values() for leaf in leaves_of(below)]
    if isinstance(value, tuple):
        return [leaf for below in value for leaf in leaves_of(below)]
    return [value]


dimensions = st.lists(st.sampled_from(["L_a", "L_b", "M", "M_x", "2", "3"]), max_size=3)


@st.composite
def cases(draw):
    """Samples of a random nested signature."""
    count = draw(st.integers(1, 6))
    lengths = {
        name: draw(st.lists(st.integers(0, 4), min_size=count, max_size=count)) for name in "ab"
    }
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    leaves = []
    for _ in range(draw(st.integers(1, 3))):
        dims = draw(dimensions)
        batch_dim, dtype = draw(st.integers(0, len(dims))), draw(st.sampled_from(DTYPES))
        sizes = {"M": 2, "M_x": 1, "2": 2, "3": 3}
        shapes = [
            [lengths[dim[2:]][i] if dim[0] == "L" else sizes[dim] for dim in dims]
            for i in range(count)
        ]
        tensors = [numbers(shape, dtype, rng) for shape in shapes]
        if len(dims) > 1 and draw(st.booleans()):
            tensors = [
                tensor.transpose(0, 1).contiguous().transpose(0, 1) for tensor in tensors
            ]  # other strides
        rules = [
            0,
            1,
            torch.ones((), dtype=dtype),
            numbers([int(dim) for dim in dims if dim.isdigit()], dtype, rng),
        ]
        if all(tensor.numel() for tensor in tensors):
            rules.append("repeat")
        text = ", ".join([*dims[:batch_dim], "B", *dims[batch_dim:]])
        leaves.append((f"({text})", dims, batch_dim, tensors, draw(st.sampled_from(rules))))
    shape = (
        draw(st.sampled_from(["dict", "tuple", "mixed"]))
        if len(leaves) > 1
        else draw(st.sampled_from(["leaf", "dict", "tuple"]))
    )

    def nested(values):
        if shape == "leaf":
            return values[0]
        if shape == "dict":
            return dict(zip("xyz", values))
        return (
            tuple(values) if shape == "tuple" else {"first": values[0], "rest": tuple(values[1:])}
        )

    group_of = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    again = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    return (
        count,
        leaves,
        nested,
        sab.Grouping.predefined(group_of, 4),
        sab.Grouping.predefined(again, 4),
    )


def value_dims(dims):
    return tuple(at for at, dim in enumerate(dims) if dim.isdigit())


def check_groups(grouped, leaves, grouping):
    indices = [each for each in grouping if each.size]
    assert len(grouped.groups) == len(indices)
    for which, group in zip(indices, grouped.groups):
        for (_, dims, batch_dim, tensors, padding), made in zip(leaves, leaves_of(group)):
            assert made.dtype == tensors[0].dtype and made.is_contiguous()
            assert torch.equal(
                made, stacked([tensors[i] for i in which], batch_dim, padding, value_dims(dims))
            )


@settings(max_examples=40, deadline=None)
@given(cases())
@both_paths
def test_groups_and_back(case):
    count, leaves, nested, grouping, other = case
    samples = [nested([leaf[3][i] for leaf in leaves]) for i in range(count)]
    collection = sab.Collection(
        samples, nested([leaf[0] for leaf in leaves]), padding=nested([leaf[4] for leaf in leaves])
    )
    assert len(collection) == count
    grouped = collection.group(grouping)
    check_groups(grouped, leaves, grouping)
    again = grouped.regroup(other)
    check_groups(again, leaves, other)
    check_groups(again.ungroup().group(grouping), leaves, grouping)
    for made in (
        grouped.ungroup(),
        again.ungroup(),
        pickle.loads(pickle.dumps(again.ungroup())),
        pickle.loads(pickle.dumps(collection)),
    ):
        for sample, expected in zip(made.samples(), samples):
            assert type(sample) is type(expected)
            assert all(
                a.shape == b.shape and torch.equal(a, b)
                for a, b in zip(leaves_of(sample), leaves_of(expected))
            )
    for whole, (_, dims, batch_dim, tensors, padding) in zip(leaves_of(again.join()), leaves):
        assert torch.equal(whole, stacked(tensors, batch_dim, padding, value_dims(dims)))


@settings(max_examples=40, deadline=None)
@given(cases())
@both_paths
def test_masks(case):
    count, leaves, nested, grouping, _ = case
    samples = [nested([leaf[3][i] for leaf in leaves]) for i in range(count)]
    grouped = sab.Collection(samples, nested([leaf[0] for leaf in leaves])).group(grouping)
    for mask, which in zip(grouped.masks(), [each for each in grouping if each.size]):
        for made, (_, _, batch_dim, tensors, _) in zip(leaves_of(mask), leaves):
            assert torch.equal(
                made,
                stacked([torch.ones_like(tensors[i], dtype=torch.bool) for i in which], batch_dim),
            )
    for names in [*([name] for name in grouped.names), list(grouped.names)]:
        if not names:
            continue
        made = grouped.masks(names)
        for mask, which in zip(made, [each for each in grouping if each.size]):
            lengths = [[grouped.lengths(name)[i] for name in names] for i in which]
            assert torch.equal(
                mask, stacked([torch.ones(tuple(each), dtype=torch.bool) for each in lengths], 0)
            )
        if len(names) == 1:
            assert all(map(torch.equal, grouped.masks(names[0]), made))


@settings(max_examples=30, deadline=None)
@given(cases(), st.integers(0, 99))
@both_paths
def test_gradients_are_those_of_plain_torch(case, seed):
    count, leaves, _, grouping, other = case
    generator = torch.Generator().manual_seed(seed)
    own = [
        [tensor.to(torch.float64).requires_grad_() for tensor in leaf[3]]
        for leaf in leaves
        if not leaf[3][0].is_complex
    ]
    if not own:
        return
    leaves = [leaf for leaf in leaves if not leaf[3][0].is_complex]
    rules = [leaf[4] if isinstance(leaf[4], str) else 0 for leaf in leaves]
    signature = tuple(leaf[0] for leaf in leaves)
    grouped = sab.Collection(
        [tuple(each[i] for each in own) for i in range(count)], signature, padding=tuple(rules)
    ).group(grouping)
    results = [
        *leaves_of(tuple(grouped.groups)),
        *leaves_of(tuple(grouped.regroup(other).groups)),
        *leaves_of(grouped.join()),
        *leaves_of(tuple(grouped.regroup(other).ungroup().samples())),
    ]
    plain = []
    for which in (grouping, other, sab.Grouping.uni(count)):
        for indices in which:
            if indices.size:
                plain += [
                    stacked([each[i] for i in indices], leaf[2], rule)
                    for each, leaf, rule in zip(own, leaves, rules)
                ]
    plain += [each[i] for i in range(count) for each in own]
    weights = [
        torch.rand(result.shape, generator=generator, dtype=torch.float64) for result in results
    ]
    inputs = [tensor for each in own for tensor in each]
    made = torch.autograd.grad(
        sum((result * weight).sum() for result, weight in zip(results, weights)),
        inputs,
        allow_unused=True,
    )
    expected = torch.autograd.grad(
        sum((result * weight).sum() for result, weight in zip(plain, weights)),
        inputs,
        allow_unused=True,
    )
    for a, b, tensor in zip(made, expected, inputs):
        a, b = (torch.zeros_like(tensor) if each is None else each for each in (a, b))
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-12)


# Gradients of each step, once and twice


def sequences(*lengths, width=()):
    generator = torch.Generator().manual_seed(len(lengths))
    return [
        torch.rand((length, *width), generator=generator, dtype=torch.float64, requires_grad=True)
        for length in lengths
    ]


TWO = sab.Grouping.partition([[2, 0], [], [1, 3]])
OTHER = sab.Grouping.partition([[3], [0, 1, 2]])
STEPS = {
    "group": lambda collection: collection.group(TWO).groups,
    "regroup": lambda collection: collection.group(TWO).regroup(OTHER).groups,
    "ungroup": lambda collection: collection.group(TWO).ungroup().samples(),
    "join": lambda collection: [collection.group(TWO).join()],
    "apply": lambda collection: (
        collection.group(TWO)
        .apply(
            lambda x, mask: x.sin() * mask[:, :, None],
            output="(B, L_a, 2)",
            mask="a",
            padding="repeat",
        )
        .regroup(OTHER)
        .groups
    ),
    "apply without lengths": lambda collection: [
        collection.group(TWO)
        .apply(lambda x, mask: (x**2 * mask[:, :, None]).sum(1), output="(B, 2)", mask="a")
        .join()
    ],
    "ungrouped, grouped anew": lambda collection: (
        collection.group(TWO).ungroup().group(OTHER).groups
    ),
    "jagged": lambda collection: [collection.group(TWO).ungroup().jagged().values],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "padding",
    [0, 1.5, "repeat", torch.tensor([1.0, -2.0], dtype=torch.float64)],
    ids=["zero", "constant", "repeat", "dimension"],
)
def test_gradcheck(path, step, padding):
    tensors = (
        sequences(3, 1, 2, 0 if padding != "repeat" else 2, width=(2,))
        if not isinstance(padding, torch.Tensor)
        else sequences(3, 1, 2, 0, width=(2,))
    )

    def run(*tensors):
        return tuple(STEPS[step](sab.Collection(list(tensors), "(B, L_a, 2)", padding=padding)))

    assert gradcheck(run, tensors)
    assert torch.autograd.gradgradcheck(run, tensors)


@pytest.mark.parametrize("step", STEPS)
def test_gradcheck_of_values_and_offsets(path, step):
    values = torch.rand(8, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda values: tuple(
            STEPS[step](sab.Collection(sab.Jagged(values, [1, 4, 5, 7, 7]), "(B, L_a, 2)"))
        ),
        (values,),
    )
    stacked = torch.rand(4, 3, 2, dtype=torch.float64, requires_grad=True)
    assert gradcheck(
        lambda stacked: tuple(
            STEPS[step](sab.Collection(stacked, "(B, L_a, 2)", lengths={"a": [3, 1, 2, 0]}))
        ),
        (stacked,),
    )


@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_padding_that_is_learned(path, shape):
    tensors = sequences(3, 1, 2, 0, width=(2,))
    value = torch.rand(shape, dtype=torch.float64, requires_grad=True)

    def run(value, *tensors):
        grouped = sab.Collection(list(tensors), "(L_a, B, 2)", padding=value).group(TWO)
        return (*grouped.groups, *grouped.regroup(OTHER).groups)

    assert gradcheck(run, (value, *tensors)) and torch.autograd.gradgradcheck(
        run, (value, *tensors)
    )
    assert all(
        torch.equal(a, b) for a, b in zip(run(value, *tensors), run(value.detach(), *tensors))
    )
    with torch.no_grad():
        assert all(
            torch.equal(a, b) for a, b in zip(run(value, *tensors), run(value.detach(), *tensors))
        )


def test_gradcheck_of_groupings_own_methods(path):
    tensors = sequences(3, 1, 2, 0)
    assert gradcheck(lambda *tensors: tuple(TWO.pad(list(tensors))), tensors)
    assert gradcheck(
        lambda *tensors: TWO.join([group.sum(1) for group in TWO.pad(list(tensors))]), tensors
    )


def test_gradients_reach_what_needs_them_only(path):
    free, fixed = torch.rand(3, requires_grad=True), torch.rand(2)
    whole = sab.Collection([free, fixed], "(B, L_a)").group().join()
    whole.sum().backward()
    assert free.grad.tolist() == [1, 1, 1] and fixed.grad is None
    with torch.no_grad():
        assert not sab.Collection([free, fixed], "(B, L_a)").group().groups[0].requires_grad
    # Groups may be written, and an output that nobody uses has no gradient.
    grouped = sab.Collection([free, fixed], "(B, L_a)").group(sab.Grouping.predefined([0, 1]))
    grouped.groups[0].mul_(2)
    free.grad = None
    grouped.groups[0].sum().backward()
    assert free.grad.tolist() == [2, 2, 2]
    assert torch.equal(fixed, sab.Collection([free, fixed], "(B, L_a)").samples()[1])


# What samples may be


def same(made, expected):
    assert len(made) == len(expected)
    for a, b in zip(made, expected):
        assert a.dtype == b.dtype and torch.equal(a, b)


def test_forms_of_samples(path):
    tensors = [torch.arange(length) + 10 * length for length in (3, 0, 1, 4)]
    values, offsets = torch.cat(tensors), torch.tensor([0, 3, 3, 4, 8])
    expected = sab.Collection(tensors, "(B, L_a)").group(TWO).groups
    assert expected[0].tolist() == [[10, 0, 0], [30, 31, 32]]
    stacked = torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=-7)
    lengths = {"a": [3, 0, 1, 4]}
    before = torch.cat([torch.tensor([-1, -2]), values, torch.tensor([-3])])
    for samples, more in (
        (tuple(tensors), {}),
        ([tensor.numpy() for tensor in tensors], {}),
        (sab.Jagged(values, offsets), {}),
        (sab.Jagged(values.numpy(), offsets.tolist()), {}),
        (sab.Jagged(values, offsets.to(torch.int32)), {}),
        (sab.Jagged(before, offsets + 2), {}),
        (stacked, {"lengths": lengths}),
        (
            stacked.T.contiguous().T,
            {"lengths": {"a": torch.tensor(lengths["a"], dtype=torch.uint8)}},
        ),
    ):
        same(sab.Collection(samples, "(B, L_a)", **more).group(TWO).groups, expected)
    same(
        sab.Collection(stacked.T, "(L_a, B)", lengths=lengths).group(TWO).groups,
        [group.T for group in expected],
    )
    same(
        sab.Collection([list(map(int, tensor)) for tensor in (tensors[0], tensors[3])], "(B, L_a)")
        .group()
        .groups,
        [sab.Collection([tensors[0], tensors[3]], "(B, L_a)").group().groups[0]],
    )
    same(
        sab.Collection([3, 0, 1, 4], "(B)").group(TWO).groups,
        [torch.tensor([1, 3]), torch.tensor([0, 4])],
    )
    # A dictionary or tuple of columns, each in its own form.
    both = sab.Collection(
        {"x": tensors, "y": (sab.Jagged(values, offsets), torch.tensor([1.0, 2, 3, 4]))},
        {"x": "(B, L_a)", "y": ("(B, L_a)", "(B)")},
    )
    assert both.group(TWO).groups[1]["y"][1].tolist() == [2, 4]
    same(both["y"][0].group(TWO).groups, expected)
    same(both.group(TWO)["x"].groups, expected)
    assert both["y"].names == ("a",) and both["y"][1].names == ()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors(path):
    tensors = [torch.rand(length, 2) for length in (3, 1, 2, 5)]
    expected = sab.Collection(tensors, "(B, L_a, 2)").group(TWO).groups
    nested = [torch.nested.nested_tensor(tensors)]
    if hasattr(torch, "jagged"):
        jagged = sab.Collection(tensors, "(B, L_a, 2)").jagged()
        nested += [
            torch.nested.nested_tensor(tensors, layout=torch.jagged),
            torch.nested.nested_tensor_from_jagged(jagged.values, jagged.offsets),
        ]
    for each in nested:
        same(sab.Collection(each, "(B, L_a, 2)").group(TWO).groups, expected)
        same(TWO.pad(each), expected)


def test_jagged_is_what_went_in(path):
    values = torch.arange(16.0).reshape(8, 2)
    collection = sab.Collection({"x": sab.Jagged(values, [0, 3, 3, 4, 8])}, {"x": "(B, L_a, 2)"})
    for each in (
        collection,
        collection.group(TWO).regroup(OTHER).ungroup(),
        sab.Collection(collection.samples(), {"x": "(B, L_a, 2)"}),
    ):
        made = each.jagged()["x"]
        assert torch.equal(made.values, values) and made.offsets.tolist() == [0, 3, 3, 4, 8]
    with pytest.raises(ValueError, match="has no values and offsets"):
        sab.Collection([torch.ones(2, 3)], "(B, 2, L_a)").jagged()


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_and_views(path, dtype):
    rng = np.random.default_rng(3)
    tensors = [numbers((length, 6), dtype, rng)[:, ::2] for length in (4, 1, 3, 2)]
    assert not tensors[0].is_contiguous()
    for padding in (0, 1, "repeat"):
        same(
            sab.Collection(tensors, "(B, L_a, 3)", padding=padding).group(TWO).groups,
            [stacked([tensors[i] for i in indices], 0, padding) for indices in ([2, 0], [1, 3])],
        )
    if dtype.is_complex:
        views = [tensor.conj() for tensor in tensors]
        same(
            sab.Collection(views, "(B, L_a, 3)").group(TWO).groups,
            [
                stacked([tensors[i].conj().resolve_conj() for i in indices], 0)
                for indices in ([2, 0], [1, 3])
            ],
        )
        views = [tensor.conj().imag for tensor in tensors]
        assert views[0].is_neg()
        same(
            sab.Collection(views, "(B, L_a, 3)").group(TWO).groups,
            [stacked([views[i].resolve_neg() for i in indices], 0) for indices in ([2, 0], [1, 3])],
        )


def test_expanded_gradients_and_samples(path):
    tensor = torch.rand(1, 2, requires_grad=True)
    grouped = sab.Collection([tensor.expand(3, 2), tensor], "(B, L_a, 2)").group()
    grouped.ungroup().samples()[0].sum().backward()  # a gradient whose elements are one
    assert tensor.grad.tolist() == [[3, 3]]


def test_repeat_where_a_dimension_is_empty(path):
    made = (
        sab.Collection(
            [torch.ones(0, 2), torch.ones(2, 0), torch.full((1, 1), 5.0)],
            "(B, L_a, L_b)",
            padding="repeat",
        )
        .group()
        .groups[0]
    )
    assert made.tolist() == [[[0, 0]] * 2, [[0, 0]] * 2, [[5, 5]] * 2]


def test_no_samples_one_sample_and_empty_ones(path):
    for signature in ("(B, L_a, 3, M)", {"x": "(B, L_a, 3, M)", "y": ("(B)",)}):
        none = sab.Collection([], signature)
        assert len(none) == 0 and none.samples() == [] and none.lengths("a").size == 0
        for grouped in (
            none.group(),
            none.group(none.grouping(a=[2])),
            none.group(sab.Grouping.consecutive([0, 0])),
        ):
            assert grouped.groups == [] and grouped.masks("a") == [] and grouped.masks() == []
            assert grouped.apply(lambda x: x, output="(B)").join().shape == (0,)
            assert leaves_of(grouped.join())[0].shape == (0, 0, 3, 0)
            assert grouped.regroup(sab.Grouping.uni(0)).ungroup().samples() == []
    one = sab.Collection([torch.ones(0, 2)], "(B, L_a, 2)")
    assert one.group().groups[0].shape == (1, 0, 2) and one.group().ungroup().samples()[
        0
    ].shape == (0, 2)
    assert one.group().masks("a")[0].shape == (1, 0)
    empty = sab.Collection([torch.ones(0), torch.ones(0)], "(B, L_a)").group()
    assert empty.groups[0].shape == (2, 0) and empty.join().shape == (2, 0)
    assert sab.Collection([torch.ones(2, 0), torch.ones(1, 0)], "(B, L_a, M)").group().regroup(
        sab.Grouping.predefined([1, 0])
    ).groups[1].shape == (1, 2, 0)
    assert sab.Collection(torch.ones(0, 3), "(B, L_a)").group().groups == []
    assert sab.Collection(sab.Jagged(torch.ones(0, 3), [0]), "(B, L_a, 3)").group().groups == []


def test_the_example_of_several_lengths(path):
    """Proteins and ligands: rotations are padded with the identity, and a module sees pairs."""
    torch.manual_seed(0)
    signature = {
        "protein": {"p": "(B, L_res, M)", "R": "(B, L_res, 3, 3)", "t": "(B, L_res, 3)"},
        "ligand": ("(B, L_atm, M)", "(B, L_atm, 3)"),
    }
    samples = [
        {
            "protein": {
                "p": torch.rand(res, 8),
                "R": torch.rand(res, 3, 3),
                "t": torch.rand(res, 3),
            },
            "ligand": (torch.rand(atm, 4), torch.rand(atm, 3)),
        }
        for res, atm in ((10, 3), (20, 6), (12, 20))
    ]
    collection = sab.Collection(samples, signature, padding={"protein": {"R": torch.eye(3)}})
    assert collection.names == ("res", "atm") and collection.lengths("atm").tolist() == [3, 6, 20]
    grouped = collection.group(collection.grouping(res=[15], atm=[10]))
    assert [each["protein"]["R"].shape for each in grouped.groups] == [
        (1, 10, 3, 3),
        (1, 12, 3, 3),
        (1, 20, 3, 3),
    ]
    grouped = grouped.regroup(grouped.grouping(res=[15]))
    first = grouped.groups[0]
    assert (
        first["protein"]["R"].shape == (2, 12, 3, 3)
        and (first["protein"]["R"][0, 10:] == torch.eye(3)).all()
        and (first["protein"]["t"][0, 10:] == 0).all()
    )

    def distances(group, mask):
        assert mask.shape == (
            len(group["ligand"][0]),
            group["protein"]["t"].shape[1],
            group["ligand"][1].shape[1],
        )
        return {
            "distances": torch.cdist(group["protein"]["t"], group["ligand"][1]) * mask,
            "close": (mask.sum((1, 2)),),
        }

    made = grouped.apply(
        distances, output={"distances": "(B, L_res, L_atm)", "close": ("(B)",)}, mask=["res", "atm"]
    )
    for sample, each in zip(samples, made.ungroup().samples()):
        assert torch.allclose(
            each["distances"], torch.cdist(sample["protein"]["t"], sample["ligand"][1]), atol=1e-5
        )
    assert made["close"][0].join().tolist() == [30, 120, 240]
    assert made.join()["distances"].shape == (3, 20, 20)
    copies = grouped.apply(
        lambda group, mask: mask["protein"]["p"].float().mean((1, 2)), output="(B)", mask="copy"
    ).join()
    assert copies.tolist() == pytest.approx([10 / 12, 1, 1])


# Groupings' own methods


def test_groupings_pad_mask_and_join(path):
    tensors = [torch.rand(length, width) for length, width in ((3, 1), (0, 2), (1, 4), (4, 1))]
    for batch_dim, padding in ((0, 0), (1, 2.5), (2, torch.tensor(-1.0)), (0, 0)):
        same(
            TWO.pad(tensors, padding=padding, batch_dim=batch_dim),
            [
                stacked([tensors[i] for i in indices], batch_dim, padding)
                for indices in ([2, 0], [1, 3])
            ],
        )
    same(
        TWO.pad(sab.Jagged(torch.arange(8), [0, 3, 3, 4, 8])),
        sab.Collection(sab.Jagged(torch.arange(8), [0, 3, 3, 4, 8]), "(B, L_a)").group(TWO).groups,
    )
    same(
        TWO.masks([3, 0, 1, 4]),
        [torch.tensor([[True, False, False], [True] * 3]), torch.tensor([[False] * 4, [True] * 4])],
    )
    assert [mask.shape for mask in TWO.masks([3, 0, 1, 4], np.array([1, 2, 4, 1]))] == [
        (2, 3, 4),
        (2, 4, 2),
    ]
    outputs = [torch.tensor([[2.0, 2], [0, 0]]), torch.tensor([[1.0, 1], [3, 3]])]
    assert TWO.join(outputs).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    nested = TWO.join([{"x": (output, [output[:, 0]])} for output in outputs])
    assert nested["x"][1][0].tolist() == [0, 1, 2, 3] and isinstance(nested["x"], tuple)


def test_groupings_refusals(path):
    ones = [torch.ones(2)] * 4
    for call, words in (
        (lambda: TWO.pad(ones[:3]), "samples are 3: the grouping has 4"),
        (
            lambda: TWO.pad(ones, batch_dim=2),
            "batch_dim = 2: must be from 0 to the samples' number of dimensions, 1",
        ),
        (lambda: TWO.pad([*ones[:3], torch.ones(2, 2)]), "tensors have 1 and 2 dimensions"),
        (
            lambda: TWO.pad([*ones[:3], torch.ones(2).int()]),
            "have the dtypes torch.float32 and torch.int32",
        ),
        (
            lambda: TWO.pad(ones, padding="none"),
            "padding = 'none': must be a number, a tensor or \"repeat\"",
        ),
        (TWO.masks, "lengths: must be at least one array"),
        (lambda: TWO.masks([1, 2]), "lengths are 2: the grouping has 4 samples"),
        (lambda: TWO.masks([1.5] * 4), "lengths has dtype float64"),
        (lambda: TWO.masks([1, 2, -3, 4]), "lengths hold -3: must be at least 0"),
        (lambda: TWO.pad(3), "samples: must be tensors, or what torch.as_tensor takes"),
        (lambda: TWO.pad([None] * 4), "samples: must be tensors, or what torch.as_tensor takes"),
        (
            lambda: TWO.join([torch.ones(2)]),
            "outputs are 1: the grouping has 2 groups with samples",
        ),
        (
            lambda: TWO.join([torch.ones(2), torch.ones(3)]),
            r"output of group 1 has shape \(3,\): must be \(2,\)",
        ),
        (
            lambda: TWO.join([torch.ones(2, 3), torch.ones(2, 4)]),
            r"output of group 1 has shape \(2, 4\): must be \(2, 3\)",
        ),
        (
            lambda: TWO.join([{"x": torch.ones(2)}, {"y": torch.ones(2)}]),
            "output of group 1 is not nested as that of group 0",
        ),
        (lambda: sab.Grouping.uni(0).join([]), "there is nothing to join"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="output of group 1 is a int: must be a tensor"):
        TWO.join([torch.ones(2), 3])
    with pytest.raises(TypeError, match="batch_dim = 'last': must be a whole number"):
        TWO.pad(ones, batch_dim="last")


def test_mappings_and_lists_are_taken_for_dictionaries_and_tuples(path):
    signature = {"x": ("(B, L_a)", "(B)")}
    collection = sab.Collection(
        collections.UserDict(x=[[torch.ones(2), torch.ones(1)], [3.0, 4.0]]), signature
    )
    applied = collection.group().apply(
        lambda group: collections.UserDict(y=[group["x"][0], group["x"][1]]),
        output={"y": ("(B, L_a)", "(B)")},
    )
    assert applied.join()["y"][0].tolist() == [[1, 1], [1, 0]] and applied.join()["y"][
        1
    ].tolist() == [3, 4]


def test_forward_mode_and_functorch(path):
    def padded(x, y):
        return sab.Collection([x, y], "(B, L_a)").group().groups[0] ** 2

    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0, 5.0])
    for has_grad in (False, True):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.clone().requires_grad_(has_grad), torch.ones(2))
            assert forward_ad.unpack_dual(padded(dual, y)).tangent.tolist() == [
                [2, 4, 0],
                [0, 0, 0],
            ]
    if hasattr(torch, "func"):
        assert torch.func.grad(lambda x: padded(x, y).sum())(x).tolist() == [2, 4]
        assert torch.func.jacrev(padded)(x, y).shape == (2, 3, 2)
        assert torch.equal(
            torch.func.vmap(padded, (0, None))(torch.stack([x, x + 1]), y)[1], padded(x + 1, y)
        )


# Refusals


def test_refusals_of_samples(path):
    two, make = [torch.ones(3, 2), torch.ones(1, 2)], sab.Collection
    dictionary = {"x": "(B, L_a)", "y": "(B, L_a)"}
    for call, words in (
        (lambda: make(two, "B, L_a"), 'signature = "B, L_a": must stand in parentheses'),
        (lambda: make(two, "(B, L_)"), '"L_" must be B, L_ and a name'),
        (lambda: make(two, "(B, -3)"), '"-3" must be'),
        (lambda: make(two, "(L_a, 2)"), "must have B exactly once"),
        (lambda: make(two, "(B, B)"), "must have B exactly once"),
        (lambda: make(two, f"(B{', M' * 17})"), "more than 16 dimensions"),
        (
            lambda: make([{"x": two[0]}], {"x": "(B, L_a, M_)"}),
            r"signature\['x'\] = \"\(B, L_a, M_\)\"",
        ),
        (
            lambda: make(two, "(B, L_a)"),
            r'samples: tensors have 2 dimensions: must have 1 beside B, as "\(B, L_a\)"',
        ),
        (lambda: make([two[0], torch.ones(3)], "(B, L_a, 2)"), "tensors have 1 and 2 dimensions"),
        (
            lambda: make([two[0], two[1].double()], "(B, L_a, 2)"),
            "have the dtypes torch.float32 and torch.float64",
        ),
        (lambda: make([two[0], two[1].to("meta")], "(B, L_a, 2)"), "have the devices cpu and meta"),
        (lambda: make([two[0].to_sparse()], "(B, L_a, 2)"), "have the layout torch.sparse_coo"),
        (lambda: make(["a", "b"], "(B)"), "must be tensors, or what torch.as_tensor takes"),
        (
            lambda: make(5, "(B)"),
            "samples: must be tensors, or what torch.as_tensor takes: 'int' object is not iterable",
        ),
        (
            lambda: make(torch.ones(2, 3).to_sparse(), "(B, L_a)"),
            "samples has the layout torch.sparse_coo",
        ),
        (
            lambda: make(sab.Jagged(torch.ones(3).to_sparse(), [0, 3]), "(B, L_a)"),
            "samples.values has the layout torch.sparse_coo",
        ),
        (
            lambda: make(sab.Jagged(torch.ones(3), [0, 3]), "(B)"),
            r'"\(B\)" has no dimension that they can have',
        ),
        (
            lambda: make(two, "(B, L_a, 3)"),
            r'samples\[0\] has shape \(3, 2\): dimension 1 must be 3, as "\(B, L_a, 3\)" says',
        ),
        (
            lambda: make([two[0], torch.ones(1, 4)], "(B, L_a, M)"),
            r"samples\[1\] has shape \(1, 4\): dimension 1 must be 2, as that of the first sample",
        ),
        (
            lambda: make(
                [
                    {"x": torch.ones(3), "y": torch.ones(3)},
                    {"x": torch.ones(2), "y": torch.ones(1)},
                ],
                dictionary,
            ),
            r"samples\[1\]\['y'\] has shape \(1,\): dimension 0 must be 2, the length 'a' of the "
            r"sample in samples\['x'\]",
        ),
        (
            lambda: make([torch.ones(2, 3)], "(B, L_a, L_a)"),
            r"dimension 1 must be 2, the length 'a'",
        ),
        (
            lambda: make([{"x": torch.ones(3)}], dictionary),
            r"samples\[0\] has no 'y', as the signature says",
        ),
        (
            lambda: make({"x": [torch.ones(1)]}, dictionary),
            "samples has no 'y', as the signature says",
        ),
        (
            lambda: make({"x": [torch.ones(1)], "y": [torch.ones(1)] * 2}, dictionary),
            r"samples: 1 in \['x'\] but 2 in \['y'\]: must be as many everywhere",
        ),
        (
            lambda: make(torch.ones(2, 3), "(B, L_a, 3)"),
            r"samples has shape \(2, 3\): must have 3 dimensions",
        ),
        (
            lambda: make(torch.ones(2, 3), "(B, L_a)", lengths={"a": [4, 1]}),
            r"lengths\['a'\] goes from 1 to 4: must be from 0 to 3",
        ),
        (
            lambda: make(torch.ones(2, 3), "(B, L_a)", lengths={"a": [1]}),
            r"lengths\['a'\] has 1 numbers: samples has 2 samples",
        ),
        (
            lambda: make(torch.ones(2, 3), "(B, L_a)", lengths={"a": [0.5, 1]}),
            r"lengths\['a'\] has dtype float64",
        ),
        (
            lambda: make(torch.ones(2, 3), "(B, L_a)", lengths={"b": [1, 1]}),
            "lengths has 'b', which the signature has not",
        ),
        (
            lambda: make([torch.ones(3)], "(B, L_a)", lengths={"a": [2]}),
            r"samples\[0\] has shape \(3,\): dimension 0 must be 2, the length 'a' of the sample "
            r"in lengths",
        ),
        (
            lambda: make(sab.Jagged(torch.ones(3), [0, 2, 1]), "(B, L_a)"),
            "offsets must ascend from at least 0 to at most the number of values, 3",
        ),
        (lambda: make(sab.Jagged(torch.ones(3), [0, 4]), "(B, L_a)"), "offsets must ascend"),
        (lambda: make(sab.Jagged(torch.ones(3), [-1, 2]), "(B, L_a)"), "offsets must ascend"),
        (lambda: make(sab.Jagged(torch.ones(3), [0.0, 2]), "(B, L_a)"), "offsets has shape"),
        (lambda: make(sab.Jagged(torch.ones(3), []), "(B, L_a)"), "offsets has shape"),
        (
            lambda: make(sab.Jagged(torch.ones(3), [0, 2]), "(B, L_a, 2)"),
            "values has 1 dimensions: must have 2",
        ),
        (lambda: make(two, "(B, L_a, 2)", padding="none"), "padding = 'none'"),
        (
            lambda: make(two, "(B, L_a, 2)", padding=None),
            "padding = None: must be a number that torch.float32 can hold",
        ),
        (
            lambda: make([torch.ones(2).int()], "(B, L_a)", padding=0.5),
            "padding = 0.5: must be a number that torch.int32 can hold",
        ),
        (
            lambda: make([torch.ones(2).byte()], "(B, L_a)", padding=-1),
            "padding = -1: must be a number that torch.uint8 can hold",
        ),
        (
            lambda: make(two, "(B, L_a, 2)", padding=torch.ones(3)),
            r'padding has shape \(3,\): must have \(2,\), the numbers in "\(B, L_a, 2\)"',
        ),
        (
            lambda: make(two, "(B, L_a, 2)", padding=torch.ones(2).double()),
            "padding is of torch.float64 on cpu: must be of torch.float32 on cpu",
        ),
        (
            lambda: make(two, "(B, L_a, 2)", padding={"x": 1}),
            r"padding = \{'x': 1\}: must be nested as the signature",
        ),
        (
            lambda: make(
                {"x": [torch.ones(1)], "y": [torch.ones(1)]}, dictionary, padding={"z": 1}
            ),
            "padding has 'z', which the signature has not",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    for signature in (None, {}, {"x": 3}, ["(B)"]):
        with pytest.raises(
            TypeError, match="must be a text, or a dictionary or tuple of signatures"
        ):
            make(two, signature)
    with pytest.raises(TypeError, match="lengths is a list: must be a dictionary"):
        make(torch.ones(2, 3), "(B, L_a)", lengths=[1, 2])


def test_refusals_of_groups(path):
    collection = sab.Collection([torch.ones(3, 2), torch.ones(1, 2)], "(B, L_a, 2)")
    grouped = collection.group(sab.Grouping.predefined([0, 1]))

    def outputs(output, *shapes, **more):
        made = iter(shapes)
        return grouped.apply(lambda x: next(made, shapes[-1]), output=output, **more)

    one, long = torch.ones(1, 1), torch.ones(1, 3)
    for call, words in (
        (
            lambda: collection.group(sab.Grouping.uni(3)),
            "grouping has 3 samples: the collection has 2",
        ),
        (
            lambda: grouped.regroup(sab.Grouping.uni(1)),
            "grouping has 1 samples: the collection has 2",
        ),
        (lambda: grouped.masks([]), r"hint = \[\]: must be the name of a length"),
        (lambda: grouped.masks(3), "hint = 3: must be the name of a length"),
        (
            lambda: outputs("(B, L_a)", long.to_sparse()),
            "output of group 0 has the layout torch.sparse_coo",
        ),
        (collection.grouping, "dimensions are none: must be at least one pair"),
        (
            lambda: outputs("(B, L_a)", torch.ones(1, 4)),
            r"output of group 0 has shape \(1, 4\): dimension 1 must be 3, the longest 'a' of the "
            r"group",
        ),
        (
            lambda: outputs("(B, L_a)", long, long),
            r"output of group 1 has shape \(1, 3\): dimension 1 must be 1",
        ),
        (
            lambda: outputs("(B)", torch.ones(2)),
            r"output of group 0 has shape \(2,\): dimension 0 must be 1, the samples of the group",
        ),
        (
            lambda: outputs("(B)", one),
            r'output of group 0 has shape \(1, 1\): must have 1 dimensions, as "\(B\)"',
        ),
        (lambda: outputs("(B, 2)", one), 'dimension 1 must be 2, as "\\(B, 2\\)" says'),
        (
            lambda: outputs("(B, M)", one, long),
            "output of group 1 has shape .*: dimension 1 must be 1, as that of group 0",
        ),
        (
            lambda: outputs("(B, 1)", one, one.double()),
            "output of group 1 is of torch.float64 on cpu: must be of torch.float32 on cpu",
        ),
        (
            lambda: outputs({"x": "(B)"}, {"y": one}),
            "output of group 0 has no 'x', as the signature says",
        ),
        (lambda: outputs("(B, 1)", one, one, padding="none"), "padding = 'none'"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="output of group 0 is a NoneType: must be a tensor"):
        outputs("(B)", None)
    with pytest.raises(TypeError, match=r"grouping is a list: must be a sab.Grouping"):
        collection.group([[0], [1]])
    for call in (
        lambda: collection.lengths("b"),
        lambda: grouped.masks("b"),
        lambda: collection.grouping(b=[1]),
        lambda: outputs("(B, L_b)"),
    ):
        with pytest.raises(KeyError, match="name = 'b': must be a length of the signature: 'a'"):
            call()
    for call in (
        lambda: collection["x"],
        lambda: sab.Collection([(torch.ones(1),)], ("(B, L_a)",))[1],
    ):
        with pytest.raises(KeyError, match="the signature is"):
            call()
    with pytest.raises(ZeroDivisionError):
        grouped.apply(lambda x: 1 / 0, output="(B)")


def test_samples_that_changed_are_refused():
    for change in (
        lambda tensor: tensor.resize_(9),
        lambda tensor: setattr(tensor, "data", torch.ones(3, dtype=torch.float64)),
        lambda tensor: setattr(tensor, "data", torch.ones(6)[::3]),
    ):
        tensors = [torch.ones(3), torch.ones(2)]
        collection = sab.Collection(tensors, "(B, L_a)")
        change(tensors[0])
        with pytest.raises(ValueError, match="samples have changed their shapes"):
            collection.group()
    stacked = torch.ones(3, 2)
    collection = sab.Collection(stacked, "(B, L_a)")
    stacked.data = torch.ones(1, 1)
    with pytest.raises(ValueError, match="groups have changed their shapes"):
        collection.group()
    grouped = sab.Collection([torch.ones(3), torch.ones(2)], "(B, L_a)").group(
        sab.Grouping.predefined([0, 1])
    )
    grouped.groups[1].data = torch.ones(1, 2, dtype=torch.float64)
    with pytest.raises(ValueError, match="groups have changed their shapes"):
        grouped.ungroup()


def test_what_its_giver_changes_afterwards():
    signature, output = {"x": "(B, L_a)", "y": "(B, L_a)"}, {"x": "(B, L_a)", "y": "(B, L_a)"}
    offsets = torch.tensor([0, 2, 3])
    jagged = sab.Collection(sab.Jagged(torch.arange(3), offsets), "(B, L_a)")
    collection = sab.Collection([{"x": torch.zeros(2), "y": torch.ones(2)}], signature)
    applied = collection.group().apply(lambda group: group, output=output)
    for each in (signature, output):
        each["x"] = each.pop("x")  # now the last
    offsets[1] = 1 << 40
    for group in (collection.group().groups[0], applied.groups[0], applied.join()):
        assert list(group) == ["x", "y"] and not group["x"].any() and group["y"].all()
    assert jagged.group().groups[0].tolist() == [[0, 1], [2, 0]]


# Where it is used


def test_meta_tensors_go_the_way_of_other_devices():
    collection = sab.Collection(
        [torch.ones(3, 2, device="meta"), torch.ones(1, 2, device="meta")], "(B, L_a, 2)"
    )
    grouped = collection.group(sab.Grouping.predefined([1, 0]))
    assert [(tuple(group.shape), group.device.type) for group in grouped.groups] == [
        ((1, 1, 2), "meta"),
        ((1, 3, 2), "meta"),
    ]
    assert grouped.masks("a")[0].device.type == "meta" and grouped.join().shape == (2, 3, 2)
    assert [tuple(sample.shape) for sample in grouped.ungroup().samples()] == [(3, 2), (1, 2)]
    moved = sab.Collection(
        [torch.ones(3), torch.ones(1)], "(B, L_a)", padding=torch.tensor(2.0)
    ).to("meta")
    assert (
        moved.group().to("meta").groups[0].device.type == "meta"
        and moved.jagged().offsets.device.type == "meta"
    )


def test_immutable(path):
    tensors = [torch.rand(3), torch.rand(1)]
    collection = sab.Collection(tensors, "(B, L_a)")
    grouped = collection.group()
    groups = grouped.groups
    groups[0] = None
    collection.lengths("a")[0] = 99
    tensors.append(torch.ones(5))
    assert (
        grouped.groups[0].shape == (2, 3)
        and collection.lengths("a").tolist() == [3, 1]
        and len(collection) == 2
    )
    assert (
        repr(collection) == "<sab.Collection: 2 samples of '(B, L_a)'>"
        and repr(grouped) == "<sab.Grouped: 2 samples of '(B, L_a)' in 1 groups>"
    )


def test_copies_and_pickles(path):
    collection = sab.Collection(
        [{"x": torch.rand(3)}, {"x": torch.rand(1)}], {"x": "(B, L_a)"}, padding=1
    )
    grouped = collection.group(sab.Grouping.predefined([1, 0]))
    for copied in (copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))):
        same(
            [group["x"] for group in copied(grouped).regroup(sab.Grouping.uni(2)).groups],
            [collection.group().groups[0]["x"]],
        )
        same(
            [group["x"] for group in copied(collection).group().groups],
            [collection.group().groups[0]["x"]],
        )
    needs = copy.deepcopy(sab.Collection([torch.rand(3, requires_grad=True)], "(B, L_a)"))
    assert needs.samples()[0].requires_grad and needs.samples()[0].is_leaf


def collate(batch):
    return sab.Collection([{"x": x, "y": y} for x, y in batch], {"x": "(B, L_a)", "y": "(B)"})


@pytest.mark.parametrize("workers", [0, 2])
def test_as_collate_fn(workers):
    data = [(torch.arange(length), float(length)) for length in (3, 0, 1, 4, 2, 7)]
    loader = torch.utils.data.DataLoader(
        data, batch_size=4, collate_fn=collate, num_workers=workers
    )
    seen = [collection.group(collection.grouping(a=[2])) for collection in loader]
    assert [len(grouped) for grouped in seen] == [4, 2]
    same(
        [group["x"] for group in seen[0].groups],
        [torch.tensor([[0], [0]])[:, :1], torch.tensor([[0, 1, 2, 0], [0, 1, 2, 3]])],
    )
    assert [float(sample["y"]) for grouped in seen for sample in grouped.ungroup().samples()] == [
        3,
        0,
        1,
        4,
        2,
        7,
    ]


def test_memory_is_pinned(monkeypatch):
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda tensor: tensor.clone().as_subclass(Pinned)
    )
    collection = sab.Collection(
        [torch.ones(2), torch.ones(1)], "(B, L_a)", padding=torch.tensor(3.0)
    )
    grouped = collection.pin_memory().group(sab.Grouping.uni(2))
    assert (
        type(collection.pin_memory()._columns[0].buffers[0]) is Pinned
        and type(collection.group().pin_memory().groups[0]) is Pinned
    )
    assert (
        type(grouped) is sab.Grouped
        and grouped.groups[0].tolist() == [[1, 1], [1, 3]]
        and grouped.to("cpu", non_blocking=True).names == ("a",)
    )
    assert len(sab.Collection([], "(B, L_a)").pin_memory()) == 0


def test_threads():
    rng = np.random.default_rng(0)
    tensors = [
        torch.from_numpy(rng.random((length, 64))).requires_grad_()
        for length in rng.integers(0, 200, 64)
    ]
    expected = torch.nn.utils.rnn.pad_sequence(
        [tensor.detach() for tensor in tensors], batch_first=True
    )
    grouping = sab.Grouping.predefined(rng.integers(0, 5, 64))
    before = torch.get_num_threads()
    wrong = []

    def work():
        collection = sab.Collection(tensors, "(B, L_a, M)")
        for _ in range(5):
            joined = collection.group(grouping).join()
            (gradient,) = torch.autograd.grad(joined.sum(), tensors[:1])
            if not torch.equal(joined, expected) or not (gradient == 1).all():
                wrong.append(joined)

    try:
        torch.set_num_threads(4)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        torch.set_num_threads(before)
    assert not wrong


def test_a_batch_in_groups_trains_as_a_padded_one(path):
    torch.manual_seed(1)
    embedding, hidden, last = (
        torch.nn.Embedding(8, 6).double(),
        torch.nn.Linear(6, 6).double(),
        torch.nn.Linear(6, 1).double(),
    )
    parameters = [*embedding.parameters(), *hidden.parameters(), *last.parameters()]
    lengths = [1, 4, 64, 1, 16, 4, 1, 1]
    tokens, labels = (
        [torch.randint(0, 8, (length,)) for length in lengths],
        torch.randint(0, 2, (8,)).double(),
    )

    def model(tokens, mask):
        return last(
            hidden(embedding(tokens)).masked_fill(~mask[:, :, None], -float("inf")).amax(1)
        )[:, 0]

    def gradients(outputs):
        loss = ((outputs - labels) ** 2).mean()
        return loss, torch.autograd.grad(loss, parameters)

    whole = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
    loss, expected = gradients(model(whole, torch.arange(64) < torch.tensor(lengths)[:, None]))
    collection = sab.Collection(tokens, "(B, L_sequence)")
    grouped = collection.group(collection.grouping(sequence=[1, 4, 16]))
    assert [tuple(group.shape) for group in grouped.groups] == [(4, 1), (2, 4), (1, 16), (1, 64)]
    made, own = gradients(grouped.apply(model, output="(B)", mask="sequence").join())
    assert torch.allclose(made, loss, rtol=1e-12) and all(
        torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(own, expected)
    )


def test_no_python_for_each_sample():
    """The number of Python calls does not grow with that of samples."""
    import sys

    def calls(count, make):
        tensors = [torch.ones(1 + i % 3, requires_grad=True) for i in range(count)]
        grouping = sab.Grouping.predefined(np.arange(count) % 3)
        made = 0

        def count_call(frame, event, argument):
            nonlocal made
            made += event == "call"

        sys.setprofile(count_call)
        try:
            make(tensors, grouping)
        finally:
            sys.setprofile(None)
        return made

    for make in (
        lambda tensors, grouping: (
            sab.Collection(tensors, "(B, L_a)")
            .group(grouping)
            .regroup(sab.Grouping.uni(len(tensors)))
            .ungroup()
            .samples()
        ),
        lambda tensors, grouping: grouping.pad(tensors),
        lambda tensors, grouping: (
            sab.Collection(
                list(map(operator.itemgetter(0), [(tensor,) for tensor in tensors])), "(B, L_a)"
            )
            .group(grouping)
            .join()
            .sum()
            .backward()
        ),
    ):
        calls(30, make)
        assert calls(900, make) < calls(60, make) + 50


def test_importing_sab_does_not_import_torch():
    import subprocess
    import sys

    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sab, sys; assert 'torch' not in sys.modules; sab.Collection, sab.Grouped, "
            "sab.Jagged; assert 'torch' not in sys.modules",
        ],
        check=True,
    )
