"""Whether every file that states the version of libsab has that of CMakeLists.txt.

With `--print` it prints the version. Prints "N passed, N failed" otherwise.
"""

import pathlib
import re
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
IN_CMAKE = r"project\(libsab VERSION (\S+)"
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


def stated(place: str, pattern: str) -> list[str]:
    return re.findall(pattern, (REPO / place).read_text(), re.MULTILINE)


def main() -> bool:
    (version,) = stated("CMakeLists.txt", IN_CMAKE)
    if "--print" in sys.argv:
        print(version)
        return False
    found = {place: stated(place, pattern) for place, pattern in PLACES.items()}
    differ = {place: versions for place, versions in found.items() if set(versions) != {version}}
    for place, versions in differ.items():
        print(f"FAILED {place}: {versions}; CMakeLists.txt has {version}")
    print(f"{len(PLACES) - len(differ)} passed, {len(differ)} failed")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
