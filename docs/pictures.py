"""Draws the pictures of the pages: docs/pictures.py FOLDER. Data: WordNet's
glosses and random numbers."""

import json
import pathlib
import subprocess
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle

import sab
from sab._cli.baselines import sorted_windows
from sab._cli.measure import measure

FOLDER = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "examples/python"))
from wordnet import glosses  # noqa: E402

BUDGET = 1024
texts = [text for text, _ in glosses()]
sizes = np.array([len(text.split()) for text in texts])
plt.rcParams.update(
    {
        "figure.figsize": (7, 4),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "sab",
        "figure.constrained_layout.use": True,
    }
)


def save(name):
    plt.savefig(FOLDER / f"{name}.svg", metadata={"Date": None}, facecolor="white")
    plt.close()


def compare():
    """What `sab compare` says of the glosses, as JSON."""
    (FOLDER / "glosses.txt").write_text("".join(f"{text}\n" for text in texts))
    command = [
        pathlib.Path(sys.executable).parent / "sab",
        "compare",
        "glosses.txt",
        "--words",
        "--budget",
        str(BUDGET),
        "--json",
    ]
    return subprocess.run(
        command,
        cwd=FOLDER,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def windows_of(epoch, window):
    return sorted_windows(sizes, BUDGET, np.random.default_rng([0, epoch]), window)


def curve(measured, color, label):
    meet_again = [100 * each.meet_again for each in measured]
    plt.plot(meet_again, [100 * each.padding for each in measured], "o-", color=color, label=label)


def padding():
    windows = [
        measure("", sizes, BUDGET, lambda epoch, window=window: windows_of(epoch, window))
        for window in (5_000, 7_000, 10_000, 14_000, 20_000, 40_000, 100_000)
    ]
    curve(windows, "tab:gray", "sorted windows of 5,000 to 100,000")
    for row in json.loads(compare())["systems"][:-1]:
        if row["system"].startswith("sorted windows"):
            continue
        place = 100 * row["meet_again"], 100 * row["padding"]
        plt.plot(*place, "o", color="tab:gray")
        side = -1 if row["system"].startswith("whole") else 1
        plt.annotate(
            row["system"],
            place,
            xytext=(8 * side, -3),
            textcoords="offset points",
            ha="left" if side > 0 else "right",
            color="tab:gray",
        )
    reports = [
        sab.plan(sizes, budget=BUDGET, padding=target).report()
        for target in (0.003, 0.017, 0.019, 0.025, 0.033, 0.05, 0.08, 0.15, 0.3)
    ]
    curve(reports, "tab:blue", "libsab, by target of padding")
    plt.xlabel("batch mates that meet again in the next epoch, %")
    plt.ylabel("padding, %")
    plt.xscale("symlog", linthresh=1)
    plt.yscale("log")
    plt.legend()
    save("padding")


def buckets():
    plan = sab.plan(sizes, budget=BUDGET)
    counts = np.bincount(sizes)
    plt.bar(np.arange(len(counts)), counts, width=1, color="tab:blue")
    for bucket in plan.buckets:
        plt.axvline(bucket.longest + 0.5, color="tab:orange", linewidth=0.7)
    plt.xlim(0, 70)
    plt.xlabel("words in a gloss")
    plt.ylabel("glosses")
    plt.title(f"{len(plan.buckets)} buckets", fontsize=10)
    save("buckets")


def boxes():
    random = np.random.default_rng(0)
    source = 1 + np.minimum(random.gamma(2, 15, 100_000), 500).astype(int)
    target = 1 + (source * random.lognormal(0, 0.2, 100_000)).astype(int)
    pairs = {"source": source, "target": target}
    plan = sab.plan(pairs, budget=16384, bucket_batches=16)
    edges = np.unique(np.geomspace(1, 500, 90).astype(int)) - 0.5
    plt.hist2d(source, target, bins=edges, cmap="Greys", norm=LogNorm(vmax=20_000), rasterized=True)
    for bucket in plan.buckets:
        (low, bottom), (high, top) = bucket.shortest.values(), bucket.longest.values()
        side = Rectangle(
            (low - 0.5, bottom - 0.5),
            high - low + 1,
            top - bottom + 1,
            fill=False,
            edgecolor="tab:blue",
        )
        plt.gca().add_patch(side)
    plt.xscale("log")
    plt.yscale("log")
    plt.xlabel("source")
    plt.ylabel("target")
    plt.title(f"{len(plan.buckets)} boxes", fontsize=10)
    save("boxes")


def ranks():
    worlds = [2, 4, 8, 16, 32]
    cost = sizes.astype(float) ** 2
    per_rank = round(BUDGET / sizes.mean())
    order = np.random.default_rng(0).permutation(len(sizes))
    places, work = (
        sab.plan(sizes, budget=BUDGET),
        sab.plan(sizes, budget=per_rank * cost.mean(), cost="quadratic", oversize="single"),
    )
    lost = {
        "random, equal counts": [],
        "BucketSampler, budget of words": [],
        "BucketSampler, budget of cost": [],
        "BalancedSampler": [],
    }
    for world in worlds:
        steps = len(sizes) // (world * per_rank)
        each = cost[order[: steps * world * per_rank]].reshape(steps, world, per_rank).sum(2)
        waits = [each.max(1).sum() / each.mean(1).sum()]
        samplers = [sab.BucketSampler(places, rank=rank, world_size=world) for rank in range(world)]
        each = np.array(
            [
                [batch.count * batch.padded_length**2 for batch in sampler.batches()]
                for sampler in samplers
            ]
        )
        waits.append(each.max(0).sum() / each.mean(0).sum())
        waits.append(work.report(world_size=world).rank_imbalance)
        waits.append(
            sab.BalancedSampler(sizes, budget=BUDGET, balance="quadratic", world_size=world)
            .report()
            .rank_imbalance
        )
        for values, wait in zip(lost.values(), waits):
            values.append(wait - 1)
    for name, values in lost.items():
        plt.plot(worlds, 100 * np.array(values), "o-", label=name)
    plt.xscale("log", base=2)
    plt.xticks(worlds, worlds)
    plt.xlabel("ranks")
    plt.ylabel("time lost to waiting, % of an epoch without")
    plt.legend()
    save("ranks")


def memory():
    import torch
    from torch import nn

    torch.manual_seed(0)
    random = np.random.default_rng(0)
    lengths = np.minimum(random.lognormal(3, 0.6, 1500).astype(int) + 4, 100)
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)

    def step(count, length):
        layer.zero_grad()
        layer(torch.rand(int(count), int(length), 64)).mean().backward()

    total = 16 << 20
    device = sab.Probe("cpu", total_bytes=total)
    model = sab.MemoryModel.learn(
        step,
        shortest=lengths.min(),
        longest=lengths.max(),
        device=device,
        budget=int(0.97 * total),
        points=8,
    )
    plan = sab.plan(lengths, cost=model, budget=int(0.97 * total))
    static = sab.find_max_batch(
        lambda count: step(count, lengths.max()), device, budget=int(0.97 * total)
    ).batch_size
    order = random.permutation(len(lengths))
    cut = [order[first : first + static] for first in range(0, len(order), static)]
    static_batches = [(len(each), lengths[each].max()) for each in cut]
    planned = [(batch.count, batch.padded_length) for batch in sab.BucketSampler(plan).batches()]
    for name, shapes in ((f"batches of {static}", static_batches), ("libsab, by memory", planned)):
        peaks = 100 * sab.collect_peak(lambda shape: step(*shape), shapes, device).peaks / total
        plt.plot(
            np.arange(len(peaks)) / len(peaks), peaks, ".", label=f"{name}: {len(peaks)} steps"
        )
    plt.axhline(100, color="tab:red", linewidth=1)
    plt.ylim(0, 105)
    plt.xlabel("place in the epoch")
    plt.ylabel("peak, % of the device's memory")
    plt.legend(loc="lower right")
    save("memory")


def shapes():
    lengths = np.minimum(np.random.default_rng(0).lognormal(2.5, 0.6, 20_000).astype(int) + 1, 100)
    counts = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64]
    plt.plot(
        counts,
        [
            100 * sab.plan(lengths, budget=4096, max_shapes=count).report().padding
            for count in counts
        ],
        "o-",
    )
    plt.xscale("log", base=2)
    plt.xticks(counts, counts)
    plt.xlabel("shapes")
    plt.ylabel("padding, %")
    save("shapes")


def longest_first(lengths, ranks, budget, time):
    """(rank, number of ranks, sample, start, end) with the fewest ranks that hold each sample."""
    ends = np.zeros(ranks)
    for sample in sorted(range(len(lengths)), key=lambda sample: -lengths[sample]):
        size = 1 << max(0, (-(-lengths[sample] // budget) - 1).bit_length())
        starts = ends.reshape(-1, size).max(1)
        first, start = int(starts.argmin()) * size, starts.min()
        ends[first : first + size] = start + time(lengths[sample], size)
        yield first, size, sample, start, ends[first]


def contexts():
    """A step of long contexts: which rank computes which sample when."""
    ranks, budget, linear = 16, 8192, 24576
    random = np.random.default_rng(3)
    lengths = (2048 * 64 ** random.random(9)).astype(int).tolist()
    plan = sab.plan_context(
        lengths, world_size=ranks, budget=budget, cost=[0, 0, linear, 1], overhead=64 * linear
    )
    planned = [
        (rank, part.of, part.sample, part.start, part.end)
        for rank, parts in enumerate(plan)
        for part in parts
        if part.part == 0
    ]
    greedy = longest_first(
        lengths,
        ranks,
        budget,
        lambda length, size: (linear * length + length**2) / size + 64 * linear * (size - 1),
    )
    both = {"longest first, fewest ranks": list(greedy), "plan_context": planned}
    _, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
    for axis, (name, runs) in zip(axes, both.items()):
        for first, size, sample, start, end in runs:
            color = plt.cm.tab20(sample % 20)
            axis.add_patch(
                Rectangle((start, first), end - start, size, facecolor=color, edgecolor="white")
            )
            axis.annotate(
                f"{lengths[sample] // 1024}k",
                ((start + end) / 2, first + size / 2),
                ha="center",
                va="center",
                fontsize=7,
            )
        axis.set_ylim(0, ranks)
        axis.set_yticks(range(0, ranks + 1, 4))
        axis.set_ylabel("rank")
        axis.set_title(name, fontsize=10)
        axis.axvline(plan.lower_bound, color="tab:red", linewidth=1)
    axes[0].set_xlim(0, 1.02 * max(end for runs in both.values() for *_, end in runs))
    axes[1].set_xlabel("time; red: no plan ends earlier")
    axes[1].set_xticks([])
    save("contexts")


for draw in (padding, buckets, boxes, ranks, memory, shapes, contexts):
    draw()
