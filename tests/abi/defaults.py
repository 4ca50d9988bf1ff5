"""What each sab_..._init sets: defaults.py LIBRARY DECLARATIONS. A line for each struct of
DECLARATIONS, a file as include/sab_cdef.h, with the bytes of each field that it has there."""

import ctypes
import pathlib
import sys

from compare import layout, read


def main():
    library, declared = ctypes.CDLL(sys.argv[1]), read(pathlib.Path(sys.argv[2]).read_text())
    for name in declared:
        if not name.endswith("_init"):
            continue
        struct = name.removesuffix("_init")
        places, size, _ = layout(declared[struct], declared)
        memory = ctypes.create_string_buffer(b"\xa5" * size, size)
        getattr(library, name)(memory, ctypes.c_size_t(size))
        print(struct, *(memory.raw[begin:end].hex() for begin, end in places))


if __name__ == "__main__":
    main()
