"""transformers' Trainer on the glosses of WordNet, with the strategies of Trainer and with libsab:
python -m bench.trainer [--glosses N] [--repeat N].

A classifier with random weights learns the part of speech. All see each gloss once in an epoch,
with the same average number of tokens a step, in 1 and in 4 batches. The times are CPU seconds of
training on one thread.
Needs Debian's wordnet-base and tests/frameworks/requirements.txt.
"""

import argparse
import sys
import tempfile
import time
from typing import Any

import numpy as np
import torch
import transformers
from datasets import Dataset

import sab.transformers
from bench.data import EXAMPLES

sys.path.append(EXAMPLES)
from wordnet import PARTS, glosses

WORDS = 1 << 13
STEP = 128  # glosses
ACCUMULATIONS = (1, 4)
STRATEGIES = ("random", "group_by_length", "batch_rebalance", "libsab")
Run = tuple[int, float, float, float]


def data(count: int) -> tuple[Any, Any]:
    """Glosses to train on, and a tenth of that number to test on."""
    texts = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[: count + count // 10]
    ids: dict[str, int] = {}
    rows: dict[str, list[Any]] = {"input_ids": [], "label": [], "length": []}
    for number in chosen:
        text, part = texts[number]
        words = [ids.setdefault(word, len(ids)) % (WORDS - 1) + 1 for word in text.lower().split()]
        rows["input_ids"].append(words[:256] or [1])
        rows["label"].append(part)
        rows["length"].append(len(rows["input_ids"][-1]))
    dataset = Dataset.from_dict(rows)
    return dataset.select(range(count)), dataset.select(range(count, len(dataset)))


def collate(samples: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    longest = max(len(each["input_ids"]) for each in samples)
    ids = torch.zeros(len(samples), longest, dtype=torch.long)
    for row, each in zip(ids, samples):
        row[: len(each["input_ids"])] = torch.tensor(each["input_ids"])
    labels = torch.tensor([each["label"] for each in samples])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


class Model(transformers.BertForSequenceClassification):
    """Counts the positions and the tokens that it is trained on."""

    positions = tokens = 0

    def forward(self, input_ids: Any = None, attention_mask: Any = None, labels: Any = None) -> Any:
        if self.training:
            self.positions += input_ids.numel()
            self.tokens += int(attention_mask.sum())
        return super().forward(input_ids, attention_mask, labels=labels)


def train(strategy: str, accumulation: int, seed: int, dataset: Any, test: Any) -> Run:
    """Steps, CPU seconds and padding of one epoch, and the loss on the test glosses."""
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=192,
        num_labels=len(PARTS),
    )
    model = Model(config)
    is_ours, batch = strategy == "libsab", STEP // accumulation
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=batch,
            gradient_accumulation_steps=accumulation,
            train_sampling_strategy="random" if is_ours else strategy,
            num_train_epochs=1,
            seed=seed,
            learning_rate=1e-3,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            logging_strategy="no",
            dataloader_pin_memory=False,
        )
        trainer = transformers.Trainer(model, arguments, collate, dataset)
        trainer.remove_callback(transformers.PrinterCallback)
        if is_ours:  # the budget that holds as many tokens on average as the batches of the others
            budget = 1.02 * batch * float(np.mean(dataset["length"]))
            sab.transformers.prepare(trainer, budget=budget)
        start = time.process_time()
        steps = trainer.train().global_step
        seconds = time.process_time() - start
        judge = transformers.Trainer(model, arguments, collate, eval_dataset=test)
        judge.remove_callback(transformers.PrinterCallback)
        loss = sab.transformers.prepare(judge, budget=4096).evaluate()["eval_loss"]
    return steps, seconds, 1 - model.tokens / model.positions, loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--glosses", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=3, help="seeds; the least time counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    dataset, test = data(options.glosses)
    kinds = [(name, each) for each in ACCUMULATIONS for name in STRATEGIES]
    runs: dict[tuple[str, int], list[Run]] = {kind: [] for kind in kinds}
    for seed in range(options.repeat):
        for kind in kinds:
            runs[kind].append(train(*kind, seed, dataset, test))
            print(*kind, runs[kind][-1], file=sys.stderr, flush=True)
    print(f"{len(dataset):,} glosses, one epoch, transformers {transformers.__version__}")
    print(f"{'':<20}{'batches':>8}{'steps':>8}{'CPU seconds':>14}{'padding':>10}{'test loss':>20}")
    for (name, batches), found in runs.items():
        steps, _, padding, _ = found[0]
        seconds = min(each[1] for each in found)
        losses = np.array([each[3] for each in found])
        error = losses.std(ddof=min(1, len(losses) - 1)) / len(losses) ** 0.5
        loss = f"{losses.mean():.4f} ± {error:.4f}"
        print(f"{name:<20}{batches:>8}{steps:>8}{seconds:>14.1f}{padding:>10.1%}{loss:>20}")


if __name__ == "__main__":
    main()
