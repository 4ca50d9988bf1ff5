"""Checks the prose of the documentation: tests/prose.py [FILE...]

No sentence over 30 words, no line over 100 characters outside tables and links, no forbidden
phrase, no dead link, and README.md within its length. Of code, only the text is checked that users
read: comments that document declarations, and docstrings. To add a kind of file, add a function to
READERS that gives its paragraphs, and a pattern to FILES.
"""

import ast
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
FILES = [
    "README.md",
    "docs/**/*.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "src/*/README.md",
    "examples/README.md",
    "bindings/*/README.md",
    "bindings/rust/*/README.md",
    "include/sab.h",
    "include/sab.hpp",
    "include/sab/*",
    "bindings/python/sab/*.py",
    "bindings/rust/libsab/src/**/*.rs",
    "bindings/julia/src/*.jl",
]
LEFT_OUT = ("bindings/julia/src/raw.jl",)  # generated
LONGEST_SENTENCE, LONGEST_LINE = 30, 100  # words, characters
README_LINES, README_WORDS = 150, 900
FORBIDDEN = [
    r"cost(s|ing)? nothing to speak of",
    r"let(s)? (it |them )?be\b",
    r"lets? go of",
    r"nobody",
    r"goes on at exactly",
    r"put(s)? differently",
    r"for orientation",
    r"brings? .{1,30} through",
    r"takes? back",
    r"(is|are|to be) heard",
    r"maybe none",
    r"will not do\b",
    r"as they come",
    r"and the like\b",
    r"such and such",
    r"of (its|their|one's) own accord",
    r"hears? of",
    r"knows? nothing",
    r"(simply|just|easily|obviously|of course|basically|actually|very unique)\b",
    r"blazing",
    r"seamless(ly)?",
    r"leverag(e|es|ing)",
    r"utili[sz]e",
    r"world-class|cutting-edge|state-of-the-art",
]

Paragraph = tuple[int, str]  # the number of its first line, its text


def read_markdown(lines: list[str]) -> Iterator[Paragraph]:
    """Paragraphs and items of lists; no code, comments, tables or headings."""
    start, text, end = 0, "", ""
    for number, line in enumerate([*lines, ""], 1):
        if end:
            end = "" if line.strip() == end or (end == "-->" and line.endswith(end)) else end
            continue
        stripped = line.strip()
        if stripped.startswith("```"):
            end = "```"
        elif stripped.startswith("<!--") and "-->" not in stripped:
            end = "-->"
        is_text = not re.match(r"$|#|\||<|```|!\[|:::|    \S", stripped if text else line.rstrip())
        if text and (not is_text or re.match(r"([-*]|\d+\.) ", stripped)):
            yield start, text
            text = ""
        if is_text:
            start = start if text else number
            text += " " + re.sub(r"^([-*]|\d+\.) ", "", stripped)


def long_lines(lines: list[str]) -> Iterator[int]:
    """Numbers of lines of prose that are too long."""
    in_code = False
    for number, line in enumerate(lines, 1):
        if line.startswith("```"):
            in_code = not in_code
        elif (
            len(line) > LONGEST_LINE and not in_code and not re.search(r"^\||\]\(|https?://", line)
        ):
            yield number


def read_header(lines: list[str]) -> Iterator[Paragraph]:
    """Comments that document C and C++. Each comment and each @command in one is an item."""
    text: list[str] = []
    in_comment = False
    for line in lines:
        found = re.search(r"/\*\*<?|///", line)
        if not in_comment and found:
            part, in_comment = f"- {line[found.end() :].lstrip()}", found[0] != "///"
            if found[0] == "///" and text and text[-1]:
                part = part[2:]
        elif in_comment:
            part = re.sub(r"^\s*\*(?!/) ?", "", line)
        else:
            part = ""
        if "*/" in part:
            part, in_comment = part.split("*/")[0], False
        text.append(re.sub(r"^ {0,3}@(\w+) +", "- ", part))
    return read_markdown(text)


def read_python(lines: list[str]) -> Iterator[Paragraph]:
    """Docstrings. In the sections of arguments and the like, each entry is an item."""
    text = [""] * len(lines)
    for node in ast.walk(ast.parse("\n".join(lines))):
        has_docstring = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if not isinstance(node, has_docstring) or ast.get_docstring(node) is None:
            continue
        place, in_section = node.body[0], False
        for i in range(place.lineno - 1, place.end_lineno or 0):
            line = re.sub(r'^(r?""")|"""$', "", lines[i][place.col_offset :])
            in_section = bool(re.match(r"[A-Z]\w+:$", line)) or (
                in_section and not re.match(r"\S", line)
            )
            text[i] = re.sub(r"^    (?=\w)", "- ", line) if in_section else line
            text[i] = "" if re.match(r" *(>>>|\.\.\. )", line) else text[i]
    return read_markdown(text)


def read_rust(lines: list[str]) -> Iterator[Paragraph]:
    found = [re.match(r"\s*//[/!] ?(.*)", line) for line in lines]
    return read_markdown([each[1] if each else "" for each in found])


def read_julia(lines: list[str]) -> Iterator[Paragraph]:
    """Docstrings that begin at the first column."""
    text: list[str] = []
    in_docstring = False
    for line in lines:
        is_end = line.startswith('"""')
        text.append(line if in_docstring and not is_end else "")
        in_docstring = in_docstring != is_end
    return read_markdown(text)


READERS: dict[str, Callable[[list[str]], Iterator[Paragraph]]] = {
    ".md": read_markdown,
    ".h": read_header,
    ".hpp": read_header,
    ".py": read_python,
    ".rs": read_rust,
    ".jl": read_julia,
}


def dead_links(path: pathlib.Path) -> Iterator[str]:
    """Links to files that do not exist."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in target and not (path.parent / target).exists():
            yield target


def sentences(text: str) -> list[str]:
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)  # links are their text
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\b(e\.g|i\.e|vs|etc|No)\.", r"\1", text)
    # lists of statuses or errors, each with its condition, are separated by semicolons
    return re.split(r"(?<=[.!?:])[*)\"]*\s+|;\s+(?=SAB_|\[?code)", text)


def check(path: pathlib.Path) -> Iterator[str]:
    name = path.relative_to(REPOSITORY)
    lines = path.read_text().splitlines()
    for number in long_lines(lines) if path.suffix == ".md" else ():  # formatters know the others
        yield f"{name}:{number}: {len(lines[number - 1])} characters: at most {LONGEST_LINE}"
    for target in dead_links(path) if path.suffix == ".md" else ():
        yield f"{name}: link to {target}: no such file"
    for number, text in READERS[path.suffix](lines):
        for sentence in sentences(text):
            words = sum(1 for word in sentence.split() if re.search(r"\w", word))
            if words > LONGEST_SENTENCE:
                yield (
                    f"{name}:{number}: a sentence of {words} words: at most {LONGEST_SENTENCE}: "
                    f"{sentence[:60]}..."
                )
        for phrase in FORBIDDEN:
            if found := re.search(rf"\b{phrase}", text, re.IGNORECASE):
                yield f"{name}:{number}: {found[0]!r}: write it plainly"


def check_readme() -> Iterator[str]:
    text = (REPOSITORY / "README.md").read_text()
    for count, limit, what in (
        (len(text.splitlines()), README_LINES, "lines"),
        (len(text.split()), README_WORDS, "words"),
    ):
        if count > limit:
            yield f"README.md: {count} {what}: at most {limit}"


def main() -> bool:
    paths = [pathlib.Path(name).resolve() for name in sys.argv[1:]]
    if not paths:
        paths = sorted({path for pattern in FILES for path in REPOSITORY.glob(pattern)})
    failures = list(check_readme())
    for path in paths:
        name = str(path.relative_to(REPOSITORY))
        if not name.startswith(LEFT_OUT) and "generated" not in path.parts:
            failures += check(path)
    print("\n".join(failures), end="\n" if failures else "")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
