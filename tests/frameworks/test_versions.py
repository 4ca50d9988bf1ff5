"""The frameworks are those of requirements.txt, and nothing installed later has changed them."""

import importlib.metadata
import pathlib

REQUIREMENTS = pathlib.Path(__file__).parent / "requirements.txt"


def test_versions_are_the_pinned_ones() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)
    assert {name: importlib.metadata.version(name) for name in pinned} == pinned
