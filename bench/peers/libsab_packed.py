import sab
from bench.peers import Batch, Peer


class Packed(Peer):
    name = "libsab PackedSampler"
    distribution = "libsab"
    setting = "`PackedSampler(lengths, capacity)`, defaults"
    source = "guide/packing.md"

    def pack(self, capacity: int, epoch: int) -> list[Batch]:
        sampler = sab.PackedSampler(self.work.lengths, capacity)
        if epoch > 0:
            sampler.set_epoch(epoch)
        return list(sampler)
