"""Headers as a later release may have them: grow.py INCLUDE. Appends a field to every struct that
begins with struct_size, in place."""

import pathlib
import re
import sys

grown = 0
for header in (pathlib.Path(sys.argv[1]) / "sab").glob("*.h"):
    text = header.read_text()
    for name in re.findall(r"^typedef struct (\w+) \{\n\s*size_t struct_size;", text, re.M):
        text, fields = re.subn(
            rf"^\}} {name};", f"    uint64_t appended; /**< 0 */\n}} {name};", text, flags=re.M
        )
        text, macros = re.subn(rf"(\{{\s*sizeof\({name}\)[^}}]*?)\s*\}}", r"\1, 0 }", text)
        assert (fields, macros) == (1, 1), f"{name}: {fields} definitions, {macros} macros"
        grown += 1
    header.write_text(text)
print(f"{grown} structs grown")
