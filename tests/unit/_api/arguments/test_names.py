"""Names of databases and collections."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._api.arguments import checks
from motorlite.errors import InvalidName

if TYPE_CHECKING:
    from motorlite import AsyncDatabase
    from motorlite._base.arguments import Check


class Name(str, Enum):  # noqa: UP042  # whose `str` is another text than that of a StrEnum
    """Names as many programs keep them."""

    THINGS = "things"


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


@pytest.mark.parametrize("check", [checks.database_name, checks.collection_name])
def test_a_member_of_an_enumeration_stands_for_its_text(check: Check) -> None:
    name = check(Name.THINGS)
    assert (type(name), name) == (str, "things")


@pytest.mark.anyio
async def test_what_is_created_has_the_text_of_a_member(db: AsyncDatabase[Any]) -> None:
    assert db.client[Name.THINGS].name == "things"
    assert (await db.create_collection(Name.THINGS, check_exists=False)).full_name == f"{db.name}.things"
    assert await db[Name.THINGS].create_index("n", name=Name.THINGS) == "things"
