"""How handles and reports are shown: in one line, as tables, in pictures, and as plain values."""

import html.parser
import inspect
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import sab

SIZES = [3, 1, 2, 3, 5, 2]
PAIRS = {"source": [3, 1, 2, 3], "target": [2, 2, 4, 1]}


def plan():
    return sab.plan(SIZES, budget=10)


def model():
    rows = [(n, length) for n in (1, 2, 4, 8) for length in (10, 50, 100)]
    return sab.MemoryModel.fit(rows, [1e6 + 300 * n * length for n, length in rows])


def sharded():
    return sab.ShardedSampler(SIZES, 10, gather=lambda data: [data], rank=0, world_size=1)


SAMPLERS = {
    "BaguaBatchSampler": lambda: sab.BaguaBatchSampler(SIZES, budget=6, seed=7),
    "BaguaSampler": lambda: sab.BaguaSampler(SIZES, rank=1, world_size=2),
    "BalancedSampler": lambda: sab.BalancedSampler(SIZES, budget=10),
    "OrderedSampler": lambda: sab.OrderedSampler(None, SIZES, budget=6),
    "BionemoSizeAwareStream": lambda: sab.BionemoSizeAwareStream([0, 1], lambda i: 2, budget=4),
    "BucketSampler": lambda: sab.BucketSampler(plan(), seed=3, rank=1, world_size=2),
    "PackedSampler": lambda: sab.PackedSampler(SIZES, 8),
    "SequentialSampler": lambda: sab.SequentialSampler(plan()),
    "ShardedSampler": sharded,
}
HANDLES: "dict[str, Any]" = {
    **SAMPLERS,
    "BalancedReport": lambda: SAMPLERS["BalancedSampler"]().report(),
    "Batch": lambda: next(sab.BucketSampler(sab.plan([1] * 5000, 5000)).batches()),
    "Bucket": lambda: plan().buckets[0],
    "Budget": lambda: sab.Budget(16384),
    "Cache": lambda: sab.Cache("memory:"),
    "CacheStats": lambda: sab.Cache("memory:").stats(),
    "CachedDataset": lambda: sab.CachedDataset([1, 4, 9], "memory:"),
    "Capabilities": lambda: sab.BucketSampler(plan()).capabilities,
    "Cost": sab.Cost.padded,
    "Device": sab.Device,
    "Grouping": lambda: sab.Grouping.uni(3),
    "Jagged": lambda: sab.Jagged(np.zeros((5000, 3)), np.arange(0, 5001, 50)),
    "Mixture": lambda: sab.Mixture({"a": SIZES, "b": [1]}, repeat={"a": 0.5}),
    "MaxBatch": lambda: sab.find_max_batch(
        lambda count: None, "host", search="binary", max_batch_size=4, budget=1 << 60
    ),
    "MemoryGuard": lambda: sab.MemoryGuard(sab.BucketSampler(plan()), "host", budget=1 << 60),
    "MemoryGuardInfo": lambda: HANDLES["MemoryGuard"]().info,
    "MemoryModel": model,
    "MemoryModelInfo": lambda: model().info,
    "PackedInfo": lambda: sab.PackedSampler(SIZES, 8).info,
    "PackedReport": lambda: sab.PackedSampler(SIZES, 8).report(),
    "Peaks": lambda: sab.collect_peak(lambda n: (n, 2 * n), range(1, 40), "host"),
    "Plan": plan,
    "Probe": lambda: sab.Probe("host"),
    "ProbeStats": lambda: sab.Probe("host").stats(),
    "Report": lambda: plan().report(),
    "Sizes": lambda: sab.Sizes(SIZES),
    "SourceReport": lambda: sab.plan(HANDLES["Mixture"](), 10).report().sources["a"],
    "Step": lambda: sab.BucketSampler(plan()).step(0),
    "Stream": lambda: sab.Stream.from_items([1, 2, 3]).batch(2),
    "Thresholds": lambda: sab.find_thresholds(SIZES, 2),
    "Verification": lambda: plan().verify(lambda batch: None, "host"),
}


def collections():
    torch = pytest.importorskip("torch")
    made = sab.Collection([torch.zeros(100 + n) for n in range(3)], "(B, L_a)")
    return {"Collection": made, "Grouped": made.group(sab.Grouping.uni(3))}


def test_each_public_class_has_a_repr_of_its_own():
    public = [getattr(sab, name) for name in sab.__all__]
    classes = [each for each in public if inspect.isclass(each)]
    assert len(classes) > 40
    without = {each.__name__ for each in classes if each.__repr__ is object.__repr__}
    assert without == set()


def test_the_repr_of_a_meter_is_one_line():
    assert repr(sab.Meter(print, budget=16)) == "<sab.Meter: 0 steps>"


def test_each_public_class_for_torch_has_a_repr_of_its_own(tmp_path):
    torch = pytest.importorskip("torch")
    import sab.torch

    public = [getattr(sab.torch, name) for name in sab.torch.__all__]
    classes = [each for each in public if inspect.isclass(each)]
    assert [each.__name__ for each in classes if each.__repr__ is object.__repr__] == []
    loader = sab.torch.DataLoader(list(range(6)), sab.BucketSampler(plan()))
    for handle in (
        loader,
        loader.dataset,
        loader.batch_sampler,
        sab.torch.PadCollate({"x": 0}, mask="mask"),
        sab.torch.PackCollate({"x": 0}),
        sab.torch.StreamDataset(sab.Stream.from_items([1, 2, 3])),
    ):
        text = repr(handle)
        assert text.startswith(f"<sab.torch.{type(handle).__name__}") and "\n" not in text
    if hasattr(torch.optim.Optimizer, "register_step_pre_hook"):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        scaler = sab.torch.LearningRateScaler(optimizer, 4096)
        assert repr(scaler) == "<sab.torch.LearningRateScaler: linear rule, factor 1>"


@pytest.mark.parametrize("name", HANDLES)
def test_the_repr_of_a_handle_is_one_line_with_its_class(name):
    handle = HANDLES[name]()
    text = repr(handle)
    assert name in text and "\n" not in text and " object at 0x" not in text
    assert len(text) < 1000


def test_the_repr_of_tensors_is_one_line():
    for name, handle in collections().items():
        assert repr(handle).startswith(f"<sab.{name}: 3 samples") and "\n" not in repr(handle)


def test_the_repr_of_a_sampler_says_where_it_stands():
    sampler = SAMPLERS["BucketSampler"]()
    sampler.set_epoch(4)
    assert repr(sampler) == (
        f"<sab.BucketSampler: batches {len(sampler)}, rank 1 of 2, epoch 4, seed 3, skipped 0>"
    )
    with pytest.warns(sab.SkippedWarning):
        greedy = sab.OrderedSampler(None, [2, 9, 2], budget=4)
    assert repr(greedy).endswith("epoch 0, skipped 1>")
    assert repr(plan()) == (
        f"<sab.Plan: 6 samples in {plan().batch_count} batches, {len(plan().buckets)} buckets, "
        "budget 10>"
    )


@pytest.mark.parametrize("name", [*SAMPLERS, "Cache", "MemoryGuard", "Probe"])
def test_the_repr_of_a_closed_handle_says_so(name):
    handle = HANDLES[name]()
    handle.close()
    assert name in repr(handle) and "closed" in repr(handle)


def test_the_repr_of_a_sampler_does_not_raise_what_its_function_raises():
    calls = []

    def batches(indices):
        if len(calls) > 1:
            raise RuntimeError("no more")
        calls.append(len(indices))
        return [indices]

    sampler = sab.BaguaBatchSampler(SIZES, batches)
    with pytest.raises(RuntimeError, match="no more"):
        for epoch in range(1, 4):
            sampler.set_epoch(epoch)
    assert repr(sampler).startswith("<sab.BaguaBatchSampler: ")


class Tags(html.parser.HTMLParser):
    """The tags and texts of a page, all closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert {name for name, _ in attrs} <= {"style", "scope"}
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


SHOWN = ["BalancedReport", "MemoryModel", "MemoryModelInfo", "PackedInfo", "PackedReport"]
SHOWN += ["Plan", "Report"]


@pytest.mark.parametrize("name", [*SHOWN, *SAMPLERS])
def test_notebooks_show_tables(name):
    page = Tags(HANDLES[name]()._repr_html_())
    assert page.tags <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert "table" in page.tags and len(page.texts) > 4


def test_notebooks_show_the_buckets_of_a_plan_and_escape_names():
    sizes = {"<script>": [3, 1, 2, 3], "b": [2, 2, 4, 1]}
    made = sab.plan(sizes, budget=30)
    for each in (made, made.report()):
        page = Tags(each._repr_html_())
        assert "script" not in page.tags and "<script>" in page.texts
        assert str(made.buckets[0].samples) in page.texts
    sampler = sab.BucketSampler(plan(), seed=31)
    assert "31" in Tags(sampler._repr_html_()).texts
    sampler.close()
    assert "closed" in Tags(sampler._repr_html_()).texts


@pytest.mark.parametrize(
    "name",
    [
        "BalancedReport",
        "MemoryGuardInfo",
        "MemoryModelInfo",
        "PackedInfo",
        "PackedReport",
        "Report",
    ],
)
def test_to_dict_gives_what_json_takes(name):
    report = HANDLES[name]()
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert list(report.to_dict()) == list(report._fields)


def test_to_dict_of_several_columns():
    facts = sab.plan(PAIRS, budget=30).report().to_dict()
    assert facts["totals"] == {"source": 9.0, "target": 9.0}
    assert set(facts["buckets"][0]["longest"]) == {"source", "target"}
    balanced = sab.BalancedSampler(PAIRS, budget={"source": 6, "target": 6}).report().to_dict()
    assert json.loads(json.dumps(balanced)) == balanced and len(balanced["rank_imbalance"]) == 2


@pytest.fixture
def figures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_plots_draw_on_the_given_axes(figures):
    for sizes in (SIZES, np.array(SIZES) / 7, PAIRS, [4, 4, 4]):
        made = sab.plan(sizes, budget=30)
        for draw in (made.plot, lambda ax, made=made, sizes=sizes: made.plot(sizes, ax=ax)):
            _, ax = figures.subplots()
            assert draw(ax=ax) is ax
            assert ax.get_xlabel() in ("size of a sample", "source")
            ax.figure.canvas.draw()
        assert made.report().plot().get_ylabel() == "padding, %"


def test_the_plot_of_a_report_has_the_padding_of_each_bucket(figures):
    report = sab.plan([1, 2, 4, 4], 8, boundaries=[1, 3, 5]).report()
    heights = [bar.get_height() for bar in report.plot().patches]
    assert heights == pytest.approx([25, 0])  # 1 and 2 are padded to 2


def test_a_plot_refuses_other_sizes(figures):
    with pytest.raises(ValueError, match="sizes has 2 samples"):
        plan().plot([1, 2])
    with pytest.raises(ValueError, match="source"):
        plan().plot({"source": SIZES})


def test_a_plot_without_matplotlib_says_how_to_get_it():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import sab; plan = sab.plan([1, 2], 4)\n"
        "for draw in (plan.plot, plan.report().plot):\n"
        "    try: draw()\n"
        "    except ImportError as error: print(error)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert made.stdout.splitlines() == ['pictures need matplotlib: pip install "libsab[cli]"'] * 2
