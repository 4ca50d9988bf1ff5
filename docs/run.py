"""Runs the code of the documentation: docs/run.py [--write] [PART OF A NAME ...]

The pages are README.md, those in docs/, and the READMEs of examples/ and of two bindings. Blocks of
one language on a page are one program, in the order of the page. These comments belong to it:

    <!-- python ... -->            code that readers do not need, such as data for an example
    <!-- needs: NAME, ... -->      commands and modules without which the page's programs cannot run
    <!-- same as: FILE [PART] -->  the next block must equal a file, or what stands in it between
                                   the line with [PART] and the next with [end]; the file is run
    <!-- not run: REASON -->       the next block is not run

A block `text` is what the code before it prints, and is compared with that. After the comment
`<!-- figures vary -->` numbers are not compared. --write changes these blocks, and those with
`same as`, in the pages.

The first lines of a file can say `needs: NAME, ...`, `flags: ...` for the compiler or Python, and
`arguments: ...` for the program. A program whose needs are missing fails; with SAB_DOCS_PARTIAL=1
in the environment it is skipped. Programs run in a folder of their own, with the commands of this
Python's environment, and must end with 0. PKG_CONFIG_PATH, LD_LIBRARY_PATH and SAB_LIBRARY must
lead to libsab, SAB_TORCH_LIBRARY to its LibTorch component. For programs in Python and bash,
SAB_PYTHON_TORCH_LIBRARY leads to the component for Python's torch.
"""

import argparse
import concurrent.futures
import dataclasses
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
PAGES = (
    "README.md",
    "docs/**/*.md",
    "examples/README.md",
    "bindings/python/README.md",
    "bindings/julia/README.md",
)
MARK = "\x1e"  # printed around code whose output is shown
COMPILE_C = "cc -std=c11 -Wall -Werror -o program {source} $(pkg-config --cflags --libs sab)"
COMPILE_CPP = (
    "$CMAKE_CXX_COMPILER_LAUNCHER c++ -std=c++17 -Wall -Werror -c {source} -o program.o "
    "$(pkg-config --cflags sab) && c++ program.o -o program $(pkg-config --libs sab)"
)
JULIA = "JULIA_DEPOT_PATH=$PWD JULIA_LOAD_PATH=@:@stdlib julia --startup-file=no"


@dataclasses.dataclass(frozen=True)
class Language:
    suffix: str
    tool: str
    command: str
    mark: str = ""  # a line that prints MARK; without it all of the output is compared


LANGUAGES = {
    "python": Language(
        ".py", "python3", "{python} {flags} {source}", rf"print('{MARK}', flush=True)"
    ),
    "bash": Language(".sh", "bash", "bash -eu {source}", f"echo '{MARK}'"),
    "c": Language(".c", "cc", COMPILE_C + " {flags} && ./program"),
    "cpp": Language(".cpp", "c++", COMPILE_CPP + " {flags} && ./program"),
    "rust": Language(
        ".rs",
        "cargo",
        "cargo run --quiet --locked --manifest-path {crate}/Cargo.toml --bin {stem} -- {arguments}",
    ),
    "julia": Language(
        ".jl", "julia", JULIA + " --project={repository}/bindings/julia {source} {arguments}"
    ),
    "lua": Language(".lua", "luajit", "cd {folder} && luajit {source}"),
    "javascript": Language(".mjs", "npm", "cd {folder} && npm ci --silent && node {source}"),
}
BY_SUFFIX = {language.suffix: language for language in LANGUAGES.values()}
FENCE = re.compile(r"^(`{3,}|~{3,})\s*(\S*)(.*)$")
COMMENT = re.compile(r"^<!-- (same as|not run|needs): (.*) -->$|^<!-- (figures vary) -->$")


@dataclasses.dataclass
class Output:
    """A block `text` of a page."""

    page: pathlib.Path
    first: int  # lines of the page, between the fences
    last: int
    figures_vary: bool
    part: int | None  # the number of the marked part of the output; None: all of it


@dataclasses.dataclass
class Program:
    name: str
    language: Language
    needs: list[str] = dataclasses.field(default_factory=list)
    lines: list[str] = dataclasses.field(default_factory=list)  # none: the program is a file
    marked: int = 0
    outputs: list[Output] = dataclasses.field(default_factory=list)

    def put(self, number, lines):
        """Line numbers are those of the page, so that messages lead there."""
        self.lines += [""] * (number - len(self.lines)) + lines

    def mark(self, number):
        if not self.lines[number:] or not self.lines[number]:
            self.put(number, [])
            self.lines[number : number + 1] = [self.language.mark]


def part_of(argument):
    """The text of a file, or of a part of it."""
    name, _, part = argument.partition(" ")
    text = (REPOSITORY / name).read_text()
    if part:
        pattern = rf"^.*\[{re.escape(part)}\].*\n((?:.*\n)*?)^.*\[end\]"
        text = re.search(pattern, text, re.M)[1]
        text = textwrap.dedent(text)
    return text.strip("\n").splitlines()


class Page:
    """Reads a page into programs and complaints."""

    def __init__(self, path, programs, complaints, write):
        self.path, self.programs, self.complaints = path, programs, complaints
        self.name = str(path.relative_to(REPOSITORY))
        self.lines = path.read_text().splitlines()
        self.write = write
        self.needs, self.said, self.before = [], {}, None
        number = 0
        while number < len(self.lines):
            number = self.read(number) + 1

    def complain(self, number, text):
        self.complaints.append(f"{self.name}:{number + 1}: {text}")

    def find(self, line, number):
        end = number + 1
        while end < len(self.lines) and self.lines[end] != line:
            end += 1
        return end

    def read(self, number):
        """Takes the comment or block that begins at a line, and gives its last line."""
        line = self.lines[number]
        if comment := COMMENT.match(line):
            if comment[1] == "needs":
                self.needs = re.findall(r"[\w-]+", comment[2])
            else:
                self.said[comment[1] or comment[3]] = comment[2] or ""
        elif line.startswith("<!-- ") and line[5:] in LANGUAGES:
            end = self.find("-->", number)
            self.program(line[5:]).put(number + 1, self.lines[number + 1 : end])
            return end
        elif fence := FENCE.match(line):
            end = self.find(fence[1], number)
            end = self.block(fence[2], number, end)
            self.said = {}
            return end
        elif re.match(r"^\s+(`{3}|~{3})", line):
            self.complain(number, "a block inside a list or quotation is not run: unindent it")
        return number

    def program(self, language):
        key = f"{self.name} ({language})"
        program = self.programs.setdefault(key, Program(key, LANGUAGES[language]))
        program.needs = self.needs
        return program

    def block(self, language, number, end):
        if "same as" in self.said:
            name = self.said["same as"].split()[0]
            text = part_of(self.said["same as"])
            if self.write:
                self.lines[number + 1 : end] = text
                self.path.write_text("\n".join(self.lines) + "\n")
                end = number + 1 + len(text)
            elif text != self.lines[number + 1 : end]:
                self.complain(number, f"differs from {self.said['same as']}: docs/run.py --write")
            suffix = BY_SUFFIX.get(pathlib.Path(name).suffix)
            if suffix and "not run" not in self.said:
                program = self.programs.setdefault(name, Program(name, suffix))
                self.before = program, None
        elif "not run" in self.said or language.startswith("{"):  # "{...}": Sphinx reads it
            self.before = None
        elif language == "text":
            self.output(number, end)
        elif language in LANGUAGES:
            program = self.program(language)
            program.put(number + 1, self.lines[number + 1 : end])
            self.before = program, number
        else:
            self.complain(number, f"nothing runs a block of {language or 'no language'}")
        return end

    def output(self, number, end):
        if self.before is None:
            self.complain(number, "output without a program")
            return
        program, start = self.before
        part = None
        if start is not None and program.language.mark:
            part = program.marked
            program.marked += 1
            program.mark(start)
            program.put(number, [program.language.mark])
        program.outputs.append(
            Output(self.path, number + 1, end, "figures vary" in self.said, part)
        )


def header(path):
    """What the first lines of a file say: (needed names, flags for the compiler, arguments)."""
    first = path.read_text().splitlines()[:6]
    said = {
        key: " ".join(line.split(f"{key}:")[1].strip() for line in first if f"{key}:" in line)
        for key in ("needs", "flags", "arguments")
    }
    return re.findall(r"[\w-]+", said["needs"]), said["flags"], said["arguments"]


def is_there(name):
    return shutil.which(name) is not None or importlib.util.find_spec(name) is not None


def place(program, folder):
    """Writes a page's program to a folder; (its path, its crate)"""
    if not program.lines:
        source = REPOSITORY / program.name
        crates = (each for each in source.parents if (each / "Cargo.toml").exists())
        return source, next(crates, folder)
    source = folder / (re.sub(r"\W+", "_", program.name) + program.language.suffix)
    if program.language.suffix == ".rs":
        for name in ("Cargo.toml", "Cargo.lock"):
            text = (REPOSITORY / "docs/code/rust" / name).read_text()
            (folder / name).write_text(text.replace("../../..", str(REPOSITORY)))
        source = folder / "src/bin" / source.name
        source.parent.mkdir(parents=True)
    source.write_text("\n".join(program.lines) + "\n")
    return source, folder


def run(program):
    """(exit status, seconds, its output, its errors)"""
    environment = dict(
        os.environ,
        REPOSITORY=str(REPOSITORY),
        OMP_NUM_THREADS="1",
        COLUMNS="100",
    )
    if program.language.suffix in (".py", ".sh") and "SAB_PYTHON_TORCH_LIBRARY" in os.environ:
        environment["SAB_TORCH_LIBRARY"] = os.environ["SAB_PYTHON_TORCH_LIBRARY"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, crate = place(program, folder)
        _, flags, arguments = header(source) if not program.lines else ([], "", "")
        command = program.language.command.format(
            source=source,
            folder=source.parent,
            crate=crate,
            stem=crate.name if source.name == "main.rs" else source.stem,
            flags=flags,
            arguments=arguments,
            python=sys.executable,
            repository=REPOSITORY,
        )
        start = time.monotonic()
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                check=False,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=1200,
            )
        except subprocess.TimeoutExpired:
            return 1, time.monotonic() - start, "", "ran longer than 20 minutes"
    return done.returncode, time.monotonic() - start, done.stdout, done.stderr


def without_figures(lines):
    """Words of a text; its numbers may have another sign or an exponent, its columns may be wider
    or narrower, too."""
    return re.sub(r"[-+]?[0-9][0-9,.]*(e[-+]?[0-9]+)?|─+|\s+", " ", " ".join(lines)).split()


def compare(program, stdout, changes):
    """Complaints about blocks that are not what a program printed; or, where changes is a list,
    the lines to be changed."""
    parts = stdout.split(f"{MARK}\n")[1::2]
    complaints = []
    for output in program.outputs:
        printed = stdout.replace(f"{MARK}\n", "") if output.part is None else parts[output.part]
        new = [line.rstrip() for line in printed.strip("\n").splitlines()]
        old = output.page.read_text().splitlines()[output.first : output.last]
        if changes is not None:
            changes.append((output, new))
        elif without_figures(new) != without_figures(old) if output.figures_vary else new != old:
            name = output.page.relative_to(REPOSITORY)
            complaints.append(
                f"{name}:{output.first}: not what the code prints: docs/run.py --write\n"
                + "\n".join(new)
            )
    return complaints


def write_outputs(changes):
    """From the last of a page to its first, so that line numbers stay right."""
    for output, new in sorted(changes, key=lambda change: -change[0].first):
        lines = output.page.read_text().splitlines()
        lines[output.first : output.last] = new
        output.page.write_text("\n".join(lines) + "\n")


def choose(programs, parts):
    """Programs that can run, and the numbers of those skipped and failed."""
    chosen, skipped, failed = [], 0, 0
    for program in programs.values():
        names = [program.name, *(str(output.page) for output in program.outputs)]
        if parts and not any(part in name for part in parts for name in names):
            continue
        needs = program.needs if program.lines else header(REPOSITORY / program.name)[0]
        absent = [need for need in [program.language.tool, *needs] if not is_there(need)]
        if absent:
            partial = os.environ.get("SAB_DOCS_PARTIAL") == "1"
            state = "skipped" if partial else "failed "
            print(f"{state} {program.name}: needs {', '.join(absent)}")
            skipped, failed = skipped + partial, failed + (not partial)
        else:
            chosen.append(program)
    return chosen, skipped, failed


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="change the pages")
    parser.add_argument("part", nargs="*", help="run only programs whose name has it")
    options = parser.parse_args()
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    programs, complaints = {}, []
    for pattern in PAGES:
        for path in sorted(REPOSITORY.glob(pattern)):
            if "generated" not in path.parts:
                Page(path, programs, complaints, options.write)
    chosen, skipped, failed = choose(programs, options.part)
    passed, failed, changes = 0, failed + len(complaints), [] if options.write else None
    print("\n".join(complaints), end="\n" if complaints else "")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for program, (status, seconds, output, errors) in zip(chosen, pool.map(run, chosen)):
            differences = compare(program, output, changes) if status == 0 else []
            is_right = status == 0 and not differences
            print(f"{'passed ' if is_right else 'failed '} {program.name}: {seconds:.1f} s")
            print("\n".join(differences), end="\n" if differences else "")
            passed, failed = passed + is_right, failed + (not is_right)
            if status:
                print(output[-3000:] + errors[-3000:])
            sys.stdout.flush()
    write_outputs(changes or [])
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
