"""How the benchmarks import: without cycles, and nothing that ships imports them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]


def imports(folder: str) -> dict[str, set[str]]:
    """The modules of a folder, with the names that they import, lazily and for types too."""
    found: dict[str, set[str]] = {}
    for path in (ROOT / folder).rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found[name] |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """The modules that only import each other, after all that import nothing of what is left were removed."""
    known = graph.keys()
    left = {
        name: {target if target in known else target.rpartition(".")[0] for target in targets} & known
        for name, targets in graph.items()
    }
    while free := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in free}
    return sorted(left)


def test_there_is_no_import_cycle() -> None:
    assert cycle(imports("benchmarks")) == []


def test_a_cycle_is_found() -> None:
    assert cycle({"a": {"b.name"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c"]


def test_what_ships_imports_no_benchmark() -> None:
    for folder in ("motorlite", "pytest_motorlite"):
        for name, targets in imports(folder).items():
            assert not any(target.startswith("benchmarks") for target in targets), name
