"""Makes headers as a later release may have them: grow.py ROOT. Appends a field to every struct
that begins with struct_size, in ROOT/include."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import abi

include = pathlib.Path(sys.argv[1], "include")
grown = 0
for header in abi.read_headers(include):
    path = include / "sab" / f"{header.room}.h"
    text = path.read_text()
    for struct in header.of(abi.Struct):
        if not struct.can_grow:
            continue
        name = struct.name
        appended = f"    uint64_t appended; /**< 0. @since 9.9 */\n}} {name};"
        text, fields = re.subn(rf"^\}} {name};", appended, text, flags=re.MULTILINE)
        values = rf"(\{{\s*sizeof\({name}\)(?:[^{{}}]|\{{[^{{}}]*\}})*?)\s*\}}"
        text, macros = re.subn(values, r"\1, 0 }", text)
        assert (fields, macros) == (1, 1), f"{name}: {fields} definitions, {macros} macros"
        grown += 1
    path.write_text(text)
assert grown > 40
print(f"{grown} structs grown")
