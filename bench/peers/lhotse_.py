from collections.abc import Iterator

from bench.peers import Batch, Peer, Work


class Lhotse(Peer):
    name = "lhotse DynamicBucketingSampler"
    distribution = "lhotse"
    setting = "`max_duration`: the budget, `num_buckets=30`, `shuffle=True`, a second for each unit"
    source = "https://lhotse.readthedocs.io/en/latest/datasets.html"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        from lhotse import CutSet
        from lhotse.cut import PaddingCut
        from lhotse.dataset.sampling import DynamicBucketingSampler

        lengths = enumerate(work.lengths.tolist())
        cuts = (PaddingCut(str(i), float(n), 16000, 0.0, num_samples=16000 * n) for i, n in lengths)
        self.sampler = DynamicBucketingSampler(
            CutSet.from_cuts(cuts),
            max_duration=work.budget,
            num_buckets=30,
            shuffle=True,
            seed=work.seed,
            rank=work.rank,
            world_size=work.world_size,
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return ([int(cut.id) for cut in batch] for batch in self.sampler)

    def state(self, number: int, taken: int) -> object:
        return self.sampler.state_dict()

    def resume(self, state: dict[str, object]) -> Iterator[Batch]:
        self.sampler.load_state_dict(state)
        return ([int(cut.id) for cut in batch] for batch in self.sampler)
