"""Writes sab/_cdef.h, the raw declarations, from the public headers. `generate_cdef.py --check` only compares."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "include" / "sab"
ROOMS = ["base", "sizes", "plan", "sampler", "balance", "pack", "memory", "stream", "group", "cache", "torch"]


def declarations(header: str) -> str:
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"\\\n", " ", text)
    constants = re.findall(r"^#define (SAB_\w+) (\(?-?\d+\)?)\s*$", text, flags=re.M)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    text = re.sub(r'extern "C" \{', "", text)
    text = re.sub(r"^\}\s*$", "", text, flags=re.M)
    text = text.replace("SAB_API ", "").replace(" SAB_NOEXCEPT", "")
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r"\n\s*\n+", "\n", text).strip()
    return "\n".join([f"#define {name} {value.strip('()')}" for name, value in constants] + [text])


def generate() -> str:
    parts = [declarations((HEADERS / f"{room}.h").read_text()) for room in ROOMS]
    return "/* Generated from the public headers by generate_cdef.py: do not edit. */\n" + "\n".join(parts) + "\n"


if __name__ == "__main__":
    target = HERE / "sab" / "_cdef.h"
    if sys.argv[1:] == ["--check"]:
        if target.read_text() != generate():
            sys.exit("sab/_cdef.h differs from the headers: run generate_cdef.py")
    else:
        target.write_text(generate())
