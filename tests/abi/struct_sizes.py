"""Passes structs of other sizes to every function that takes one: struct_sizes.py LIBRARY PROGRAMS
SCRATCH.

Structs begin with struct_size, so that they may grow (docs/internals/abi.md). PROGRAMS is a folder
with the C tests of LIBRARY, a shared one. They are run with a library loaded before it that is
generated from the headers: it has a function of the same name for each one with such a struct. This
function calls that of LIBRARY

- with a struct that is 8 bytes too short: it must be refused, and no byte of a result changed;
- with options that are 8 bytes longer, and not zero there: they must be refused;
- with a struct that is 8 bytes longer, as a later release may have it: it must be accepted, and no
  byte of a result changed that LIBRARY does not know, or that lies behind the struct.

Only the last of these calls is what the test sees. Each function must succeed in some test.
Prints "N passed, N failed".
"""

import os
import pathlib
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))
import abi_headers

# Their functions succeed in these, which are quick.
PROGRAMS = (
    "cpp/handles_test_17",
    "base_struct_sizes_test",
    "base_random_calls_test",
    "cache_test",
    "group_padding_test",
    "memory_guard_test",
    "memory_max_batch_test",
    "memory_test",
    "mixture_balanced_test",
    "sizes_arrow_test",
    "steps_test",
    "stream_mix_test",
)
# A result of one function, passed to another: what a later release has in it is ignored.
PASSED_ON = ("sab_batch",)
LEFT_OUT = ("torch",)  # rooms whose functions need LibTorch
ARRAYS = ("reports",)  # parameters with several structs, with their number in `count`

HEAD = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sab.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MORE 8      /* bytes by which a struct is longer */
#define BEHIND 16   /* bytes after it */
#define CANARY 0xA5

static const char *names[FUNCTIONS];
static unsigned char has_succeeded[FUNCTIONS];

static void broken(const char *function, const char *parameter, const char *rule) {
    fprintf(stderr, "%s: %s: %s\\n", function, parameter, rule);
    _Exit(99);
}

static int is_canary(const void *data, size_t size) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; ++i)
        if (bytes[i] != CANARY) return 0;
    return 1;
}

static void *find(const char *name, int number) {
    names[number] = name;
    return dlsym(RTLD_NEXT, name);
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("STRUCT_SIZES_SEEN");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    for (int i = 0; file != NULL && i < FUNCTIONS; ++i)
        if (has_succeeded[i]) fprintf(file, "%s\\n", names[i]);
    if (file != NULL) fclose(file);
}
"""


def sized(headers):
    """The structs that may grow, by name."""
    return {
        struct.name: struct
        for header in headers
        for struct in header.of(abi_headers.Struct)
        if struct.can_grow
    }


def first_size(struct):
    """C: the size of the struct in the release that first had it."""
    last = [field for field in struct.fields if abi_headers.since(field.documentation) is None][
        -1
    ].name
    end = f"offsetof({struct.name}, {last}) + sizeof((({struct.name} *)0)->{last})"
    return f"(({end} + 7) / 8 * 8)"


def copies(struct):
    """A type for longer copies of a struct, and a function that makes one."""
    name = struct.name
    return f"""
typedef struct {{
    {name} known;
    unsigned char more[MORE + BEHIND];
}} longer_{name};

static {name} *lengthen_{name}(longer_{name} *copy, const {name} *from, int tail) {{
    copy->known = *from;
    copy->known.struct_size = sizeof(*from) + MORE;
    memset(copy->more, tail, MORE);
    memset(copy->more + MORE, CANARY, BEHIND);
    return &copy->known;
}}

static {name} *shorten_{name}(longer_{name} *copy, const {name} *from) {{
    const size_t size = {first_size(struct)} - 8;
    memset(copy, CANARY, sizeof *copy);
    memcpy(copy, from, size);
    copy->known.struct_size = size;
    return &copy->known;
}}
"""


def wrapper_of_array(function, array, number):
    """The same for results that lie one behind the other: only longer ones."""
    arguments = ", ".join(
        "(void *)all" if each is array else each.name for each in function.signature.parameters
    )
    of = array.type.name
    return f"""
{abi_headers.declare_function(function.signature, function.name)} {{
    static {abi_headers.declare_function(function.signature, "(*real)")};
    if (real == NULL) *(void **)&real = find("{function.name}", {number});
    const size_t step = sizeof({of}) + MORE;
    unsigned char *all = malloc(count * step + 1);
    memset(all, CANARY, count * step + 1);
    for (size_t i = 0; i < count; ++i) {{
        memcpy(all + i * step, &{array.name}[i], sizeof({of}));
        memcpy(all + i * step, &step, sizeof step);
    }}
    const sab_status status = real({arguments});
    for (size_t i = 0; i < count; ++i) {{
        if (!is_canary(all + i * step + sizeof({of}), i + 1 == count ? MORE + 1 : MORE))
            broken("{function.name}", "{array.name}", "written behind a struct");
        memcpy(&{array.name}[i], all + i * step, sizeof({of}));
        {array.name}[i].struct_size = sizeof({of});
    }}
    free(all);
    if (status >= 0 && count > 1) has_succeeded[{number}] = 1;
    return status;
}}
"""


def wrapper(function, number, structs):
    """The function that stands before the library's."""
    parameters = function.signature.parameters
    array = next((each for each in parameters if each.name in ARRAYS), None)
    if array is not None:
        return wrapper_of_array(function, array, number)
    mine = [each for each in parameters if each.type.name in structs and each.name != "leaves"]
    if not mine:
        return ""
    lines = [
        "",
        f"{abi_headers.declare_function(function.signature, function.name)} {{",
        f"    static {abi_headers.declare_function(function.signature, '(*real)')};",
        f'    if (real == NULL) *(void **)&real = find("{function.name}", {number});',
    ]
    for each in mine:
        name, of = each.name, each.type.name
        lines += [
            f"    const int is_{name} = {name} != NULL && {name}->struct_size == sizeof({of});",
            f"    longer_{of} of_{name};",
            f"    sab_status short_{name} = SAB_E_ARGUMENT, set_{name} = SAB_E_ARGUMENT;",
        ]

    def call(**given):
        return f"real({', '.join(given.get(each.name, each.name) for each in parameters)})"

    for each in mine:
        name, of = each.name, each.type.name
        lines += [
            f"    if (is_{name}) {{",
            f"        shorten_{of}(&of_{name}, {name});",
            f"        const size_t size = of_{name}.known.struct_size;",
            f"        short_{name} = {call(**{name: f'&of_{name}.known'})};",
            f"        if (!is_canary((char *)&of_{name} + size, sizeof of_{name} - size))",
            f'            broken("{function.name}", "{name}", "written behind a short struct");',
        ]
        if each.type.is_const and of not in PASSED_ON:
            lines += [
                f"        lengthen_{of}(&of_{name}, {name}, CANARY);",
                f"        set_{name} = {call(**{name: f'&of_{name}.known'})};",
            ]
        lines.append("    }")
    given = {
        each.name: f"is_{each.name} ? lengthen_{each.type.name}(&of_{each.name}, {each.name}, "
        f"{0 if each.type.is_const else 'CANARY'}) : {each.name}"
        for each in mine
    }
    lines.append(f"    const sab_status status = {call(**given)};")
    for each in mine:
        name = each.name
        lines.append(f"    if (is_{name}) {{")
        tail = "0" if each.type.is_const else "CANARY"
        lines += [
            "        for (int i = 0; i < MORE + BEHIND; ++i)",
            f"            if (of_{name}.more[i] != (i < MORE ? {tail} : CANARY))",
            f'                broken("{function.name}", "{name}", "written behind the struct");',
        ]
        if not each.type.is_const:
            lines += [
                f"        of_{name}.known.struct_size = sizeof *{name};",
                f"        *{name} = of_{name}.known;",
            ]
        lines += [
            f"        if (status >= 0 && short_{name} != SAB_E_ARGUMENT)",
            f'            broken("{function.name}", "{name}", "a short struct is accepted");',
            f"        if (status >= 0 && set_{name} != SAB_E_ARGUMENT)",
            f'            broken("{function.name}", "{name}", "unknown options are accepted");',
            f"        if (status >= 0) has_succeeded[{number}] = 1;",
            "    }",
        ]
    return "\n".join([*lines, "    return status;", "}", ""])


def functions_with_structs(headers, structs):
    return [
        function
        for header in headers
        for function in header.of(abi_headers.Function)
        if any(each.type.name in structs for each in function.signature.parameters)
    ]


def build(headers, scratch):
    """Writes and compiles the library that is loaded first."""
    structs = sized(headers)
    functions = functions_with_structs(headers, structs)
    text = f"#define FUNCTIONS {len(functions)}\n" + HEAD
    text += "".join(map(copies, structs.values()))
    text += "".join(wrapper(each, i, structs) for i, each in enumerate(functions))
    source, library = scratch / "struct_sizes.c", scratch / "struct_sizes.so"
    source.write_text(text)
    flags = ["-std=gnu11", "-O1", "-w", "-fPIC", "-shared", f"-I{REPO / 'include'}"]
    subprocess.run(["cc", *flags, source, "-o", library, "-ldl"], check=True)
    return library


def main():
    library, programs, scratch = (pathlib.Path(each).resolve() for each in sys.argv[1:4])
    scratch.mkdir(parents=True, exist_ok=True)
    headers = abi_headers.read_headers(REPO / "include")
    seen = scratch / "seen"
    seen.write_text("")
    first = build(headers, scratch)
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "LD_PRELOAD": str(first),
        "STRUCT_SIZES_SEEN": str(seen),
    }
    passed, failed = 0, 0
    for name in PROGRAMS:
        ran = subprocess.run(
            [programs / name], env=environment, capture_output=True, text=True, check=False
        )
        passed += ran.returncode == 0
        failed += ran.returncode != 0
        if ran.returncode != 0:
            print(f"FAILED {name} ({ran.returncode})\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    structs = sized(headers)
    wanted = functions_with_structs(
        [header for header in headers if header.room not in LEFT_OUT], structs
    )
    lines = seen.read_text().split()
    missing = [each.name for each in wanted if each.name not in lines]
    if missing:
        failed += 1
        print("FAILED: succeed in no test:", *missing)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
