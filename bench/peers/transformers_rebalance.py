from collections.abc import Iterator

from bench.peers import Batch, SkippingPeer, Work, alone


class BatchRebalance(SkippingPeer):
    name = "transformers batch_rebalance"
    distribution = "transformers"
    setting = (
        "`train_sampling_strategy='batch_rebalance'`, 4 steps of accumulation, resumed by skipping"
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
        self.sampler = module.BatchRebalanceSampler(
            work.lengths.tolist(),
            effective_batch_size=4 * work.count * work.world_size,
            dp_size=work.world_size,
            grad_accum=4,
            seed=work.seed,
            rank=work.rank,
            drop_last=False,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return iter(self.sampler)
