"""Checks the installed sab_abi.json: description.py PREFIX. Prints "N passed, N failed".

- To a C compiler with the headers, its types, layouts, constants and functions are the same.
- The numbers that examples have from it are right.
- Names of functions, and fields of structs, keep to the rules of docs/names.md.
- A program that has only this file and ctypes walks an epoch, and gets errors and callbacks.
"""

import ctypes
import json
import pathlib
import re
import sys
import tempfile

from checks import run, run_all

REPO = pathlib.Path(__file__).resolve().parents[2]
PREFIX = pathlib.Path(sys.argv[1])
INCLUDE = PREFIX / "include"
SCALARS = {
    "char": ctypes.c_char, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16, "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "void": None,
}  # fmt: skip


def described():
    return json.loads(next(PREFIX.rglob("sab_abi.json")).read_text())


def entries(kind):
    """(header, entry) of all headers."""
    return [(header, each) for header in described()["headers"] for each in header.get(kind, [])]


# ---- A C compiler's view ----


def declaration(typed, name):
    """The declaration of a name in C."""
    if "callback" in typed:
        return (
            f"{declaration(typed['callback']['result'], '')} (*{name})({listed(typed['callback'])})"
        )
    return f"{typed['type']} {name}" + (f"[{typed['extent']}]" if "extent" in typed else "")


def listed(signature):
    return ", ".join(declaration(each, "") for each in signature["parameters"]) or "void"


def assertions():
    for kind in ("constants", "types"):
        for _, each in entries(kind):
            if kind == "types":
                yield f"sizeof({each['name']}) == sizeof({each['type']})"
            for constant in each["constants"] if kind == "types" else [each]:
                yield f"{constant['name']} == {constant['value']}"
    for _, struct in entries("structs"):
        name = struct["name"]
        yield f"sizeof({name}) == {struct['size']}"
        yield f"_Alignof({name}) == {struct['alignment']}"
        for field in struct["fields"]:
            yield f"offsetof({name}, {field['name']}) == {field['offset']}"
            yield f"sizeof((({name} *)0)->{field['name']}) == {field['size']}"


def of_fields(struct):
    """A function in which each field of a struct is assigned to a variable of its type."""
    yield f"void of_{struct['name']}({struct['name']} *);"
    yield f"void of_{struct['name']}({struct['name']} *made) {{"
    for field in struct["fields"]:
        name = f"of_{field['name']}"
        if "extent" in field:
            yield f"    {field['type']} *{name} = made->{field['name']};"
        elif "callback" in field:
            yield f"    {declaration(field, name)} = made->{field['name']};"
        else:
            yield f"    {declaration(field, '*' + name)} = &made->{field['name']};"
        yield f"    (void){name};"
    yield "}"


def check_by_a_compiler(_):
    lines = [f'_Static_assert({each}, "");' for each in assertions()]
    assert len(lines) > 500, len(lines)
    for _, each in entries("functions"):
        pointer = f"(*f_{each['name']})({listed(each)})"
        lines.append(f"{declaration(each['result'], pointer)} = {each['name']};")
    for _, struct in entries("structs"):
        lines += of_fields(struct)
    foreign = [f"typedef struct {each['name']} {each['name']};" for _, each in entries("foreign")]
    includes = ["#include <stddef.h>", "#include <sab.h>"]
    source = "\n".join([*includes, *foreign, *lines, ""])
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "description.c")
        path.write_text(source)
        strict = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        run("cc", "-std=c11", *strict, f"-I{INCLUDE}", path)


def check_all_of_it(_):
    """Nothing that sab_cdef.h declares is missing."""
    declarations = next(PREFIX.rglob("sab_cdef.h")).read_text()
    for kind in ("functions", "structs", "callbacks", "handles", "types"):
        assert entries(kind)
        for header, each in entries(kind):
            assert each["name"] in declarations, each["name"]
            assert f"/* {header['name']}, {header['tier']} */" in declarations
    assert len(entries("structs")) == declarations.count("\n} sab_")
    ends = sum(line.endswith(");") for line in declarations.splitlines() if line[0] not in "t ")
    assert len(entries("functions")) == ends


def check_each_kind_of_knowledge(_):
    """Some that come from comments, one for each rule."""
    functions = {each["name"]: each for _, each in entries("functions")}
    callbacks = {each["name"]: each for _, each in entries("callbacks")}

    def parameter(function, name):
        return next(each for each in functions[function]["parameters"] if each["name"] == name)

    assert parameter("sab_sizes_new", "data")["count"] == "count"
    assert parameter("sab_sizes_new", "options")["nullable"]
    assert parameter("sab_sizes_new", "sizes")["direction"] == "out"
    assert "nullable" not in parameter("sab_plan_new", "options")
    assert parameter("sab_sampler_state_save", "state")["count"] == "capacity"
    assert parameter("sab_sampler_state_restore", "state")["count"] == "size"
    assert "count" not in parameter("sab_items_partition", "costs")  # a product
    assert parameter("sab_sizes_callback_new", "ctx")["context"]
    assert parameter("sab_sizes_callback_new", "size")["kept"] == "during the call"
    kept = parameter("sab_cost_callback_new", "fn")["kept"]
    assert kept == "until `release` is called; if that is NULL, until the handle is freed"
    assert parameter("sab_sizes_arrow_new", "array")["direction"] == "inout"
    fields = {
        (struct["name"], each["name"]): each
        for _, struct in entries("structs")
        for each in struct["fields"]
    }
    assert fields["sab_batch", "longest"]["count"] == "columns"
    assert "count" not in fields["sab_peaks_view", "features"]  # rows
    assert fields["sab_plan_options", "progress_ctx"]["context"]
    assert callbacks["sab_log_fn"]["thread"] == "any"
    assert callbacks["sab_progress_fn"]["thread"] == "calling"


def check_numbers_in_examples(_):
    """Such as `16 /* sab_budget */` and `8 /* sab_budget.limit */`."""
    structs = {each["name"]: each for _, each in entries("structs")}
    constants = {each["name"]: each["value"] for _, each in entries("constants")}
    constants |= {
        each["name"]: each["value"] for _, typed in entries("types") for each in typed["constants"]
    }
    sources = list((REPO / "examples/other").glob("*.*"))
    found = [
        each
        for path in sources
        for each in re.findall(r"(\d+) /\* (\w+)\.?(\w*) \*/", path.read_text())
    ]
    assert len(found) > 15, found
    for number, name, field in found:
        if field:
            offsets = {each["name"]: each["offset"] for each in structs[name]["fields"]}
            assert int(number) == offsets[field], f"{name}.{field} is at {offsets[field]}"
        else:
            value = constants[name] if name in constants else structs[name]["size"]
            assert int(number) == value, f"{name}: {value}"


# ---- Rules of docs/names.md ----

VERB_FIRST = {"sab_next_batch", "sab_next_block", "sab_collect_peak"}
VERBS = {
    "abandon", "add", "at", "begin", "check", "clear", "create", "draw", "end",
    "evaluate", "find", "flush", "free", "get", "locate", "mask", "merge", "new", "next", "open",
    "pad", "partition", "predict", "put", "release", "reset", "restore", "rewind", "run", "save",
    "seek", "set", "step", "subtract", "tell", "unpad", "verify", "write",
}  # fmt: skip


def check_names_of_functions(_):
    """Object, then verb; what returns a value is named after it. All functions of an object stand
    in one header."""
    places = {}
    for header, function in entries("functions"):
        name = function["name"]
        if name in VERB_FIRST or function["result"]["type"] not in ("sab_status", "void"):
            continue
        words = name.removeprefix("sab_").split("_")
        objects = ["_".join(words[:i]) for i, word in enumerate(words) if i and word in VERBS]
        assert objects, f"{name} has no verb after its object"
        place = places.setdefault(objects[0], header["name"])
        assert place == header["name"], f"{name} stands in {header['name']}, others in {place}"


def check_rules_of_structs(_):
    structs = {each["name"]: each for _, each in entries("structs")}
    for name, struct in structs.items():
        fields = {each["name"]: each.get("type", "") for each in struct["fields"]}
        for field, kind in fields.items():
            where = f"{name}.{field}"
            assert kind not in structs, f"{where} is a struct by value"
            assert kind not in ("bool", "_Bool", "char", "uint8_t", "int"), f"{where} is {kind}"
            if field != "budget_count":
                is_budget = "sab_budget" in kind
                assert ("budget" in field) == is_budget, f"{where}: a number is a limit"
            is_twin = name.endswith("_options") and kind in ("double", "uint64_t", "int64_t")
            assert not (is_twin and f"{field}s" in fields), f"{where}: there is {field}s"
        for each in struct["fields"]:
            assert each.get("extent") is None or each["name"] == "reserved", (name, each["name"])
    for _, function in entries("functions"):
        for each in function["parameters"]:
            assert each.get("type") != "sab_progress_fn", (
                f"{function['name']}: progress is an option"
            )


# ---- A program with this file alone ----


class Library:
    """libsab as sab_abi.json describes it: functions, structs and constants are attributes."""

    def __init__(self, path):
        self.loaded, self.made, self.described = ctypes.CDLL(path), dict(SCALARS), {}
        for kind in ("types", "handles", "foreign", "callbacks", "structs"):
            self.described |= {each["name"]: (kind, each) for _, each in entries(kind)}
        for _, struct in entries("structs"):
            setattr(self, struct["name"], self.maker(struct))
        for _, each in entries("constants"):
            setattr(self, each["name"], each["value"])
        for constant in (each for _, typed in entries("types") for each in typed["constants"]):
            setattr(self, constant["name"], constant["value"])
        for _, each in entries("functions"):
            setattr(self, each["name"], self.function(each))

    def named(self, name):
        """The type of a name, which is made when it is first used."""
        if name not in self.made:
            kind, described = self.described[name]
            makers = {"types": self.type, "callbacks": self.callback, "structs": self.struct}
            self.made[name] = makers[kind](described) if kind in makers else None
        return self.made[name]

    def type(self, described):
        if "callback" in described:
            return self.callback(described["callback"])
        words = described["type"].replace("const", "").replace(" ", "")
        stars, name = words.count("*"), words.rstrip("*")
        made = self.named(name)
        if stars and made in (None, ctypes.c_char):
            made, stars = ctypes.c_char_p if made else ctypes.c_void_p, stars - 1
        for _ in range(stars):
            made = ctypes.POINTER(made)
        return made * described["extent"] if "extent" in described else made

    def callback(self, described):
        parameters = [self.type(each) for each in described["parameters"]]
        return ctypes.CFUNCTYPE(self.type(described["result"]), *parameters)

    def struct(self, described):
        fields = [(each["name"], self.type(each)) for each in described["fields"]]
        made = type(described["name"], (ctypes.Structure,), {"_fields_": fields})
        assert ctypes.sizeof(made) == described["size"], described["name"]
        for each in described["fields"]:
            assert getattr(made, each["name"]).offset == each["offset"], (made, each["name"])
        return made

    def maker(self, described):
        """A function that makes a struct, with its size where it has that."""
        made = self.named(described["name"])
        size = {"struct_size": described["size"]} if described["has_struct_size"] else {}
        return lambda **fields: made(**size, **fields)

    def function(self, described, is_checked=True):
        called = getattr(self.loaded, described["name"])
        called.argtypes = [self.type(each) for each in described["parameters"]]
        called.restype = self.type(described["result"])
        is_checked = is_checked and described["result"].get("type") == "sab_status"
        return self.checked(called) if is_checked else called

    def checked(self, called):
        def call(*arguments):
            status = called(*arguments)
            if status < 0:
                raise RuntimeError(f"{status}: {self.sab_last_error_message().decode()}")
            return status

        return call

    def new(self, constructor, *arguments):
        handle = ctypes.c_void_p()
        getattr(self, constructor)(*arguments, handle)
        return handle


def an_epoch(sab, lengths):
    """The batches of an epoch of at most 64 padded tokens each."""
    data = (ctypes.c_int32 * len(lengths))(*lengths)
    sizes = sab.new("sab_sizes_new", data, len(lengths), sab.SAB_INT32, None)
    options, budget = sab.sab_plan_options(), sab.sab_budget(limit=64)
    options.budgets, options.budget_count = ctypes.pointer(budget), 1
    plan = sab.new("sab_plan_new", sizes, options)
    sampler = sab.new("sab_bucket_sampler_new", plan, None)
    batch, batches = sab.sab_batch(), []
    while sab.sab_next_batch(sampler, batch) == sab.SAB_OK:
        batches.append(batch.indices[: batch.count])
    sab.sab_sampler_free(sampler)
    sab.sab_plan_free(plan)
    sab.sab_sizes_free(sizes)
    return batches


def check_an_epoch(library):
    lengths = [12, 7, 30, 8, 9, 31, 7, 12, 29, 8]
    batches = an_epoch(Library(library), lengths)
    assert sorted(sum(batches, [])) == list(range(len(lengths))), batches
    assert all(len(each) * max(lengths[i] for i in each) <= 64 for each in batches), batches


def check_errors_and_callbacks(library):
    sab = Library(library)
    seen = []

    @sab.named("sab_size_fn")
    def size(_, index, result):
        seen.append(index)
        result[0] = 3 + index
        return 42 if index == 4 else 0

    sizes = sab.new("sab_sizes_callback_new", 3, size, None, None)
    assert sab.sab_sizes_count(sizes) == 3 and seen == [0, 1, 2]
    sab.sab_sizes_free(sizes)
    try:
        sab.new("sab_sizes_callback_new", 9, size, None, None)
    except RuntimeError as error:
        assert str(error).startswith(f"{sab.SAB_E_CALLBACK}: ") and "42" in str(error), error
    else:
        raise AssertionError("a callback that fails is not seen")
    assert seen[-1] == 4


def check_handles(library):
    """Every function refuses NULL and a handle of another kind."""
    sab = Library(library)
    kinds = {each["name"] for _, each in entries("handles")}
    handles = {"sab_sizes": sab.new("sab_sizes_new", None, 0, sab.SAB_INT32, None)}
    handles["sab_peaks"] = sab.new("sab_peaks_new")
    calls = 0
    for _, function in entries("functions"):
        named = [each.get("type", "").removeprefix("const ") for each in function["parameters"]]
        own = [each.removesuffix(" *") for each in named]
        if not kinds.intersection(own):
            continue
        another = handles["sab_peaks" if "sab_sizes" in own else "sab_sizes"]
        for given in (None, another):
            called = sab.function(function, is_checked=False)
            made = [each() for each in called.argtypes]  # zeros, NULL
            called.argtypes = None
            arguments = [
                given if name in kinds else value for name, value in zip(own, made, strict=True)
            ]
            status = called(*arguments)
            calls += 1
            if function["result"]["type"] == "sab_status":
                assert status == sab.SAB_E_ARGUMENT, (function["name"], given, status)
                assert sab.sab_last_error_argument(), function["name"]
    assert calls > 250, calls
    for name, handle in handles.items():
        getattr(sab, f"{name}_free")(handle)


def main():
    checks = [
        check_by_a_compiler,
        check_all_of_it,
        check_each_kind_of_knowledge,
        check_numbers_in_examples,
        check_names_of_functions,
        check_rules_of_structs,
        check_an_epoch,
        check_errors_and_callbacks,
        check_handles,
    ]
    return run_all(checks, str(next(PREFIX.rglob("libsab.so"))))


if __name__ == "__main__":
    sys.exit(main())
