"""Names of databases and collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motorlite._api.arguments import checks
from motorlite.errors import InvalidName

if TYPE_CHECKING:
    from motorlite._base.arguments import Check


@pytest.mark.parametrize("name", ["", "a b", "a.b", "a$", "a\x00", "a/b", 'a"', "a\\b"])
def test_wrong_database_names(name: str) -> None:
    with pytest.raises(InvalidName):
        checks.database_name(name)


@pytest.mark.parametrize("name", ["", "a..b", ".a", "a.", "a$b", "a\x00"])
def test_wrong_collection_names(name: str) -> None:
    with pytest.raises(InvalidName):
        checks.collection_name(name)


@pytest.mark.parametrize("check", [checks.database_name, checks.collection_name])
def test_names_are_text(check: Check) -> None:
    with pytest.raises(TypeError, match="name must be a string, not 3"):
        check(3)


def test_right_names() -> None:
    assert checks.database_name("$external") == "$external"
    assert checks.collection_name("a.b") == "a.b"
    assert checks.collection_name("oplog.$main") == "oplog.$main"
    assert checks.collection_name("$cmd.aggregate") == "$cmd.aggregate"
