from collections.abc import Iterator
from itertools import islice

import torch

from bench.peers import Batch, SkippingPeer, Work, alone, chunks


class GroupByLength(SkippingPeer):
    name = "transformers group_by_length"
    distribution = "transformers"
    setting = (
        "`train_sampling_strategy='group_by_length'`: the sampler over all ranks' batches, dealt "
        "out in turn; resumed as Trainer does, by skipping"
    )
    source = "https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.train_sampling_strategy"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        module = alone(
            "transformers.trainer_pt_utils",
            "transformers.integrations.deepspeed",
            "transformers.utils",
            LRScheduler=object,
        )
        self.generator = torch.Generator()
        lengths = work.lengths.tolist()
        self.sampler = module.LengthGroupedSampler(
            work.count, lengths=lengths, generator=self.generator
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.generator.manual_seed(self.work.seed + number)
        order = list(self.sampler)
        if self.work.world_size > 1:  # accelerate's even_batches
            order += order[: -len(order) % (self.work.count * self.work.world_size)]
        batches = chunks(order, self.work.count)
        return islice(batches, self.work.rank, None, self.work.world_size)
