#!/usr/bin/env python3
"""Writes every file that repeats the public headers: abi.py [--check].

The headers, in the order in which include/sab.h includes them, are parsed into a model. From the
model come the version script, Debian's symbols, the declarations file, the first sizes of structs,
the constructors of samplers, the raw layers of Julia and Rust, Rust's results and choices, what
Python, Rust and Julia call the names in messages, and the list of headers in the reference.
`--check` writes nothing and fails with the name of each file that differs.

Rust's declarations are written by bindgen, which is found as $BINDGEN or on the PATH; its version
is RUST_BINDGEN. The file carries a hash of the declarations file. Where there is no bindgen, only
this hash is compared, so that a change of the declarations is still found.
"""

from __future__ import annotations

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
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from abi_headers import (
    SCALARS,
    STABLE,
    Callback,
    Constant,
    Function,
    Header,
    HeaderError,
    Library,
    Opaque,
    Scalar,
    Struct,
    Type,
    Variable,
    declare,
    declare_function,
    read_headers,
    since,
)
from abi_json import abi_json

RUST_BINDGEN = "0.72.1"  # cargo install bindgen-cli --version 0.72.1 --locked; needs libclang
NOTICE = "Generated from the public headers by tools/abi.py: do not edit."

# ---- Version script, symbols, declarations ----


def version_script(library: Library) -> str:
    """Every stable node after the first inherits from the one before it."""
    lines, previous = [f"# {NOTICE} docs/internals/abi.md describes the nodes."], ""
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


def sampler_constructors(library: Library) -> str:
    names = [
        function.name
        for header in library.headers
        for function in header.of(Function)
        if function.name.endswith("_sampler_new")
    ]
    return "\n".join(
        [
            "#pragma once",
            f"// {NOTICE}",
            "// clang-format off",
            "",
            "namespace sab {",
            "",
            "/// Constructors of samplers, by which saved states name the kind.",
            "constexpr const char* sampler_constructors[] = {",
            *(f'    "{name}",' for name in names),
            "};",
            "",
            "}  // namespace sab",
            "",
        ]
    )


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
            defined.add(each.name)
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


def rust_structs(library: Library) -> str:
    names = [each.name for header in library.headers for each in header.of(Struct) if each.can_grow]
    return "\n".join([f"// {NOTICE}", "structs! {", *(f"    {name}," for name in names), "}", ""])


# Structs of results that Rust shows as they are, but for these fields.
RUST_RESULTS = {
    "sab_plan_info": "PlanInfo",
    "sab_bucket": "Bucket",
    "sab_shape": "Shape",
    "sab_plan_report": "Report",
    "sab_packed_info": "PackedInfo",
    "sab_mixture_report": "SourceReport",
    "sab_cache_stats": "CacheStats",
    "sab_probe_stats": "ProbeStats",
    "sab_verification": "Verification",
    "sab_memory_guard_info": "GuardInfo",
}
RUST_HIDDEN = {"struct_size", "budget_count", "sab_bucket.columns", "sab_shape.columns"} | {
    "sab_plan_report.columns"
}
RUST_NUMBERS = {"uint64_t": "u64", "int64_t": "i64", "size_t": "usize", "double": "f64"}
# Numbers of bytes that may be unknown, and those that a device always reports.
RUST_BYTES = {
    "reserved_peak",
    "largest_free",
    "sab_probe_stats.total",
    "sab_verification.total",
} | {"sab_memory_guard_info.peak"}
RUST_KNOWN_BYTES = {"current", "sab_probe_stats.peak", "sab_verification.peak"}
RUST_WORDS = {
    "BOUNDARIES": "[`BucketRule::Boundaries`](crate::BucketRule::Boundaries)",
    "Result of sab_plan_verify()": "Result of [`Plan::verify`](crate::Plan::verify)",
    "see sab_plan_info": "see [`PlanInfo::lower_bound`]",
    "sab_sampler_options.balance": "[`SamplerOptions::balance`](crate::SamplerOptions::balance)",
    "sab_sampler_get_budget()": "[`Sampler::budget`](crate::Sampler::budget)",
    "; -1 if not known": "; `None` if not known",
    "; -1 where not known": "; `None` if not known",
    "see sab_sampler_get_rows()": "see [`Batch::cu_seqlens`](crate::Batch::cu_seqlens)",
    "sab_plan_get_skipped()": "[`Plan::skipped`](crate::Plan::skipped)",
    "sab_plan_get_shape_padding()": "[`Plan::shape_paddings`](crate::Plan::shape_paddings)",
    "sab_plan_report.empty_batches": "[`Report::empty_batches`](crate::Report::empty_batches)",
    "sab_sizes_info.description": "[`Sizes::description`](crate::Sizes::description)",
    "sab_stream_next()": "[`Stream::next`](crate::stream::Stream::next)",
    "sab_stream_get_skipped_count()": "[`Stream::skipped`](crate::stream::Stream::skipped)",
    "return SAB_E_ARGUMENT otherwise": "give [`Error::Argument`](crate::Error::Argument) otherwise",
    "fail with SAB_E_IO": "fail with [`Error::Io`](crate::Error::Io)",
    "At most SAB_MAX_COST_TERMS": "At most 64",
    "; other texts are refused. Not for sab_text_size_stream_new()": "; other texts are refused",
    ". Not for sab_text_size_stream_new()": "",
    "set by the caller: room for ": "",
    "; NULL: not wanted": "",
    "1 when the plan meets its `padding_target` or has none, else 0": (
        "the plan meets its `padding_target` or has none"
    ),
    "that is a callback": "that is a closure",
    ". See the comment of the file": "",
    "; memory of the plan": "",
    " Its arrays belong to the plan and live as long as the handle.": (
        " Lengths and `total` have one number for each column of the sizes."
    ),
}


def rust_comment(text: str, indent: str, library: Library) -> Iterator[str]:
    """Documentation of a header as Rust's, with Rust's names."""
    own = {
        name: f"{RUST_CHOICES[type_][0]}::{camel_case(word)}"
        for name, type_, word in choices(library)
        if type_ in RUST_CHOICES
    }
    width = 100 - len(indent) - 4
    paragraphs = re.split(r"\n\s*\n|\n\s*(?=- )", text)
    for number, paragraph in enumerate(paragraphs):
        line = " ".join(paragraph.split())
        for name, other in RUST_WORDS.items():
            line = line.replace(name, other)
        for name, path in own.items():
            short = "::".join(path.split("::")[-2:])
            line = re.sub(rf"\b{name}\b", f"[`{short}`](crate::{path})", line)
        if "sab_" in line or "SAB_" in line:
            raise HeaderError(f"{line!r}: Rust has no word for a name in it")
        line = re.sub(r"(?<![\w`:\[])([a-z]+_[a-z_]+)(?![\w`(])", r"`\1`", line)
        is_item = line.startswith("- ")
        if number > 0 and not is_item:
            yield f"{indent}///"
        line = line[0].upper() + line[1:]
        is_before_items = number + 1 < len(paragraphs) and paragraphs[number + 1].startswith("- ")
        line += "" if is_before_items or line.endswith((".", ";")) else "."
        hanging = "  " * is_item
        wrapped = textwrap.wrap(
            line, width, subsequent_indent=hanging, break_on_hyphens=False, break_long_words=False
        )
        yield from (f"{indent}/// {each}" for each in wrapped)


# The types of choices that Rust shows as enums, where the enum is, and the feature that it needs.
RUST_CHOICES: dict[str, tuple[str, ...]] = {
    "sab_text_unit": ("TextUnit", 'any(feature = "arrow", feature = "files")'),
    "sab_null_rule": ("NullRule", 'feature = "arrow"'),
    "sab_missing_rule": ("MissingRule", 'feature = "files"'),
    "sab_bucket_rule": ("BucketRule",),
    "sab_tail": ("Tail",),
    "sab_oversize": ("Oversize",),
    "sab_shape_rule": ("ShapeRule",),
    "sab_last_step": ("LastStep",),
    "sab_pack_method": ("PackMethod",),
    "sab_memory_model_kind": ("memory::ModelKind",),
    "sab_search": ("memory::Search",),
    "sab_bionemo_shuffle": ("BionemoShuffle",),
    "sab_micro_batch_order": ("MicroBatchOrder",),
    "sab_loss_weighting": ("LossWeighting",),
    "sab_context_groups": ("ContextGroups",),
    "sab_mixture_unit": ("MixtureUnit",),
    "sab_framing": ("stream::Framing", 'feature = "stream"'),
    "sab_on_error": ("stream::OnError", 'feature = "stream"'),
    "sab_mix_until": ("stream::MixUntil", 'feature = "stream"'),
    "sab_thresholds_method": ("ThresholdsMethod",),
    "sab_mask_rule": ("MaskRule",),
    "sab_cache_failure": ("CacheFailure", 'feature = "cache"'),
}
# Rust has more to say of a rule, and no stream of the sizes of texts.
RUST_LEFT_OUT = {"sab_bucket_rule", "SAB_TEXT_CHARACTERS"}


def rust_choices(library: Library) -> str:
    known = {each.name: each for header in library.headers for each in header.declarations}
    lines = [
        f"// {NOTICE}",
        "//! Choices, and the numbers by which the library knows them.",
        "#![cfg_attr(rustfmt, rustfmt_skip)]",
        "",
    ]
    for type_, all_of_type in itertools.groupby(choices(library), lambda choice: choice[1]):
        if type_ not in RUST_CHOICES or type_ in RUST_LEFT_OUT:
            continue
        path, *feature = RUST_CHOICES[type_]
        gate = [f"#[cfg({each})]" for each in feature]
        name = path.split("::")[-1]
        shown = [(constant, word) for constant, _, word in all_of_type]
        shown = [each for each in shown if each[0] not in RUST_LEFT_OUT]
        lines += [*gate, *rust_comment(known[type_].documentation, "", library)]
        lines += ["#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]"]
        lines += ["#[non_exhaustive]", f"pub enum {name} {{"]
        for constant, word in shown:
            given = known[constant]
            lines += rust_comment(given.documentation, "    ", library)
            if isinstance(given, Constant) and given.value == 0:
                lines.append("    #[default]")
            lines.append(f"    {camel_case(word)},")
        lines += ["}", "", *gate, f"impl {name} {{"]
        lines += ["    pub(crate) const fn raw(self) -> i32 {", "        match self {"]
        lines += [f"            {name}::{camel_case(w)} => sab_sys::{c}," for c, w in shown]
        lines += ["        }", "    }", "}", ""]
    return "\n".join(lines)


def rust_field(struct: str, field: Variable) -> tuple[str, str]:
    """The type of a field in Rust, and its value from the struct of the library."""
    of, given = f"{struct}.{field.name}", f"raw.{field.name}"
    if field.type.pointers:
        return "PerColumn<f64>", f"of({given})"
    if {field.name, of} & RUST_BYTES:
        return "Option<u64>", f"known({given})"
    if {field.name, of} & RUST_KNOWN_BYTES:
        return "u64", f"known({given}).unwrap_or(0)"
    if field.type.name == "int32_t":
        return "bool", f"{given} != 0"
    return RUST_NUMBERS[field.type.name], given


def rust_result(struct: Struct, name: str, library: Library) -> Iterator[str]:
    def is_shown(field: Variable) -> bool:
        is_text = field.type.name == "char" or field.name == "limits"
        return not (is_text or {field.name, f"{struct.name}.{field.name}"} & RUST_HIDDEN)

    fields = [field for field in struct.fields if is_shown(field)]
    of_columns = any(field.type.pointers for field in fields)
    if struct.name == "sab_cache_stats":
        yield '#[cfg(feature = "cache")]'
    yield from rust_comment(struct.documentation, "", library)
    has_floats = any(field.type.name == "double" for field in fields)
    yield f"#[derive(Clone, Copy, Debug, PartialEq{', Eq' * (not has_floats)})]"
    yield "#[non_exhaustive]"
    yield f"pub struct {name} {{"
    for field in fields:
        yield from rust_comment(field.documentation, "    ", library)
        yield f"    pub {field.name}: {rust_field(struct.name, field)[0]},"
    yield from ["}", ""]
    if struct.name == "sab_cache_stats":
        yield '#[cfg(feature = "cache")]'
    yield f"impl {name} {{"
    if of_columns:
        yield from [
            "    /// # Safety",
            "    ///",
            "    /// The arrays have a number for each column.",
        ]
    yield f"    pub(crate) {'unsafe ' * of_columns}fn of(raw: &sys::{struct.name}) -> Self {{"
    if of_columns:
        yield "        // SAFETY: the caller's promise."
        yield "        let of = |numbers: *const f64| unsafe { per_column(numbers, raw.columns) };"
    yield f"        {name} {{"
    for field in fields:
        yield f"            {field.name}: {rust_field(struct.name, field)[1]},"
    yield from ["        }", "    }", "}", ""]


def rust_results(library: Library) -> str:
    structs = [each for header in library.headers for each in header.of(Struct)]
    lines = [
        f"// {NOTICE}",
        "//! Results that are shown as the library gives them.",
        "#![cfg_attr(rustfmt, rustfmt_skip)]",
        "",
        "use super::{known, per_column, sys};",
        "use crate::PerColumn;",
        "",
    ]
    for struct in structs:
        if struct.name in RUST_RESULTS:
            lines += rust_result(struct, RUST_RESULTS[struct.name], library)
    return "\n".join(lines)


# -- Documentation --


def reference_page(header: Header, underline: str = "=") -> str:
    title = f"sab/{header.room}.h"
    return f"{title}\n{underline * len(title)}\n\n.. doxygenfile:: {header.room}.h\n"


def has_page(header: Header) -> bool:
    """Headers without functions are on the page of the list."""
    return bool(header.of(Function))


def reference_list(library: Library) -> str:
    lines = ["", ".. list-table::", "   :header-rows: 1", "", "   * - header", "     - tier"]
    for header in library.headers:
        name = f"sab/{header.room}.h"
        lines.append(
            f"   * - :doc:`{name} <c/{header.room}>`" if has_page(header) else f"   * - {name}"
        )
        lines.append(f"     - {header.tier}")
    lines += ["", ".. toctree::", "   :hidden:", ""]
    lines += [*(f"   c/{each.room}" for each in library.headers if has_page(each)), ""]
    for header in library.headers:
        lines += [] if has_page(header) else [*reference_page(header, "-").splitlines(), ""]
    return "\n".join(lines)


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


# ---- The tool ----

BINDINGS = "bindings/rust/sab-sys/src/bindings.rs"


def outputs(root: pathlib.Path) -> dict[str, str | None]:
    """The path of every generated file, and what it should contain; None where that is not known
    without bindgen."""
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
        "src/sampler/constructors.h": sampler_constructors(library),
        "bindings/julia/src/raw.jl": julia(library),
        "bindings/python/sab/_sab.pyi": python_stub(
            declarations_file(library), extension.read_text() if extension.exists() else ""
        ),
        "bindings/python/sab/_names.py": python_names(library),
        "bindings/rust/libsab/src/names.rs": rust_names(library),
        "bindings/rust/libsab/src/raw/structs.rs": rust_structs(library),
        "bindings/rust/libsab/src/raw/results.rs": rust_results(library),
        "bindings/rust/libsab/src/choices.rs": rust_choices(library),
        "bindings/julia/src/names.jl": julia_names(library),
        reference: replace_region((root / reference).read_text(), reference_list(library)),
        **{
            f"docs/reference/c/{h.room}.rst": reference_page(h)
            for h in library.headers
            if has_page(h)
        },
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
    sys.exit(main())
