"""Whether a room of src includes only headers of itself and of the rooms above it: rooms.py [SRC].

The order of the rooms is that of the #include lines in sab.h. Prints "N passed, N failed".
"""

import pathlib
import re
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
# Every room checks the sizes of its structs against the table of all structs.
ALL_ROOMS = {"base/first_size.h"}


def rooms() -> list[str]:
    headers = re.findall(r'^#include "sab/(\w+)\.h"$', (REPO / "include/sab.h").read_text(), re.M)
    return [header for header in headers if header != "features"]


def included(text: str) -> list[str]:
    """The rooms whose headers a text includes."""
    names = re.findall(r'^\s*#include ["<](?:sab/)?([\w/]+)\.h[">]', text, re.M)
    return ["sab.h" if name == "sab" else name.split("/")[0] for name in names]


def check(folder: pathlib.Path, order: list[str]) -> list[str]:
    """What a room includes of rooms below it."""
    found = []
    above = order[: order.index(folder.name) + 1]
    for source in sorted([*folder.rglob("*.cpp"), *folder.rglob("*.h")]):
        place = source.relative_to(folder.parent)
        if str(place) in ALL_ROOMS:
            continue
        below = set(included(source.read_text())) & {*order, "sab.h"} - set(above)
        found += [f"{place} includes {name}" for name in sorted(below)]
    return found


def check_header(header: pathlib.Path, order: list[str]) -> list[str]:
    above = order[: order.index(header.stem) + 1]
    below = set(included(header.read_text())) - set(above)
    return [f"sab/{header.name} includes {name}" for name in sorted(below & {*order, "sab.h"})]


def main() -> int:
    source = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "src"
    order, passed, failed = rooms(), 0, 0
    for folder in sorted(each for each in source.iterdir() if each.is_dir()):
        if folder.name not in order:
            problems = [f"{folder.name} is not in sab.h"]
        else:
            problems = check(folder, order) + check_header(
                REPO / "include/sab" / f"{folder.name}.h", order
            )
        failed += len(problems) > 0
        passed += not problems
        for problem in problems:
            print(f"FAILED {problem}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
