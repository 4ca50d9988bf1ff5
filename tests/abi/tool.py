"""Checks tools/abi.py on the small library in tests/abi/example. Prints "N passed, N failed".

The folder has the headers and every file that the tool should write for them.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import run_all

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parents[1] / "tools/abi.py"
EXAMPLE = HERE / "example"
BINDINGS = "bindings/rust/sab-sys/src/bindings.rs"

# Syntax that the tool does not know, put in line 33 of base.h, and the beginning of the message.
UNKNOWN = {
    "enum { SAB_A };": "unknown declaration: 'enum'",
    "static inline int32_t sab_f(void) { return 0; }": "unknown declaration: 'static'",
    "int32_t sab_f(void);": "unknown declaration: 'int32_t'",
    "#define SAB_A 1.5": "unknown directive",
    "#define SAB_A (SAB_B)": "unknown directive",
    "#define SAB_A(x) 1": "unknown directive",
    "#include <stdio.h>": "unknown directive",
    "#ifdef SAB_B": "",
    "#pragma once": "unknown directive",
    "// a comment of C++": "unknown syntax: '//",
    "typedef long sab_long;": "unknown type: 'long'",
    "typedef int32_t *sab_pointer;": "sab_pointer: a typedef of 'int32_t *'",
    "typedef int32_t sab_array[3];": "expected ';', found '['",
    "typedef struct sab_s { int32_t a[SAB_MOST]; } sab_s;": "expected a number, found 'SAB_MOST'",
    "#define SAB_S_INIT {sizeof(sab_s)}": "unknown directive",
    "#define SAB_S_INIT SAB_INIT(sab_t)": "SAB_S_INIT is of sab_t",
    "typedef union sab_u { double a; } sab_u;": "unknown type: 'union'",
    "typedef struct { double a; } sab_s;": "expected a name, found '{'",
    "typedef struct sab_s { double a, b; } sab_s;": "expected ';', found ','",
    "typedef struct sab_s { int32_t a : 3; } sab_s;": "unknown syntax: ': 3",
    "typedef struct sab_s { struct sab_t { double a; } b; } sab_s;": "unknown type: 'struct sab_t'",
    "SAB_API sab_status sab_f(sab_unknown *a) SAB_NOEXCEPT;": "unknown type: 'sab_unknown'",
    "SAB_API sab_status sab_f(double) SAB_NOEXCEPT;": "expected a name, found ')'",
    "SAB_API sab_status sab_f(double a, ...) SAB_NOEXCEPT;": "unknown syntax: '...",
    "SAB_API sab_status sab_f() SAB_NOEXCEPT;": "expected a name, found ')'",
    "SAB_API sab_status sab_f(double a);": "expected 'SAB_NOEXCEPT', found ';'",
    "SAB_API sab_status (*sab_f)(double a);": "sab_f: a variable, not a function",
    "SAB_API int32_t sab_count;": "expected '(', found ';'",
}


def tool(root: pathlib.Path, *arguments: str) -> tuple[int, str]:
    """Status and output of the tool for another root, without bindgen."""
    (root / "tools").mkdir(exist_ok=True)
    for name in ("abi.py", "abi_headers.py", "abi_json.py"):
        shutil.copy(TOOL.with_name(name), root / "tools")
    said = subprocess.run(
        [sys.executable, "-B", str(root / "tools/abi.py"), *arguments],
        env={**os.environ, "BINDGEN": "there is no bindgen"},
        capture_output=True,
        text=True,
        check=False,
    )
    return said.returncode, said.stdout + said.stderr


def copy(folder: str) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(EXAMPLE, pathlib.Path(folder, "root")))


def edit(path: pathlib.Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new))


def check_expected_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = copy(folder)
        assert tool(root, "--check") == (0, "")
        written = [path.relative_to(root) for path in root.glob("src/**/*.*")]
        written += [pathlib.Path("debian/libsab0.symbols"), pathlib.Path("include/sab_cdef.h")]
        written += [pathlib.Path("include/sab_abi.json")]
        written += [path.relative_to(root) for path in root.glob("docs/reference/c/*")]
        assert len(written) == 8, written
        for path in written:
            (root / path).unlink()
        status, said = tool(root)
        assert status == 0 and all(str(path) in said for path in written), said
        for path in written:
            assert (root / path).read_text() == (EXAMPLE / path).read_text(), path


def check_every_difference_is_named() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = copy(folder)
        changed = ["src/libsab.map", "bindings/julia/src/raw.jl", "docs/reference/c.rst"]
        for path in changed:
            text = (root / path).read_text()
            (root / path).write_text(text.replace("sab", "bas"))
        (root / "docs/reference/c/stray.rst").write_text("# sab/stray.h\n")
        status, said = tool(root, "--check")
        assert status == 1
        for path in [*changed, "docs/reference/c/stray.rst"]:
            assert f"{path}: differs" in said, said
        assert said.count("\n") == 4, said


def check_rust_is_found_without_bindgen() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = copy(folder)
        edit(root / "include/sab/base.h", "const char *name,", "const char *title,")
        status, said = tool(root)
        assert status == 1 and said.startswith("written: include/sab_cdef.h\n"), said
        assert f"not written: {BINDINGS}: needs bindgen" in said, said
        status, said = tool(root, "--check")
        assert status == 1 and said.startswith(f"{BINDINGS}: differs"), said


def check_unknown_syntax() -> None:
    for line, message in UNKNOWN.items():
        with tempfile.TemporaryDirectory() as folder:
            root = copy(folder)
            edit(root / "include/sab/base.h", "#define SAB_OK 0\n", f"#define SAB_OK 0\n{line}\n")
            status, said = tool(root, "--check")
            assert status == 1 and said.startswith("sab/base.h:"), f"{line}: {said}"
            if message:
                assert said.startswith(f"sab/base.h:33: {message}"), f"{line}: {said}"


def check_rules() -> None:
    """(header, old, new, message)"""
    broken = [
        ("base", "Tier: stable.", "Tier: eternal.", "sab/base.h:1: the first comment needs a line"),
        ("base", "#ifndef SAB_BASE_H", "#ifndef SAB_BASS_H", "sab/base.h:6: expected"),
        ("base", " end;\n}", " end;\n    uint64_t more;\n}",
         "sab_box_options: a field without @since behind one with it"),
        ("base", "#define SAB_BOX_OPTIONS_INIT \\\n    SAB_INIT(sab_box_options)\n", "",
         "sab/base.h: sab_box_options has no SAB_BOX_OPTIONS_INIT"),
        ("extra", "@param total    read and written", "@param total    the total",
         "sab/extra.h: sab_weigh: the comment of total must begin with"),
    ]  # fmt: skip
    for header, old, new, message in broken:
        with tempfile.TemporaryDirectory() as folder:
            root = copy(folder)
            edit(root / f"include/sab/{header}.h", old, new)
            status, said = tool(root, "--check")
            assert status == 1 and said.startswith(message), said
    with tempfile.TemporaryDirectory() as folder:
        root = copy(folder)
        edit(root / "include/sab.h", '#if SAB_WITH_EXTRA\n#include "sab/extra.h"\n#endif\n', "")
        assert tool(root, "--check") == (1, "sab.h: does not include extra\n")
        edit(root / "include/sab.h", "base.h", "extra.h")
        edit(
            root / "include/sab.h",
            '#include "sab/extra.h"\n',
            '#include "sab/extra.h"\n#include "sab/base.h"\n',
        )
        status, said = tool(root, "--check")
        assert status == 1 and "unknown type: 'sab_box'" in said, said


def check_stable_does_not_include_provisional() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = copy(folder)
        extra = (root / "include/sab/extra.h").read_text()
        stable = extra.replace("extra", "more").replace("EXTRA", "MORE").replace("sab_p", "sab_m")
        stable = stable.replace("sab/base.h", "sab/extra.h")
        tier = stable[stable.index("Tier:") : stable.index("release.") + len("release.")]
        (root / "include/sab/more.h").write_text(stable.replace(tier, "Tier: stable."))
        edit(root / "include/sab.h", '"sab/extra.h"\n', '"sab/extra.h"\n#include "sab/more.h"\n')
        assert tool(root, "--check") == (1, "sab/more.h: stable, but includes sab/extra.h\n")


def main() -> bool:
    return run_all(
        [
            check_expected_files,
            check_every_difference_is_named,
            check_rust_is_found_without_bindgen,
            check_unknown_syntax,
            check_rules,
            check_stable_does_not_include_provisional,
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
