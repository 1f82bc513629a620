"""Names and parameters are those of PyMongo's async API, so that porting is an import change."""

from __future__ import annotations

import inspect
from typing import Any

import pymongo
import pytest
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.command_cursor import AsyncCommandCursor
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.asynchronous.database import AsyncDatabase

import motorlite
from motorlite._api import missing
from tests.support.fake_core import fake_client

PAIRS: dict[str, tuple[type[Any], type[Any]]] = {
    theirs.__name__: (theirs, getattr(motorlite, theirs.__name__))
    for theirs in (
        pymongo.AsyncMongoClient,
        AsyncDatabase,
        AsyncCollection,
        AsyncCursor,
        AsyncCommandCursor,
        AsyncClientSession,
    )
}
# What is not there yet: change streams, raw batches, client bulk writes.
MISSING = {
    "AsyncMongoClient": {"HOST", "PORT", "bulk_write", "eq_props", "next", "watch"},
    "AsyncDatabase": {"next", "watch"},
    "AsyncCollection": {
        "aggregate_raw_batches",
        "find_raw_batches",
        "next",
        "watch",
    },
}
# Client-side encryption is not there.
MISSING_PARAMETERS = {"encrypted_fields"}


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def positional(function: Any) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each.name for each in inspect.signature(function).parameters.values() if each.kind in kinds]


@pytest.mark.parametrize("name", PAIRS)
def test_names(name: str) -> None:
    theirs, ours = PAIRS[name]
    assert public(theirs) - public(ours) == MISSING.get(name, set())


@pytest.mark.parametrize(
    ("owner", "features"),
    [
        ("AsyncMongoClient", missing.CLIENT),
        ("AsyncDatabase", missing.DATABASE),
        ("AsyncCollection", missing.COLLECTION),
    ],
)
def test_what_is_not_there_yet_says_so(owner: str, features: dict[str, str]) -> None:
    client, _ = fake_client()
    made: dict[str, Any] = {
        "AsyncMongoClient": client,
        "AsyncDatabase": client.d,
        "AsyncCollection": client.d.c,
    }
    for name, feature in features.items():
        assert name in MISSING[owner]
        assert not hasattr(made[owner], name)
        for error in (AttributeError, NotImplementedError):
            with pytest.raises(error, match=f"{owner} has no {name!r} yet: motorlite does not support {feature}"):
                getattr(made[owner], name)
    with pytest.raises(AttributeError, match="has no attribute '_other'"):
        _ = made[owner]._other


def test_a_database_or_collection_may_have_the_name_of_a_feature() -> None:
    client, _ = fake_client()
    assert client["watch"]["bulk_write"]["watch"].full_name == "watch.bulk_write.watch"
    assert client.d.bulk_write.full_name == "d.bulk_write"


@pytest.mark.parametrize("name", PAIRS)
def test_parameters(name: str) -> None:
    theirs, ours = PAIRS[name]
    for method in public(theirs) & public(ours):
        expected, found = getattr(theirs, method), getattr(ours, method)
        if not inspect.isfunction(expected):
            assert isinstance(inspect.getattr_static(ours, method), property), method
            continue
        wanted = [each for each in positional(expected) if each not in MISSING_PARAMETERS]
        assert positional(found)[: len(wanted)] == wanted, method


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_awaited(name: str) -> None:
    """What PyMongo's users await can be awaited: coroutines, asynchronous properties, and our cursors."""
    theirs, ours = PAIRS[name]
    for method in public(theirs) & public(ours):
        expected, found = inspect.getattr_static(theirs, method), inspect.getattr_static(ours, method)
        if isinstance(expected, property):
            assert inspect.iscoroutinefunction(expected.fget) is inspect.iscoroutinefunction(found.fget), method
        elif inspect.iscoroutinefunction(expected):
            returned = str(inspect.signature(found).return_annotation)
            assert inspect.iscoroutinefunction(found) or "Cursor[" in returned, method
        else:
            assert not inspect.iscoroutinefunction(found), method


def test_constants() -> None:
    for name in ("ASCENDING", "DESCENDING", "GEO2D", "GEOSPHERE", "HASHED", "TEXT"):
        assert getattr(motorlite, name) == getattr(pymongo, name)
    assert motorlite.ReturnDocument.AFTER is pymongo.ReturnDocument.AFTER
    assert motorlite.ReturnDocument.BEFORE is pymongo.ReturnDocument.BEFORE
    for name in ("NON_TAILABLE", "TAILABLE", "TAILABLE_AWAIT"):
        assert getattr(motorlite.CursorType, name) == getattr(pymongo.CursorType, name)


def test_public_names_exist() -> None:
    assert sorted(motorlite.__all__) == sorted(set(motorlite.__all__))
    assert [name for name in motorlite.__all__ if not hasattr(motorlite, name)] == []
