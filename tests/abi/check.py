"""Checks the installed library and its headers: check.py PREFIX. Prints "N passed, N failed".

- Symbols, version nodes, soname, needed libraries, size and static constructors of libsab.so.
- Every header compiles alone as C and C++ without a warning, and documents each parameter.
- Every function of the headers is exported, and nothing else; each goes through the guard.
"""

import ctypes
import pathlib
import re
import struct
import sys
import tempfile

from checks import run, run_all

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))
import abi_headers

HEADERS = [REPO / "include/sab.h", *sorted((REPO / "include/sab").glob("*.h"))]
# They cannot fail: nothing to guard.
UNGUARDED = {
    "sab_status_name", "sab_last_error_message", "sab_last_error_argument",
    "sab_last_error_value", "sab_last_error_rule", "sab_last_error_code", "sab_abi_version",
    "sab_version_string", "sab_log_set_callback", "sab_sizes_count",
    "sab_cache_value_data", "sab_random_draw_real", "sab_random_draw_bits",
}  # fmt: skip
CANNOT_FAIL = ("_free", "_abandon")  # ends of names


def in_cmake(pattern):
    """What the first group of a pattern is in CMakeLists.txt."""
    return re.search(pattern, (REPO / "CMakeLists.txt").read_text()).group(1)


def version_in_cmake():
    return in_cmake(r"project\(libsab VERSION (\S+)")


def abi_in_cmake(part):
    return int(in_cmake(rf"SAB_ABI_{part} (\d+)"))


def declared():
    """name -> (declaration, tier) of each function in the headers."""
    return {
        function.name: (function, header.tier)
        for header in abi_headers.read_headers(REPO / "include")
        for function in header.of(abi_headers.Function)
    }


def exported(library):
    """name -> version node of what leaves the library."""
    return dict(
        line.split()[-1].split("@@")
        for line in run("nm", "-D", "--defined-only", library).splitlines()
        if " A " not in line
    )


def check_symbols(library):
    names = exported(library)
    assert names and all(name.startswith("sab_") for name in names), names
    assert names.keys() == declared().keys(), names.keys() ^ declared().keys()


def check_version_nodes(library):
    major, minor = abi_in_cmake("MAJOR"), abi_in_cmake("MINOR")
    for name, node in exported(library).items():
        function, tier = declared()[name]
        if tier == abi_headers.PROVISIONAL:
            assert node == f"SAB_PROVISIONAL_{major}.{minor}", f"{name}@@{node}"
        else:
            assert node == f"SAB_{function.since}", f"{name}@@{node}"
            assert tuple(map(int, function.since.split("."))) <= (major, minor), (
                f"{name}: a function of a new version raises SAB_ABI_MINOR"
            )


def check_version(library):
    loaded = ctypes.CDLL(library)
    loaded.sab_version_string.restype = ctypes.c_char_p
    assert (
        loaded.sab_version_string().decode() == version_in_cmake()
        and loaded.sab_abi_version() == 1000 * abi_in_cmake("MAJOR") + abi_in_cmake("MINOR")
    )


def check_soname_and_needed(library):
    dynamic = run("readelf", "-d", library)
    assert re.search(r"SONAME.*\[libsab\.so\.0\]", dynamic)
    needed = {re.sub(r"\.so.*", "", name) for name in re.findall(r"NEEDED.*\[(.*?)\]", dynamic)}
    assert needed <= {
        "libstdc++",
        "libm",
        "libgcc_s",
        "libisal",
        "libsimdjson",
        "libzstd",
        "liblmdb",
        "libc",
        "ld-linux-x86-64",
    }, needed


def check_size(library):
    with tempfile.NamedTemporaryFile() as stripped:
        run("strip", "-o", stripped.name, library)
        size = pathlib.Path(stripped.name).stat().st_size
    assert size <= 1_720_000, f"{size:,} bytes without symbols"


def check_nothing_runs_when_loaded(library):
    """Except the compiler's own: frame_dummy, and __cpu_indicator_init, which finds the processor's
    features for SAB_VECTOR_CLONES."""
    begin, offset, size = (
        int(number, 16)
        for number in re.search(
            r"INIT_ARRAY +(\w+) (\w+) (\w+)", run("readelf", "-SW", library)
        ).groups()
    )
    relocations = re.findall(
        r"^(\w+) +\w+ +R_\w+_RELATIVE +(\w+)$", run("readelf", "-rW", library), re.MULTILINE
    )
    called = {
        int(function, 16)
        for place, function in relocations
        if begin <= int(place, 16) < begin + size
    }
    # Packed relocations leave the addresses in their places.
    places = pathlib.Path(library).read_bytes()[offset : offset + size]
    called |= {address for (address,) in struct.iter_unpack("<Q", places) if address != 0}
    assert len(called) == size // 8, called
    names = {
        name
        for address, name in re.findall(
            r"^(\w+) \w (\S+)$", run("nm", "--defined-only", library), re.MULTILINE
        )
        if int(address, 16) in called
    }
    assert names <= {"frame_dummy", "__cpu_indicator_init"}, names


def check_headers_alone(_):
    """With the warnings that programs often have, in the oldest standards that they may use."""
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
    flags += ["-fsyntax-only", f"-I{REPO / 'include'}"]
    with tempfile.NamedTemporaryFile("w", suffix=".h") as source:
        source.write("extern int declaration;\n")  # ISO C has no file without one
        source.flush()
        for header in HEADERS:
            run("cc", "-std=c89", "-x", "c", *flags, "-include", str(header), source.name)
            run("c++", "-std=c++11", "-x", "c++", *flags, "-include", str(header), source.name)
        cpp = REPO / "include/sab.hpp"
        run("c++", "-std=c++17", "-x", "c++", *flags, "-include", str(cpp), source.name)


def check_documentation(_):
    functions = declared()
    assert len(functions) > 30
    for name, (function, _) in functions.items():
        missing = [
            each.name
            for each in function.signature.parameters
            if f"@param {each.name} " not in function.documentation
        ]
        assert not missing, f"{name}: {missing} not documented"


def check_guards(_):
    texts = [source.read_text() for source in (REPO / "src").glob("*/*.cpp")]
    sources = "".join(text.split('extern "C" {', 1)[1] for text in texts if 'extern "C" {' in text)
    for name in set(declared()) - UNGUARDED:
        if name.endswith(CANNOT_FAIL):
            continue
        body = re.search(rf"\b{name}\([^{{]*\) noexcept \{{\s*(.*)", sources)
        assert body and re.match(
            r"return (sab::guard|sab::guard_new|guard_stage|new_collection)\(", body.group(1)
        ), f"{name} does without the guard"


def main():
    library = str(next(pathlib.Path(sys.argv[1]).rglob("libsab.so")))
    checks = [
        check_symbols,
        check_version_nodes,
        check_version,
        check_soname_and_needed,
        check_size,
        check_nothing_runs_when_loaded,
        check_headers_alone,
        check_documentation,
        check_guards,
    ]
    return run_all(checks, library)


if __name__ == "__main__":
    sys.exit(main())
