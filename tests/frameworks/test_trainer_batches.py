"""Where the batches of a prepared trainer come from, their shapes, and who else looks at them."""

import pytest

pytest.importorskip("transformers", "5.3")
import test_transformers as base
import torch
import transformers
from test_transformers import EACH_ONCE, LENGTHS, SAMPLE_LIST, dataset_of, make_trainer, samples_in
from tokenizers import pre_tokenizers

import sab
import sab.transformers


class Looks(transformers.TrainerCallback):
    """Looks at a batch before and after each step, as callbacks do to log it."""

    def __init__(self, make_loader, is_kept):
        self.make_loader, self.is_kept, self.looks = make_loader, is_kept, []

    def on_step_end(self, args, state, control, **given):
        self.look(given)

    on_epoch_end = on_step_begin = on_step_end

    def look(self, given):
        walk = iter(self.make_loader(given))
        next(walk)
        if self.is_kept:
            self.looks.append(walk)


def train_with_looks(folder, look, is_kept=False, checkpoint=None, **options):
    options = {"save_strategy": "steps", "save_steps": 5, **options}
    trainer = make_trainer(folder, **options)
    if look is not None:
        made = {
            "another": lambda given: trainer.get_train_dataloader(),
            "the same": lambda given: given["train_dataloader"],
        }
        trainer.add_callback(Looks(made[look], is_kept))
    trainer.train(resume_from_checkpoint=checkpoint)
    return trainer.seen


@pytest.mark.parametrize("is_kept", [False, True], ids=["left", "kept"])
@pytest.mark.parametrize("look", ["another", "the same"])
def test_a_look_at_a_batch_leaves_training_where_it_is(tmp_path, look, is_kept):
    options = {"gradient_accumulation_steps": 2, "budget": 200}
    whole = train_with_looks(tmp_path / "whole", None, **options)
    seen = train_with_looks(tmp_path / "looks", look, is_kept, **options)
    assert (seen.batches, seen.epochs) == (whole.batches, whole.epochs)
    rest = train_with_looks(
        tmp_path / "looks", look, is_kept, tmp_path / "looks" / "checkpoint-5", **options
    )
    assert (rest.batches, rest.epochs) == (whole.batches[10:], whole.epochs[5:])


# Shapes


def shapes_of(trainer):
    """The shapes of the batches of training and of evaluation."""
    seen = []

    def look(model, args, inputs):
        seen.append((model.training, tuple(inputs["input_ids"].shape)))

    trainer.model.register_forward_pre_hook(look, with_kwargs=True)
    trainer.train()
    training = {shape for is_training, shape in seen if is_training}
    seen.clear()
    trainer.evaluate()
    return training, {shape for _, shape in seen}


TOKENS = dataset_of(without=("length",))
HELD_OUT = dataset_of(SAMPLE_LIST[:70], without=("length",))


def padding_collators():
    tokenizer = base.make_tokenizer()
    return {
        "padding": (base.classifier, transformers.DataCollatorWithPadding(tokenizer)),
        "causal": (
            base.language_model,
            transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False),
        ),
        "batch": (base.classifier, pad_as_planned),
    }


def pad_as_planned(samples, batch):
    data = base.collate_classes(samples)
    more = int(batch.padded_length) - data["input_ids"].shape[1]
    for name in ("input_ids", "attention_mask"):
        data[name] = torch.nn.functional.pad(data[name], (0, more))
    return data


@pytest.mark.parametrize("kind", ["padding", "causal", "batch"])
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_have_the_shapes_of_the_plan(tmp_path, kind, workers):
    make_model, collate = padding_collators()[kind]
    dataset, held_out = TOKENS, HELD_OUT
    if kind == "causal":
        dataset, held_out = (each.remove_columns("label") for each in (dataset, held_out))
    options = {"train_dataset": dataset, "eval_dataset": held_out, "max_shapes": 4}
    trainer = make_trainer(
        tmp_path, make_model(), collate, budget=300, dataloader_num_workers=workers, **options
    )
    training, evaluation = shapes_of(trainer)
    plans = [sab.plan(lengths, budget=300, max_shapes=4) for lengths in (LENGTHS, LENGTHS[:70])]
    for shapes, plan in zip((training, evaluation), plans):
        batches = sab.SequentialSampler(plan).batches()
        assert shapes <= {(batch.count, int(batch.padded_length)) for batch in batches}
        assert 1 < len(shapes) <= 4


def test_padding_is_that_of_a_saved_plan(tmp_path):
    sab.plan(LENGTHS, budget=300, length_multiple=8, max_shapes=3).save(tmp_path / "saved.plan")
    plan = sab.Plan.open(tmp_path / "saved.plan")
    collate = transformers.DataCollatorWithPadding(base.make_tokenizer())
    trainer = make_trainer(tmp_path, None, collate, plan=plan, eval_dataset=HELD_OUT)
    training, _ = shapes_of(trainer)
    assert len(training) <= 3 and all(length % 8 == 0 for _, length in training)


def test_shapes_that_cannot_be_those_of_the_plan_are_refused(tmp_path):
    padding = transformers.DataCollatorWithPadding(base.make_tokenizer())
    twice = {"lengths": lambda dataset: 2 * base.lengths_of(dataset)}
    rounded = transformers.DataCollatorWithPadding(base.make_tokenizer(), pad_to_multiple_of=8)
    for collate, given, fix in (
        (base.collate_classes, {}, "pad_to_multiple_of"),
        (padding, twice, "pad_to_multiple_of"),
        (rounded, {}, "length_multiple=8"),
    ):
        trainer = make_trainer(tmp_path, None, collate, budget=300, max_shapes=3, **given)
        message = f"max_shapes = 3: the data collator pads 'input_ids' .*{fix}"
        with pytest.raises(ValueError, match=message):
            trainer.train()


# Where the batches come from


def plan_of(lengths=LENGTHS, **options):
    return sab.plan(lengths, budget=96, **options)


SOURCES = {
    "plan": lambda: ({"plan": plan_of()}, sab.BucketSampler(plan_of(), seed=42)),
    "plan and order": lambda: (
        {"plan": plan_of(), "costliest_first": 1},
        sab.BucketSampler(plan_of(), seed=42, costliest_first=1),
    ),
    "sampler": lambda: (
        {"sampler": sab.BucketSampler(plan_of(), seed=3)},
        sab.BucketSampler(plan_of(), seed=3),
    ),
    "other sampler": lambda: (
        {"sampler": sab.OrderedSampler(None, LENGTHS, budget=80)},
        sab.OrderedSampler(None, LENGTHS, budget=80),
    ),
    "batch size": lambda: (
        {"batch_size": 7},
        sab.BucketSampler(LENGTHS, batch_size=7, seed=42),
    ),
    "batch size and budget": lambda: (
        {"batch_size": 3, "budget": 96},
        sab.BucketSampler(LENGTHS, batch_size=3, budget=96, seed=42),
    ),
}


@pytest.mark.parametrize("source", SOURCES)
def test_batches_come_from_a_plan_a_sampler_or_a_batch_size(tmp_path, source):
    given, same = SOURCES[source]()
    trainer = make_trainer(
        tmp_path, budget=given.pop("budget", None), eval_dataset=HELD_OUT, **given
    )
    trainer.train()
    assert trainer.seen.batches == [batch.tolist() for batch in [*same, *same]]
    assert trainer.evaluate()["eval_loss"] > 0


def of_ranks(folder, source):
    given, _ = SOURCES[source]()
    trainer = make_trainer(folder, budget=None, num_train_epochs=1, eval_dataset=HELD_OUT, **given)
    trainer.train()
    return trainer.seen.batches, trainer.evaluate()["eval_loss"]


@pytest.mark.parametrize("source", ["sampler", "plan"])
def test_a_plan_and_a_sampler_without_ranks_get_those_of_the_trainer(tmp_path, source):
    [one] = base.run_ranks(1, of_ranks, tmp_path, source)
    two = base.run_ranks(2, of_ranks, tmp_path, source)
    assert samples_in([*two[0][0], *two[1][0]]) == samples_in(one[0]) == EACH_ONCE
    assert two[0][1] == two[1][1]


def test_rows_come_from_a_sampler(tmp_path):
    collate = transformers.DataCollatorForLanguageModeling(base.make_tokenizer(), mlm=False)
    sampler = sab.PackedSampler(LENGTHS, capacity=64, micro_batches=2)
    trainer = make_trainer(
        tmp_path,
        base.language_model(),
        collate,
        budget=None,
        sampler=sampler,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        train_dataset=dataset_of(without=("label", "length")),
    )
    trainer.train()
    assert samples_in(trainer.seen.batches) == EACH_ONCE
    assert all(LENGTHS[batch].sum() <= 64 for batch in trainer.seen.batches)


REFUSED = [
    ({"plan": 5}, TypeError, r"plan is a int: must be a sab\.Plan"),
    ({"sampler": [[0]]}, TypeError, "sampler is a list: must be a sampler of libsab"),
    ({"budget": plan_of()}, TypeError, "budget is a Plan: give it as plan="),
    (
        {"budget": sab.BucketSampler(plan_of())},
        TypeError,
        "budget is a BucketSampler: give it as sampler=",
    ),
    ({"plan": plan_of(), "budget": 96}, ValueError, "exactly one of them"),
    ({"plan": plan_of(), "oversize": "skip"}, ValueError, "oversize: must not be given with plan"),
    ({"plan": plan_of(LENGTHS[:9])}, ValueError, "plan: was made of 9 samples: train_dataset has"),
    (
        {"sampler": sab.BucketSampler(plan_of(LENGTHS[:9]))},
        ValueError,
        "sampler: was made of 9 samples: train_dataset has 120",
    ),
    (
        {"sampler": sab.BucketSampler(plan_of()), "gradient_accumulation_steps": 4},
        ValueError,
        "gradient_accumulation_steps = 4: the sampler has micro_batches = 1; make it with micro_b",
    ),
    (
        {"sampler": sab.PackedSampler(LENGTHS, capacity=64)},
        ValueError,
        "data_collator is a function: rows need DataCollatorWithFlattening",
    ),
    (
        {"sampler": sab.PackedSampler(LENGTHS, capacity=9, split=True)},
        ValueError,
        "split = True: rows must have whole samples",
    ),
]


@pytest.mark.parametrize(("given", "kind", "message"), REFUSED)
def test_what_cannot_give_the_batches_is_refused(tmp_path, given, kind, message):
    with pytest.raises(kind, match=message):
        make_trainer(tmp_path, **{"budget": None, **given})


# Data sets and trainers


def test_evaluation_that_cannot_be_planned_is_an_error_before_the_first_step(tmp_path):
    longest = int(LENGTHS.max())
    short = dataset_of([each for each in SAMPLE_LIST if each["length"] < longest])
    for held_out, name in (
        (dataset_of(), "eval_dataset"),
        ({"one": short, "other": dataset_of()}, r"eval_dataset\['other'\]"),
    ):
        options = {"budget": longest - 1, "oversize": "skip", "eval_dataset": held_out}
        trainer = make_trainer(tmp_path, **options)
        message = f"^{name}: sizes.* must cost at most the budget.*a larger eval_budget"
        with pytest.warns(sab.SkippedWarning), pytest.raises(ValueError, match=message):
            trainer.train()
        assert not trainer.seen.batches
        with pytest.raises(ValueError, match=message):
            trainer.evaluate()
        with pytest.raises(ValueError, match=r"^test_dataset: sizes"):
            trainer.predict(dataset_of())
        trainer = make_trainer(tmp_path, eval_budget=longest, num_train_epochs=1, **options)
        with pytest.warns(sab.SkippedWarning):
            trainer.train()
        trainer.evaluate()
    with pytest.raises(ValueError, match=r"^train_dataset: sizes"):
        make_trainer(tmp_path, budget=longest - 1).train()


def test_a_stream_is_refused_at_once(tmp_path):
    streams = (
        dataset_of().to_iterable_dataset(),
        sab.torch.StreamDataset(sab.Stream.from_items(SAMPLE_LIST, infinite=False)),
    )
    for stream in streams:
        message = f"train_dataset is a {type(stream).__name__}: a stream has no samples by index"
        with pytest.raises(ValueError, match=message):
            make_trainer(tmp_path, train_dataset=stream, max_steps=3)


def trl_trainer(kind, folder, rows, of_arguments=None, **options):
    trl = pytest.importorskip("trl")
    arguments = getattr(trl, kind.replace("Trainer", "Config"))(
        str(folder),
        num_train_epochs=1,
        use_cpu=True,
        bf16=False,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        gradient_checkpointing=False,
        dataloader_pin_memory=False,
        **(of_arguments or {}),
    )
    tokenizer = base.make_tokenizer()
    tokenizer.eos_token = "999"
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return getattr(trl, kind)(
        args=arguments,
        train_dataset=base.datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        **{"model": base.language_model(), **options},
    )


@pytest.mark.parametrize("kind", ["GRPOTrainer", "RLOOTrainer"])
def test_trainers_that_generate_their_batches_are_refused_by_name(tmp_path, kind):
    def reward(completions, **given):
        return [0.0] * len(completions)

    rows = [{"prompt": "1 2 3"}] * 16
    trainer = trl_trainer(kind, tmp_path, rows, {"beta": 0.0}, reward_funcs=reward)
    with pytest.raises(TypeError, match=rf"trainer is a {kind}: .*; use sab\.plan_step\(\)"):
        sab.transformers.prepare(trainer, budget=96)
    assert "sab" not in vars(trainer) and not hasattr(trainer.get_train_dataloader(), "source")


def scorer():
    config = base.language_model().config
    config.num_labels, config.pad_token_id = 1, 0
    return transformers.LlamaForSequenceClassification(config)


def longer(row):
    return max(len(row["chosen_ids"]), len(row["rejected_ids"]))


# The models of a trainer of pairs, and the tokens of both rows of a pair.
OF_PAIRS = {
    "DPOTrainer": (
        lambda: {"ref_model": base.language_model()},
        lambda row: 2 * (len(row["prompt_ids"]) + longer(row)),
    ),
    "RewardTrainer": (lambda: {"model": scorer()}, lambda row: 2 * longer(row)),
}


@pytest.mark.parametrize("kind", OF_PAIRS)
def test_trainers_of_pairs_take_lengths(tmp_path, kind):
    models, length = OF_PAIRS[kind]
    pairs = [
        {"prompt": "1 " * (1 + at % 5), "chosen": " 2" * (1 + at % 7), "rejected": " 3 4"}
        for at in range(40)
    ]
    trainer = trl_trainer(kind, tmp_path, pairs, **models())
    sab.transformers.prepare(trainer, budget=60)
    with pytest.raises(ValueError, match=r"train_dataset: has no column 'length', .* lengths"):
        trainer.train()
    trainer = trl_trainer(kind, tmp_path, pairs, **models())
    lengths = lambda dataset: [length(row) for row in dataset]  # noqa: E731
    sab.transformers.prepare(trainer, budget=60, lengths=lengths)
    assert len(set(lengths(trainer.train_dataset))) > 3
    shapes = []
    trainer.model.register_forward_pre_hook(
        lambda model, args, inputs: shapes.append(tuple(inputs["input_ids"].shape)),
        with_kwargs=True,
    )
    trainer.train()
    assert sum(count for count, _ in shapes) == 2 * len(pairs)
    assert max(count * length for count, length in shapes) <= 60
