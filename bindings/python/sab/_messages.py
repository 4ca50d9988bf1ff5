"""Messages of the library in the words of Python: keywords instead of fields, choices instead of
constants."""

from __future__ import annotations

import re

_FIELD = re.compile(r"\b(?:options|balanced|balancing|pack)\.([a-z_]+)")
_KEYWORDS = {
    "padding_target": "padding",
    "boundary_count": "len(boundaries)",
    "bucket_count": "buckets",
    "batch_sizes": "batch_size",
    "batch_size_count": "len(batch_size)",
    "coefficients": "cost",
    "coefficient_count": "len(cost)",
    "cost_terms": "cost",
    "cost_term_count": "cost",
    "cost_fn": "cost",
    "memory_terms": "memory",
    "memory_term_count": "memory",
    "is_cluster": "cluster",
}
_CONSTANT = re.compile(
    r"SAB_(BUCKETS|COST|TAIL|OVERSIZE|LAST_STEP|PARTITION|PACK|THRESHOLDS|MODEL|SEARCH|ROUND|CACHE"
    r"|PADDING|MASK|ON_ERROR|FRAMING|BIONEMO_SHUFFLE)_([A-Z_]+)(?: \(-?\d+\))?"
)
_CHOICES = {
    "BUCKETS_AUTO": "neither boundaries nor buckets",
    "BUCKETS_BOUNDARIES": "boundaries",
    "BUCKETS_OPTIMAL": "a number of buckets",
    "COST_POLYNOMIAL": "coefficients",
    "COST_CALLBACK": "a function",
    "COST_TERMS": "a model",
}
_UNSET = re.compile(r" \(0: [^)]*\)")  # what the number 0 means in C, where Python has None


def in_python(message: str) -> str:
    """A message of the library as one of the package.

    >>> in_python("options.bucket_count = 3: goes with SAB_BUCKETS_OPTIMAL only")
    'buckets = 3: goes with a number of buckets only'
    >>> in_python("options.tail = 7: must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (3)")
    "tail = 7: must be one of 'keep' to 'wrap'"
    """
    message = _FIELD.sub(lambda found: _KEYWORDS.get(found[1], found[1]), message)
    return _UNSET.sub("", _CONSTANT.sub(_choice, message))


def _choice(found: re.Match[str]) -> str:
    return _CHOICES.get(f"{found[1]}_{found[2]}", repr(found[2].lower()))
