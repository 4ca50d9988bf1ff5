"""Prints the declarations of the stable headers, as include/sab_cdef.h has all: stable.py ROOT."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import abi

headers = abi.read_headers(pathlib.Path(sys.argv[1], "include"))
stable = [header for header in headers if header.tier == abi.STABLE]
print(abi.declarations_file(abi.Library(stable, (0, 0))), end="")
