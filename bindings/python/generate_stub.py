"""Writes sab/_sab.pyi, the types of the extension, from its C declarations: functions, constants
and the callbacks that run Python. `generate_stub.py --check` only compares.
"""

import keyword
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
CDEF = HERE.parents[1] / "include" / "sab_cdef.h"
STUB = HERE / "sab" / "_sab.pyi"

HEAD = '''# Generated from the C declarations by generate_stub.py: do not edit.
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, Union

_Callback = TypeVar("_Callback", bound=Callable[..., Any])
_Pointer = Union["CData", bytes, Sequence[int]]

class CData:
    """A value of C: a number, a struct, an array or a pointer. Fields and elements have C types."""

    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, index: int) -> Any: ...
    def __setitem__(self, index: Union[int, slice], value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __int__(self) -> int: ...
    def __bool__(self) -> bool: ...

class _FFI:
    NULL: CData
    def new(self, cdecl: str, init: Any = ...) -> CData: ...
    def cast(self, cdecl: str, value: Any) -> CData: ...
    def gc(self, cdata: CData, destructor: Callable[[CData], object]) -> CData: ...
    def sizeof(self, cdecl: Union[str, CData]) -> int: ...
    def string(self, cdata: CData) -> bytes: ...
    def buffer(self, cdata: CData, size: int = ...) -> memoryview: ...
    def from_buffer(self, python_buffer: Any) -> CData: ...
    def memmove(self, dest: Any, src: Any, n: int) -> None: ...
    def new_handle(self, value: object) -> CData: ...
    def from_handle(self, handle: CData) -> Any: ...
    def def_extern(
        self,
        *,
        error: object = ...,
        onerror: Optional[Callable[[Any, BaseException, Any], Any]] = ...,
    ) -> Callable[[_Callback], _Callback]: ...

class _Lib:
'''
TAIL = """
ffi: _FFI
lib: _Lib
"""


def python_type(declaration: str) -> str:
    if "*" in declaration or re.search(r"\w+_fn\b", declaration):
        return "_Pointer"
    return "float" if re.match(r"(const )?double\b", declaration.strip()) else "int"


def parameters(text: str) -> "list[str]":
    """The parameters of a declaration, whose callbacks are parameters in parentheses themselves."""
    text = re.sub(r"\(\*(\w+)\)\([^()]*\)", r"*\1", text)
    made = []
    for each in text.split(","):
        name = each.split()[-1].lstrip("*")
        if each.strip() != "void":
            made.append(
                f"{name}_: {python_type(each)}"
                if keyword.iskeyword(name)
                else f"{name}: {python_type(each)}"
            )
    return made


def generate() -> str:
    text = CDEF.read_text() + (HERE / "build_extension.py").read_text()
    text = re.sub(r"typedef struct \w+ \{.*?^\}[^;]*;", "", text, flags=re.S | re.M)
    lines = [f"    {name}: int" for name in re.findall(r"^ (SAB_\w+) = ", text, flags=re.M)]
    lines += [
        f"    {name}: CData"
        for name in re.findall(r'^extern "Python" \w+ (\w+)\(', text, flags=re.M)
    ]
    text = re.sub(r"^(typedef|extern).*$", "", text, flags=re.M)
    for result, stars, name, given in re.findall(
        r"^((?:const )?\w+) (\**)(sab_\w+)\((.*?)\);$", text, flags=re.S | re.M
    ):
        made = "CData" if stars else "None" if result == "void" else python_type(result)
        own = parameters(given)
        all_of_them = ", ".join(["self", *own, "/"] if own else ["self"])
        lines.append(f"    def {name}({all_of_them}) -> {made}: ...")
    return HEAD + "\n".join(lines) + "\n" + TAIL


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if STUB.read_text() != generate():
            sys.exit("sab/_sab.pyi differs from the declarations: run generate_stub.py")
    else:
        STUB.write_text(generate())
