"""Writes include/sab_abi.json: the headers for programs that make a binding, with what C's
declarations do not say. docs/internals/abi.md describes the file.

Whether a parameter is written, may be NULL or is an array, and when and in which thread a callback
is called, comes from the comments in the headers. Where a comment does not say it in one of the
ways that are known here, that is an error.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from abi_headers import (
    Callback,
    Constant,
    Declaration,
    Function,
    Header,
    HeaderError,
    Library,
    Opaque,
    Scalar,
    Signature,
    Struct,
    Type,
    Variable,
    c_type,
    since,
)

FORMAT = 1  # of the file; grows with an incompatible change
WIDTH = 100  # columns that an entry may have on one line
POINTER = 8  # bytes, and those of size_t: the sizes are those of 64-bit systems
BYTES = {
    "char": 1,
    "double": 8,
    "int32_t": 4,
    "int64_t": 8,
    "size_t": POINTER,
    "uint8_t": 1,
    "uint16_t": 2,
    "uint32_t": 4,
    "uint64_t": 8,
}
INTEGERS = {"int32_t", "int64_t", "size_t", "uint32_t", "uint64_t"}
WRITTEN = re.compile(r"(?:always )?filled\b|to be (?:filled|set)\b|the new handle\b|.*\broom for\b")
READ_AND_WRITTEN = re.compile(r"read and written\b")
READ = re.compile(r"read\b")  # an object of another interface
NOT_NULLABLE = re.compile(r"NULL (?:is refused|on failure|if there is none, and on failure)")
NULLABLE = re.compile(
    r"\b(?:or|[Mm]ay be|[Ee]lse) NULL\b"
    r"|\bNULL(?:: | for none\b| is ignored\b| has | when | if |$)"
)
AS_FOR = re.compile(r"as (?:for|in) (sab_\w+)")
COUNTED = re.compile(
    r"(?:^|room for )`(\w+)` (?!rows\b|\w+ for each\b)\w|`(\w+)` of them|\b(?:when|if) `(\w+)` is 0"
)
A_COLUMN = re.compile(r"\bone (?:number )?(?:a|for each) column\b|^for each column\b")
WHEN = re.compile(r"\b[Cc]alled\b|\bthread\b")
CALLED = re.compile("Callbacks are called ")
CALLED_BY_DEFAULT = "Called in the calling thread."

Entry = dict[str, Any]


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=\.)\s+(?=[A-Z`\"])", " ".join(text.split()))


def sentence(text: str) -> str:
    """With a capital letter and a full stop, which comments of fields lack."""
    text = text.removesuffix("; NULL")
    return text[:1].upper() + text[1:].removesuffix(".") + "."


def first_sentence(documentation: str) -> str:
    text = re.split(r"\n\n|^@|\s@since", documentation, maxsplit=1, flags=re.MULTILINE)[0]
    return sentences(text)[0]


def parameter_comments(documentation: str) -> dict[str, str]:
    found = re.finditer(r"^@param (\w+) +(.*?)(?=^@|\Z)", documentation, re.MULTILINE | re.DOTALL)
    return {each[1]: " ".join(each[2].split()) for each in found}


class Writer:
    """All headers, so that types and comments of one are found from another."""

    def __init__(self, library: Library) -> None:
        self.library = library
        declarations = [each for header in library.headers for each in header.declarations]
        self.named = {each.name: each for each in declarations}
        self.comments = {
            each.name: parameter_comments(each.documentation)
            for each in declarations
            if isinstance(each, (Callback, Function))
        }

    # -- layout --

    def scalar(self, name: str) -> str:
        """The fixed-width type behind a typedef."""
        declaration = self.named.get(name)
        return declaration.type.name if isinstance(declaration, Scalar) else name

    def size_and_alignment(self, type_: Type) -> tuple[int, int]:
        declaration = self.named.get(type_.name)
        if type_.pointers or type_.function is not None or isinstance(declaration, Callback):
            size = alignment = POINTER
        elif isinstance(declaration, Struct):
            size, alignment, _ = self.layout(declaration)
        else:
            size = alignment = BYTES[self.scalar(type_.name)]
        return size * (type_.extent or 1), alignment

    def layout(self, struct: Struct) -> tuple[int, int, list[int]]:
        """Size and alignment of a struct, and the offsets of its fields, by C's usual rules."""
        at, largest, offsets = 0, 1, []
        for field in struct.fields:
            size, alignment = self.size_and_alignment(field.type)
            at = -(-at // alignment) * alignment
            offsets.append(at)
            at += size
            largest = max(largest, alignment)
        return -(-at // largest) * largest, largest, offsets

    # -- types, parameters --

    def type_entry(self, type_: Type) -> Entry:
        if type_.function is not None:
            comments = field_comments(type_.function)
            return {"callback": self.signature("", type_.function, comments)}
        of_one = dataclasses.replace(type_, extent=0)
        entry: Entry = {"type": c_type(of_one).replace("struct ", "")}
        return entry | ({"extent": type_.extent} if type_.extent else {})

    def comment(self, comments: Mapping[str, str], name: str) -> str:
        """The comment of a parameter, or that of the function that it refers to."""
        text = comments.get(name, "")
        other = AS_FOR.match(text)
        return self.comments.get(other[1], {}).get(name, text) if other else text

    def direction(self, where: str, parameter: Variable, text: str) -> str:
        type_, base = parameter.type, self.named.get(parameter.type.name.removeprefix("struct "))
        if type_.function is not None or not type_.pointers:
            return "in"
        is_const = type_.pointers[-2] if len(type_.pointers) > 1 else type_.is_const
        is_handle = isinstance(base, Opaque) and base.has_typedef and len(type_.pointers) == 1
        if is_const or is_handle or is_context(parameter):
            return "in"
        if READ_AND_WRITTEN.match(text):
            return "inout"
        if WRITTEN.match(text):
            return "out"
        if (isinstance(base, Opaque) or type_.name == "void") and READ.match(text):
            return "in"
        raise HeaderError(
            f"{where}: the comment of {parameter.name} must begin with 'filled', 'to be set', "
            f"'room for', 'the new handle' or 'read and written': {text!r}"
        )

    def parameter_entries(
        self, where: str, signature: Signature, comments: Mapping[str, str]
    ) -> list[Entry]:
        texts = {each.name: self.comment(comments, each.name) for each in signature.parameters}
        entries = []
        for each in signature.parameters:
            text = texts[each.name]
            way = self.direction(where, each, text)
            entry = {"name": each.name, **self.type_entry(each.type), "direction": way}
            if is_context(each):
                entry["context"] = True
            elif self.may_be_null(each, text, is_out=way == "out"):
                entry["nullable"] = True
            entry |= self.array(each, texts, signature.parameters)
            entries.append(entry | self.kept(each, signature.parameters, text))
        return entries

    def signature(self, where: str, signature: Signature, comments: Mapping[str, str]) -> Entry:
        return {
            "result": self.type_entry(signature.result),
            "parameters": self.parameter_entries(where, signature, comments),
        }

    def may_be_null(self, variable: Variable, text: str, is_out: bool = False) -> bool:
        """Of `T **out` a comment says what is written, so that only some words are about `out`."""
        is_pointer = bool(variable.type.pointers) or self.is_callback(variable.type)
        if is_out and len(variable.type.pointers) > 1:
            return "NULL is ignored" in text or "may be NULL" in text
        return is_pointer and NULLABLE.search(NOT_NULLABLE.sub("", text)) is not None

    def is_callback(self, type_: Type) -> bool:
        return type_.function is not None or isinstance(self.named.get(type_.name), Callback)

    def is_count(self, variable: Variable) -> bool:
        return not variable.type.pointers and self.scalar(variable.type.name) in INTEGERS

    def array(
        self, variable: Variable, texts: Mapping[str, str], among: Iterable[Variable]
    ) -> Entry:
        """The name of the number of elements. It is the one whose comment says "number of `array`"
        or, right behind the array, "its length", or the one that the array's comment counts, or
        `columns` if the array has one element a column."""
        if not variable.type.pointers or variable.name not in texts:
            return {}
        counts = [each.name for each in among if self.is_count(each)]
        names = [each.name for each in among]
        for name in counts:
            of = re.match(r"number of ((?:`\w+`(?: and of |, | and )?)+)", texts[name])
            is_next = names.index(name) == names.index(variable.name) + 1
            if (of and f"`{variable.name}`" in of[1]) or (
                is_next and texts[name].startswith("its length in bytes")
            ):
                return {"count": name}
        counted = [each for found in COUNTED.findall(texts[variable.name]) for each in found]
        counted += ["columns"] if A_COLUMN.search(texts[variable.name]) else []
        return next(({"count": name} for name in counted if name in counts), {})

    # -- callbacks --

    def kept(self, variable: Variable, among: Iterable[Variable], text: str) -> Entry:
        """Until when a callback and its context must stay valid."""
        if not self.is_callback(variable.type):
            return {}
        if said := re.search(r"\bKept until ([^.;]*)", text):
            return {"kept": f"until {said[1]}"}
        has_release = any(each.name == "release" for each in among)
        if not has_release:
            return {"kept": "during the call"}
        if variable.name == "release":
            return {"kept": "until it is called"}
        return {"kept": "until `release` is called; if that is NULL, until the handle is freed"}

    def called(self, header: Header, *documentation: str) -> Entry:
        """When and in which thread, in the words of the comments or else of the header's, and
        whether the thread may be another one than the caller's."""
        texts = [re.split(r"^@", each, maxsplit=1, flags=re.MULTILINE)[0] for each in documentation]
        said = [sentence(each) for text in texts for each in sentences(text) if WHEN.search(each)]
        if not any("thread" in each for each in said):
            of_all = [each for each in sentences(header.documentation) if CALLED.match(each)]
            said += of_all or [CALLED_BY_DEFAULT]
        return {
            "called": " ".join(said),
            "thread": "any" if any("any thread" in each for each in said) else "calling",
        }

    # -- declarations --

    def field_entries(self, header: Header, struct: Struct) -> list[Entry]:
        _, _, offsets = self.layout(struct)
        texts = {each.name: " ".join(each.documentation.split()) for each in struct.fields}
        entries = []
        for field, offset in zip(struct.fields, offsets):
            text = texts[field.name]
            entry = {"name": field.name, **self.type_entry(field.type), "offset": offset}
            entry["size"] = self.size_and_alignment(field.type)[0]
            if "callback" in entry:
                entry |= self.called(header, struct.documentation, field.documentation)
            if is_context(field):
                entry["context"] = True
            elif "Must be given" in text:
                entry["required"] = True
            elif self.may_be_null(field, text):
                entry["nullable"] = True
            entry |= self.array(field, texts, struct.fields)
            entry |= self.kept(field, struct.fields, f"{text} {struct.documentation}")
            if version := since(field.documentation):
                entry["since"] = version
            entries.append(entry | {"documentation": first_sentence(field.documentation)})
        return entries

    def entry(self, header: Header, each: Declaration) -> Entry:
        said: Entry = {"name": each.name, "documentation": first_sentence(each.documentation)}
        where = f"sab/{header.room}.h: {each.name}"
        if isinstance(each, Constant):
            return said | {"value": each.value}
        if isinstance(each, Scalar):
            return said | {"type": each.type.name, "constants": []}
        if isinstance(each, Opaque):
            free = f"{each.name}_free"
            return said | ({"free": free} if free in self.named else {})
        if isinstance(each, Struct):
            size, alignment, _ = self.layout(each)
            said |= {"size": size, "alignment": alignment, "has_struct_size": each.can_grow}
            return said | {"fields": self.field_entries(header, each)}
        assert isinstance(each, (Callback, Function))
        said |= self.signature(where, each.signature, self.comments[each.name])
        if isinstance(each, Callback):
            return said | self.called(header, each.documentation)
        return said | {"since": each.since}

    def header(self, header: Header) -> Entry:
        made: Entry = {"name": f"sab/{header.room}.h", "tier": header.tier}
        made["documentation"] = first_sentence(re.sub(r"^@file.*\n", "", header.documentation))
        kinds = {Opaque: "handles", Callback: "callbacks", Struct: "structs", Function: "functions"}
        made |= {name: [] for name in ("types", "constants", "foreign", *kinds.values())}
        group = made["constants"]
        for each in header.declarations:
            entry = self.entry(header, each)
            if isinstance(each, Constant):
                group.append(entry)
                continue
            # Constants right behind a typedef of a number are its values.
            group = entry["constants"] if isinstance(each, Scalar) else made["constants"]
            if isinstance(each, Opaque) and not each.has_typedef:
                made["foreign"].append(entry)
            else:
                made["types" if isinstance(each, Scalar) else kinds[type(each)]].append(entry)
        return {name: value for name, value in made.items() if value != []}


def is_context(variable: Variable) -> bool:
    """The caller's pointer that is passed to a callback."""
    return re.search(r"(^|_)ctx$", variable.name) is not None and variable.type.name == "void"


def field_comments(signature: Signature) -> dict[str, str]:
    """Comments for the parameters of a callback in a struct, which has one comment for all."""
    made, names = {}, [each.name for each in signature.parameters]
    for each, behind in zip(signature.parameters, [*names[1:], ""]):
        if behind == "capacity":
            made[each.name] = "room for `capacity` bytes"
        elif each.type.is_const:
            made[each.name] = "`size` bytes" if behind == "size" else ""
        else:
            is_handle = each.type.name == "void" and len(each.type.pointers) == 1
            made[each.name] = "read" if is_handle else "to be set"
    return made


def text_of(value: Any, indent: int = 0) -> str:
    """JSON with an entry on one line if it fits, so that a change of the headers is a small one."""
    line = json.dumps(value, ensure_ascii=False)
    if indent + len(line) <= WIDTH or not isinstance(value, (dict, list)):
        return line
    pad = " " * (indent + 1)
    if isinstance(value, list):
        lines = [pad + text_of(each, indent + 1) for each in value]
        return "[\n" + ",\n".join(lines) + f"\n{' ' * indent}]"
    lines = [f"{pad}{json.dumps(key)}: {text_of(each, indent + 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{' ' * indent}}}"


def abi_json(library: Library, notice: str) -> str:
    writer = Writer(library)
    major, minor = library.abi
    made = {
        "notice": notice,
        "format": FORMAT,
        "library": f"libsab.so.{major}",
        "abi": {"major": major, "minor": minor},
        "pointer_size": POINTER,
        "headers": [writer.header(each) for each in library.headers],
    }
    return text_of(made) + "\n"
