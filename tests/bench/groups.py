"""Groups: a step of a model on padded batches against the same on batches in groups, and padding
against torch's: groups.py [SIZE].

The model and the lengths are those of asym's published notebook: 1,024 samples of length 1, 4, 16
or 64, a length four times as long being a fourth as frequent; batches of 256; an embedding, a
linear map, the maximum over a sample's places, a linear map. SIZE is that of the embedding and the
hidden layer (notebook: 8,192; by default 512, with which a padded epoch takes ten seconds and more
by Debian's torch and BLAS). Epochs of all kinds take turns from the same weights; the least time of
each counts. Where `asym` can be imported it runs, too.
"""

import sys
import time

import numpy as np
import torch

import sab
from sab.compat.asym.annotated_module import AnnotatedModule
from sab.compat.asym.data_collection import DataCollection
from sab.compat.asym.grouper import LengthThresholdGrouper, UniGrouper

SAMPLES, BATCH, ROUNDS, SEQUENCES = 1024, 256, 3, 1_000_000


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embedding, self.hidden, self.last = (
            torch.nn.Embedding(8, size),
            torch.nn.Linear(size, size),
            torch.nn.Linear(size, 1),
        )

    def forward(self, tokens, mask):
        places = self.hidden(self.embedding(tokens))
        return self.last(places.masked_fill(~mask[:, :, None], -float("inf")).amax(1))[:, 0]


def annotated(base, model):
    class Annotated(base):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, tokens, mask):
            return self.model(tokens, mask)

        def get_mask_hint(self):
            return ["seq"]

        def get_input_annot(self):
            return "(b, l_seq)"

        def get_output_annot(self):
            return "(b)"

    return Annotated()


def padded(model, tokens, thresholds):
    batch = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True)
    lengths = torch.tensor([len(each) for each in tokens])
    return model(batch, torch.arange(batch.shape[1]) < lengths[:, None])


def in_groups(model, tokens, thresholds):
    collection = sab.Collection(tokens, "(B, L_sequence)")
    grouped = collection.group(collection.grouping(sequence=thresholds))
    return grouped.apply(model, output="(B)", mask="sequence").join()


def by_asym(collection_type, grouper, uni, base):
    def outputs(model, tokens, thresholds):
        batch = collection_type("(B, L_sequence)", tokens)
        batch.group(grouper=grouper("sequence", thresholds))
        out = batch.apply(annotated(base, model))
        out.regroup(grouper=uni())
        return out.data_groups[0].value

    return outputs


def epoch(model, first, outputs, data, thresholds):
    """Seconds, losses, and the weights' gradients of the last step."""
    model.load_state_dict(first)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    losses = []
    begin = time.perf_counter()
    for at in range(0, SAMPLES, BATCH):
        optimizer.zero_grad()
        loss = torch.mean(
            (
                torch.tensor([label for _, label in data[at : at + BATCH]])
                - outputs(model, [tokens for tokens, _ in data[at : at + BATCH]], thresholds)
            )
            ** 2
        )
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return (
        time.perf_counter() - begin,
        losses,
        [parameter.grad.clone() for parameter in model.parameters()],
    )


def least(call, runs=7):
    """The shortest time in seconds."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
        del result
    return min(times)


def overhead(data, thresholds):
    """Seconds of grouping and grouping back in one step, forward and backward, without the
    model."""
    tokens = [tokens for tokens, _ in data[:BATCH]]
    output = torch.ones((), requires_grad=True)

    def step():
        out = in_groups(lambda tokens, mask: output.expand(len(tokens)), tokens, thresholds)
        out.backward(torch.ones(BATCH))

    return least(step, 50)


def notebook():
    """asym's notebook: its samples, [(tokens, label)], and thresholds for them."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    weights = np.array([1, 1 / 4, 1 / 16, 1 / 64])
    lengths = rng.choice([1, 4, 16, 64], SAMPLES, p=weights / weights.sum())
    data = [
        (torch.randint(0, 8, (length,)), float(rng.integers(0, 2))) for length in lengths.tolist()
    ]
    return data, sab.find_thresholds(lengths, k=3).thresholds.tolist()


def compare(size, rounds):
    """{kind: (seconds of an epoch, times as fast as padded, difference of losses, of gradients)},
    and seconds of grouping in a step."""
    data, thresholds = notebook()
    model = Model(size)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    kinds = {
        "padded": padded,
        "sab.Collection": in_groups,
        "sab.compat.asym": by_asym(
            DataCollection, LengthThresholdGrouper, UniGrouper, AnnotatedModule
        ),
    }
    try:
        from asym import annotated_module, data_collection, grouper

        kinds["asym"] = by_asym(
            data_collection.DataCollection,
            grouper.LengthThresholdGrouper,
            grouper.UniGrouper,
            annotated_module.AnnotatedModule,
        )
    except ImportError:
        pass
    runs = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, outputs in kinds.items():
            runs[kind].append(epoch(model, first, outputs, data, thresholds))
    expected, gradients = runs["padded"][0][1:]
    base = min(run[0] for run in runs["padded"])
    rows = {}
    for kind, each in runs.items():
        seconds = min(run[0] for run in each)
        loss = max(abs(a - b) / b for a, b in zip(each[0][1], expected))
        gradient = max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(each[0][2], gradients)
        )
        rows[kind] = (seconds, base / seconds, loss, gradient)
    return rows, overhead(data, thresholds)


def training(size):
    rows, spent = compare(size, ROUNDS)
    steps = SAMPLES // BATCH
    print(
        f"| an epoch of {steps} steps, size {size:,}, {torch.get_num_threads()} "
        f"threads, torch {torch.__version__} | seconds | times as fast as padded | loss differs "
        f"by | gradients by |"
    )
    print("|---|---:|---:|---:|---:|")
    for kind, (seconds, ratio, loss, gradient) in rows.items():
        print(f"| {kind} | {seconds:.2f} | {ratio:.1f} | {loss:.1e} | {gradient:.1e} |")
    share = spent / (rows["sab.Collection"][0] / steps)
    print(
        f"\nGrouping and joining a batch of {BATCH}: {spent * 1e3:.2f} ms, "
        f"{100 * share:.2f} % of a step in groups.\n"
    )


def padding():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 17, SEQUENCES)
    values = torch.from_numpy(rng.integers(0, 1 << 40, int(lengths.sum())))
    jagged = sab.Jagged(values, np.concatenate([[0], np.cumsum(lengths)]))
    tensors = [tensor.clone() for tensor in torch.split(values, lengths.tolist())]
    uni = sab.Grouping.uni(SEQUENCES)
    longest = int(lengths.max())

    def bare():
        out = torch.empty(SEQUENCES, longest, dtype=values.dtype)
        out.zero_()
        out.view(-1)[: len(values)].copy_(values)
        return out

    assert torch.equal(
        uni.pad(jagged)[0], torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True)
    )
    calls = {
        "setting to zero and copying, no more": bare,
        "libsab, of values and offsets": lambda: uni.pad(jagged),
        "libsab, of a list of tensors": lambda: uni.pad(tensors),
        "torch's pad_sequence, of a list of tensors": lambda: torch.nn.utils.rnn.pad_sequence(
            tensors, batch_first=True
        ),
    }
    times = {name: [] for name in calls}
    for _ in range(5):
        for name, call in calls.items():
            times[name].append(least(call, 1))
    print(
        f"| padding {SEQUENCES:,} sequences of 1 to {longest} int64 | ms | of pad_sequence's time "
        f"| of zeroing and copying |"
    )
    print("|---|---:|---:|---:|")
    torchs, floor = (
        min(times["torch's pad_sequence, of a list of tensors"]),
        min(times["setting to zero and copying, no more"]),
    )
    for name, each in times.items():
        print(
            f"| {name} | {min(each) * 1e3:.0f} | {min(each) / torchs:.3f} | "
            f"{min(each) / floor:.2f} |"
        )


if __name__ == "__main__":
    training(int(sys.argv[1]) if len(sys.argv) > 1 else 512)
    padding()
