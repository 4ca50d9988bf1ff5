"""Messages of the library in the words of Python: keywords instead of fields, choices instead of
constants."""

from __future__ import annotations

import re
from collections.abc import Mapping

_FIELD = re.compile(
    r"\b(?:options|balanced|balancing|pack)\."
    r"((?:(?:budgets|balance|capacities|length_multiples|shortest|longest|column_names)\[\d+\]"
    r"|budget\b)"
    r"(?:\.[a-z]+)?|[a-z_]+)"
)
_KEYWORDS = {
    "padding_target": "padding",
    "boundary_count": "len(boundaries)",
    "bucket_count": "buckets",
    "batch_sizes": "batch_size",
    "batch_size_count": "len(batch_size)",
    "bucket_rule": "buckets",
    "budgets": "budget",
    "budget.limit": "budget",
    "budget.cost": "cost",
    "budget_count": "len(budget)",
    "separate_by_count": "len(separate_by)",
    "max_shape_count": "len(max_shapes)",
    "limit": "budget",
}
_CONSTANT = re.compile(
    r"SAB_(BUCKETS|TAIL|OVERSIZE|LAST_STEP|PARTITION|PACK|THRESHOLDS|MODEL|SEARCH|ROUND|CACHE"
    r"|PADDING|MASK|ON_ERROR|FRAMING|BIONEMO_SHUFFLE|CONTEXT)_([A-Z_]+)(?: \(-?\d+\))?"
)
_CHOICES = {
    "BUCKETS_AUTO": "neither boundaries nor buckets",
    "BUCKETS_BOUNDARIES": "boundaries",
    "BUCKETS_OPTIMAL": "a number of buckets",
}
_ARGUMENT = re.compile(r"^[a-z_]+(?=(?:\[\d+\])? = |: )")
_SIZES = re.compile(r"^(len\()?sizes\b|\bsizes(?=\[)")
_COLUMN = re.compile(r"\bin column \d+")
_LENGTH = re.compile(r"\bnumber of (budget|balance) = ")
_OTHERS = {
    "nulls count as 0 only on request": "nulls='zero' counts them as 0",
    "text_unit = SAB_TEXT_BYTES": "units = None",
    "SAB_TEXT_VALUE reads": "units='value' reads",
    "SAB_TEXT_ALL_BYTES counts": "units='bytes' counts",
    "column = NULL": "column = None",
    "sizes.count = ": "len(sizes) = ",
    "restore it, and call sab_sampler_set_budget()": "load the state, and call set_budget()",
    "restore it with that capacity, or begin the next epoch with sab_sampler_set_epoch()": (
        "load it with that capacity, or begin the next epoch with set_epoch()"
    ),
    "total: a limit must be given": "total: a budget must be given",
    "restore its state into a sampler": "load its state into a sampler",
    "sab_sampler_get_budget: ": "set_budget() and get_budget(): ",
}
_SAMPLER = re.compile(r"\bsab_([a-z_]+)_sampler_new\b(?:\(\))?")
_UNSET = re.compile(r" \(0: [^)]*\)")  # what the number 0 means in C, where Python has None


def in_python(message: str, names: Mapping[str, str] | None = None) -> str:
    """A message of the library as one of the package.

    Args:
        message: of the library.
        names: arguments and fields of the options that the caller knows by another name.

    >>> in_python("options.bucket_count = 3: goes with SAB_BUCKETS_OPTIMAL only")
    'buckets = 3: goes with a number of buckets only'
    >>> in_python("options.tail = 7: must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (2)")
    "tail = 7: must be one of 'keep' to 'wrap'"
    >>> in_python("repeats[1] = -1: must be at least 0", {"repeats": "repeat"})
    'repeat[1] = -1: must be at least 0'
    """
    known = {**_KEYWORDS, **(names or {})}
    message = _FIELD.sub(lambda found: known.get(found[1], found[1]), message)
    message = _ARGUMENT.sub(lambda found: (names or {}).get(found[0], found[0]), message)
    message = _COLUMN.sub(lambda found: known.get(found[0], found[0]), message)
    for theirs, ours in _OTHERS.items():
        message = message.replace(theirs, ours)
    message = _SAMPLER.sub(lambda found: f"sab.{_camel_case(found[1])}Sampler", message)
    message = _LENGTH.sub(r"len(\1) = ", message)
    message = renamed(message, known.get("sizes", "sizes"))
    return _UNSET.sub("", _CONSTANT.sub(_choice, message))


def renamed(message: str, name: str) -> str:
    """A message about sizes as one about an argument with this name.

    >>> renamed("sizes[3] = -1: must be at least 0", "lengths")
    'lengths[3] = -1: must be at least 0'
    """
    return _SIZES.sub(lambda found: (found[1] or "") + name, message)


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _choice(found: re.Match[str]) -> str:
    return _CHOICES.get(f"{found[1]}_{found[2]}", repr(found[2].lower()))
