"""Each name in docs/glossary.md exists in its language."""

import inspect
import pathlib
import re

import pytest

import sab

ROOT = pathlib.Path(__file__).resolve().parents[2]
LANGUAGES = ("C", "C++", "Python", "Rust", "Julia")
NO_NAME = "\N{EN DASH}"


def rows():
    for line in (ROOT / "docs/glossary.md").read_text().splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| term ")):
            term, *names = (cell.strip() for cell in line.strip("|").split("|"))
            yield term, dict(zip(LANGUAGES, names, strict=True))


def text_of(*patterns, leave_out=()):
    files = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    assert files
    return "\n".join(path.read_text() for path in files if path.name not in leave_out)


TEXTS = {
    "C": text_of("include/sab/*.h"),
    "C++": text_of("include/sab.hpp"),
    "Rust": text_of("bindings/rust/libsab/src/**/*.rs"),
    "Julia": text_of("bindings/julia/src/*.jl", leave_out=("raw.jl",)),
}


def has_word(text, word):
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def stands_in_text(language, name):
    """A word of the sources; `type.field` of C is a word inside that struct."""
    text = TEXTS[language]
    if "." in name:
        struct, name = name.split(".")
        body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", text, re.DOTALL)
        text = body[1] if body else ""
    return all(has_word(text, word) for word in name.split("::"))


def is_in_python(name):
    """`sab.name.attribute`, or `sab.function(keyword=)`."""
    path, keyword = re.fullmatch(r"sab((?:\.\w+)+)(?:\((\w+)=\))?", name).groups()
    found = sab
    for part in path.split(".")[1:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return keyword is None or keyword in inspect.signature(found).parameters


def exists(language, name):
    return is_in_python(name) if language == "Python" else stands_in_text(language, name)


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_of_the_glossary_exist(language):
    named = [names[language] for _, names in rows() if names[language] != NO_NAME]
    assert len(named) > 15
    assert [name for name in named if not exists(language, name.strip("`"))] == []


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("C", "sab_plan_invented"),
        ("C", "sab_plan_options.invented"),
        ("C", "sab_invented.budget"),
        ("C++", "Plan::invented"),
        ("Python", "sab.Invented"),
        ("Python", "sab.Plan.invented"),
        ("Python", "sab.plan(invented=)"),
        ("Rust", "BucketRule::Invented"),
        ("Julia", "invented!"),
    ],
)
def test_an_invented_name_is_found(language, name):
    assert not exists(language, name)


def test_terms_with_a_name_are_defined_once():
    terms = [term for term, _ in rows()]
    assert len(terms) == len(set(terms))
