"""What leaves the library, and what its headers say: check.py PREFIX. Prints "N passed, N failed".

Symbols, soname and needed libraries of the installed libsab.so; every header compiles alone as C11 and C++17 without a warning; every function of the
headers is exported and the other way round, and documents each parameter; every function of the ABI goes through the guard.
"""

import pathlib
import re
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
HEADERS = [REPO / "include/sab.h", *sorted((REPO / "include/sab").glob("*.h"))]
# They cannot fail: nothing to guard.
UNGUARDED = {
    "sab_status_name", "sab_last_error_message", "sab_last_callback_code", "sab_abi_version", "sab_version_string", "sab_set_log_callback",
    "sab_sizes_count", "sab_cache_url", "sab_cache_value_data", "sab_random_real", "sab_random_bits", "sab_random_below",
}  # fmt: skip
CANNOT_FAIL = ("_functions_init", "_free", "_options_init", "_callbacks_init")  # ends of names


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def declared():
    """name -> (documentation, parameters) of each exported function in the headers."""
    found = {}
    for header in HEADERS:
        pattern = r"(/\*\*(?:(?!\*/).)*\*/)\s*SAB_API\s[^(;]*?(sab_\w+)\(([^;]*)\) SAB_NOEXCEPT;"
        for comment, name, parameters in re.findall(pattern, header.read_text(), re.S):
            parameters = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"\1", parameters)
            names = [] if parameters.strip() == "void" else [re.search(r"(\w+)\s*(\[\w*\])?\s*$", each).group(1) for each in parameters.split(",")]
            found[name] = comment, names
    return found


def exported(library):
    return {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines() if " A " not in line}


def check_symbols(library):
    names = exported(library)
    assert names and all(name.startswith("sab_") for name in names), names
    assert names == set(declared()), names ^ set(declared())


def check_version_node(library):
    assert all("@@SAB_0.1" in line for line in run("nm", "-D", "--defined-only", library).splitlines() if " T " in line)


def check_soname_and_needed(library):
    dynamic = run("readelf", "-d", library)
    assert re.search(r"SONAME.*\[libsab\.so\.0\]", dynamic)
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", dynamic))
    assert needed <= {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libisal.so.2", "libzstd.so.1", "liblmdb.so.0", "libhiredis.so.0.14", "libc.so.6", "ld-linux-x86-64.so.2"}, needed


def check_headers_alone(_):
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{REPO / 'include'}"]
    for header in HEADERS:
        run("cc", "-std=c11", "-x", "c", *flags, str(header))
        run("c++", "-std=c++17", "-x", "c++", *flags, str(header))


def check_documentation(_):
    functions = declared()
    assert len(functions) > 30
    for name, (comment, parameters) in functions.items():
        missing = [each for each in parameters if f"@param {each} " not in comment]
        assert not missing, f"{name}: {missing} not documented"


def check_guards(_):
    sources = "".join(source.read_text().split('extern "C" {', 1)[1] for source in (REPO / "src").glob("*/*_capi.cpp"))
    for name in set(declared()) - UNGUARDED:
        if name.endswith(CANNOT_FAIL):
            continue
        body = re.search(rf"\b{name}\([^{{]*\) noexcept \{{\s*(.*)", sources)
        assert body and re.match(r"return (sab::guard|sab::guard_new|guard_over|new_collection)\(", body.group(1)), f"{name} does without the guard"


def main():
    library = str(next(pathlib.Path(sys.argv[1]).rglob("libsab.so")))
    failed = 0
    checks = [check_symbols, check_version_node, check_soname_and_needed, check_headers_alone, check_documentation, check_guards]
    for check in checks:
        try:
            check(library)
        except (AssertionError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"FAILED {check.__name__}: {getattr(error, 'stderr', None) or error}")
    print(f"{len(checks) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
