"""Writes the bill of materials of a release to standard output: sbom.py CHECKOUT FOLDER.

FOLDER has the files of the release. The document is SPDX 2.3 in JSON: each file with its checksum,
what it contains, and what it needs. The lists are read from CMakeLists.txt, pyproject.toml,
Cargo.lock (by `cargo tree`), the packages of Debian, and `BUNDLED` in the wheels. Two runs with the
same files write the same bytes. Standard libraries of the languages are not listed.
"""

import datetime
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterable

# The libraries that CMakeLists.txt looks for, by their names there: name and license.
LIBRARIES = {
    "xxhash": ("xxHash", "BSD-2-Clause"),
    "eigen3": ("Eigen", "MPL-2.0"),
    "isal": ("ISA-L", "BSD-3-Clause"),
    "zstd": ("Zstandard", "BSD-3-Clause OR GPL-2.0-only"),
    "simdjson": ("simdjson", "Apache-2.0"),
    "lmdb": ("LMDB", "OLDAP-2.8"),
}
HOME = "https://libsab.example.org"
UNKNOWN = "NOASSERTION"


def run(*command: object, cwd: pathlib.Path | None = None) -> str:
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, capture_output=True, text=True, cwd=cwd).stdout


def identifier(*words: str) -> str:
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words))


class Document:
    """Packages and how they are related, each once."""

    def __init__(self) -> None:
        self.packages: dict[str, dict[str, object]] = {}
        self.relations: set[tuple[str, str, str]] = set()

    def add(self, key: str, name: str, license_: str = UNKNOWN, **fields: object) -> str:
        self.packages[key] = {
            "SPDXID": key,
            "name": name,
            "downloadLocation": UNKNOWN,
            "filesAnalyzed": False,
            "licenseConcluded": UNKNOWN,
            "licenseDeclared": license_,
            "copyrightText": UNKNOWN,
            **fields,
        }
        return key

    def add_dependency(
        self, kind: str, name: str, version: str = "", license_: str = UNKNOWN
    ) -> str:
        """A package of another project, by its package URL."""
        exact = f"@{version}" if re.match(r"\d", version) else ""
        url = f"pkg:{kind}/{name}{exact}"
        reference = {
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": url,
        }
        return self.add(
            identifier(kind, name, version),
            name,
            license_,
            **({"versionInfo": version} if version else {}),
            externalRefs=[reference],
        )

    def relate(self, one: str, relation: str, others: Iterable[str]) -> None:
        self.relations.update((one, relation, other) for other in others)


def libraries(document: Document, checkout: pathlib.Path) -> list[str]:
    """The C and C++ libraries that a build from source needs."""
    found = re.findall(
        r"^ *find_path\((\w+)_INCLUDE_DIR", (checkout / "CMakeLists.txt").read_text(), re.M
    )
    return [
        document.add(identifier("library", key.lower()), *LIBRARIES[key.lower()]) for key in found
    ]


def python_packages(document: Document, checkout: pathlib.Path) -> list[str]:
    text = (checkout / "bindings/python/pyproject.toml").read_text()
    (line,) = re.findall(r"^dependencies = \[(.*)\]", text, re.M)
    needed = re.findall(r'"([\w-]+)(.*?)"', line)
    return [document.add_dependency("pypi", name, version) for name, version in needed]


def crates(document: Document, checkout: pathlib.Path, crate: str) -> list[str]:
    """What a crate needs to be built and to run, with all of its features."""
    options = (
        "--quiet --locked --edges=normal,build --target=x86_64-unknown-linux-gnu --all-features"
    )
    lines = run(
        *(
            "cargo",
            "tree",
            *options.split(),
            "--prefix=none",
            "--format={p}|{l}",
            "--package",
            crate,
        ),
        cwd=checkout / "bindings/rust",
    )
    found = re.findall(
        r"^([\w-]+) v(\S+)(?: \(proc-macro\))?\|([^(\n]\S.*?)(?: \(\*\))?$", lines, re.M
    )
    return [
        document.add_dependency("cargo", name, version, license_.replace("/", " OR "))
        for name, version, license_ in set(found)
    ]


def bundled(document: Document, wheel: pathlib.Path) -> list[str]:
    """The packages of Debian inside a wheel, by the list that build-wheel.sh wrote."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("licenses/BUNDLED"))
        lines = archive.read(name).decode().splitlines()
    found = []
    for line in lines:
        package, version = line.split()
        (license_,) = (license_ for key, (_, license_) in LIBRARIES.items() if key in package)
        found.append(document.add_dependency("deb", f"debian/{package}", version, license_))
    return found


def debian_packages(document: Document, package: pathlib.Path) -> list[str]:
    depends = run("dpkg-deb", "--field", package, "Depends")
    names = [re.split(r"[ :(]", each.strip())[0] for each in re.split(r"[,|]", depends)]
    return [document.add_dependency("deb", f"debian/{name}") for name in names if name]


def add_file(
    document: Document, checkout: pathlib.Path, root: pathlib.Path, file: pathlib.Path
) -> None:
    name = file.relative_to(root).as_posix()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    key = document.add(
        identifier("file", name),
        file.name,
        "Apache-2.0",
        packageFileName=name,
        checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
    )
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", [key])
    document.relate(key, "GENERATED_FROM", ["SPDXRef-libsab"])
    if file.suffix == ".whl":
        document.relate(key, "CONTAINS", bundled(document, file))
    if file.parent.name == "python":
        document.relate(key, "DEPENDS_ON", python_packages(document, checkout))
    if file.suffix == ".crate":
        crate = file.name.rsplit("-", 1)[0]
        document.relate(key, "DEPENDS_ON", crates(document, checkout, crate))
    if file.suffix == ".deb":
        document.relate(key, "DEPENDS_ON", debian_packages(document, file))
    if (
        file.name.endswith("-source.tar.gz")
        or file.name.startswith("sab-sys")
        or (file.parent.name == "python" and file.suffix == ".gz")
    ):
        document.relate(key, "DEPENDS_ON", libraries(document, checkout))


def main() -> None:
    checkout, root = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    version = run(sys.executable, "-B", checkout / "tests/abi/versions.py", "--print").strip()
    commit, seconds = run("git", "-C", checkout, "log", "-1", "--format=%H %ct").split()
    date = datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc)
    document = Document()
    document.add(
        "SPDXRef-libsab",
        "libsab",
        "Apache-2.0",
        versionInfo=version,
        sourceInfo=f"git commit {commit}",
    )
    left_out = ("SHA256SUMS", f"libsab-{version}.spdx.json")
    for file in sorted(
        path for path in root.rglob("*") if path.is_file() and path.name not in left_out
    ):
        add_file(document, checkout, root, file)
    result = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"libsab-{version}",
        "documentNamespace": f"{HOME}/spdx/libsab-{version}-{commit}",
        "creationInfo": {
            "created": f"{date:%Y-%m-%dT%H:%M:%SZ}",
            "creators": ["Tool: libsab-tools-sbom.py"],
        },
        "packages": [document.packages[key] for key in sorted(document.packages)],
        "relationships": [
            {"spdxElementId": one, "relationshipType": relation, "relatedSpdxElement": other}
            for one, relation, other in sorted(document.relations)
        ],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
