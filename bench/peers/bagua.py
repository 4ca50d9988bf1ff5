from collections.abc import Iterator

from bench.peers import Batch, Peer, Work, alone, chunks


class Bagua(Peer):
    name = "Bagua LoadBalancing"
    distribution = "bagua"
    setting = "`LoadBalancingDistributedSampler`, complexity: the length, `random_level=0`"
    source = "https://github.com/BaguaSys/bagua/blob/master/bagua/torch_api/contrib/load_balancing_data_loader.py"

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        module = alone("bagua.torch_api.contrib.load_balancing_data_loader")
        self.sampler = module.LoadBalancingDistributedSampler(
            work.lengths.tolist(), int, work.world_size, work.rank, seed=work.seed
        )

    def epoch(self, number: int) -> Iterator[Batch]:
        self.sampler.set_epoch(number)
        return chunks(self.sampler, self.work.count)
