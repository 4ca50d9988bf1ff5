"""The public headers as a model, in the order in which include/sab.h includes them.

The parser knows the syntax that the headers use and no more. Anything else is an error that names
the header and the line.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

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
        elif macro := re.fullmatch(r"#define (SAB_\w+_INIT) SAB_INIT\((\w+)\)", text):
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
        """What depends on the compiler: SAB_API, SAB_NOEXCEPT, SAB_INIT, and `extern "C" {` with
        its end.
        """
        self.pending = ""
        while (token := self.take()).text != "#endif":
            text = " ".join(token.text.split())
            if token.kind == "directive" and not re.match(
                r"#(else|elif .*|define (SAB_API|SAB_NOEXCEPT|SAB_INIT)\b.*)$", text
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
