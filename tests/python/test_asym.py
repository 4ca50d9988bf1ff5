"""sab.compat.asym: numbers and gradients that asym itself gave, its behaviours, and properties
against plain torch. Its groupers and thresholds are tested in test_group.py."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

torch = pytest.importorskip("torch")
from sab import _columns
from sab.compat.asym.annotated_module import (
    AnnotatedModule,
    AnnotationError,
    PreDimConversionError,
    ShapeConflictError,
)
from sab.compat.asym.data import Data, DataTemplate, TensorData
from sab.compat.asym.data_collection import DataCollection, IncompatibleDataCollectionError
from sab.compat.asym.grouper import (
    DataListGrouper,
    LengthBasedGrouper,
    LengthThresholdGrouper,
    PredefinedConsecutiveGrouper,
    PredefinedGrouper,
    UniGrouper,
)
from sab.compat.asym.padding import CDimPadder, Padder, PadderData, ZeroPadder
from sab.compat.asym.precompute_grouper_thresholds import find_thresholds
from sab.compat.asym.shape_signature import (
    ADim,
    BDim,
    CDim,
    LDim,
    MDim,
    PreBDim,
    PreCDim,
    PreLDim,
    PreMDim,
    PreShapeSignature,
    PreShapeSignatureData,
    ShapeSignature,
    ShapeSignatureData,
)


@pytest.fixture(params=["core", "torch"])
def path(request, monkeypatch):
    """Memory of the CPU is moved by the core; that of other devices by torch's own operations,
    which run here on the CPU."""
    monkeypatch.setattr(_columns, "_only_torch", request.param == "torch")


class Module(AnnotatedModule):
    """A function with annotations."""

    def __init__(self, function, inputs, outputs, hint=None):
        super().__init__()
        self.function, self.inputs, self.outputs, self.hint = function, inputs, outputs, hint

    def forward(self, *given):
        return self.function(*given)

    def get_mask_hint(self):
        return self.hint

    def get_input_annot(self):
        return self.inputs

    def get_output_annot(self):
        return self.outputs


# What asym computes


class Pairs(AnnotatedModule):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0, -0.5], dtype=torch.float64))

    def forward(self, d, mask):
        pairs = (
            (d["nodes"]["x"] * self.scale)[:, :, None] * d["edges"][:, None] * mask[:, :, :, None]
        )
        return {"out": pairs, "sum": pairs.sum((1, 2))}

    def get_mask_hint(self):
        return ["n", "e"]

    def get_input_annot(self):
        return {"nodes": {"x": "(b, l_n, ..)"}, "edges": "(b, l_e, ..)"}

    def get_output_annot(self):
        return {"out": "(b, l_n, l_e, ..)", "sum": "(b, m_1)"}


def test_the_numbers_of_asym(path):
    """Nested data, two lengths, a constant dimension's padding, masks of two lengths, keys
    converted, outputs grouped anew: each number as asym gave it."""
    leaves, data = [], []
    for i, (a, b) in enumerate([(2, 1), (1, 3), (3, 2)]):
        x = torch.arange(2.0 * a, dtype=torch.float64).reshape(a, 2) + i
        y = 1 - torch.arange(2.0 * b, dtype=torch.float64).reshape(b, 2) / (i + 1)
        leaves += [x.requires_grad_(), y.requires_grad_()]
        data.append({"a": {"x": x}, "b": y})
    value = torch.tensor([7.0, 9.0], dtype=torch.float64, requires_grad=True)
    dc = DataCollection({"a": {"x": "(B, L_atoms, 2)"}, "b": "(B, L_bonds, 2)"}, data_list=data)
    dc.group(LengthThresholdGrouper("atoms", [2]), padding={"a": {"x": CDimPadder(value)}})
    assert dc.data_partition == [[0, 1], [2]] and dc.length_info == {
        "atoms": [[2, 1], [3]],
        "bonds": [[1, 3], [2]],
    }
    first = dc.data_groups[0].value
    assert first["a"]["x"].tolist() == [[[0, 1], [2, 3]], [[1, 2], [7, 9]]]
    assert dc.get_mask(0, mask_hint=["atoms", "bonds"]).all()  # within one of the lengths suffices
    assert dc.get_mask(0)["b"].int().tolist() == [
        [[1, 1], [0, 0], [0, 0]],
        [[1, 1], [1, 1], [1, 1]],
    ]

    module = Pairs()
    out = dc.apply(
        module,
        input_key_conv={"a": ("nodes", None), "b": ("edges", None)},
        output_key_conv={"out": ("result", None)},
    )
    assert {key: str(signature) for key, signature in out.shapesig_data.value.items()} == {
        "result": "(B, L_atoms, L_bonds, 2)",
        "sum": "(B, M_1)",
    }
    out.regroup(LengthThresholdGrouper("bonds", [1, 2]))
    assert out.data_partition == [[0], [2], [1]] and out.length_info == {
        "atoms": [[2], [3], [1]],
        "bonds": [[1], [2], [3]],
    }
    assert [tuple(group["result"].value.shape) for group in out.data_groups] == [
        (1, 2, 1, 2),
        (1, 3, 2, 2),
        (1, 1, 3, 2),
    ]
    sums = [group["sum"].value for group in out.data_groups]
    assert [each.tolist() for each in sums] == [[[2, 0]], [[16, -5]], [[0, 8.25]]]

    weight = torch.tensor([1.0, 2.0], dtype=torch.float64)
    loss = (
        sum((group["result"].value ** 2).sum() for group in out.data_groups)
        + sum((each * weight).sum() for each in sums)
        + (first["a"]["x"] ** 2).sum()
    )
    loss.backward()
    assert loss.item() == pytest.approx(253.69444444444446, rel=1e-14)
    gradients = [
        [[1.0, 2.0], [9.0, 6.0]],
        [[10.0, -4.0]],
        [[6.0, 8.25]],
        [[10.0, -10.0], [8.0, -12.0], [6.0, -14.0]],
        [
            [5.777777777777778, 0.0],
            [10.222222222222223, 0.4444444444444447],
            [14.666666666666668, 0.8888888888888891],
        ],
        [[124.0, 12.666666666666668], [49.333333333333336, -15.0]],
    ]
    for leaf, expected in zip(leaves, gradients):
        assert np.allclose(leaf.grad.numpy(), expected, rtol=1e-13, atol=1e-13)
    assert value.grad.tolist() == [14.0, 19.5]
    assert module.scale.grad.tolist() == pytest.approx(
        [154.44444444444446, -60.88888888888889], rel=1e-13
    )


class Pooled(torch.nn.Module):
    """Embedding, linear map, maximum over a sample's places, linear map."""

    def __init__(self, size):
        super().__init__()
        self.embedding, self.hidden, self.last = (
            torch.nn.Embedding(8, size),
            torch.nn.Linear(size, size),
            torch.nn.Linear(size, 1),
        )

    def forward(self, tokens, mask):
        return self.last(
            self.hidden(self.embedding(tokens))
            .masked_fill(~mask[:, :, None], -float("inf"))
            .amax(1)
        )[:, 0]


class AnnotatedPooled(AnnotatedModule):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, mask):
        assert tokens.shape == mask.shape
        return self.model(tokens, mask)

    def get_mask_hint(self):
        return ["seq"]

    def get_input_annot(self):
        return "(b, l_seq)"

    def get_output_annot(self):
        return "(b)"


def test_training_in_groups_is_training_on_padded_batches():
    """The experiment of asym's notebook, small: the same losses and weights, step by step."""
    rng = np.random.default_rng(0)
    weights = np.array([1, 1 / 4, 1 / 16, 1 / 64])
    data = [
        (torch.from_numpy(rng.integers(0, 8, length)), float(rng.integers(0, 2)))
        for length in rng.choice([1, 4, 16, 64], 256, p=weights / weights.sum())
    ]
    thresholds = find_thresholds(
        [len(tokens) for tokens, _ in data], cost_fn=lambda x: x, k=3, num_trials=20
    )
    assert thresholds == [1, 4, 16]

    def padded(batch):
        tokens = torch.nn.utils.rnn.pad_sequence([tokens for tokens, _ in batch], batch_first=True)
        return (
            tokens,
            torch.arange(tokens.shape[1]) < torch.tensor([[len(tokens)] for tokens, _ in batch]),
            torch.tensor([label for _, label in batch]).double(),
        )

    def in_groups(batch):
        return DataCollection("(B, L_sequence)", [tokens for tokens, _ in batch]), torch.tensor(
            [label for _, label in batch]
        ).double()

    torch.manual_seed(0)
    one = Pooled(12).double()
    other = copy.deepcopy(one)
    losses = [[], []]
    for which, (model, collate) in enumerate(((one, padded), (other, in_groups))):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for *batch, labels in torch.utils.data.DataLoader(data, batch_size=64, collate_fn=collate):
            if model is one:
                out = model(*batch)
            else:
                batch[0].group(grouper=LengthThresholdGrouper("sequence", thresholds))
                assert [group.value.shape[1] for group in batch[0].data_groups] == [1, 4, 16, 64][
                    : len(batch[0].data_groups)
                ]
                made = batch[0].apply(AnnotatedPooled(model))
                made.regroup(grouper=UniGrouper())
                out = made.data_groups[0].value
            loss = torch.mean((labels - out) ** 2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[which].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    for a, b in zip(one.parameters(), other.parameters()):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-13) and torch.allclose(
            a.grad, b.grad, rtol=1e-10, atol=1e-13
        )


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=8),
    st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
    st.integers(0, 2),
    st.booleans(),
)
def test_groups_against_plain_torch(sizes, thresholds, batch_dim, preset):
    rng = np.random.default_rng(len(sizes))
    data = [torch.from_numpy(rng.random((a, 2, b))) for a, b in sizes]
    dims = ["L_a", "2", "L_b"]
    dims.insert(batch_dim, "B")
    padder = CDimPadder(torch.tensor([5.0, 6.0], dtype=torch.float64))
    dc = DataCollection(f"({', '.join(dims)})", data_list=data, padding=padder if preset else None)
    dc.group(LengthThresholdGrouper("a", thresholds), padding=None if preset else padder)
    for label in ("a", "b"):
        for part, group in zip(dc.data_partition, dc.data_groups):
            longest = [max(data[i].shape[dim] for i in part) for dim in (0, 2)]
            expected = []
            for i in part:
                whole = torch.tensor([5.0, 6.0], dtype=torch.float64)[None, :, None].repeat(
                    longest[0], 1, longest[1]
                )
                whole[: data[i].shape[0], :, : data[i].shape[2]] = data[i]
                expected.append(whole)
            assert torch.equal(group.value, torch.stack(expected, batch_dim))
        for i, (part, group) in enumerate(zip(dc.data_partition, dc.data_groups)):
            within = [
                (
                    torch.arange(group.value.movedim(batch_dim, 0).shape[1])[:, None, None]
                    < data[j].shape[0]
                )
                | (torch.arange(group.value.movedim(batch_dim, 0).shape[3]) < data[j].shape[2])
                for j in part
            ]
            assert torch.equal(
                dc.get_mask(i), torch.stack([each.expand(-1, 2, -1) for each in within], batch_dim)
            )
            assert torch.equal(
                dc.get_mask(i, mask_hint=["a", "b"]), torch.stack([each[:, 0] for each in within])
            )
        dc.regroup(
            LengthThresholdGrouper(label, thresholds), **({} if preset else {"padding": padder})
        )
    dc.ungroup()
    assert len(dc) == len(data) and all(
        a.value.shape == b.shape and torch.equal(a.value, b) for a, b in zip(dc.data_list, data)
    )


# Data


def test_data():
    data = Data({"a": {"x": 1, "y": 2}, "b": 3})
    assert (
        data["a"].value == {"x": 1, "y": 2}
        and data["a"]["x"].is_leaf
        and not data.is_leaf
        and data.keys() == ["a", "b"] == list(data)
        and "a" in data
        and "x" not in data
    )
    assert data.get(["a", "y"]).value == 2 and data.get([]) is data
    assert (
        data.get_any_leaf_item() == (["a", "x"], 1)
        and data.get_any_leaf_keys() == ["a", "x"]
        and data.get_any_leaf_value() == 1
    )
    assert data.get_any_leaf_keys(acc=["z"]) == ["z", "a", "x"]
    assert data.get_template().value == {"a": {"x": None, "y": None}, "b": None} and isinstance(
        data.get_template(), DataTemplate
    )
    assert Data.from_data_dict({"p": data["a"], "q": Data(4)}).value == {
        "p": {"x": 1, "y": 2},
        "q": 4,
    }
    data["c"] = Data({"z": 5})
    assert data["c"]["z"].value == 5
    conversion = {"a": ("A", {"x": ("X", None)}), "c": ("C", None)}
    converted = data.keys_converted(conversion)
    assert (
        converted.value == {"A": {"X": 1, "y": 2}, "b": 3, "C": {"z": 5}}
        and converted.keys_converted(conversion, reversed=True).value == data.value
    )
    assert data.keys_converted(None).value == data.value
    assert Data.map(lambda x: x + 1, data).value == {"a": {"x": 2, "y": 3}, "b": 4, "c": {"z": 6}}
    assert Data.map2(lambda x, y: x * y, data, data).value == {
        "a": {"x": 1, "y": 4},
        "b": 9,
        "c": {"z": 25},
    }
    small = Data({"a": {"y": 20}})
    assert list(Data.leaf_zip_left(small, data)) == [(20, 2)] and list(
        Data.leaf_zip_right(data, small)
    ) == [(2, 20)]
    assert list(Data.leaf_zip_right(Data(1), Data(2))) == [(1, 2)]
    for wrong in (
        lambda: list(Data.leaf_zip_left(data, small)),
        lambda: list(Data.leaf_zip_right(small, data)),
        lambda: list(Data.leaf_zip_left(Data(1), data)),
    ):
        with pytest.raises(ValueError, match=r"does not have the key|has a value where"):
            wrong()
    for wrong in (
        lambda: Data(1)["a"],
        lambda: Data(1).keys(),
        lambda: Data(1).__setitem__("a", Data(2)),
        lambda: data.__setitem__("d", TensorData(2)),
    ):
        with pytest.raises(TypeError):
            wrong()
    deep = 1
    for _ in range(7):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="too deep"):
        Data(deep).get_template()
    assert (
        TensorData({"a": torch.ones(2)}).to_device("meta").value["a"].device.type == "meta"
        and TensorData(0).leaf_type is torch.Tensor
    )


def test_signatures():
    signature = ShapeSignature.parse("(L_a, B, 3, M_h)")
    assert (
        signature.list == [LDim("a"), BDim(), CDim(3), MDim("h")]
        and str(signature) == "(L_a, B, 3, M_h)"
        and len(signature) == 4
        and signature.bdim_idx == 1
    )
    assert (
        str(signature.bdim_removed()) == "(L_a, 3, M_h)"
        and list(signature.iter_cdim_idx()) == [2]
        and list(signature.iter_ldim_idx_label()) == [(0, "a")]
    )
    assert (
        LDim("a") != MDim("a") != LDim("a")
        and CDim(3) != CDim(4)
        and LDim("a") != PreLDim("a")
        and ADim("x") == ADim("y")
    )
    annotation = PreShapeSignature.parse("(b, .x., l_1, m_2, 3)")
    assert (
        annotation.list == [PreBDim(), ADim("x"), PreLDim("1"), PreMDim("2"), PreCDim(3)]
        and str(annotation) == "(b, .x., l_1, m_2, 3)"
        and annotation.find_adim() == 1
        and annotation.bdim_idx == 0
    )
    nested = ShapeSignatureData.parse({"a": "(L_x, B, L_y)", "b": {"c": "(B, L_y, L_z)"}})
    assert nested.ldim_map == {"x": (["a"], 0), "y": (["a"], 2), "z": (["b", "c"], 2)}
    assert nested.prestack_ldim_map == {"x": (["a"], 0), "y": (["a"], 1), "z": (["b", "c"], 1)}
    assert (
        nested.bdim_loc == (["a"], 1)
        and nested.batched
        and not ShapeSignatureData.parse("(L_x)").batched
        and ShapeSignatureData.parse("(L_x)").bdim_loc is None
    )
    assert PreShapeSignatureData.parse("(b)").batched
    for wrong in (
        lambda: ShapeSignature.parse("B, 3"),
        lambda: ShapeSignature.parse("(B, x)"),
        lambda: ShapeSignature.parse("(B, L)"),
        lambda: ShapeSignature.parse("(B, B)"),
        lambda: ShapeSignature.parse("(3)").bdim_removed(),
        lambda: PreShapeSignature.parse("(l_1)"),
        lambda: PreShapeSignature.parse("(b, .., .x.)"),
        lambda: PreShapeSignature.parse("(b, L_1)"),
        lambda: ShapeSignatureData.parse("(L_x)").get_ldim_map(prestack=True),
    ):
        with pytest.raises(ValueError):
            wrong()
    PreShapeSignature.parse("(b, .., .x.)", come_from="output")
    with pytest.raises(TypeError):
        ShapeSignatureData.parse({"a": 3})


# Modules


def converted(inputs, outputs, signature, **more):
    made, hint = Module(
        None, inputs, outputs, more.pop("hint", None)
    ).get_output_shapesig_data_and_mask_hint(ShapeSignatureData.parse(signature), **more)
    return Data.map(str, made).value, hint


def test_annotations():
    signature = {
        "image": "(B, L_width, L_height, 3, M_hidden1)",
        "augs": {"wide": "(B, L_width, L_aug1, M_aug1dim)", "high": "(B, L_height, M_aug2dim)"},
    }
    conversion = {
        "image": ("features", None),
        "augs": ("augs", {"wide": ("aug1", None), "high": ("aug2", None)}),
    }
    inputs = {"features": "(b, l_1, l_2, .., m_1)", "augs": {"aug1": "(b, l_1, l_3, .?., m_2)"}}
    assert converted(
        inputs, "(b, l_1, .., l_3, .?., m_3)", signature, input_key_conv=conversion
    ) == ("(B, L_width, 3, L_aug1, M_3)", None)
    assert converted(
        inputs,
        {"x": "(b, l_2, m_1, 7)"},
        signature,
        input_key_conv=conversion,
        output_key_conv={"x": ("y", None)},
        hint=["2", "3"],
    ) == (
        {"y": "(B, L_height, M_hidden1, 7)"},
        ["height", "aug1"],
    )
    assert converted("(b, ..)", "(b, ..)", "(B)", hint="copy") == ("(B)", "copy")
    assert converted("(b, .., 3)", "(b, ..)", "(B, L_a, M_b, 3)") == ("(B, L_a, M_b)", None)
    for arguments, words in (
        (("(b, l_1, l_2)", "(b)", "(B, L_a)"), "too short"),
        (("(b, l_1, .., l_2)", "(b)", "(B, L_a)"), "too short"),
        (("(b, l_1)", "(b)", "(B, 3)"), r"\(b, l_1\)\[1\] and \(B, 3\)\[1\]"),
        (("(b, 3)", "(b)", "(B, 4)"), r"\(b, 3\)\[1\]"),
        (("(l_1, b)", "(b)", "(B, L_a)"), r"\(l_1, b\)\[0\]"),
        (("(b, m_1)", "(b)", "(B, L_a)"), r"\(b, m_1\)\[1\]"),
        (("(b, l_1, l_1)", "(b)", "(B, L_a, L_c)"), "l_1 was previously resolved to L_a"),
        (
            ({"x": "(b, ..)", "y": "(b, ..)"}, "(b)", {"x": "(B, 3)", "y": "(B, 4)"}),
            r"is not \(3\), for which it stood before",
        ),
    ):
        with pytest.raises(ShapeConflictError, match=words):
            converted(*arguments)
    for arguments in (("(b)", "(b, l_1)", "(B)"), ("(b)", "(b, ..)", "(B)")):
        with pytest.raises(PreDimConversionError):
            converted(*arguments)
    for arguments, more in (
        (("(b)", None, "(B)"), {}),
        ((None, "(b)", "(B)"), {}),
        (("(b)", "(b)", "(B)"), {"hint": ["x"]}),
        (("(b)", "(b)", "(B)"), {"hint": "seq"}),
    ):
        with pytest.raises(AnnotationError):
            converted(*arguments, **more)
    with pytest.raises(ValueError, match="does not have the key 'y'"):
        converted({"y": "(b)"}, "(b)", {"x": "(B)"})
    with pytest.raises(TypeError, match="abstract"):
        AnnotatedModule()
    assert str(ShapeConflictError("words")) == ShapeConflictError("words").message == "words"


def test_apply_without_a_mask_and_with_copies(path):
    dc = DataCollection(
        {"x": "(B, L_a, 2)"}, [{"x": torch.ones(length, 2)} for length in (1, 3, 2)]
    )
    with pytest.raises(ValueError, match='only when the DataCollection is "grouped"'):
        dc.apply(Module(None, {"x": "(b, ..)"}, "(b)"))
    dc.group(PredefinedGrouper([[2, 0], [1]]))
    sums = dc.apply(Module(lambda d: d["x"].sum((1, 2)), {"x": "(b, ..)"}, "(b)"))
    assert sums.length_info == {} and [group.value.tolist() for group in sums.data_groups] == [
        [4, 2],
        [6],
    ]
    sums.ungroup()
    assert [data.value.item() for data in sums.data_list] == [2, 6, 4]
    masks = dc.apply(
        Module(lambda d, mask: mask["z"].to(d["z"]), {"z": "(b, l_1, ..)"}, "(b, l_1, ..)", "copy"),
        input_key_conv={"x": ("z", None)},
    )
    assert masks.data_groups[0].value.tolist() == [[[1, 1], [1, 1]], [[1, 1], [0, 0]]]
    longer = dc.apply(
        Module(
            lambda d: torch.nn.functional.pad(d["x"], (0, 0, 0, 2)),
            {"x": "(b, l_1, ..)"},
            "(b, l_1, ..)",
        )
    )
    longer.ungroup()  # what is beyond the lengths is cut off
    assert [tuple(data.value.shape) for data in longer.data_list] == [(1, 2), (3, 2), (2, 2)]
    shorter = dc.apply(Module(lambda d: d["x"][:, :1], {"x": "(b, l_1, ..)"}, "(b, l_1, ..)"))
    with pytest.raises(ValueError, match="groups do not have the samples' shapes"):
        shorter.ungroup()


# Padders


class OnePadder(Padder):
    def pad(self, t, shapesig, target_shape):
        assert str(shapesig) == "(L_a, 2)"
        made = torch.ones(target_shape, dtype=t.dtype)
        made[: len(t)] = t
        return made

    def to_device(self, device):
        return self


class Shifted(ZeroPadder):
    def pad(self, t, shapesig, target_shape):
        return super().pad(t, shapesig, target_shape) + 1


def test_padders_of_ones_own(path):
    data = [
        {"x": torch.full((length, 2), 5.0), "y": torch.full((length, 2), 5.0)} for length in (1, 2)
    ]
    dc = DataCollection(
        {"x": "(B, L_a, 2)", "y": "(L_a, B, 2)"}, data, padding={"x": OnePadder(), "y": Shifted()}
    )
    assert dc.to_device("cpu").preset_padder_data["x"].value is dc.preset_padder_data["x"].value
    dc.group(UniGrouper())
    assert dc.data_groups[0]["x"].value.tolist() == [[[5, 5], [1, 1]], [[5, 5], [5, 5]]]
    assert dc.data_groups[0]["y"].value.tolist() == [[[6, 6], [6, 6]], [[1, 1], [6, 6]]]
    with pytest.raises(TypeError, match="abstract"):
        Padder()


def test_padders_by_themselves(path):
    signature = ShapeSignature.parse("(B, L_a, 2)")
    whole = CDimPadder(torch.tensor([1.0, 2.0])).merge_tensors(
        [torch.zeros(1, 2), torch.zeros(2, 2)], signature
    )
    assert whole.tolist() == [[[0, 0], [1, 2]], [[0, 0], [0, 0]]]
    promoted = CDimPadder(torch.tensor([1.0, 2.0])).merge_tensors(
        [torch.zeros(1, 2).int(), torch.zeros(2, 2).int()], signature
    )
    assert promoted.dtype == torch.float32 and promoted.tolist() == whole.tolist()
    # Sizes that are not lengths go by the first tensor, and more of them is cut off.
    model = ZeroPadder().merge_tensors(
        [torch.ones(2, 3), torch.ones(1, 2), torch.ones(1, 5)],
        ShapeSignature.parse("(B, L_a, M_x)"),
    )
    assert model.tolist() == [[[1] * 3] * 2, [[1, 1, 0], [0] * 3], [[1] * 3, [0] * 3]]
    mixed = ZeroPadder().merge_tensors(
        [torch.ones(2), torch.ones(1, dtype=torch.float64)], ShapeSignature.parse("(B, L_a)")
    )
    assert mixed.dtype == torch.float64 and mixed.tolist() == [[1, 1], [1, 0]]
    scalars = ZeroPadder().merge_tensors(
        [torch.tensor(1.0), torch.tensor(2.0)], ShapeSignature.parse("(B, 1)")
    )
    assert scalars.tolist() == [1, 2]
    own = signature.bdim_removed()
    assert CDimPadder(torch.tensor([1.0, 2.0])).pad(torch.zeros(1, 2), own, (2, 2)).tolist() == [
        [0, 0],
        [1, 2],
    ] and ZeroPadder().pad(torch.ones(1, 2), own, (2, 2)).tolist() == [[1, 1], [0, 0]]
    for wrong, words in (
        (
            lambda: CDimPadder(torch.ones(3)).merge_tensors([torch.zeros(1, 2)], signature),
            "must be as the padding of shape",
        ),
        (
            lambda: CDimPadder(torch.ones(2, device="meta")).merge_tensors(
                [torch.zeros(1, 2)], signature
            ),
            "the padding is on meta",
        ),
        (lambda: ZeroPadder().pad(torch.ones(1), own, (2, 2)), "shape length does not match"),
        (lambda: ZeroPadder().merge_tensors([], signature), "must be at least one"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    template = Data({"x": 0, "y": {"z": 0}}).get_template()
    padders = PadderData({"y": {"z": CDimPadder(torch.ones(2))}}, template=template)
    assert (
        isinstance(padders["x"].value, ZeroPadder)
        and isinstance(padders["y"]["z"].value, CDimPadder)
        and padders.to_device("meta")["y"]["z"].value.value.device.type == "meta"
    )
    with pytest.raises(TypeError, match="must be a Padder"):
        PadderData({"x": 3}, template=template)


# Groupers


class ByFirstNumber(DataListGrouper):
    def get_data_partition(self, data_list, shapesig_data):
        assert (
            isinstance(data_list, list)
            and isinstance(data_list[0], TensorData)
            and isinstance(shapesig_data, ShapeSignatureData)
        )
        order = sorted(range(len(data_list)), key=lambda i: -float(data_list[i].value[0]))
        return [order[:2], order[2:]]


class Halves(LengthBasedGrouper):
    def get_partition_from_lengths(self, lengths):
        assert lengths == [3, 1, 2]
        return [[1], [2, 0]]


def test_groupers_of_ones_own(path):
    dc = DataCollection("(B, L_a)", [torch.full((length,), float(length)) for length in (3, 1, 2)])
    for grouper, partition in (
        (ByFirstNumber(), [[0, 2], [1]]),
        (Halves("a"), [[1], [2, 0]]),
        (PredefinedConsecutiveGrouper([1, 2]), [[0], [1, 2]]),
        (PredefinedGrouper([[2, 1], [0]]), [[2, 1], [0]]),
        (UniGrouper(), [[0, 1, 2]]),
        (LengthThresholdGrouper("a", [1]), [[1], [0, 2]]),
    ):
        dc.group(grouper)
        assert (
            dc.data_partition == partition
            and dc.data_groups[0].value[0, 0] == [3.0, 1.0, 2.0][partition[0][0]]
        )
        dc.ungroup()
        assert [data.value.tolist() for data in dc.data_list] == [[3, 3, 3], [1], [2, 2]]
        dc.group(UniGrouper())
        dc.regroup(grouper)
        assert dc.data_partition == partition
        dc.ungroup()
    with pytest.raises(KeyError):
        dc.group(LengthThresholdGrouper("b", [1]))
    with pytest.raises(ValueError, match="the partition is one of 2"):
        dc.group(PredefinedGrouper([[0], [1]]))


# Collections


def collection(*lengths):
    return DataCollection("(B, L_a)", [torch.arange(length) + 10 * length for length in lengths])


def values(data):
    return [each.value.tolist() for each in data]


def test_states_and_errors():
    dc = collection(2, 1, 3)
    assert (
        len(dc) == 3
        and not dc.is_grouped
        and dc.data_groups is None
        and dc.length_info is None
        and dc.data_partition is None
    )
    for wrong in (
        dc.ungroup,
        lambda: dc.regroup(UniGrouper()),
        lambda: dc.groups_as_data(0, "g"),
        lambda: dc.masks_as_data(0, "g"),
        lambda: dc.get_mask(0),
    ):
        with pytest.raises(ValueError, match=r"Already ungrouped|only when|can be called only"):
            wrong()
    dc.group(LengthThresholdGrouper("a", [2]))
    assert len(dc) == 3 and dc.is_grouped and dc.data_list is None
    assert dc.get_group_length_info(0) == {"a": [2, 1]} and dc.get_length_info([]) == {
        "a": [[2, 1], [3]]
    }
    assert values(dc.get_data_list()) == [[20, 21], [10], [30, 31, 32]] and dc.is_grouped
    with pytest.raises(ValueError, match="Already grouped, call ungroup"):
        dc.group(UniGrouper())
    for hint, words in (
        ([], "non-empty list"),
        (["b"], "The string b in the list mask_hint is not a LDim label"),
        (("a",), "non-empty list"),
    ):
        with pytest.raises(ValueError, match=words):
            dc.get_mask(0, mask_hint=hint)
    with pytest.raises(ValueError, match="There are pre-set padders"):
        DataCollection("(B, L_a)", [torch.ones(1)], padding=ZeroPadder()).group(
            UniGrouper(), padding=ZeroPadder()
        )
    for arguments in (
        {},
        {"data_groups": [torch.ones(1, 1)]},
        {"data_groups": [], "length_info": {}},
        {"data_groups": torch.ones(1, 1), "length_info": {}},
        {"data_list": [], "length_info": {}},
    ):
        with pytest.raises(ValueError):
            DataCollection("(B, L_a)", **arguments)
    with pytest.raises(TypeError, match="tensors"):
        dc["x"]
    dc.validate()


def test_no_data():
    for annotation in ("(B, L_s)", {"x": "(B, L_s, 3)"}):
        empty = DataCollection(annotation, [])
        empty.group(LengthThresholdGrouper("s", [1]))
        assert empty.data_groups == empty.data_partition == []
        with pytest.raises(ValueError, match="tensors: must be at least one"):
            DataCollection(annotation, []).group(UniGrouper())


def test_groups_given():
    few = DataCollection("(B, L_s)", data_groups=[torch.ones(2, 3)], length_info={"s": [[2]]})
    with pytest.raises(
        ValueError, match=r"length_info\['s'\] has 1 lengths: the groups have 2 data"
    ):
        few.ungroup()
    dc = DataCollection(
        "(B, L_a)",
        data_groups=[torch.tensor([[1, 0], [2, 3]]), torch.tensor([[4, 5, 6]])],
        length_info={"a": [[1, 2], [3]]},
    )
    assert dc.data_partition == [[0, 1], [2]] and len(dc) == 3
    dc.regroup(UniGrouper())
    assert dc.data_groups[0].value.tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]]
    other = DataCollection(
        "(B, L_a)",
        data_groups=[
            TensorData(torch.tensor([[1, 0], [2, 3]])),
            TensorData(torch.tensor([[4, 5, 6]])),
        ],
        length_info={"a": [[1, 2], [3]]},
        data_partition=[[2, 0], [1]],
    )
    other.ungroup()
    assert values(other.data_list) == [[2, 3], [4, 5, 6], [1]]


def test_forgetting_the_order():
    dc = collection(2, 1, 3)
    dc.group(PredefinedGrouper([[2, 0], [1]]), forget_order=True)
    assert dc.data_partition == [[0, 1], [2]] and dc.length_info == {"a": [[3, 2], [1]]}
    dc.ungroup()
    assert values(dc.data_list) == [[30, 31, 32], [20, 21], [10]]


def test_groups_and_masks_as_data():
    dc = DataCollection("(B, L_a, M_x)", [torch.ones(length, 2) for length in (3, 1, 2)])
    dc.group(LengthThresholdGrouper("a", [2]))
    for index, signature, shape in (
        (0, "(B, L_g, L_a, M_x)", (2, 2, 3, 2)),
        (2, "(B, L_g, L_a, M_x)", (2, 2, 3, 2)),
        (-1, "(L_g, L_a, M_x, B)", (2, 3, 2, 2)),
        (-2, "(L_g, L_a, B, M_x)", (2, 3, 2, 2)),
    ):
        for made in (dc.groups_as_data(index, "g"), dc.masks_as_data(index, "g")):
            assert str(made.shapesig_data.value) == signature
            made.group(UniGrouper())
            assert made.data_groups[0].value.shape == shape and made.length_info == {
                "g": [[2, 1]],
                "a": [[2, 3]],
            }
    assert made.data_groups[0].value.dtype == torch.bool and made.data_groups[0].value.sum() == 12
    for index, label, words in (
        (5, "g", "too big"),
        (-5, "g", "too small"),
        (0, "a", "already exists"),
    ):
        with pytest.raises(ValueError, match=words):
            dc.groups_as_data(index, label)


def test_parts_and_wholes(path):
    dc = DataCollection(
        {"p": {"x": "(B, L_a, 2)", "r": "(B, L_a)"}, "q": "(B, L_c)"},
        [
            {"p": {"x": torch.ones(a, 2), "r": torch.ones(a)}, "q": torch.ones(c)}
            for a, c in ((2, 5), (1, 6), (3, 4))
        ],
    )
    with pytest.raises(KeyError, match="No key z"):
        dc["z"]
    assert [tuple(data["x"].value.shape) for data in dc["p"].data_list] == [(2, 2), (1, 2), (3, 2)]
    dc["s"] = collection(2, 1, 3)  # while ungrouped
    assert dc.shapesig_data.keys() == ["p", "q", "s"]
    dc.group(LengthThresholdGrouper("a", [2]))
    part = dc["p"]
    assert (
        part.length_info == {"a": [[2, 1], [3]]}
        and part.data_partition == [[0, 1], [2]]
        and part.data_groups[0]["x"].value.shape == (2, 2, 2)
    )
    dc["again"] = copy.deepcopy(part)
    assert dc.get_mask(0)["again"]["r"].tolist() == [[True, True], [True, False]]
    whole = DataCollection.from_dict({"p": part, "q": dc["q"]})
    assert whole.shapesig_data.get_template().value == {
        "p": {"x": None, "r": None},
        "q": None,
    } and whole.length_info == {"a": [[2, 1], [3]], "c": [[5, 6], [4]]}
    whole.regroup(LengthThresholdGrouper("c", [4]))
    assert whole.data_partition == [[2], [0, 1]] and [
        group["q"].value.shape for group in whole.data_groups
    ] == [(1, 4), (2, 6)]
    for wrong in (
        lambda: dc.__setitem__("t", whole),
        lambda: DataCollection.from_dict({"p": part, "q": whole["q"]}),
        lambda: dc.__setitem__("t", collection(2, 1, 3)),
    ):
        with pytest.raises(IncompatibleDataCollectionError):
            wrong()
    other = copy.deepcopy(part)
    other.length_info = {"a": [[2, 2], [3]]}
    with pytest.raises(
        IncompatibleDataCollectionError, match="length_info collision for ldim_label a"
    ):
        DataCollection.from_dict({"p": part, "q": other})
    lists = DataCollection.from_dict({"u": collection(2, 1), "v": collection(1, 2)})
    assert [data["v"].value.tolist() for data in lists.data_list] == [[10], [20, 21]]
    preset = DataCollection.from_dict(
        {
            "u": DataCollection(
                "(B, L_a, 2)",
                [torch.zeros(1, 2), torch.zeros(2, 2)],
                padding=CDimPadder(torch.tensor([1.0, 2.0])),
            ),
            "v": collection(1, 2),
        }
    )
    preset.group(UniGrouper())
    assert preset.data_groups[0]["u"].value[0, 1].tolist() == [1, 2]


def test_devices_copies_and_pickles(path):
    dc = DataCollection(
        {"x": "(B, L_a, 2)"},
        [{"x": torch.ones(2, 2)}, {"x": torch.ones(1, 2)}],
        padding={"x": CDimPadder(torch.tensor([1.0, 2.0]))},
    )
    moved = dc.to_device("meta")
    assert (
        moved.data_list[0]["x"].value.device.type == "meta"
        and moved.preset_padder_data["x"].value.value.device.type == "meta"
    )
    moved.group(UniGrouper())
    assert (
        moved.data_groups[0]["x"].value.shape == (2, 2, 2)
        and moved.get_mask(0)["x"].device.type == "meta"
    )
    for copied in (copy.deepcopy(dc), pickle.loads(pickle.dumps(dc))):
        copied.group(UniGrouper())
        grouped = pickle.loads(pickle.dumps(copied))
        assert grouped.to_device("meta").data_groups[0]["x"].value.device.type == "meta"
        for each in (copied, grouped):
            each.ungroup()
            assert [
                tuple(data["x"].value.shape) for data in pickle.loads(pickle.dumps(each)).data_list
            ] == [(2, 2), (1, 2)]


def collate(batch):
    return DataCollection("(B, L_a)", batch)


def test_as_collate_fn_of_workers():
    loader = torch.utils.data.DataLoader(
        [torch.arange(length) for length in (3, 0, 1, 4)],
        batch_size=2,
        collate_fn=collate,
        num_workers=1,
    )
    assert [values(dc.data_list) for dc in loader] == [[[0, 1, 2], []], [[0], [0, 1, 2, 3]]]


def test_data_may_be_changed_between(path):
    """Groups and lists are the collection's own, as in asym: what is put into them counts."""
    dc = DataCollection({"x": "(B, L_a)"}, [{"x": torch.ones(2)}, {"x": torch.ones(1)}])
    dc.group(UniGrouper())
    dc.data_groups[0].value["x"] = dc.data_groups[0].value["x"] * 3
    dc.ungroup()
    assert [data["x"].value.tolist() for data in dc.data_list] == [[3, 3], [3]]
    dc.data_list[1].value["x"] = torch.full((4,), 7.0)
    dc.group(UniGrouper())
    assert dc.data_groups[0]["x"].value.tolist() == [
        [3, 3, 0, 0],
        [7, 7, 7, 7],
    ] and dc.length_info == {"a": [[2, 4]]}
    dc.ungroup()
    dc.data_list = dc.data_list[:1]
    dc.group(UniGrouper())
    assert len(dc) == 1
