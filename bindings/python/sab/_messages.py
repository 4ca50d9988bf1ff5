"""Errors of the library in the words of Python: keywords instead of fields, choices instead of
constants. They are composed of the parts that the library gives: argument, value and rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sab._names import CHOICES, COUNTED, OPTIONS

# Where the package has other names than the fields of the options.
_KEYWORDS = {
    "padding_target": "padding",
    "bucket_count": "buckets",
    "batch_sizes": "batch_size",
    "bucket_rule": "buckets",
    "budgets": "budget",
    "budget.limit": "budget",
    "budget.cost": "cost",
    "options.limit": "budget",
    "balancing.limit": "budget",
    "text_unit": "units",
}
# What is said of a constant, where that is not its word.
_SAID = {
    "SAB_BUCKETS_BOUNDARIES": "boundaries",
    "SAB_BUCKETS_OPTIMAL": "a number of buckets",
    "SAB_TEXT_BYTES": "None",
    "SAB_TEXT_VALUE": "units='value'",
    "SAB_TEXT_ALL_BYTES": "units='bytes'",
    "NULL": "None",
}
_FUNCTIONS = {
    "sab_histogram_epoch_new": "Histogram.epoch",
    "sab_histogram_packing_new": "Histogram.pack",
    "sab_histogram_plan_new": "Histogram.plan",
    "sab_max_batch_find": "sab.find_max_batch",
    "sab_next_batch": "next",
    "sab_stream_next": "next",
    "sab_torch_open": "import torch",
}
_FLAGS = ("split", "whole_groups")  # True or False in the package
_OBJECTS = ("sampler", "plan", "stream", "packing", "mixture", "batch")


class Parts(NamedTuple):
    """A failure of the library: its whole message, and the parts of it, which can be empty."""

    message: str
    argument: str
    value: str
    rule: str


def in_python(parts: Parts, names: Mapping[str, str] | None = None) -> str:
    """The message of a failure as one of the package.

    Args:
        parts: of the failure.
        names: arguments and fields of the options that the caller knows by another name.

    >>> def said(argument, value, rule, names=None):
    ...     return in_python(Parts(f"{argument} = {value}: {rule}", argument, value, rule), names)
    >>> said("options.bucket_count", "3", "goes with SAB_BUCKETS_OPTIMAL only")
    'buckets = 3: goes with a number of buckets only'
    >>> said("options.tail", "7", "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (2)")
    "tail = 7: must be one of 'keep' to 'wrap'"
    >>> said("repeats[1]", "-1", "must be at least 0", {"repeats": "repeat"})
    'repeat[1] = -1: must be at least 0'
    >>> said("options.budget_count", "9", "must be at most 8")
    'len(budget) = 9: must be at most 8'
    >>> said("pack.split", "1", "must be 0 for several columns")
    'split = True: must be False for several columns'
    """
    known = {**_KEYWORDS, **(names or {})}
    if not parts.argument:
        return _translated(parts.message, known)
    argument, rule = _own_name(parts.argument, known), _translated(parts.rule, known)
    if not parts.message.startswith(f"{parts.argument} = "):
        return f"{argument}: {rule}"
    is_text = parts.message.startswith(f'{parts.argument} = "')
    value = f'"{parts.value}"' if is_text else _translated(parts.value, known)
    if argument in _FLAGS and value in ("0", "1"):
        value, rule = str(value == "1"), rule.replace("must be 0", "must be False", 1)
    return f"{argument} = {value}: {rule}"


def renamed(message: str, name: str) -> str:
    """A message about sizes as one about an argument with this name.

    >>> renamed("sizes[3] = -1: must be at least 0", "lengths")
    'lengths[3] = -1: must be at least 0'
    """
    words = list(tokens(message))
    return "".join(
        name + word[len("sizes") :]
        if word.startswith("sizes[")
        or (
            word == "sizes" and (i == 0 or words[:i] == ["len", "("] or words[i + 1 :][:1] == ["["])
        )
        else word
        for i, word in enumerate(words)
    )


def tokens(text: str) -> Iterator[str]:
    """The parts of a text: names with their fields and indices, texts in quotes, and single
    characters.

    >>> list(tokens('set options.budgets[0].limit, not "a b".'))
    ['set', ' ', 'options.budgets[0].limit', ',', ' ', 'not', ' ', '"a b"', '.']
    """
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == '"':
            end = text.find('"', end) + 1 or len(text)
        elif _begins_name(text, at):
            end = _end_of_name(text, at)
        yield text[at:end]
        at = end


def _begins_name(text: str, at: int) -> bool:
    return text[at : at + 1].isalpha() or text[at : at + 1] == "_"


def _end_of_name(text: str, at: int) -> int:
    while at < len(text):
        if (
            text[at].isalnum()
            or text[at] == "_"
            or (text[at] == "." and _begins_name(text, at + 1))
        ):
            at += 1
        elif text[at] == "[" and text[at + 1 : text.find("]", at)].isdigit():
            at = text.find("]", at) + 1
        else:
            break
    return at


def _translated(text: str, known: Mapping[str, str]) -> str:
    said: list[str] = []
    words = list(tokens(text))
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("sab_"):
            said.append(_function(word))
            if words[at : at + 2] == ["(", ")"] and said[-1].startswith("sab."):
                at += 2  # a class
        elif word in CHOICES or word in _SAID:
            said.append(_SAID.get(word) or repr(CHOICES[word]))
            if (
                words[at : at + 2] == [" ", "("]
                and "".join(words[at + 2 :]).partition(")")[0].isdigit()
            ):
                at = words.index(")", at) + 1  # its number
        elif "[" in word or word.partition(".")[0] in OPTIONS or word == "sizes.count":
            said.append(_own_name(word, known))
        else:
            said.append(word)
    return "".join(said)


def _own_name(name: str, known: Mapping[str, str]) -> str:
    if name in known:
        return known[name]
    first, _, field = name.partition(".")
    name = field if first in OPTIONS and field else name
    if name == "sizes.count":
        return f"len({known.get('sizes', 'sizes')})"
    if name in known:
        return known[name]
    if name in COUNTED:
        return f"len({_own_name(COUNTED[name], known)})"
    array, bracket, index = name.partition("[")
    return known.get(array, array) + bracket + index.replace("].limit", "]")


def _function(name: str) -> str:
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name.endswith("_sampler_new"):
        return f"sab.{''.join(word.capitalize() for word in name[4:-4].split('_'))}"
    what, _, verb = name[4:].partition("_")
    return verb.removesuffix("_new") if what in _OBJECTS else name
