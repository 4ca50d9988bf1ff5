"""Molecules as graphs, from the SMILES of Debian's rdkit-data: molecules() reads them, with their
polar surface areas; parse() makes the atoms and bonds of one.
"""

import pathlib
import re

FOLDER = pathlib.Path("/usr/share/RDKit/Data/NCI")  # Debian: rdkit-data
# An atom in brackets, one without, a bond, a ring that opens or closes, branches, parts.
TOKEN = re.compile(r"\[[^]]*\]|Br|Cl|[A-Za-z*]|[-=#$:/\\]|%\d\d|\d|[().]")
ELEMENT = re.compile(r"\[\d*([A-Za-z][a-z]?|\*)")

Graph = tuple[list[str], list[tuple[int, int]]]


def parse(smiles: str) -> Graph:
    """The elements of the atoms without hydrogen, in lower case where aromatic, and the bonds."""
    atoms: list[str] = []
    bonds: list[tuple[int, int]] = []
    branches: list[int] = []
    rings: dict[str, int] = {}
    last = -1
    for token in TOKEN.findall(smiles):
        if token == "(":
            branches.append(last)
        elif token == ")":
            last = branches.pop()
        elif token == ".":
            last = -1
        elif token[0] in "%0123456789":
            if token in rings:
                bonds.append((rings.pop(token), last))
            else:
                rings[token] = last
        elif token[0].isalpha() or token[0] in "[*":
            atoms.append(ELEMENT.findall(token)[0] if token[0] == "[" else token)
            if last >= 0:
                bonds.append((last, len(atoms) - 1))
            last = len(atoms) - 1
    return atoms, bonds


def molecules(folder: pathlib.Path = FOLDER) -> "list[tuple[Graph, float]]":
    """(graph, polar surface area) of about 5,000 molecules of the NCI."""
    lines = (folder / "first_5k.tpsa.csv").read_text().splitlines()
    rows = (line.rsplit(",", 1) for line in lines if line and not line.startswith("#"))
    return [(parse(smiles), float(area)) for smiles, area in rows]
