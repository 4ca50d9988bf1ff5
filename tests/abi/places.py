"""Checks that every constructor of a sampler is wrapped, tested and documented everywhere.

The constructors are the functions `sab_..._sampler_new` of the headers, the places those that
CONTRIBUTING.md lists under "How to add a sampler". Prints "N passed, N failed".
"""

import ast
import functools
import pathlib
import re
import sys

from checks import run_all

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tools"))
import abi_headers

# Place -> files, and what must stand in one of them for the constructor NAME, which is
# sab_KIND_sampler_new.
PLACES = {
    "table of the C tests": ("tests/c/constructors.h", r'\bNAME\((?s:.*)\{"KIND", make_KIND, '),
    "golden vectors": ("tests/golden/*.txt", r"(?m)^sampler KIND\b"),
    "Python": ("bindings/python/sab/**/*.py", r"\blib\.NAME\b"),
    "Rust": ("bindings/rust/libsab/src/**/*.rs", r"\bsys::NAME\b"),
    "constructor of Rust": ("bindings/rust/libsab/src/*.rs", r"\bpub fn KIND\("),
    "golden vectors of Rust": ("bindings/rust/libsab/*/*.rs", r'[(\[]"KIND"[],]'),
    "Julia": ("bindings/julia/src/*.jl", r"\bRaw\.NAME\("),
}
# A constructor with arguments of its own has C tests of its own.
C_TESTS = ("tests/c/*_test.c", r"\bNAME\(")
COMMON_ARGUMENTS = {"plan", "options", "sampler"}
# Where a constructor need not stand, and why.
OF_A_PEER = "its order is that of another library, and is tested against that library's"
EXCEPTIONS = {
    ("sab_bagua_sampler_new", "golden vectors"): OF_A_PEER,
    (
        "sab_costliest_sampler_new",
        "golden vectors",
    ): "its batches follow from the plan; C tests compare them with the batches of all epochs",
    (
        "sab_bionemo_size_aware_stream_sampler_new",
        "golden vectors",
    ): "its order is that of the caller",
}
EXCEPTIONS |= {
    (name, "golden vectors of Rust"): why
    for (name, place), why in EXCEPTIONS.items()
    if place == "golden vectors"
}


@functools.cache
def text_of(pattern: str) -> str:
    paths = sorted(REPO.glob(pattern))
    assert paths, f"no file is called {pattern}"
    return "\n".join(path.read_text() for path in paths)


@functools.cache
def constructors() -> dict[str, set[str]]:
    """The constructors of samplers, and their parameters."""
    found = {
        function.name: {parameter.name for parameter in function.signature.parameters}
        for header in abi_headers.read_headers(REPO / "include")
        for function in header.of(abi_headers.Function)
        if function.name.endswith("_sampler_new")
    }
    assert len(found) > 8, found
    return found


def filled_in(words: str, name: str) -> str:
    kind = name.removeprefix("sab_").removesuffix("_sampler_new")
    return words.replace("NAME", name).replace("KIND", kind)


def places_of(parameters: set[str]) -> dict[str, tuple[str, str]]:
    return PLACES if parameters <= COMMON_ARGUMENTS else {**PLACES, "C tests": C_TESTS}


def missing(functions: dict[str, set[str]]) -> set[tuple[str, str]]:
    """(constructor, place) where it does not stand."""
    return {
        (name, place)
        for name, parameters in functions.items()
        for place, (pattern, words) in places_of(parameters).items()
        if not re.search(filled_in(words, name), text_of(pattern))
    }


def check_places() -> None:
    found = missing(constructors())
    unexpected = sorted(found - EXCEPTIONS.keys())
    assert not unexpected, unexpected
    needless = sorted(EXCEPTIONS.keys() - found)
    assert not needless, f"exceptions that are none: {needless}"


def wrappers() -> dict[str, str]:
    """The samplers of Python that call a constructor, and their modules."""
    package = REPO / "bindings/python/sab"
    found = {}
    for path in package.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ClassDef) or "Sampler" not in " ".join(
                map(ast.unparse, node.bases)
            ):
                continue
            if re.search(r"\blib\.sab_\w+_sampler_new\b", ast.unparse(node)):
                found[node.name] = "sab." + ".".join(path.relative_to(package).parts)[:-3]
    assert len(found) > 8, found
    return found


def check_documentation() -> None:
    """Each class is exported by its module, in the reference and in which.md."""
    reference = (REPO / "docs/reference/python.rst").read_text()
    described = " ".join(re.findall(r"^\.\. public:: (.*)$", reference, re.MULTILINE)).split()
    guide = (REPO / "docs/guide/which.md").read_text()
    for name, module in wrappers().items():
        if f".. automodule:: {module}\n" in reference:
            continue
        path = REPO / "bindings/python" / (module.replace(".", "/") + ".py")
        exported = re.search(r"^__all__ = \[(.*?)\]", path.read_text(), re.DOTALL | re.MULTILINE)
        assert exported and f'"{name}"' in exported[1], f"{name} is not in __all__ of {module}"
        assert module.removeprefix("sab.") in described, f"{module} is not in python.rst"
        assert re.search(rf"\b{name}\b", guide), f"{name} is not in which.md"


def check_kinds() -> None:
    """States name a sampler by its constructor."""
    sources = text_of("src/**/*.cpp") + text_of("src/**/*.h")
    named = set(re.findall(r'\b(?:kind_of|need_kind)\((?:sampler, )?"(\w+)"\)', sources))
    assert named == set(constructors()), named ^ set(constructors())


def check_a_new_constructor_is_found() -> None:
    """One that stands nowhere is missing everywhere."""
    assert len(missing({"sab_none_sampler_new": {"plan", "sampler"}})) == len(PLACES)
    assert len(missing({"sab_none_sampler_new": {"plan", "count"}})) == len(PLACES) + 1


if __name__ == "__main__":
    sys.exit(
        run_all([check_places, check_documentation, check_kinds, check_a_new_constructor_is_found])
    )
