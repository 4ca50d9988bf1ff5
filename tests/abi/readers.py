"""Checks that other tools can read the installed headers: readers.py PREFIX SCRATCH.

SWIG, ctypesgen and cffi are not C compilers; they read the headers or the declarations file made of
them. Needs cc, c++, swig, and ctypesgen and cffi for the Python that runs this; uses clang if there
is one. Prints "N passed, N failed".
"""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import cffi
from checks import run, run_all

PREFIX, SCRATCH = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
REPO = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = PREFIX / "include"
LIBRARY = next(PREFIX.rglob("libsab.so.0"))
HEADERS = [  # each behind those that it includes
    INCLUDE / name
    for name in re.findall(r'#include "(sab/\w+\.h)"', (INCLUDE / "sab.h").read_text())
]
DECLARATIONS = (PREFIX / "share/libsab/sab_cdef.h").read_text()
STRUCTS = re.findall(
    r"^typedef struct (\w+) \{(.*?)^\} \1;", DECLARATIONS, re.DOTALL | re.MULTILINE
)


def module(path):
    specification = importlib.util.spec_from_file_location(path.name.split(".")[0], path)
    loaded = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(loaded)
    return loaded


def fields(body):
    return re.findall(r"(\w+)(?=;|\)\()", body)


def layout():
    """(struct, field) -> (offset, size of the struct), as the C compiler has it."""
    assert len(STRUCTS) > 40
    lines = [
        f'printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}), sizeof({name}));'
        for name, body in STRUCTS
        for field in fields(body)
    ]
    source = SCRATCH / "layout.c"
    source.write_text(
        "#include <sab.h>\n#include <stdio.h>\nint main(void) {\n"
        + "\n".join(lines)
        + "\nreturn 0;\n}\n"
    )
    run("cc", "-std=c11", f"-I{INCLUDE}", source, "-o", SCRATCH / "layout")
    words = [line.split() for line in run(SCRATCH / "layout").splitlines()]
    return {(name, field): (int(offset), int(size)) for name, field, offset, size in words}


def check_standards():
    """No extension of any compiler, in any standard from C89 and C++11 on."""
    strict = ["-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{INCLUDE}"]
    standards = [("c", standard) for standard in ("c89", "c99", "c11", "c17")]
    standards += [("c++", standard) for standard in ("c++11", "c++20")]
    for language, standard in standards:
        compiler = "cc" if language == "c" else "c++"
        run(compiler, f"-std={standard}", "-x", language, *strict, INCLUDE / "sab.h")


def check_initializers():
    """_INIT macros in programs that are compiled with many warnings."""
    macros = [
        macro
        for header in HEADERS
        for macro in re.findall(r"#define (SAB_\w+_INIT) SAB_INIT\((\w+)\)", header.read_text())
    ]
    assert len(macros) > 50
    source = SCRATCH / "initializers.c"
    lines = [
        f"size_t f{i}(void);\nsize_t f{i}(void) {{\n"
        f"    {struct} one = {macro}, two[2] = {{{macro}, {macro}}};\n"
        f"    static const {struct} three = {macro};\n"
        "    return one.struct_size + two[1].struct_size + three.struct_size;\n}"
        for i, (macro, struct) in enumerate(macros)
    ]
    source.write_text("\n".join(["#include <sab.h>", *lines, ""]))
    strict = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    compilers = [("cc", "c++"), ("clang", "clang++")] if shutil.which("clang") else [("cc", "c++")]
    for c, cpp in compilers:
        for compiler, language, standard in (
            (c, "c", "c99"),
            (c, "c", "c17"),
            (cpp, "c++", "c++11"),
            (cpp, "c++", "c++20"),
        ):
            often = [f"-std={standard}", "-x", language, "-fsyntax-only", f"-I{INCLUDE}"]
            run(compiler, *strict, *often, source)


def check_clang():
    if shutil.which("clang") is None:
        print("clang skipped: there is none")
        return
    quiet = [
        "-Wno-padded",
        "-Wno-documentation",
        "-Wno-documentation-unknown-command",
        "-Wno-c++98-compat-pedantic",
        "-Wno-old-style-cast",
    ]
    source = SCRATCH / "all.c"
    source.write_text("#include <sab.h>\n")
    run(
        "clang",
        "-std=c11",
        "-Weverything",
        "-Werror",
        *quiet,
        "-fsyntax-only",
        f"-I{INCLUDE}",
        source,
    )
    run(
        "clang++",
        "-std=c++17",
        "-x",
        "c++",
        "-Weverything",
        "-Werror",
        *quiet,
        "-fsyntax-only",
        f"-I{INCLUDE}",
        source,
    )
    strict = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fno-rtti", "-fsyntax-only"]
    often = ["-Wshadow", "-Wconversion", "-x", "c++", f"-I{INCLUDE}"]
    run("clang++", "-std=c++17", *strict, *often, INCLUDE / "sab.hpp")
    for standard in (17, 20):
        tests = REPO / "tests/cpp/handles_test.cpp"
        run("clang++", f"-std=c++{standard}", *strict, f"-I{INCLUDE}", tests)


def check_plain_words():
    """To a reader that is no GNU compiler the headers have no word that is reserved for one."""
    text = run("cc", "-std=c11", "-U__GNUC__", "-E", f"-I{INCLUDE}", INCLUDE / "sab.h")
    ours, found = False, ""
    for line in text.splitlines():
        mark = re.match(r'# \d+ "(.*?)"', line)
        if mark:
            ours = mark.group(1).startswith(str(INCLUDE))
        elif ours:
            found += line + "\n"
    assert "sab_next_batch" in found
    assert not re.search(r"\b__\w+", found), re.findall(r"\b__\w+", found)


def check_swig():
    """Every declaration wrapped for Python, compiled, and called."""
    includes = "\n".join(f'%include "sab/{header.name}"' for header in HEADERS)
    (SCRATCH / "swig_sab.i").write_text(
        f"%module swig_sab\n%{{\n#include <sab.h>\n%}}\n%include <stdint.i>\n{includes}\n"
    )
    said = subprocess.run(
        ["swig", "-python", f"-I{INCLUDE}", "swig_sab.i"],
        cwd=SCRATCH,
        capture_output=True,
        text=True,
        check=True,
    )
    warnings = [
        line for line in said.stderr.splitlines() if "Warning 451" not in line
    ]  # that setting a char pointer may leak
    assert not warnings, warnings
    flags = ["-shared", "-fPIC", "-O0", f"-I{INCLUDE}", f"-I{sysconfig.get_path('include')}"]
    run(
        "cc",
        *flags,
        SCRATCH / "swig_sab_wrap.c",
        LIBRARY,
        f"-Wl,-rpath,{LIBRARY.parent}",
        "-o",
        SCRATCH / "_swig_sab.so",
    )
    sys.path.insert(0, str(SCRATCH))
    wrapped = module(SCRATCH / "swig_sab.py")
    options = wrapped.sab_plan_options()
    options.struct_size = layout()["sab_plan_options", "struct_size"][1]
    assert wrapped.sab_status_name(wrapped.SAB_E_ARGUMENT) == "SAB_E_ARGUMENT"
    assert (options.padding_target, options.batch_size_multiple) == (0, 0)


def check_ctypesgen():
    """Called through ctypes, with the compiler's layout of every struct."""
    import ctypes

    output = SCRATCH / "ctypes_sab.py"
    command = [
        pathlib.Path(sys.executable).parent / "ctypesgen",
        f"-I{INCLUDE}",
        "--no-macro-warnings",
        "-l",
        "sab",
        f"-L{LIBRARY.parent}",
        "-o",
        output,
        INCLUDE / "sab.h",
        *HEADERS,
    ]
    said = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=True
    )
    assert "Error" not in said.stderr, said.stderr
    wrapped = module(output)
    tokens = (ctypes.c_int32 * 4)(3, 1, 4, 1)
    sizes = ctypes.POINTER(wrapped.sab_sizes)()
    assert (
        wrapped.sab_sizes_new(tokens, 4, wrapped.SAB_INT32, None, ctypes.byref(sizes))
        == wrapped.SAB_OK
    )
    assert wrapped.sab_sizes_count(sizes) == 4
    wrapped.sab_sizes_free(sizes)
    for (name, field), (offset, size) in layout().items():
        struct = getattr(wrapped, name)
        assert (getattr(struct, field).offset, ctypes.sizeof(struct)) == (offset, size), (
            name,
            field,
        )


def check_cffi():
    """The declarations as they are, without a compiler (and so by pycparser), with the compiler's
    layout of every struct."""
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    lib = ffi.dlopen(str(LIBRARY))
    assert ffi.string(lib.sab_status_name(lib.SAB_E_TIMEOUT)) == b"SAB_E_TIMEOUT"
    for (name, field), (offset, size) in layout().items():
        assert (ffi.offsetof(name, field), ffi.sizeof(name)) == (offset, size), (name, field)
    for name in re.findall(r"^[^\n(]*?(sab_\w+)\(", DECLARATIONS, re.MULTILINE):
        if not re.search(rf"\(\*{name}\)", DECLARATIONS):
            getattr(lib, name)  # what the library does not have is an error


def main():
    SCRATCH.mkdir(parents=True, exist_ok=True)
    checks = [
        check_standards,
        check_initializers,
        check_clang,
        check_plain_words,
        check_swig,
        check_ctypesgen,
        check_cffi,
    ]
    return run_all(checks)


if __name__ == "__main__":
    sys.exit(main())
