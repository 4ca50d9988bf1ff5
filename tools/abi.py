#!/usr/bin/env python3
"""Writes every file that repeats the public headers: abi.py [--check].

The headers, in the order in which include/sab.h includes them, are parsed into a model. From the
model come the version script, Debian's symbols, the declarations file, the first sizes of structs,
the raw layers of Julia and Rust, what Python, Rust and Julia call the names in messages, and the
list of headers in the reference.
`--check` writes nothing and fails with the name of each file that differs.

The parser knows the syntax that the headers use and no more. Anything else is an error that names
the header and the line.

Rust's declarations are written by bindgen, which is found as $BINDGEN or on the PATH; its version
is RUST_BINDGEN. The file carries a hash of the declarations file. Where there is no bindgen, only
this hash is compared, so that a change of the declarations is still found.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import keyword
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

RUST_BINDGEN = "0.72.1"  # cargo install bindgen-cli --version 0.72.1 --locked; needs libclang
NOTICE = "Generated from the public headers by tools/abi.py: do not edit."
STABLE, PROVISIONAL = "stable", "provisional"
MAY_CHANGE = "Functions and structs here may change or be removed in a minor release."
TIERS = {"Tier: stable.": STABLE, f"Tier: provisional. {MAY_CHANGE}": PROVISIONAL}
# Fixed-width and other scalars of the ABI, with their names in Julia.
SCALARS = {
    "char": "UInt8",
    "double": "Float64",
    "int32_t": "Int32",
    "int64_t": "Int64",
    "size_t": "Csize_t",
    "uint8_t": "UInt8",
    "uint16_t": "UInt16",
    "uint32_t": "UInt32",
    "uint64_t": "UInt64",
    "void": "Cvoid",
}

# ---- The model ----


@dataclasses.dataclass(frozen=True)
class Signature:
    """Result and parameters of a function or of a callback."""

    result: Type
    parameters: tuple[Variable, ...]


@dataclasses.dataclass(frozen=True)
class Type:
    """A value, an array of them, a pointer to one, or a pointer to a function."""

    name: str  # such as "double" or "struct DLManagedTensor"; "" for a pointer to a function
    is_const: bool = False
    pointers: tuple[bool, ...] = ()  # for each `*`, whether that pointer itself is const
    function: Signature | None = None
    extent: int = 0  # elements of a field that is an array


@dataclasses.dataclass(frozen=True)
class Variable:
    """A parameter or a field. Parameters are documented in their function's comment."""

    name: str
    type: Type
    documentation: str = ""


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What all declarations have."""

    name: str
    documentation: str


@dataclasses.dataclass(frozen=True)
class Constant(Declaration):
    value: int


@dataclasses.dataclass(frozen=True)
class Scalar(Declaration):
    """A typedef of a scalar."""

    type: Type


@dataclasses.dataclass(frozen=True)
class Callback(Declaration):
    """A typedef of a pointer to a function."""

    signature: Signature


@dataclasses.dataclass(frozen=True)
class Opaque(Declaration):
    """A struct without fields; with a typedef of the same name, or a foreign one without."""

    has_typedef: bool


@dataclasses.dataclass(frozen=True)
class Struct(Declaration):
    fields: tuple[Variable, ...]

    @property
    def can_grow(self) -> bool:
        return self.fields[0].name == "struct_size"

    @property
    def initializer(self) -> str:
        return self.name.upper() + "_INIT"


@dataclasses.dataclass(frozen=True)
class Function(Declaration):
    signature: Signature

    @property
    def since(self) -> str:
        """The version of the ABI that first had it."""
        return since(self.documentation) or "0.1"


Kind = TypeVar("Kind", bound=Declaration)


@dataclasses.dataclass(frozen=True)
class Header:
    room: str
    tier: str
    documentation: str
    includes: tuple[str, ...]  # rooms
    declarations: tuple[Declaration, ...]
    initializers: frozenset[str]  # names of the _INIT macros
    option: str = ""  # the macro that is 0 in a build without this header, such as SAB_WITH_CACHE

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [each for each in self.declarations if isinstance(each, kind)]


def since(documentation: str) -> str | None:
    found = re.search(r"@since (\d+\.\d+)", documentation)
    return found and found[1]


def c_type(type_: Type) -> str:
    return declare(type_, "").rstrip()


def declare(type_: Type, name: str) -> str:
    """The declaration of a name in C."""
    if type_.function is not None:
        return declare_function(type_.function, f"(*{name})")
    stars = "".join("*const " if is_const else "*" for is_const in type_.pointers)
    extent = f"[{type_.extent}]" if type_.extent else ""
    return f"{'const ' if type_.is_const else ''}{type_.name} {stars}{name}{extent}"


def declare_function(signature: Signature, name: str) -> str:
    parameters = ", ".join(declare(each.type, each.name) for each in signature.parameters)
    return f"{declare(signature.result, name)}({parameters or 'void'})"


# ---- The parser ----


class HeaderError(Exception):
    """Syntax that the parser does not know, or a rule of the headers that is broken."""


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    line: int


TOKENS = re.compile(
    r"""(?P<space>[ \t\n]+)
      | (?P<trailing>/\*\*<.*?\*/)
      | (?P<documentation>/\*\*(?!/).*?\*/)
      | (?P<comment>/\*.*?\*/)
      | (?P<directive>\#(?:\\\n|[^\n/]|/(?!\*))*)
      | (?P<word>\w+)
      | (?P<string>"[^"\n]*")
      | (?P<mark>[][{}();,*])""",
    re.DOTALL | re.VERBOSE,
)


def plain(comment: str) -> str:
    """The text of a documentation comment."""
    lines = comment.strip().removeprefix("/**<").removeprefix("/**").removesuffix("*/").split("\n")
    return "\n".join(re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines).strip()


class Parser:
    """Reads one header. `types` has the names of the types of the headers before it, and grows."""

    def __init__(self, name: str, text: str, types: set[str]) -> None:
        self.name, self.types = name, types
        self.tokens = list(self.scan(text))
        self.at = 0
        self.declarations: list[Declaration] = []
        self.includes: list[str] = []
        self.initializers: set[str] = set()
        self.header_documentation = ""
        self.pending = ""  # the comment before the next declaration

    def error(self, line: int, message: str) -> HeaderError:
        return HeaderError(f"{self.name}:{line}: {message}")

    def scan(self, text: str) -> Iterator[Token]:
        at, line = 0, 1
        while at < len(text):
            found = TOKENS.match(text, at)
            if found is None:
                raise self.error(line, f"unknown syntax: {text[at:].splitlines()[0]!r}")
            kind = str(found.lastgroup)
            if kind not in ("space", "comment"):
                yield Token(kind, found[0], line)
            line += found[0].count("\n")
            at = found.end()

    # -- tokens --

    def peek(self) -> Token:
        if self.at < len(self.tokens):
            return self.tokens[self.at]
        return Token("end", "the end of the file", self.tokens[-1].line if self.tokens else 1)

    def take(self) -> Token:
        token = self.peek()
        self.at += 1
        return token

    def take_if(self, text: str) -> bool:
        is_next = self.peek().text == text
        self.at += is_next
        return is_next

    def expect(self, text: str) -> None:
        token = self.take()
        if token.text != text:
            raise self.error(token.line, f"expected {text!r}, found {token.text!r}")

    def take_name(self) -> str:
        token = self.take()
        if token.kind != "word" or not re.match(r"[A-Za-z_]", token.text):
            raise self.error(token.line, f"expected a name, found {token.text!r}")
        return token.text

    def take_documentation(self) -> str:
        """The comment before what comes next; "" when there is none."""
        documentation, self.pending = self.pending, ""
        return documentation

    def take_trailing(self, documentation: str) -> str:
        """The comment before, or else the one behind, what was just read."""
        if self.peek().kind == "trailing" and not documentation:
            return plain(self.take().text)
        return documentation

    # -- grammar --

    def header(self) -> Header:
        guard = f"SAB_{pathlib.PurePath(self.name).stem.upper()}_H"
        while self.peek().kind == "documentation":
            self.header_documentation += plain(self.take().text)
        for directive in (f"#ifndef {guard}", f"#define {guard}"):
            self.expect(directive)
        while self.peek().text != "#endif":
            self.item()
        self.take()
        if self.peek().kind != "end":
            raise self.error(self.peek().line, f"{self.peek().text!r} after the include guard")
        tier = re.search(r"^Tier: .*$", self.header_documentation, re.MULTILINE)
        if tier is None or tier[0] not in TIERS:
            raise self.error(1, f"the first comment needs a line of {', '.join(map(repr, TIERS))}")
        return Header(
            pathlib.PurePath(self.name).stem,
            TIERS[tier[0]],
            self.header_documentation,
            tuple(self.includes),
            tuple(self.declarations),
            frozenset(self.initializers),
        )

    def item(self) -> None:
        token = self.peek()
        if token.kind == "documentation":
            self.pending = plain(self.take().text)
        elif token.kind == "directive":
            self.directive(self.take())
        elif token.text == "typedef":
            self.typedef()
        elif token.text == "struct":
            self.forward()
        elif token.text == "SAB_API":
            self.function()
        else:
            raise self.error(token.line, f"unknown declaration: {token.text!r}")

    def directive(self, token: Token) -> None:
        text = " ".join(token.text.replace("\\\n", " ").split())
        if re.fullmatch(r"#include <(stddef|stdint)\.h>", text):
            return
        if include := re.fullmatch(r'#include "sab/(\w+)\.h"', text):
            self.includes.append(include[1])
        elif option := re.fullmatch(r"#ifndef (SAB_WITH_\w+)", text):
            self.pending = ""
            self.expect(f"#define {option[1]} 1")
            self.expect("#endif")
        elif re.fullmatch(r"#ifndef ARROW_C_\w+", text):
            # structs of another interface: bindings see them without fields
            while (skipped := self.take()).text != "#endif":
                if skipped.kind == "end":
                    raise self.error(skipped.line, f"no #endif for {text!r}")
        elif re.match(r"#if(def)? ", text):
            self.conditional(token)
        elif macro := re.fullmatch(r"#define (SAB_\w+_INIT) \{sizeof\((\w+)\)\}", text):
            if macro[1] != Struct(macro[2], "", ()).initializer:
                raise self.error(token.line, f"{macro[1]} is of {macro[2]}")
            self.initializers.add(macro[1])
        elif constant := re.fullmatch(r"#define (SAB_\w+) (\d+|\(-\d+\))", text):
            value = int(constant[2].strip("()"))
            if not -(2**31) <= value < 2**31:
                raise self.error(token.line, f"{constant[1]} = {value}: does not fit 32 bits")
            documentation = self.take_trailing(self.take_documentation())
            self.declarations.append(Constant(constant[1], documentation, value))
        else:
            raise self.error(token.line, f"unknown directive: {text!r}")

    def conditional(self, opening: Token) -> None:
        """What depends on the compiler: SAB_API, SAB_NOEXCEPT and `extern "C" {` with its end."""
        self.pending = ""
        while (token := self.take()).text != "#endif":
            text = " ".join(token.text.split())
            if token.kind == "directive" and not re.match(
                r"#(else|elif .*|define (SAB_API|SAB_NOEXCEPT)\b.*)$", text
            ):
                raise self.error(token.line, f"unknown directive under {opening.text!r}: {text!r}")
            if token.text == "extern":
                self.expect('"C"')
                self.expect("{")
            elif token.kind != "directive" and token.text != "}":
                raise self.error(token.line, f"{token.text!r} under {opening.text!r}")

    def typedef(self) -> None:
        documentation = self.take_documentation()
        line = self.take().line
        if self.peek().text == "struct":
            self.typedef_of_struct(documentation)
            return
        variable = self.variable()
        self.expect(";")
        documentation = self.take_trailing(documentation)
        name, type_ = variable.name, variable.type
        if type_.function is not None:
            self.declarations.append(Callback(name, documentation, type_.function))
        elif type_.pointers or type_.is_const or type_.name not in SCALARS:
            raise self.error(line, f"{name}: a typedef of {c_type(type_)!r}")
        else:
            self.declarations.append(Scalar(name, documentation, type_))
        self.types.add(name)

    def typedef_of_struct(self, documentation: str) -> None:
        self.expect("struct")
        name = self.take_name()
        self.types |= {name, f"struct {name}"}
        if self.take_if("{"):
            fields = []
            while not self.take_if("}"):
                fields.append(self.field())
            self.declarations.append(Struct(name, documentation, tuple(fields)))
        else:
            self.declarations.append(Opaque(name, documentation, has_typedef=True))
        self.expect(name)
        self.expect(";")

    def field(self) -> Variable:
        if self.peek().kind == "documentation":
            self.pending = plain(self.take().text)
        documentation = self.take_documentation()
        variable = self.variable()
        if self.take_if("["):
            array = dataclasses.replace(variable.type, extent=self.extent())
            variable = dataclasses.replace(variable, type=array)
        self.expect(";")
        documentation = self.take_trailing(documentation)
        return dataclasses.replace(variable, documentation=documentation)

    def extent(self) -> int:
        """The elements of an array, which no constant decides; `[` was read."""
        token = self.take()
        if not token.text.isdigit():
            raise self.error(token.line, f"expected a number, found {token.text!r}")
        self.expect("]")
        return int(token.text)

    def forward(self) -> None:
        self.expect("struct")
        name = self.take_name()
        self.expect(";")
        self.types.add(f"struct {name}")
        self.declarations.append(Opaque(name, self.take_documentation(), has_typedef=False))

    def function(self) -> None:
        documentation = self.take_documentation()
        self.expect("SAB_API")
        line = self.peek().line
        variable = self.variable()
        if variable.type.function is not None:
            raise self.error(line, f"{variable.name}: a variable, not a function")
        self.expect("(")
        signature = Signature(variable.type, self.parameters())
        self.expect("SAB_NOEXCEPT")
        self.expect(";")
        self.declarations.append(Function(variable.name, documentation, signature))

    def parameters(self) -> tuple[Variable, ...]:
        """Up to the closing parenthesis; the opening one was read."""
        if self.peek().text == "void" and self.tokens[self.at + 1].text == ")":
            self.at += 2
            return ()
        found = [self.variable()]
        while self.take_if(","):
            found.append(self.variable())
        self.expect(")")
        return tuple(found)

    def variable(self) -> Variable:
        """A type and a name, or a pointer to a function with the name in it."""
        is_const = self.take_if("const")
        line = self.peek().line
        name = f"struct {self.take_name()}" if self.take_if("struct") else self.take_name()
        if name not in SCALARS and name not in self.types:
            raise self.error(line, f"unknown type: {name!r}")
        pointers = []
        while self.take_if("*"):
            pointers.append(self.take_if("const"))
        type_ = Type(name, is_const, tuple(pointers))
        if not self.take_if("("):
            return Variable(self.take_name(), type_)
        self.expect("*")
        variable = self.take_name()
        self.expect(")")
        self.expect("(")
        return Variable(variable, Type("", function=Signature(type_, self.parameters())))


def read_headers(include: pathlib.Path) -> list[Header]:
    """The headers that sab.h includes, in that order; fails when it leaves out one of sab/*.h."""
    found = re.findall(
        r'(?:^#if (SAB_WITH_\w+)\n)?^#include "sab/(\w+)\.h"',
        (include / "sab.h").read_text(),
        re.MULTILINE,
    )
    rooms = [room for _, room in found]
    missing = {path.stem for path in (include / "sab").glob("*.h")} - set(rooms)
    if missing:
        raise HeaderError(f"sab.h: does not include {', '.join(sorted(missing))}")
    types: set[str] = set()
    headers = []
    for option, room in found:
        name = f"sab/{room}.h"
        header = Parser(name, (include / name).read_text(), types).header()
        headers.append(dataclasses.replace(header, option=option))
    check_rules(headers)
    return headers


def check_rules(headers: Sequence[Header]) -> None:
    """The rules that the generated files depend on."""
    tiers = {header.room: header.tier for header in headers}
    for header in headers:
        initializers = set(header.initializers)
        for struct in header.of(Struct):
            if struct.can_grow and struct.initializer not in initializers:
                raise HeaderError(f"sab/{header.room}.h: {struct.name} has no {struct.initializer}")
        for room in header.includes:
            if header.tier == STABLE and tiers.get(room) == PROVISIONAL:
                raise HeaderError(f"sab/{header.room}.h: stable, but includes sab/{room}.h")


# ---- What is written ----


@dataclasses.dataclass(frozen=True)
class Library:
    """All headers, and the version of the ABI."""

    headers: list[Header]
    abi: tuple[int, int]  # major, minor

    def nodes(self) -> dict[str, list[str]]:
        """The functions of each version node: the stable ones of each release, then the rest."""
        stable: dict[str, list[str]] = {}
        provisional: list[str] = []
        for header in self.headers:
            for function in header.of(Function):
                is_stable = header.tier == STABLE
                names = stable.setdefault(function.since, []) if is_stable else provisional
                names.append(function.name)
        in_order = sorted(stable, key=lambda version: tuple(map(int, version.split("."))))
        nodes = {f"SAB_{version}": sorted(stable[version]) for version in in_order}
        if provisional:
            nodes["SAB_PROVISIONAL_{}.{}".format(*self.abi)] = sorted(provisional)
        return nodes


def version_script(library: Library) -> str:
    """Every stable node after the first inherits from the one before it."""
    lines, previous = [f"# {NOTICE} docs/abi.md describes the nodes."], ""
    for node, functions in library.nodes().items():
        lines += [f"{node} {{", "  global:", *(f"    {name};" for name in functions)]
        lines += [] if previous or "PROVISIONAL" in node else ["  local:", "    *;"]
        inherits = previous if "PROVISIONAL" not in node else ""
        lines += [f"}}{' ' if inherits else ''}{inherits};", ""]
        previous = previous if "PROVISIONAL" in node else node
    return "\n".join(lines)


def debian_symbols(library: Library) -> str:
    """Programs that use a provisional function depend on a libsab of the same minor version."""
    major, minor = library.abi
    lines = [
        f"libsab.so.{major} libsab{major} #MINVER#",
        f"| libsab{major} #MINVER#, libsab{major} (<< {major}.{minor + 1}~)",
    ]
    symbols = []
    for node, functions in library.nodes().items():
        version = node.rpartition("_")[2] + ".0" + (" 1" if "PROVISIONAL" in node else "")
        symbols += [f" {name}@{node} {version}" for name in [node, *functions]]
    return "\n".join([*lines, *sorted(symbols), ""])


def declarations_of(header: Header) -> Iterator[str]:
    if header.declarations:
        yield f"/* sab/{header.room}.h, {header.tier} */"
    constants = header.of(Constant)
    if constants:
        yield "enum {"
        yield from (f" {each.name} = {each.value}," for each in constants)
        yield "};"
    for each in header.declarations:
        if isinstance(each, Scalar):
            yield f"typedef {declare(each.type, each.name)};"
        elif isinstance(each, Callback):
            yield f"typedef {declare_function(each.signature, f'(*{each.name})')};"
        elif isinstance(each, Opaque):
            foreign = f"struct {each.name}"
            yield f"typedef {foreign} {each.name};" if each.has_typedef else f"{foreign};"
        elif isinstance(each, Struct):
            yield f"typedef struct {each.name} {{"
            yield from (f" {declare(field.type, field.name)};" for field in each.fields)
            yield f"}} {each.name};"
        elif isinstance(each, Function):
            yield f"{declare_function(each.signature, each.name)};"


DECLARATIONS_HEAD = """
 * A C compiler needs <stddef.h> and <stdint.h> before them; readers without a preprocessor know
 * size_t, int32_t and the like themselves. A comment before the declarations of a header has its
 * name and tier: stable ones do not change, provisional ones may change in a minor release. */"""


def declarations_file(library: Library) -> str:
    """Declarations without a preprocessor's lines: for cffi, LuaJIT, koffi and the like. CMake
    removes the headers that a build does not have, by the comments with their names."""
    lines = [line for header in library.headers for line in declarations_of(header)]
    return "\n".join([f"/* {NOTICE}{DECLARATIONS_HEAD}", *lines, ""])


def where_built(header: Header, lines: list[str]) -> list[str]:
    """The lines under the condition that the build has this header."""
    return [f"#if {header.option}", *lines, "#endif"] if header.option and lines else lines


FIRST_SIZE_HEAD = f"""#pragma once
// {NOTICE}
// clang-format off
/// The size of each struct of the ABI when it was first released: up to the end of its last field
/// of that release. A field that was appended later has `@since` in its comment. It begins behind
/// any padding at the old end, because callers leave that padding unset.

#include <cstddef>

#include <sab.h>

namespace sab {{

template <class Struct>
extern const std::size_t first_size;  // a struct without a row does not link

#define SAB_FIRST_RELEASED(type, last) \\
    template <> \\
    inline constexpr std::size_t first_size<type> = \\
        (offsetof(type, last) + sizeof(type::last) + alignof(type) - 1) / alignof(type) * \\
        alignof(type);

// NOLINTBEGIN(bugprone-sizeof-expression): some of the fields are pointers
"""


def first_sizes(library: Library) -> str:
    rows = []
    for header in library.headers:
        of_header = []
        for struct in header.of(Struct):
            if struct.can_grow:
                first = [field for field in struct.fields if since(field.documentation) is None]
                if struct.fields[: len(first)] != tuple(first):
                    raise HeaderError(f"{struct.name}: a field without @since behind one with it")
                of_header.append(f"SAB_FIRST_RELEASED({struct.name}, {first[-1].name})")
        rows += where_built(header, of_header)
    tail = [
        "// NOLINTEND(bugprone-sizeof-expression)",
        "",
        "#undef SAB_FIRST_RELEASED",
        "",
        "}  // namespace sab",
        "",
    ]
    return FIRST_SIZE_HEAD + "\n".join(rows + tail)


# -- Julia --

JULIA_HEAD = f'''# {NOTICE}

"""
The C functions, structs and constants of the headers, by their own names; see `include/sab.h`.

Structs that begin with `struct_size` are mutable and passed as they are. `T()` sets it, and all
other fields to zero, which is their default. The others lie in arrays.
"""
module Raw

using Libdl: dlsym

"A struct that is passed by its address."
abstract type Struct end
Base.cconvert(::Type{{Ptr{{T}}}}, value::T) where {{T<:Struct}} = value
Base.unsafe_convert(::Type{{Ptr{{T}}}}, value::T) where {{T<:Struct}} =
    Ptr{{T}}(pointer_from_objref(value))
function zeroed(value::T) where {{T<:Struct}}
    GC.@preserve value begin
        address = pointer_from_objref(value)
        ccall(:memset, Ptr{{Cvoid}}, (Ptr{{Cvoid}}, Cint, Csize_t), address, 0, sizeof(T))
    end
    value.struct_size = sizeof(T)
    return value
end
'''
JULIA_LOAD = '''
"""
Finds every function in a library that is loaded. A provisional function may be missing; calling it
is an error then.
"""
function load(library)'''
JULIA_RESERVED = {"function", "begin", "end", "module", "struct"}


def julia_name(name: str) -> str:
    return name + "_" if name in JULIA_RESERVED else name


def julia_type(type_: Type, callbacks: set[str], is_argument: bool = False) -> str:
    if type_.function is not None:
        return "Ptr{Cvoid}"
    if is_argument and type_.name == "char" and len(type_.pointers) == 1:
        return "Cstring"
    name = type_.name.removeprefix("struct ")
    name = "Ptr{Cvoid}" if name in callbacks else SCALARS.get(name, name)
    for _ in type_.pointers:
        name = f"Ptr{{{name}}}"
    return f"NTuple{{{type_.extent},{name}}}" if type_.extent else name


def julia_struct(struct: Struct, callbacks: set[str]) -> Iterator[str]:
    yield (
        f"\nmutable struct {struct.name} <: Struct"
        if struct.can_grow
        else f"\nstruct {struct.name}"
    )
    for field in struct.fields:
        yield f"    {julia_name(field.name)}::{julia_type(field.type, callbacks)}"
    if struct.can_grow:
        yield f"    {struct.name}() = zeroed(new())"
    yield "end\n"


def julia_function(function: Function, callbacks: set[str]) -> Iterator[str]:
    parameters = function.signature.parameters
    names = [julia_name(each.name) for each in parameters]
    types = [julia_type(each.type, callbacks, is_argument=True) for each in parameters]
    result = julia_type(function.signature.result, callbacks, is_argument=True)
    listed = f"({', '.join(types)}{',' if len(types) == 1 else ''})"
    arguments = ", ".join([f"_{function.name}[]", result, listed, *names])
    yield f"const _{function.name} = Ref(C_NULL)"
    yield f"{function.name}({', '.join(names)}) = ccall({arguments})"


def julia_types(header: Header, callbacks: set[str], defined: set[str]) -> Iterator[str]:
    yield from (f"const {each.name} = {each.value}" for each in header.of(Constant))
    for each in header.declarations:
        if isinstance(each, Scalar):
            yield f"const {each.name} = {julia_type(each.type, callbacks)}"
        elif isinstance(each, Callback):
            callbacks.add(each.name)
        elif isinstance(each, Opaque) and each.name not in defined:
            yield f"struct {each.name} end"
        elif isinstance(each, Struct):
            yield from julia_struct(each, callbacks)


def julia(library: Library) -> str:
    callbacks: set[str] = set()
    lines, load = [JULIA_HEAD], [JULIA_LOAD]
    defined = {each.name for header in library.headers for each in header.of(Struct)}
    for header in library.headers:
        lines += julia_types(header, callbacks, defined)
    # Behind all types: a function can have one of a later header, which C declares beforehand.
    for header in library.headers:
        for function in header.of(Function):
            lines += julia_function(function, callbacks)
            name = function.name
            found = (
                f"dlsym(library, :{name})"
                if header.tier == STABLE
                else f"something(dlsym(library, :{name}; throw_error=false), C_NULL)"
            )
            load.append(f"    _{name}[] = {found}")
    return "\n".join([*lines, *load, "end\n", "end # module\n"])


# -- Rust --


def bindgen() -> str | None:
    """The path of the bindgen with the right version, if there is one."""
    command = shutil.which(os.environ.get("BINDGEN", "bindgen"))
    if command is None:
        return None
    said = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    return command if said.split()[1:] == [RUST_BINDGEN] else None


def rust(library: Library, include: pathlib.Path, current: str) -> str | None:
    """What bindgen writes; without bindgen the current text, or None when it is out of date."""
    digest = hashlib.sha256(declarations_file(library).encode()).hexdigest()
    mark = f"// SHA-256 of include/sab_cdef.h: {digest}"
    command = bindgen()
    if command is None:
        return current if mark in current.split("\n") else None
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "bindings.rs")
        options = [
            "--allowlist-item=sab_.*|SAB_.*",
            "--blocklist-item=SAB_API|SAB_H|SAB_[A-Z]+_H|SAB_NOEXCEPT|SAB_.*_INIT|SAB_WITH_.*",
            "--default-enum-style=consts", "--default-macro-constant-type=signed", "--use-core",
            "--formatter=prettyplease", "--rust-target=1.77", "--rust-edition=2021",
            "--no-doc-comments", f"--raw-line=// {NOTICE}", f"--raw-line={mark}",
        ]  # fmt: skip
        clang = ["--", "-I", str(include), "-std=c11"]
        arguments = [str(include / "sab.h"), "--output", str(output), *options, *clang]
        subprocess.run([command, *arguments], check=True)
        return output.read_text()


# -- Documentation --


def reference_page(header: Header) -> str:
    title = f"sab/{header.room}.h"
    return f"{title}\n{'=' * len(title)}\n\n.. doxygenfile:: {header.room}.h\n"


def reference_list(library: Library) -> str:
    lines = ["", ".. list-table::", "   :header-rows: 1", "", "   * - header", "     - tier"]
    for header in library.headers:
        lines += [f"   * - :doc:`sab/{header.room}.h <c/{header.room}>`", f"     - {header.tier}"]
    lines += ["", ".. toctree::", "   :hidden:", ""]
    return "\n".join([*lines, *(f"   c/{header.room}" for header in library.headers), ""])


def replace_region(page: str, text: str) -> str:
    """The page with `text` between the two lines that mark what is generated."""
    begin, end = f".. {NOTICE}", ".. End of the generated part."
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise HeaderError(f"the page has no lines {begin!r} and {end!r}")
    return f"{before}{begin}\n{text}\n{end}{after}"


# ---- Python ----


PYTHON_HEAD = '''# Generated from the public headers by tools/abi.py: do not edit.
from typing import Any, Callable, Iterator, Optional, Sequence, TypeVar, Union, overload

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
    def addressof(self, lib: object, name: str) -> CData: ...
    def string(self, cdata: CData) -> bytes: ...
    def buffer(self, cdata: CData, size: int = ...) -> memoryview: ...
    @overload
    def from_buffer(self, python_buffer: Any) -> CData: ...
    @overload
    def from_buffer(self, cdecl: str, python_buffer: Any) -> CData: ...
    def memmove(self, dest: Any, src: Any, n: int) -> None: ...
    def unpack(self, cdata: CData, length: int) -> list[Any]: ...
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
PYTHON_TAIL = """
ffi: _FFI
lib: _Lib
"""


def python_type(declaration: str) -> str:
    if "*" in declaration or re.search(r"\w+_fn\b", declaration):
        return "_Pointer"
    return "float" if re.match(r"(const )?double\b", declaration.strip()) else "int"


def python_parameters(text: str) -> list[str]:
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


def python_stub(declarations: str, extension: str) -> str:
    """The types of the Python extension: functions, constants and callbacks that run Python.

    `extension` is the source of build_extension.py, which declares the last.
    """
    text = declarations + extension
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
        own = python_parameters(given)
        all_of_them = ", ".join(["self", *own, "/"] if own else ["self"])
        lines.append(f"    def {name}({all_of_them}) -> {made}: ...")
    return PYTHON_HEAD + "\n".join(lines) + "\n" + PYTHON_TAIL


# ---- The tool ----


# ---- Names in messages ----


def prefix_of(names: Sequence[str]) -> str:
    """The words that all begin with behind SAB: SAB_TAIL_ of SAB_TAIL_KEEP and SAB_TAIL_DROP; ""
    for none."""
    words = zip(*(name.split("_")[:-1] for name in names))
    common = [each[0] for each in itertools.takewhile(lambda each: len(set(each)) == 1, words)]
    return "_".join(common) + "_" if len(common) > 1 else ""


def choices(library: Library) -> Iterator[tuple[str, str, str]]:
    """Each constant of a set of choices, its type, and its word: SAB_TAIL_DROP, sab_tail, drop."""
    for header in library.headers:
        names: list[str] = []
        scalar = ""
        for each in [*header.declarations, Scalar("", "", Type("void"))]:
            if (
                isinstance(each, Constant)
                and scalar
                and (not names or prefix_of([*names, each.name]))
            ):
                names.append(each.name)
                continue
            if len(names) > 1:
                yield from ((name, scalar, name[len(prefix_of(names)) :].lower()) for name in names)
            names, scalar = [], each.name if isinstance(each, Scalar) else ""


def option_parameters(library: Library) -> list[str]:
    """Names that functions give their options: options, pack."""
    return sorted(
        {
            parameter.name
            for header in library.headers
            for function in header.of(Function)
            for parameter in function.signature.parameters
            if parameter.type.name.endswith("_options") and parameter.type.is_const
        }
    )


def counted_fields(library: Library) -> dict[str, str]:
    """The array that a count is of: budget_count: budgets."""
    counted = {}
    for header in library.headers:
        for struct in header.of(Struct):
            names = {field.name for field in struct.fields}
            for name in names:
                array = name.removesuffix("_count")
                if array == name or not struct.name.endswith("_options"):
                    continue
                of = [each for each in (array + "s", array[:-1] + "ies", array) if each in names]
                if of:
                    counted.setdefault(name, of[0])
    return dict(sorted(counted.items()))


def camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def python_names(library: Library) -> str:
    def table(name: str, entries: Iterable[str]) -> list[str]:
        lines = [f"    {entry}," for entry in entries]
        return [f"{name} = {{", *lines, "}"] if lines else [f"{name} = {{}}"]

    counted = counted_fields(library).items()
    return "\n".join(
        [
            f"# {NOTICE}",
            '"""Names in messages of the library, and what they are in Python."""',
            "",
            *table("CHOICES", (f'"{name}": "{word}"' for name, _, word in choices(library))),
            *table("OPTIONS", (f'"{name}"' for name in option_parameters(library))),
            *table("COUNTED", (f'"{name}": "{array}"' for name, array in counted)),
            "",
        ]
    )


def rust_names(library: Library) -> str:
    def table(name: str, rows: Iterable[tuple[str, str]]) -> list[str]:
        lines = [f'    ("{each}", "{own}"),' for each, own in rows]
        return [f"pub(crate) const {name}: &[(&str, &str)] = &[", *lines, "];"]

    own = [
        (name, f"{camel_case(type_.removeprefix('sab_'))}::{camel_case(word)}")
        for name, type_, word in choices(library)
    ]
    parameters = ", ".join(f'"{name}"' for name in option_parameters(library))
    return "\n".join(
        [
            f"// {NOTICE}",
            "//! Names in messages of the library, and what they are in Rust.",
            "#![cfg_attr(rustfmt, rustfmt_skip)]",
            "",
            *table("CHOICES", own),
            f"pub(crate) const OPTIONS: &[&str] = &[{parameters}];",
            *table("COUNTED", counted_fields(library).items()),
            "",
        ]
    )


def julia_names(library: Library) -> str:
    def table(name: str, rows: Iterable[tuple[str, str]]) -> list[str]:
        return [f"const {name} = Dict(", *(f'    "{key}" => "{own}",' for key, own in rows), ")"]

    parameters = ", ".join(f'"{name}"' for name in option_parameters(library))
    return "\n".join(
        [
            f"# {NOTICE}",
            "# Names in messages of the library, and what they are in Julia.",
            "",
            *table("CHOICES", ((name, f":{word}") for name, _, word in choices(library))),
            f"const OPTIONS = Set([{parameters}])",
            *table("COUNTED", counted_fields(library).items()),
            "",
        ]
    )


BINDINGS = "bindings/rust/sab-sys/src/bindings.rs"


def outputs(root: pathlib.Path) -> dict[str, str | None]:
    """The path of every generated file, and what it should contain; None where that is not known
    without bindgen."""
    from abi_json import abi_json  # which imports this module

    include = root / "include"
    cmake = (root / "CMakeLists.txt").read_text()
    major, minor = (
        int(re.findall(rf"SAB_ABI_{part} (\d+)", cmake)[0]) for part in ("MAJOR", "MINOR")
    )
    library = Library(read_headers(include), (major, minor))
    reference = "docs/reference/c.rst"
    bindings = root / BINDINGS
    extension = root / "bindings/python/build_extension.py"
    return {
        "src/libsab.map": version_script(library),
        f"debian/libsab{major}.symbols": debian_symbols(library),
        "include/sab_cdef.h": declarations_file(library),
        "include/sab_abi.json": abi_json(library, NOTICE),
        "src/base/first_size.h": first_sizes(library),
        "bindings/julia/src/raw.jl": julia(library),
        "bindings/python/sab/_sab.pyi": python_stub(
            declarations_file(library), extension.read_text() if extension.exists() else ""
        ),
        "bindings/python/sab/_names.py": python_names(library),
        "bindings/rust/libsab/src/names.rs": rust_names(library),
        "bindings/julia/src/names.jl": julia_names(library),
        reference: replace_region((root / reference).read_text(), reference_list(library)),
        **{f"docs/reference/c/{h.room}.rst": reference_page(h) for h in library.headers},
        BINDINGS: rust(library, include, bindings.read_text() if bindings.exists() else ""),
    }


def check(differ: list[str], stray: list[str]) -> bool:
    for name in differ + stray:
        print(f"{name}: differs from the headers; run tools/abi.py", file=sys.stderr)
    return bool(differ or stray)


def write(root: pathlib.Path, differ: dict[str, str | None], stray: list[str]) -> bool:
    for name, text in differ.items():
        if text is None:
            continue
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        print(f"written: {name}")
    for name in stray:
        (root / name).unlink()
        print(f"removed: {name}")
    is_missing = None in differ.values()
    if is_missing:
        print(f"not written: {BINDINGS}: needs bindgen {RUST_BINDGEN} ($BINDGEN)", file=sys.stderr)
    return is_missing


def main() -> bool:
    root = pathlib.Path(__file__).resolve().parents[1]
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit("usage: abi.py [--check]")
    try:
        files = outputs(root)
    except HeaderError as error:
        sys.exit(str(error))
    differ = {
        name: text
        for name, text in files.items()
        if not (root / name).exists() or (root / name).read_text() != text
    }
    pages = (f"docs/reference/c/{path.name}" for path in root.glob("docs/reference/c/*.rst"))
    stray = sorted(set(pages) - files.keys())
    return check(list(differ), stray) if sys.argv[1:] else write(root, differ, stray)


if __name__ == "__main__":
    import abi  # under this name, so that abi_json.py has the same classes

    sys.exit(abi.main())
