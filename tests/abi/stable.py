"""Prints the declarations of the stable headers, as include/sab_cdef.h has all: stable.py ROOT."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import abi
import abi_headers

headers = abi_headers.read_headers(pathlib.Path(sys.argv[1], "include"))
stable = [header for header in headers if header.tier == abi_headers.STABLE]
print(abi.declarations_file(abi_headers.Library(stable, (0, 0))), end="")
