"""sab.transformers with the real Trainer and SFTTrainer, on the glosses of WordNet."""

import itertools
import math
import multiprocessing
import os
import pathlib
import signal
import socket
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", "5.3")
datasets = pytest.importorskip("datasets")

import accelerate

import sab
import sab.transformers

sys.path.append(str(pathlib.Path(__file__).parents[2] / "examples/python"))
from wordnet import glosses

torch.set_num_threads(1)  # before the first operation, since tests fork
transformers.logging.set_verbosity_error()
datasets.disable_progress_bars()
FORK = multiprocessing.get_context("fork")
SAMPLES = 120
VOCABULARY = 1000


def make_samples(count=SAMPLES):
    """Glosses as tokens. The first token of each sample is its index."""
    texts = glosses()
    chosen = np.random.default_rng(0).permutation(len(texts))[:count]
    ids: dict[str, int] = {}
    samples = []
    for index, gloss in enumerate(chosen):
        text, part = texts[gloss]
        words = [ids.setdefault(word, len(ids)) % 700 + 300 for word in text.split()]
        samples.append({"input_ids": [index, *words], "label": part, "length": len(words) + 1})
    return samples


SAMPLE_LIST = make_samples()
LENGTHS = np.array([sample["length"] for sample in SAMPLE_LIST])


def dataset_of(samples=SAMPLE_LIST, without=()):
    return datasets.Dataset.from_list(
        [{name: each[name] for name in each if name not in without} for each in samples]
    )


def padded(samples):
    longest = max(len(each["input_ids"]) for each in samples)
    data = {
        "input_ids": [
            [*each["input_ids"], *[0] * (longest - len(each["input_ids"]))] for each in samples
        ],
        "attention_mask": [
            [1] * len(each["input_ids"]) + [0] * (longest - len(each["input_ids"]))
            for each in samples
        ],
    }
    return {name: torch.tensor(rows) for name, rows in data.items()}


def collate_classes(samples):
    return {**padded(samples), "labels": torch.tensor([each["label"] for each in samples])}


def collate_tokens(samples):
    data = padded(samples)
    data["labels"] = data["input_ids"].masked_fill(data["attention_mask"] == 0, -100)
    return data


def collate_parts(samples):
    return {**padded(samples), "parts": torch.tensor([each["label"] for each in samples])}


def classifier(dropout=0.0):
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        num_labels=4,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(config)


class Parts(torch.nn.Module):
    """A model that is not of transformers, and whose labels have a name of their own."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 8)
        self.output = torch.nn.Linear(8, 4)

    def forward(self, input_ids, attention_mask, parts):
        mask = attention_mask[..., None]
        logits = self.output((self.embedding(input_ids) * mask).sum(1) / mask.sum(1))
        loss = torch.nn.functional.cross_entropy(logits, parts)
        return transformers.modeling_outputs.SequenceClassifierOutput(loss=loss, logits=logits)


def parts_model():
    torch.manual_seed(0)
    return Parts()


def language_model(kind="Llama", **options):
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        **options,
    )
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForCausalLM")(config)


class Seen(transformers.TrainerCallback):
    """The samples of each batch that the model was trained on, and the epochs of the steps."""

    def __init__(self, model, kill_at=None):
        self.batches, self.epochs, self.kill_at = [], [], kill_at
        model.register_forward_pre_hook(self.look, with_kwargs=True)

    def look(self, model, args, inputs):
        if model.training:
            ids = inputs["input_ids"]
            if "position_ids" in inputs:
                self.batches.append(ids[inputs["position_ids"] == 0].tolist())
            else:
                self.batches.append(ids[:, 0].tolist())

    def on_step_end(self, args, state, control, **kwargs):
        self.epochs.append(state.epoch)

    def on_step_begin(self, args, state, control, **kwargs):
        if state.global_step == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


# Arguments of prepare().
PREPARED = (
    *("batch_size", "capacity", "eval_budget", "lengths", "plan", "sampler"),
    *("costliest_first", "max_shapes", "oversize", "steps", "weights"),
)


def make_trainer(folder, model=None, collate=collate_classes, kill_at=None, **options):
    """A prepared trainer; `options`: those of prepare(), of Trainer and of its arguments."""
    model = classifier() if model is None else model
    seen = Seen(model, kill_at)
    given = {name: options.pop(name) for name in PREPARED if name in options}
    budget = options.pop("budget", None if "capacity" in given or "plan" in given else 96)
    of_trainer = {
        name: options.pop(name)
        for name in ("train_dataset", "eval_dataset", "compute_metrics", "optimizers")
        if name in options
    }
    arguments = transformers.TrainingArguments(
        str(folder),
        **{
            "num_train_epochs": 2,
            "use_cpu": True,
            "report_to": [],
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_strategy": "no",
            "dataloader_pin_memory": False,
            **options,
        },
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        data_collator=collate,
        callbacks=[seen],
        **{"train_dataset": dataset_of(), **of_trainer},
    )
    trainer.seen = seen
    for kind in (transformers.PrinterCallback, transformers.ProgressCallback):
        trainer.remove_callback(kind)
    return sab.transformers.prepare(trainer, budget, **given)


def run_ranks(world_size, work, *args):
    """Runs work(*args) in processes, together with gloo; gives what each returns, None for one that
    was killed.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def rank_of(rank, pipe):
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        if world_size == 1:
            for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
                del os.environ[name]
        accelerate.state.AcceleratorState._reset_state(True)
        accelerate.state.GradientState._reset_state()
        pipe.send(work(*args))
        pipe.close()
        os._exit(0)

    ranks = []
    for rank in range(world_size):
        receive, send = FORK.Pipe(duplex=False)
        process = FORK.Process(target=rank_of, args=(rank, send))
        process.start()
        send.close()
        ranks.append((process, receive))
    results = []
    for process, receive in ranks:
        try:
            results.append(receive.recv())
        except EOFError:
            results.append(None)
            if process.exitcode not in (None, -signal.SIGKILL):
                break
    for process, _ in ranks:
        if None in results:
            process.kill()
        process.join()
    return results


def samples_in(batches):
    return sorted(itertools.chain.from_iterable(batches))


EACH_ONCE = list(range(SAMPLES))


def test_an_epoch_has_each_sample_once_within_the_budget(tmp_path):
    trainer = make_trainer(tmp_path)
    result = trainer.train()
    batches = trainer.seen.batches
    steps = len(batches) // 2
    assert result.global_step == len(batches) == trainer.state.max_steps
    assert samples_in(batches[:steps]) == samples_in(batches[steps:]) == EACH_ONCE
    assert batches[:steps] != batches[steps:]
    assert all(len(batch) * LENGTHS[batch].max() <= 96 for batch in batches)
    assert trainer.seen.epochs == [
        pytest.approx(epoch + (step + 1) / steps) for epoch in range(2) for step in range(steps)
    ]
    assert result.metrics["train_samples_per_second"] > 0


def test_steps_of_eight_batches_are_random_samples(tmp_path):
    trainer = make_trainer(tmp_path, gradient_accumulation_steps=8, num_train_epochs=2)
    result = trainer.train()
    batches = trainer.seen.batches
    same = sab.BalancedSampler(LENGTHS, budget=96, seed=42, micro_batches=8, padded=True)
    assert batches[: len(same)] == [batch.tolist() for batch in same]
    assert samples_in(batches[: len(same)]) == samples_in(batches[len(same) :]) == EACH_ONCE
    assert result.global_step == 2 * len(same) // 8
    assert all(len(batch) * LENGTHS[batch].max() <= 96 for batch in batches)


def test_steps_can_be_chosen(tmp_path):
    def source(**options):
        return type(make_trainer(tmp_path, **options).get_train_dataloader().source)

    assert source(gradient_accumulation_steps=7) is sab.BucketSampler
    assert source(gradient_accumulation_steps=8) is sab.BalancedSampler
    assert source(gradient_accumulation_steps=8, steps="bucketed") is sab.BucketSampler
    assert source(gradient_accumulation_steps=8, max_shapes=3) is sab.BucketSampler
    assert source(gradient_accumulation_steps=2, steps="random") is sab.BalancedSampler
    with pytest.raises(ValueError, match="steps = 'random': has no max_shapes"):
        source(steps="random", max_shapes=3)
    with pytest.raises(ValueError, match="steps = 'random': needs a budget, and batch_size is"):
        source(steps="random", budget=None, batch_size=4)
    with pytest.raises(ValueError, match="steps = 'sorted': must be 'random', 'bucketed' or None"):
        source(steps="sorted")


def test_random_steps_go_on_after_a_checkpoint(tmp_path):
    options = {"gradient_accumulation_steps": 8, "save_strategy": "steps", "save_steps": 2}
    first = make_trainer(tmp_path, **options)
    first.train()
    resumed = make_trainer(tmp_path, **options)
    resumed.train(resume_from_checkpoint=f"{tmp_path}/checkpoint-2")
    assert resumed.seen.batches == first.seen.batches[16:]


def train(folder, options, checkpoint=None):
    """Trains; gives the samples of the batches, the epochs of the steps, and the weights."""
    options = dict(options)
    trainer = make_trainer(folder, classifier(dropout=0.1), **options)
    trainer.train(resume_from_checkpoint=checkpoint)
    weights = [each.detach().numpy().copy() for each in trainer.model.parameters()]
    return trainer.seen.batches, trainer.seen.epochs, weights


@pytest.mark.parametrize(
    ("workers", "accumulation"), [(0, 1), (2, 3)], ids=["no workers", "workers and accumulation"]
)
def test_a_run_killed_within_an_epoch_resumes_with_the_next_batch(tmp_path, workers, accumulation):
    options = {
        "gradient_accumulation_steps": accumulation,
        "dataloader_num_workers": workers,
        "save_strategy": "steps",
        "save_steps": 4,
        "logging_strategy": "steps",
        "logging_steps": 3,
    }
    [whole] = run_ranks(1, train, tmp_path / "whole", options)
    steps = len(whole[1])
    kill_at = steps - 1  # between two checkpoints of the second epoch
    [killed] = run_ranks(1, train, tmp_path / "killed", {**options, "kill_at": kill_at})
    assert killed is None
    checkpoint = transformers.trainer_utils.get_last_checkpoint(str(tmp_path / "killed"))
    done = int(checkpoint.rsplit("-", 1)[1])
    assert steps // 2 < done < kill_at
    [resumed] = run_ranks(1, train, tmp_path / "killed", options, checkpoint)
    assert resumed[0] == whole[0][len(whole[0]) - len(resumed[0]) :]
    assert resumed[1] == whole[1][done:]
    assert all(np.array_equal(*pair) for pair in zip(resumed[2], whole[2]))


class Loads(torch.utils.data.Dataset):
    """Counts the samples that are loaded."""

    def __init__(self):
        self.loaded = []

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        self.loaded.append(index)
        return SAMPLE_LIST[index]


def lengths_of(dataset):
    return LENGTHS[: len(dataset)]


def test_a_resume_loads_no_sample_that_was_trained_on(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 5, "num_train_epochs": 1}
    first = make_trainer(tmp_path, train_dataset=Loads(), lengths=lengths_of, **options)
    first.train()
    resumed = make_trainer(tmp_path, train_dataset=Loads(), lengths=lengths_of, **options)
    resumed.train(resume_from_checkpoint=f"{tmp_path}/checkpoint-10")
    assert resumed.seen.batches == first.seen.batches[10:]
    assert resumed.train_dataset.loaded == list(itertools.chain(*resumed.seen.batches))


def test_a_checkpoint_at_the_end_of_an_epoch_goes_on_with_the_next(tmp_path):
    first = make_trainer(tmp_path, save_strategy="epoch")
    first.train()
    steps = len(first.seen.epochs) // 2
    resumed = make_trainer(tmp_path, save_strategy="epoch")
    resumed.train(resume_from_checkpoint=f"{tmp_path}/checkpoint-{steps}")
    assert resumed.seen.batches == first.seen.batches[steps:]


def test_a_checkpoint_of_another_budget_or_of_a_plain_trainer_is_refused(tmp_path):
    make_trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=2).train()
    checkpoint = f"{tmp_path}/checkpoint-2"
    with pytest.raises(sab.MismatchError):
        make_trainer(tmp_path, budget=300).train(resume_from_checkpoint=checkpoint)
    state = pathlib.Path(checkpoint, "trainer_state.json")
    state.write_text(state.read_text().replace("PlaceInEpoch", "Other"))
    with pytest.raises(ValueError, match="was not prepared; pass ignore_data_skip=True"):
        make_trainer(tmp_path).train(resume_from_checkpoint=checkpoint)
    anew = make_trainer(tmp_path, ignore_data_skip=True, num_train_epochs=1)
    anew.train(resume_from_checkpoint=checkpoint)
    assert len(anew.seen.batches) == anew.state.max_steps - 2  # as many steps as were left


def test_max_steps_and_parts_of_epochs_end_where_they_do_without_libsab(tmp_path):
    steps = len(make_trainer(tmp_path).get_train_dataloader())
    trainer = make_trainer(tmp_path, max_steps=steps + 3)
    trainer.train()
    assert trainer.state.epoch == 1 + 3 / steps
    assert samples_in(trainer.seen.batches[:steps]) == EACH_ONCE
    trainer = make_trainer(tmp_path, num_train_epochs=1.5)
    assert trainer.train().global_step == math.ceil(1.5 * steps)


# Several ranks


def train_part(folder, options, checkpoint=None):
    trainer = make_trainer(folder, **options)
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.seen.batches, trainer.seen.epochs, trainer.state.global_step


@pytest.mark.parametrize(("before", "stop", "after"), [(2, 3, 2), (2, 3, 1), (1, 3, 2), (2, 5, 1)])
def test_ranks_share_the_samples_also_after_a_resume_on_other_ranks(tmp_path, before, stop, after):
    options = {"save_strategy": "steps", "save_steps": stop, "gradient_accumulation_steps": 2}
    first = run_ranks(before, train_part, tmp_path, {**options, "max_steps": stop})
    rest = run_ranks(after, train_part, tmp_path, options, f"{tmp_path}/checkpoint-{stop}")
    epochs = first[0][1] + rest[0][1]
    assert epochs == sorted(epochs) and epochs[-1] == 2.0 and rest[0][2] == len(epochs)

    def taken(ranks, steps):
        return [batch for batches, _, _ in ranks for batch in batches[steps]]

    before_stop = taken(first, slice(None))
    of_first = [  # how many of the batches after the stop complete the first epoch
        count
        for count in range(len(rest[0][0]))
        if samples_in(before_stop + taken(rest, slice(count))) == EACH_ONCE
    ]
    assert len(of_first) == 1 and (of_first == [0]) == (stop == 5)
    assert samples_in(taken(rest, slice(of_first[0], None))) == EACH_ONCE


def test_two_ranks_killed_within_an_epoch_resume_with_the_next_batches(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 8, "dataloader_num_workers": 1}
    whole = run_ranks(2, train, tmp_path / "whole", options)
    killed = run_ranks(2, train, tmp_path / "killed", {**options, "kill_at": 11})
    assert killed == [None, None]
    resumed = run_ranks(2, train, tmp_path / "killed", options, f"{tmp_path}/killed/checkpoint-8")
    for rank in range(2):
        assert resumed[rank][:2] == tuple(each[8:] for each in whole[rank][:2])
        assert all(np.array_equal(*pair) for pair in zip(resumed[rank][2], whole[rank][2]))
    steps = len(whole[0][0]) // 2
    for epoch in (slice(steps), slice(steps, None)):
        assert samples_in(whole[0][0][epoch] + whole[1][0][epoch]) == EACH_ONCE


# The loss


def step(folder, make_model, collate, options):
    """One step of gradient descent: the samples, the weights before less those after, the loss that
    is logged, and the batches of an epoch.
    """
    model = make_model()
    before = [each.detach().clone() for each in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    trainer = make_trainer(
        folder,
        model,
        collate,
        max_steps=1,
        max_grad_norm=0,
        optimizers=(optimizer, schedule),
        logging_strategy="steps",
        logging_steps=1,
        **options,
    )
    trainer.train()
    change = [(old - new.detach()).numpy() for old, new in zip(before, trainer.model.parameters())]
    length = len(trainer.get_train_dataloader())
    return trainer.seen.batches, change, trainer.state.log_history[0]["loss"], length


def gradient(make_model, collate, samples):
    """The gradient and the mean loss of one batch."""
    model = make_model()
    model.train()
    loss = model(**collate(samples)).loss
    loss.backward()
    return [each.grad.numpy() for each in model.parameters()], loss.item()


def assert_equal_gradients(found, expected, factor=1.0):
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other * factor, rtol=1e-4, atol=1e-6)


def step_weight(ranks, amounts):
    """The mean amount of a batch of the step over that of a batch of the epoch."""
    batches = [batch for each, *_ in ranks for batch in each]
    mean = sum(amounts[batch].sum() for batch in batches) / len(batches)
    return mean / (amounts.sum() / (ranks[0][-1] * len(ranks)))


KINDS = {
    "tokens": (language_model, collate_tokens),  # divides by num_items_in_batch
    "classes": (classifier, collate_classes),  # has the argument, and does not use it
    "no labels": (parts_model, collate_parts),
}


@pytest.mark.parametrize(
    ("kind", "weights", "world_size"),
    [
        *((kind, "auto", world_size) for kind in KINDS for world_size in (1, 2)),
        *(("classes", weights, 1) for weights in ("tokens", None)),
        *(("tokens", weights, 1) for weights in ("samples", None)),
    ],
)
def test_a_step_has_the_gradient_of_one_batch_with_all_its_samples(
    tmp_path, kind, weights, world_size
):
    options = {"gradient_accumulation_steps": 3, "weights": weights}
    ranks = run_ranks(world_size, step, tmp_path, *KINDS[kind], options)
    batches = [batch for each, *_ in ranks for batch in each]
    chosen = ("tokens" if kind == "tokens" else "samples") if weights == "auto" else weights
    amounts = LENGTHS if chosen == "tokens" else np.ones_like(LENGTHS)
    factor = 1.0 if weights is None else step_weight(ranks, amounts)
    assert weights is None or abs(factor - 1) > 0.01
    assert len(batches) == 3 * world_size and len({len(batch) for batch in batches}) > 1
    samples = [SAMPLE_LIST[index] for batch in batches for index in batch]
    expected, loss = gradient(*KINDS[kind], samples)
    for _, change, logged, _ in ranks:
        assert_equal_gradients(change, expected, factor)
        assert logged == pytest.approx(loss, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_without_a_sample_adds_nothing_to_the_step(tmp_path, kind):
    longest = max(SAMPLE_LIST, key=lambda sample: sample["length"])
    options = {"train_dataset": dataset_of([longest]), "budget": longest["length"]}
    ranks = run_ranks(2, step, tmp_path, *KINDS[kind], options)
    expected, _ = gradient(*KINDS[kind], [longest])
    for batches, change, *_ in ranks:
        assert batches == [longest["input_ids"][:1]]  # in the place of no sample on one rank
        assert_equal_gradients(change, expected)


# Evaluation


def evaluate(folder, make_model, collate, count, options):
    """The metrics, what compute_metrics was given, and the predictions."""
    given = []

    def compute_metrics(data, compute_result=False):
        given.append((data.predictions, data.label_ids))
        return {"is_last": compute_result}

    held_out = dataset_of(SAMPLE_LIST[:count])
    trainer = make_trainer(
        folder,
        make_model(),
        collate,
        eval_dataset=held_out,
        compute_metrics=compute_metrics,
        **options,
    )
    metrics = trainer.evaluate()
    return metrics, given, trainer.predict(held_out)


def expected_of(make_model, collate, count):
    """The mean loss of one batch with all samples, and the logits of each sample alone."""
    model = make_model().eval()
    with torch.no_grad():
        loss = model(**collate(SAMPLE_LIST[:count])).loss.item()
        return loss, [model(**collate([each])).logits[0].numpy() for each in SAMPLE_LIST[:count]]


@pytest.mark.parametrize(("world_size", "count"), [(1, 70), (2, 70), (2, 1)])
def test_predictions_are_those_of_the_data_set_in_its_order(tmp_path, world_size, count):
    ranks = run_ranks(world_size, evaluate, tmp_path, classifier, collate_classes, count, {})
    loss, logits = expected_of(classifier, collate_classes, count)
    labels = [each["label"] for each in SAMPLE_LIST[:count]]
    for metrics, [(predictions, label_ids), _], output in ranks:
        assert metrics["eval_loss"] == pytest.approx(loss, rel=1e-5)
        assert output.metrics["test_loss"] == pytest.approx(loss, rel=1e-5)
        for found, of in ((predictions, label_ids), (output.predictions, output.label_ids)):
            assert of.tolist() == labels
            np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_loss_to_evaluate_is_the_mean_over_all_tokens(tmp_path, world_size):
    ranks = run_ranks(world_size, evaluate, tmp_path, language_model, collate_tokens, 50, {})
    loss, logits = expected_of(language_model, collate_tokens, 50)
    for metrics, _, output in ranks:
        assert metrics["eval_loss"] == pytest.approx(loss, rel=1e-5)
        for found, expected in zip(output.predictions, logits):
            np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-3, atol=1e-5)
            assert (found[len(expected) :] == -100).all() or len(found) > len(expected)


def test_metrics_of_batches_end_with_the_last_batch(tmp_path):
    options = {"batch_eval_metrics": True, "budget": 300}
    metrics, given, _ = evaluate(tmp_path, classifier, collate_classes, 70, options)
    assert metrics["eval_is_last"] is True and len(given) > 4


def test_training_with_evaluation_and_without_has_the_same_batches(tmp_path):
    held_out = {"one": dataset_of(SAMPLE_LIST[:9]), "other": dataset_of(SAMPLE_LIST[9:20])}
    options = {"eval_strategy": "steps", "eval_steps": 3, "dataloader_persistent_workers": True}
    workers = {"dataloader_num_workers": 1}
    trainer = make_trainer(tmp_path, eval_dataset=held_out, eval_budget=64, **options, **workers)
    trainer.train()
    other = make_trainer(tmp_path, **workers)
    other.train()
    assert trainer.seen.batches == other.seen.batches
    assert {"eval_one_loss", "eval_other_loss"} <= set().union(*trainer.state.log_history)


# Rows


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_row_trains_as_its_samples_alone(tmp_path, attention, world_size):
    def make_model():
        return language_model(attn_implementation=attention)

    tokenizer = make_tokenizer()
    flatten = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    options = {"capacity": 64, "gradient_accumulation_steps": 2}
    ranks = run_ranks(world_size, step, tmp_path, make_model, flatten, options)
    batches = [batch for each, *_ in ranks for batch in each]
    assert max(map(len, batches)) > 2 and all(LENGTHS[each].sum() <= 64 for each in batches)
    samples = [SAMPLE_LIST[index] for batch in batches for index in batch]
    expected, loss = gradient(make_model, collate_tokens, samples)
    for _, change, logged, _ in ranks:
        assert_equal_gradients(change, expected, step_weight(ranks, LENGTHS))
        assert logged == pytest.approx(loss, rel=1e-5)


def make_tokenizer():
    from tokenizers import Tokenizer, models

    words = {"[PAD]": 0, **{str(number): number for number in range(1, VOCABULARY)}}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="1")), pad_token="[PAD]"
    )


def mamba():
    return transformers.MambaForCausalLM(
        transformers.MambaConfig(
            vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, state_size=4
        )
    )


def masked_model():
    return transformers.BertForMaskedLM(classifier().config)


@pytest.mark.parametrize(
    ("make_model", "message"),
    [
        (mamba, "mixes the samples of a row; give a budget"),
        (masked_model, "mixes the samples of a row; give a budget"),
        (classifier, "has no output for each token"),
    ],
)
def test_a_model_that_cannot_train_on_rows_is_refused(tmp_path, make_model, message):
    flatten = transformers.DataCollatorWithFlattening()
    trainer = make_trainer(tmp_path, make_model(), flatten, capacity=64)
    with pytest.raises(ValueError, match=message):
        trainer.train()


@pytest.mark.parametrize("prepared", [{"capacity": 64}, {"budget": 96}])
def test_sft_trainer_trains_on_rows_and_on_padded_batches(tmp_path, prepared):
    trl = pytest.importorskip("trl")
    model = language_model()
    seen = Seen(model)
    held_out = dataset_of(SAMPLE_LIST[:20], without=("label", "length"))
    trainer = trl.SFTTrainer(
        model,
        trl.SFTConfig(
            str(tmp_path),
            max_length=40,
            num_train_epochs=1,
            use_cpu=True,
            bf16=False,
            report_to=[],
            disable_tqdm=True,
            save_strategy="no",
            gradient_checkpointing=False,
            gradient_accumulation_steps=2,
            learning_rate=0.0,
            dataloader_pin_memory=False,
        ),
        train_dataset=dataset_of(without=("label", "length")),
        eval_dataset=held_out,
        processing_class=make_tokenizer(),
        callbacks=[seen],
    )
    sab.transformers.prepare(trainer, **prepared)
    result = trainer.train()
    assert samples_in(seen.batches) == EACH_ONCE
    if "capacity" in prepared:
        short = np.minimum(LENGTHS, 40)
        assert len(seen.batches) == math.ceil(short.sum() / 64) or len(seen.batches) < 60
        assert all(short[batch].sum() <= 64 for batch in seen.batches)
    cut = [{**each, "input_ids": each["input_ids"][:40]} for each in SAMPLE_LIST[:20]]
    loss = language_model().eval()(**collate_tokens(cut)).loss.item()
    assert trainer.evaluate()["eval_loss"] == pytest.approx(loss, rel=1e-4)
    assert result.global_step == math.ceil(len(seen.batches) / 2)


# Arguments


def test_lengths_are_read_from_where_they_are(tmp_path):
    class Hidden(list):
        """Samples without a name for their tokens."""

        def __getitem__(self, index):
            return {"tokens": super().__getitem__(index)["input_ids"]}

    renamed = dataset_of().rename_column("length", "tokens")
    cases = [
        ({"train_dataset": dataset_of()}, {}),
        ({"train_dataset": dataset_of(without=("length",))}, {}),
        ({"train_dataset": renamed, "length_column_name": "tokens"}, {}),
        ({"train_dataset": SAMPLE_LIST}, {}),
        ({"train_dataset": Hidden(SAMPLE_LIST)}, {"lengths": lengths_of}),
    ]
    expected = list(sab.BucketSampler(LENGTHS, budget=96, seed=42))
    for options, given in cases:
        loader = make_trainer(tmp_path, **options, **given).get_train_dataloader()
        assert all(map(np.array_equal, loader.source, expected)), options
    texts = dataset_of(without=("length", "input_ids")).add_column("input_ids", ["a"] * SAMPLES)
    for dataset in (texts, Hidden(SAMPLE_LIST)):
        with pytest.raises(ValueError, match="add a column of lengths and name it in length_col"):
            make_trainer(tmp_path, train_dataset=dataset).get_train_dataloader()
    with pytest.raises(ValueError, match="lengths\\(\\) gives 3 lengths: must be 120"):
        make_trainer(tmp_path, lengths=lambda dataset: [1, 2, 3]).get_train_dataloader()


def test_loaders_have_the_options_of_the_training_arguments(tmp_path):
    options = {
        "dataloader_num_workers": 2,
        "dataloader_prefetch_factor": 3,
        "dataloader_persistent_workers": True,
        "dataloader_drop_last": True,
        "gradient_accumulation_steps": 4,
        "data_seed": 7,
    }
    trainer = make_trainer(tmp_path, eval_dataset=dataset_of(), eval_budget=200, **options)
    loader = trainer.get_train_dataloader()
    assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (2, 3, True)
    same = sab.BucketSampler(LENGTHS, budget=96, seed=7, micro_batches=4, last_step="drop")
    assert all(map(np.array_equal, loader.source, same))
    held_out = trainer.get_eval_dataloader()
    assert trainer.get_eval_dataloader() is held_out and held_out.num_workers == 2
    assert samples_in(batch.tolist() for batch in held_out.source) == EACH_ONCE
    assert len(held_out) == len(sab.SequentialSampler(LENGTHS, budget=200))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto_find_batch_size": True}, "auto_find_batch_size = True"),
        ({"train_sampling_strategy": "sequential"}, "train_sampling_strategy = 'sequential'"),
        ({"eval_do_concat_batches": False}, "eval_do_concat_batches = False"),
        ({"accelerator_config": {"split_batches": True}}, "split_batches = True"),
        ({"budget": None}, "exactly one of them"),
        ({"capacity": 64, "budget": 64}, "exactly one of them"),
        ({"capacity": 64}, "data_collator is a function: rows need DataCollatorWithFlattening"),
    ],
)
def test_what_contradicts_a_budget_is_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, **options)


def test_batch_samplers_of_sentence_transformers_are_refused(tmp_path):
    arguments = transformers.TrainingArguments(str(tmp_path), use_cpu=True, report_to=[])
    trainer = transformers.Trainer(classifier(), arguments, train_dataset=dataset_of())
    arguments.batch_sampler = "no_duplicates"
    with pytest.raises(ValueError, match="batch_sampler = 'no_duplicates': batches are"):
        sab.transformers.prepare(trainer, batch_size=8)
    arguments.batch_sampler = "batch_sampler"  # the default
    sab.transformers.prepare(trainer, batch_size=8)


def test_rows_shorter_than_a_sample_are_refused(tmp_path):
    flatten = transformers.DataCollatorWithFlattening()
    longest = int(LENGTHS.max())
    message = f"train_dataset: capacity = 9: must be at least {longest}, the longest sample; use"
    with pytest.raises(ValueError, match=message):
        make_trainer(tmp_path, language_model(), flatten, capacity=9).train()
    with pytest.warns(sab.SkippedWarning):
        given = {"capacity": longest - 1, "oversize": "skip", "num_train_epochs": 1}
        make_trainer(tmp_path, language_model(), flatten, **given).train()


def test_wrong_weights_are_refused(tmp_path):
    with pytest.raises(ValueError, match="weights = 'rows': must be 'auto', 'samples', 'tokens'"):
        make_trainer(tmp_path, weights="rows")


def test_wrong_trainers_are_refused(tmp_path):
    with pytest.raises(TypeError, match="trainer is a int: must be a transformers"):
        sab.transformers.prepare(3, budget=10)
    with pytest.raises(ValueError, match="has been prepared before"):
        sab.transformers.prepare(make_trainer(tmp_path), budget=10)
    with pytest.raises(TypeError, match="must be a function of a data set"):
        make_trainer(tmp_path, lengths=[1])


@pytest.mark.parametrize("of", ["tokens", "samples"])
def test_callbacks_for_metrics_and_learning_rates(tmp_path, of):
    written, rates = [], []

    def log(step, values):
        written.append((step, values["padding"], values["fill"]))

    class Rates(torch.optim.SGD):
        def step(self, closure=None):
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    model = classifier()
    trainer = make_trainer(
        tmp_path,
        model,
        optimizers=(Rates(model.parameters(), lr=1.0), None),
        gradient_accumulation_steps=2,
        lr_scheduler_type="constant",
        num_train_epochs=2,
    )
    trainer.add_callback(sab.transformers.MetricsCallback(sab.Meter(log, budget=96)))
    trainer.add_callback(sab.transformers.LearningRateCallback(150.0, rule="sqrt", of=of))
    trainer.train()
    loader = trainer.callback_handler.train_dataloader
    sampler, steps = loader.source, []
    for epoch in (0, 1):
        sampler.set_epoch(epoch)
        for batches in by_step(sampler):
            step = sampler.step(batches[0].step * 2)
            amount = step.total if of == "tokens" else step.samples
            steps.append(
                (
                    1 - sum(each.total for each in batches) / sum(b.padded_total for b in batches),
                    sum(b.padded_total for b in batches) / len(batches) / 96,
                    (amount / 150) ** 0.5,
                )
            )
    assert [step for step, _, _ in written] == list(range(1, len(steps) + 1))
    for (_, padding, fill), rate, expected in zip(written, rates, steps):
        assert (padding, fill, rate) == pytest.approx(expected)
    assert trainer.optimizer.param_groups[0]["lr"] == 1.0
    with pytest.raises(TypeError, match=r"must be a sab\.Meter"):
        sab.transformers.MetricsCallback(5)


def by_step(sampler):
    batches = [sampler.batch(position) for position in range(len(sampler))]
    for step in range(batches[-1].step + 1):
        yield [batch for batch in batches if batch.step == step]
