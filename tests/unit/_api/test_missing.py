from __future__ import annotations

import inspect
from typing import Any

import pytest

from motorlite import AsyncCollection, AsyncDatabase, AsyncMongoClient
from motorlite._api.missing import not_callable
from tests.support.fake_core import fake_client


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.list_dbs(), "AsyncMongoClient has no method 'list_dbs'; did you mean list_databases()? (AsyncD"),
        (lambda c: c.startSession(), "has no method 'startSession'; did you mean start_session()?"),
        (lambda c: c.app.list_colections(), "AsyncDatabase has no method 'list_colections'; did you mean list_collec"),
        (lambda c: c.app.things.findOne({}), "AsyncCollection has no method 'findOne'; did you mean find_one()?"),
        (
            lambda c: c.app.things.a.findone({}),
            "(AsyncCollection is not callable: the name was taken for ",
        ),
        (lambda c: c.zzz(), "AsyncMongoClient has no method 'zzz' (AsyncDatabase is not callable: the name was taken"),
        (lambda c: c.app.name_(), "AsyncDatabase has no method 'name_' ("),
    ],
)
def test_a_method_that_does_not_exist(call: Any, message: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(fake_client()[0])
    assert message in str(caught.value)


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
    own.pop("aclose", None)  # another name of close
    assert own == {name: f"{owner.__name__}.{name}" for name in own}


def test_python_says_it_too() -> None:
    collection: Any = fake_client()[0].app.things
    with pytest.raises(TypeError, match=r"AsyncCollection\.update_one\(\) missing 1 required positional argument"):
        collection.update_one({})
