"""Whether every file that states the version of libsab, or of its binary interface, has that of
CMakeLists.txt.

With `--print` it prints the version. Prints "N passed, N failed" otherwise.
"""

import pathlib
import re
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
IN_CMAKE = r"project\(libsab VERSION (\S+)"
ABI_IN_CMAKE = r"SAB_ABI_(?:MAJOR|MINOR) (\d+)"
# Python's `sab.__version__`, which the documentation shows, is the library's.
PLACES = {
    "bindings/python/pyproject.toml": r'^version = "(.+)"',
    "bindings/rust/Cargo.toml": r'^version = "(.+)"',
    "bindings/rust/libsab/Cargo.toml": r'^sab-sys = .*version = "(.+?)"',
    "bindings/rust/Cargo.lock": r'^name = "(?:libsab|sab-sys)"\nversion = "(.+)"',
    "bindings/julia/Project.toml": r'^version = "(.+)"',
    "debian/changelog": r"\Alibsab \((.+)-\d+\)",
    "CHANGELOG.md": r"\A# Changelog\n\n## (\S+)",
}
ABI_PLACES = {
    "bindings/rust/sab-sys/src/lib.rs": r"^pub const ABI_VERSION: u32 = (\d+);",
    "bindings/julia/src/library.jl": r"^const ABI_VERSION = (\d+)",
}


def stated(place: str, pattern: str) -> list[str]:
    return re.findall(pattern, (REPO / place).read_text(), re.MULTILINE)


def main() -> bool:
    (version,) = stated("CMakeLists.txt", IN_CMAKE)
    if "--print" in sys.argv:
        print(version)
        return False
    major, minor = map(int, stated("CMakeLists.txt", ABI_IN_CMAKE))
    wanted = {
        **{place: (pattern, version) for place, pattern in PLACES.items()},
        **{place: (pattern, str(1000 * major + minor)) for place, pattern in ABI_PLACES.items()},
    }
    failed = 0
    for place, (pattern, here) in wanted.items():
        found = stated(place, pattern)
        if set(found) != {here}:
            failed += 1
            print(f"FAILED {place}: {found}; CMakeLists.txt has {here}")
    print(f"{len(wanted) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
