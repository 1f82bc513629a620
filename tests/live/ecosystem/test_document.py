"""The examples in docs/ecosystem.md are run against a real server."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import anyio
import pymongo.errors
import pytest

from motorlite import compat, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

DOCUMENT: Final = (Path(__file__).parents[3] / "docs" / "ecosystem.md").read_text(encoding="utf-8")
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture(autouse=True)
def uninstalled() -> Iterator[None]:
    yield
    compat.uninstall()


def run(source: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an example as a module, since Beanie looks for a model's module."""
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    exec(source, vars(module))
    return module


def test_there_are_two() -> None:
    assert len(EXAMPLES) == 2


def test_install(monkeypatch: pytest.MonkeyPatch) -> None:
    run(EXAMPLES[0], monkeypatch)
    with pytest.raises(pymongo.errors.WriteError):
        raise errors.DuplicateKeyError("twice")


def test_beanie(
    replica_set: LocalServer,
    database_name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("beanie", reason="no release of Beanie permits Python 3.14 or later")
    source = EXAMPLES[1].replace("AsyncMongoClient()", f"AsyncMongoClient({replica_set.uri!r})")
    example = run(source.replace("client.cinema", f"client.{database_name}"), monkeypatch)
    anyio.run(example.main)
    assert "title='Alien'" in capsys.readouterr().out
    assert issubclass(errors.WriteError, pymongo.errors.WriteError)
