"""The package itself: its modules and its public names."""

import ast
import pathlib
import typing

import pytest

import sab

ROOT = pathlib.Path(sab.__file__).parent


def module_name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path, known):
    """The modules of the package that a file imports, at its top or in functions."""
    package = (
        module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    )
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *base.split(".")] if base else parents)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in known or base in known:
                    yield name if name in known else base


def cycles(imports):
    """Modules that import themselves by way of others."""
    reachable = {name: set(targets) for name, targets in imports.items()}
    for middle in imports:
        for targets in reachable.values():
            if middle in targets:
                targets |= reachable[middle]
    return sorted(name for name, targets in reachable.items() if name in targets)


def test_no_import_cycles():
    paths = {module_name(path): path for path in ROOT.rglob("*.py")}
    imports = {name: set(imported_modules(path, paths)) for name, path in paths.items()}
    assert "sab._native" in imports["sab._plan"] and "sab._padding" in imports["sab._group"]
    assert cycles(imports) == []


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c"]


def test_sampler_is_the_base_class_of_all_samplers():
    kinds = [getattr(sab, name) for name in sab.__all__ if "Sampler" in name or "Stream" in name]
    samplers = [kind for kind in kinds if kind is not sab.Stream]  # of records, not of batches
    assert len(samplers) > 8
    assert [kind.__name__ for kind in samplers if not issubclass(kind, sab.Sampler)] == []


def count_samples(sampler: sab.Sampler) -> int:
    return sum(batch.count for batch in sampler.batches())


def test_sampler_annotates_what_takes_any_sampler():
    assert typing.get_type_hints(count_samples)["sampler"] is sab.Sampler
    assert count_samples(sab.BucketSampler([3, 1, 2], budget=6)) == 3
    assert count_samples(sab.BionemoSizeAwareStream([7, 8], float, budget=20)) == 2


def test_sampler_is_not_made_itself():
    with pytest.raises(TypeError, match="is made as one of its kinds, such as sab"):
        sab.Sampler()
