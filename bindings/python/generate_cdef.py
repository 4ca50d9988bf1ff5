"""Writes include/sab_cdef.h, the raw declarations without a preprocessor's lines, from the public headers: for readers of plain declarations such as cffi, LuaJIT
and koffi. `generate_cdef.py --check` only compares."""

import pathlib
import re
import sys

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
ROOMS = [
    "base",
    "sizes",
    "cost",
    "plan",
    "sampler",
    "ranks",
    "pack",
    "memory",
    "compat",
    "files",
    "balance",
    "steps",
    "stream",
    "group",
    "cache",
    "torch",
]


def one_line_each(text: str) -> str:
    """The text without the line breaks inside parentheses."""
    depth, parts = 0, []
    for character in text:
        depth += (character == "(") - (character == ")")
        parts.append(" " if character == "\n" and depth > 0 else character)
    return "".join(parts)


def declarations(header: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    constants = re.findall(r"^#define (SAB_\w+) (\(?-?\d+\)?)\s*$", text, flags=re.M)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = re.sub(r'extern "C" \{', "", text)
    text = re.sub(r"^\}\s*$", "", text, flags=re.M)
    text = re.sub(r"SAB_API(_EXPERIMENTAL)? |\s+SAB_NOEXCEPT", "", text)
    text = one_line_each(text)
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" $", "", text, flags=re.M)
    text = re.sub(r"\n\s*\n+", "\n", text).strip()
    lines = [f" {name} = {value.strip('()')}," for name, value in constants]
    return "\n".join(["enum {", *lines, "};", text] if lines else [text])


def generate() -> str:
    parts = [declarations((INCLUDE / "sab" / f"{room}.h").read_text()) for room in ROOMS]
    return (
        "/* Generated from the public headers by generate_cdef.py: do not edit. */\n"
        + "\n".join(parts)
        + "\n"
    )


if __name__ == "__main__":
    target = INCLUDE / "sab_cdef.h"
    if sys.argv[1:] == ["--check"]:
        if target.read_text() != generate():
            sys.exit("include/sab_cdef.h differs from the headers: run generate_cdef.py")
    else:
        target.write_text(generate())
