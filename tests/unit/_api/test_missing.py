"""Names that a client, a database or a collection does not have."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import motorlite
from motorlite import AsyncCollection, AsyncDatabase, AsyncMongoClient
from motorlite._api.missing import not_callable


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.list_dbs(), "AsyncMongoClient has no method 'list_dbs'; did you mean list_databases()? (AsyncD"),
        (lambda c: c.startSession(), "has no method 'startSession'; did you mean start_session()?"),
        (lambda c: c.app.list_colections(), "AsyncDatabase has no method 'list_colections'; did you mean list_collec"),
        (lambda c: c.app.things.findOne({}), "AsyncCollection has no method 'findOne'; did you mean find_one()?"),
        # Methods that PyMongo had once; the most similar names would mislead.
        (lambda c: c.app.things.remove({}), "AsyncCollection has no method 'remove'; did you mean delete_many()?"),
        (lambda c: c.app.things.count(), "AsyncCollection has no method 'count'; did you mean count_documents()?"),
        (lambda c: c.app.things.group(), "AsyncCollection has no method 'group'; did you mean aggregate()?"),
        (lambda c: c.database_names(), "AsyncMongoClient has no method 'database_names'; did you mean list_database_n"),
        (
            lambda c: c.app.things.a.findone({}),
            "(AsyncCollection is not callable: the name was taken for ",
        ),
        (lambda c: c.zzz(), "AsyncMongoClient has no method 'zzz' (AsyncDatabase is not callable: the name was taken"),
        (lambda c: c.app.name_(), "AsyncDatabase has no method 'name_' ("),
    ],
)
def test_a_method_that_does_not_exist(client: AsyncMongoClient, call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        call(client)


@pytest.mark.parametrize(
    ("holder", "message"),
    [
        (lambda client: client, "AsyncMongoClient has no attribute '_other'; a database of that name is client['_o"),
        (lambda client: client.d, "AsyncDatabase has no attribute '_other'; a collection of that name is database['"),
        (lambda client: client.d.c, "AsyncCollection has no attribute '_other'; a collection of that name is collec"),
    ],
)
def test_names_with_an_underscore_are_no_handles(client: AsyncMongoClient, holder: Any, message: str) -> None:
    assert not hasattr(holder(client), "_other")
    with pytest.raises(AttributeError, match=re.escape(message)):
        _ = holder(client)._other


def test_a_database_or_collection_may_have_the_name_of_a_feature(client: AsyncMongoClient) -> None:
    assert client["watch"]["bulk_write"]["watch"].full_name == "watch.bulk_write.watch"
    assert client.d.bulk_write.full_name == "d.bulk_write"


def test_no_public_name_is_there_twice() -> None:
    assert sorted(motorlite.__all__) == sorted(set(motorlite.__all__))


def test_only_methods_are_suggested() -> None:
    assert "did you mean" not in not_callable("AsyncDatabase", AsyncDatabase, "nam", "x")


@pytest.mark.parametrize("owner", [AsyncCollection, AsyncDatabase, AsyncMongoClient])
def test_methods_have_the_name_of_their_public_class(owner: type) -> None:
    own = {
        name: value.__qualname__
        for name, value in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_") and name not in ("watch", "with_options")
    }
    own.pop("aclose", None)  # another name of close
    assert own == {name: f"{owner.__name__}.{name}" for name in own}


def test_python_says_it_too(coll: Any) -> None:
    with pytest.raises(TypeError, match=r"AsyncCollection\.update_one\(\) missing 1 required positional argument"):
        coll.update_one({})
