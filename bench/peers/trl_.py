import numpy as np

from bench.peers import Batch, Peer, alone


class Trl(Peer):
    name = "trl pack_dataset"
    distribution = "trl"
    setting = "`strategy='bfd'` in batches of 1,000 samples, both defaults"
    source = "https://huggingface.co/docs/trl/main/en/reducing_memory_usage"

    def pack(self, capacity: int, epoch: int) -> list[Batch]:
        import datasets
        import pyarrow

        datasets.disable_progress_bars()
        pack_dataset = alone("trl.data_utils", "transformers").pack_dataset
        lengths = self.work.lengths
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        tokens = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        table = pyarrow.table({"input_ids": pyarrow.ListArray.from_arrays(offsets, tokens)})
        rows = pack_dataset(datasets.Dataset(table), capacity, "bfd").with_format("arrow")[:]
        return [np.unique(row.values.to_numpy()) for row in rows["input_ids"]]
