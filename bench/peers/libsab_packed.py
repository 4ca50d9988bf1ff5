import sab
from bench.peers import Batch, Peer


class Packed(Peer):
    name = "libsab PackedSampler"
    distribution = "libsab"
    setting = "`PackedSampler(lengths, capacity)`, defaults"
    source = "guide/packing.md"

    def pack(self, capacity: int) -> list[Batch]:
        return list(sab.PackedSampler(self.work.lengths, capacity))
