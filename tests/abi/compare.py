"""Whether the declarations of a release are still there: compare.py THEN NOW, two files as
include/sab_cdef.h. Prints "N passed, N failed".

Every constant with its value, which no new one of its enum has, every function and callback type
word for word, every struct with its fields in their order; a struct may have more of them only at
its end, behind the padding that it had and leaving none, and only when it begins with struct_size.
Then breaks the new declarations in several ways and expects each to be found.
"""

import pathlib
import re
import sys

SIZES = {
    "uint8_t": 1,
    "int32_t": 4,
    "uint32_t": 4,
    "int64_t": 8,
    "uint64_t": 8,
    "size_t": 8,
    "double": 8,
}
FAMILY = re.compile(r"SAB_[A-Z]+")  # constants of one enum begin alike


def read(text):
    """name -> what is declared: a value, a list of fields, or the words of the declaration."""
    declared = {}
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)

    def constants(match):
        for name, value in re.findall(r"(\w+) = (-?\d+)", match[1]):
            declared[name] = int(value)
        return ""

    def struct(match):
        declared[match[2]] = [
            " ".join(field.split()) for field in match[1].split(";") if field.strip()
        ]
        return ""

    text = re.sub(r"enum \{(.*?)\};", constants, text, flags=re.DOTALL)
    text = re.sub(r"typedef struct \w+ \{(.*?)\} (\w+);", struct, text, flags=re.DOTALL)
    for words in filter(None, (" ".join(part.split()) for part in text.split(";"))):
        name = re.search(r"\(\*(\w+)\)\(|\b(sab_\w+)\(", words)
        key = next(filter(None, name.groups())) if name else words.split()[-1]
        declared.setdefault(key, words)  # a struct that is named before its fields keeps them
    return declared


def size_and_alignment(field, declared):
    """Of a type, or of a field with its name, where pointers have 8 bytes."""
    if "*" in field:
        return 8, 8
    name = next(word for word in field.split() if word != "const")
    if name in SIZES:
        return SIZES[name], SIZES[name]
    what = declared[name]
    if isinstance(what, str):
        return size_and_alignment(what.removeprefix("typedef "), declared)
    _, size, alignment = layout(what, declared)
    return size, alignment


def layout(fields, declared):
    """Where each field of a struct begins and ends, the struct's size and its alignment."""
    places, at, alignment = [], 0, 1
    for field in fields:
        size, own = size_and_alignment(field, declared)
        at = -(-at // own) * own
        places.append((at, at + size))
        at, alignment = at + size, max(alignment, own)
    return places, -(-at // alignment) * alignment, alignment


def has_grown(old, new, then, now):
    if not (
        isinstance(old, list)
        and isinstance(new, list)
        and new[: len(old)] == old
        and old[0] == "size_t struct_size"
    ):
        return False
    places, size, _ = layout(new, now)
    return places[len(old)][0] >= layout(old, then)[1] and places[-1][1] == size


def broken(then, now):
    for name, old in then.items():
        new = now.get(name)
        if not (new == old or has_grown(old, new, then, now)):
            yield f"{name}: {old} became {new}"
    for family in {FAMILY.match(name)[0] for name, value in now.items() if isinstance(value, int)}:
        values = [
            value
            for name, value in now.items()
            if isinstance(value, int) and FAMILY.match(name)[0] == family
        ]
        if family != "SAB_MAX" and len(values) > len(set(values)):  # SAB_MAX: limits, not choices
            yield f"{family}...: two have one value"


def changes(then, now):
    """What -> changed declarations, each of which broken() must find."""
    options = then["sab_plan_options"]
    swapped = [options[0], options[2], options[1], *options[3:]]
    structs = {name: fields for name, fields in then.items() if isinstance(fields, list)}
    padded = next(name for name, fields in structs.items() if has_padding_at_its_end(fields, then))
    fixed = [name for name, fields in structs.items() if fields[0] != "size_t struct_size"]
    assert fixed
    return {
        "a constant": {"SAB_E_ARGUMENT": -20},
        "a status type": {"sab_status": "typedef int64_t sab_status"},
        "a parameter": {
            "sab_plan_new": now["sab_plan_new"].replace("const sab_sizes", "sab_sizes")
        },
        "a callback": {
            "sab_cost_fn": now["sab_cost_fn"].replace("const double *", "const float *")
        },
        "a lost function": {"sab_plan_new": None},
        "swapped fields": {"sab_plan_options": swapped},
        "a renamed field": {
            "sab_plan_options": [field.replace("budget", "limit") for field in options]
        },
        "a field of another type": {
            "sab_plan_options": [
                field.replace("size_t budget_count", "double budget_count") for field in options
            ]
        },
        "a field in the middle": {"sab_plan_options": [options[0], "uint64_t more", *options[1:]]},
        "a lost field": {"sab_plan_options": options[:-1]},
        "a field in the padding": {padded: [*then[padded], "int32_t more"]},
        "a field that leaves padding": {"sab_plan_options": [*options, "int32_t more"]},
        "a value that is used": {"SAB_E_NEW": then["SAB_E_ARGUMENT"]},
        **{f"more of {name}": {name: [*now[name], "uint64_t more"]} for name in fixed},
    }


def has_padding_at_its_end(fields, declared):
    places, size, _ = layout(fields, declared)
    return fields[0] == "size_t struct_size" and size - places[-1][1] >= 4


def main():
    then, now = (read(pathlib.Path(path).read_text()) for path in sys.argv[1:3])
    assert len(then) > 150
    found = list(broken(then, now))
    for line in found:
        print("FAILED", line)
    tried = changes(then, now)
    for what, change in tried.items():
        assert all(now.get(name) != value for name, value in change.items()), f"{what}: no change"
    missed = [what for what, change in tried.items() if not list(broken(then, {**now, **change}))]
    grown = {"sab_plan_options": [*then["sab_plan_options"], "uint64_t more"]}
    missed += (
        ["that a field at the end is accepted"] if list(broken(then, {**now, **grown})) else []
    )
    for what in missed:
        print("FAILED not found:", what)
    failed = len(found) + len(missed)
    print(f"{len(then) + len(tried) + 1 - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
