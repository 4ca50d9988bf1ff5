"""Writes src/raw.jl, the raw layer, from the headers as include/sab_cdef.h has them. `generate_raw.py --check` only compares.

Needs pycparser. sab_cdef.h is checked against the headers by its own generator.
"""

import pathlib
import re
import sys

from pycparser import CParser, c_ast

HERE = pathlib.Path(__file__).resolve().parent
CDEF = HERE.parent.parent / "include" / "sab_cdef.h"
TARGET = HERE / "src" / "raw.jl"
SCALARS = {"int32_t": "Int32", "int64_t": "Int64", "uint8_t": "UInt8", "uint16_t": "UInt16", "uint32_t": "UInt32", "uint64_t": "UInt64",
           "size_t": "Csize_t", "double": "Float64", "char": "UInt8", "void": "Cvoid"}  # fmt: skip
EXPERIMENTAL = {
    name
    for header in (CDEF.parent / "sab").glob("*.h")
    for name in re.findall(r"^SAB_API_EXPERIMENTAL [^;(]*?(sab_\w+)\(", header.read_text(), re.M)
}
RESERVED = {"function", "begin", "end", "module", "struct"}

HEAD = '''# Generated from the public headers by generate_raw.py: do not edit.

"""
The C functions, structs and constants of the headers, by their own names, but for functions that are experimental; see `include/sab.h`.

Structs that begin with `struct_size` are mutable and passed as they are; `T()` leaves their fields unset, `init` sets defaults. The others lie in arrays.
"""
module Raw

using Libdl: dlsym

"A struct that is passed by its address."
abstract type Struct end
Base.cconvert(::Type{Ptr{T}}, value::T) where {T<:Struct} = value
Base.unsafe_convert(::Type{Ptr{T}}, value::T) where {T<:Struct} = Ptr{T}(pointer_from_objref(value))
'''


def name_of(name: str) -> str:
    return name + "_" if name in RESERVED else name


def is_function(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.PtrDecl) and isinstance(node.type, c_ast.FuncDecl)


class Writer:
    """Turns declarations into Julia, in the order of the headers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.callbacks: set[str] = set()
        self.opaque: set[str] = set()
        self.structs: set[str] = set()
        self.options: set[str] = set()

    def type_of(self, node: c_ast.Node, is_argument: bool = False) -> str:
        if is_function(node):
            return "Ptr{Cvoid}"
        if isinstance(node, c_ast.PtrDecl):
            inner = self.type_of(node.type)
            return (
                "Cstring"
                if inner == "UInt8" and is_argument and "char" in node.type.type.names
                else f"Ptr{{{inner}}}"
            )
        if isinstance(node, c_ast.Struct):
            return node.name
        if isinstance(node, c_ast.TypeDecl):
            return self.type_of(node.type)
        (name,) = node.names
        if name in self.callbacks:
            return "Ptr{Cvoid}"
        return SCALARS.get(name, name)

    def declare_opaque(self, name: str) -> None:
        if name not in self.opaque | self.structs:
            self.opaque.add(name)
            self.lines.append(f"struct {name} end")

    def constants(self, enum: c_ast.Enum) -> None:
        for each in enum.values.enumerators:
            sign, number = (
                ("-", each.value.expr)
                if isinstance(each.value, c_ast.UnaryOp)
                else ("", each.value)
            )
            self.lines.append(f"const {each.name} = {sign}{number.value}")

    def struct(self, name: str, fields: "list[c_ast.Decl]") -> None:
        is_passed = fields[0].name == "struct_size"
        self.structs.add(name)
        self.lines.append(f"\nmutable struct {name} <: Struct" if is_passed else f"\nstruct {name}")
        self.lines += [f"    {name_of(field.name)}::{self.type_of(field.type)}" for field in fields]
        self.lines += [f"    {name}() = new()", "end\n"] if is_passed else ["end\n"]

    def function(self, name: str, node: c_ast.FuncDecl) -> None:
        if name in EXPERIMENTAL:  # a library that has it no more would not load
            return
        parameters = (
            [] if node.args is None else [p for p in node.args.params if isinstance(p, c_ast.Decl)]
        )
        names = [name_of(p.name) for p in parameters]
        types = [self.type_of(p.type, is_argument=True) for p in parameters]
        result = self.type_of(node.type, is_argument=True)
        self.functions.append(name)
        self.lines.append(f"const _{name} = Ref(C_NULL)")
        comma = "," if len(types) == 1 else ""
        self.lines.append(
            f"{name}({', '.join(names)}) = ccall(_{name}[], {result}, ({', '.join(types)}{comma}), {', '.join(names)})".replace(
                ", )", ")"
            )
        )
        if name.endswith("_init"):
            self.lines.append(
                f"init({names[0]}::{types[0][4:-1]}) = {name}({names[0]}, sizeof({names[0]}))"
            )

    def declaration(self, node: c_ast.Node) -> None:
        if isinstance(node, c_ast.Typedef):
            if is_function(node.type):
                self.callbacks.add(node.name)
            elif isinstance(node.type.type, c_ast.Struct):
                fields = node.type.type.decls
                self.declare_opaque(node.name) if fields is None else self.struct(node.name, fields)
            else:
                self.lines.append(f"const {node.name} = {self.type_of(node.type)}")
        elif isinstance(node.type, c_ast.Enum):
            self.constants(node.type)
        elif isinstance(node.type, c_ast.FuncDecl):
            self.function(node.name, node.type)
        elif isinstance(node.type, c_ast.Struct):
            self.declare_opaque(node.type.name)
        else:
            raise ValueError(f"{node.name}: not a kind of declaration that the headers have")


def generate() -> str:
    types = "".join(f"typedef int {name};" for name in SCALARS if name.endswith("_t"))
    code = "\n".join(line for line in CDEF.read_text().splitlines() if not line.startswith("/*"))
    writer = Writer()
    for node in CParser().parse(types + code).ext:
        if node.name not in SCALARS:
            writer.declaration(node)
    load = ['\n"Finds every function in a library that is loaded."', "function load(library)"]
    load += [f"    _{name}[] = dlsym(library, :{name})" for name in writer.functions]
    return "\n".join([HEAD, *writer.lines, *load, "end\n", "end # module\n"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text() != generate():
            sys.exit("src/raw.jl differs from the headers: run generate_raw.py")
    else:
        TARGET.write_text(generate())
