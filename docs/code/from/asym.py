"""asym: batch grouping with the imports changed.

needs: torch
"""

import torch

# [imports]
from sab.compat.asym.annotated_module import AnnotatedModule
from sab.compat.asym.data_collection import DataCollection
from sab.compat.asym.grouper import LengthThresholdGrouper, UniGrouper
from sab.compat.asym.precompute_grouper_thresholds import find_thresholds
# [end]

torch.manual_seed(0)
sentences = [torch.rand(length, 8) for length in [1] * 64 + [4] * 16 + [16] * 4 + [64]]


# [same]
class Longest(AnnotatedModule):
    def forward(self, x, mask):
        return (x.sum(2) * mask).amax(1)

    def get_mask_hint(self):
        return ["seq"]

    def get_input_annot(self):
        return "(b, l_seq, 8)"

    def get_output_annot(self):
        return "(b)"


thresholds = find_thresholds(
    [len(x) for x in sentences], cost_fn=lambda length: length, k=3, num_trials=100
)
batch = DataCollection("(B, L_sequence, 8)", sentences)
batch.group(grouper=LengthThresholdGrouper("sequence", thresholds))
outputs = batch.apply(Longest())
outputs.regroup(grouper=UniGrouper())
outputs = outputs.data_groups[0].value
# [end]

# [native]
import sab

exact = sab.find_thresholds([len(x) for x in sentences], k=3, method="least_largest").thresholds
collection = sab.Collection(sentences, "(B, L_sequence, 8)")
grouped = collection.group(collection.grouping(sequence=exact))
same = grouped.apply(
    lambda x, mask: (x.sum(2) * mask).amax(1), output="(B)", mask="sequence"
).join()
assert torch.allclose(outputs, same)
# [end]
