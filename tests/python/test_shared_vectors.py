"""What the package and the LibTorch component both implement, by the vectors that both test
against: tests/golden/torch."""

import pathlib
import threading
import types

import pytest

import sab
from sab import _ranks
from sab._signature import ShapeSignature

torch = pytest.importorskip("torch")

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "torch"


def lines(name):
    text = (GOLDEN / name).read_text().splitlines()
    return [line for line in text if line and not line.startswith("#")]


@pytest.mark.parametrize("line", lines("signatures.txt"))
def test_signatures(line):
    kind, text, expected = line.split("|")
    if kind == "read":
        assert [str(each) for each in ShapeSignature(text, "signature").dims] == expected.split()
    else:
        with pytest.raises(ValueError) as refused:
            ShapeSignature(text, "signature")
        assert expected in str(refused.value)


@pytest.mark.parametrize("line", lines("gather.txt"))
def test_gathering(line, monkeypatch):
    kind, sizes, *message = line.split("|")
    sizes = sizes.split()
    store = torch.distributed.HashStore()
    c10d = types.SimpleNamespace(_get_default_store=lambda: store)
    monkeypatch.setattr(
        _ranks, "_torch_distributed", lambda: types.SimpleNamespace(distributed_c10d=c10d)
    )
    results = [None] * len(sizes)

    def run(rank, gather):
        try:
            results[rank] = gather(bytes([rank]) * int(sizes[rank]))
        except Exception as error:
            results[rank] = error

    threads = []
    for rank, size in enumerate(sizes):
        monkeypatch.setattr(_ranks, "ranks", lambda group, rank=rank: (rank, len(sizes)))
        gather = _ranks._torch_gather(None, 1 if kind == "missing" else 60)
        if size != "-":
            threads.append(threading.Thread(target=run, args=(rank, gather)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size, result in zip(sizes, results):
        if size == "-":
            assert result is None
        elif kind == "all":
            assert result == [bytes([rank]) * int(size) for rank in range(len(sizes))]
        else:
            assert type(result) is {"missing": TimeoutError, "unlike": sab.MismatchError}[kind]
            assert str(result) == message[0]


def collection_cases():
    cases = []
    for line in lines("collections.txt"):
        key, *words = line.split()
        if key == "signature":
            cases.append({"signature": line.split(" ", 1)[1], "samples": [], "groups": []})
        elif key == "sample":
            cases[-1]["samples"].append([int(word) for word in words])
        elif key == "padding":
            cases[-1]["padding"] = float(words[0])
        elif key == "thresholds":
            cases[-1]["thresholds"] = {words[0]: [float(word) for word in words[1:]]}
        elif key == "group":
            cases[-1]["groups"].append({"group": [int(word) for word in words]})
        elif key == "mask":
            cases[-1]["groups"][-1]["mask"] = words[0], [int(word) for word in words[1:]]
        else:
            cases[-1]["groups"][-1][key] = [int(word) for word in words]
    return cases


@pytest.mark.parametrize("case", collection_cases(), ids=lambda case: case["signature"])
def test_collections(case):
    samples, first = [], 1
    for shape in case["samples"]:
        count = torch.zeros(shape).numel()
        samples.append(torch.arange(first, first + count, dtype=torch.float64).reshape(shape))
        first += count
    collection = sab.Collection(samples, case["signature"], padding=case["padding"])
    grouping = collection.grouping(**case["thresholds"])
    grouped = collection.group(grouping)
    assert [list(indices) for indices in grouping] == [each["group"] for each in case["groups"]]
    for number, expected in enumerate(case["groups"]):
        group = grouped.groups[number]
        assert list(group.shape) == expected["shape"]
        assert group.flatten().tolist() == expected["values"]
        name, mask = expected["mask"]
        assert grouped.masks(name)[number].flatten().int().tolist() == mask
