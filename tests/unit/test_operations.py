from __future__ import annotations

import inspect
from typing import Any

import pymongo.operations
import pytest

from motorlite import operations as requests
from motorlite.operations import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    SearchIndexModel,
    UpdateMany,
    UpdateOne,
)

SET = {"$set": {"x": 1}}


@pytest.mark.parametrize("name", requests.__all__)
def test_constructors_take_what_those_of_pymongo_take(name: str) -> None:
    ours = inspect.signature(getattr(requests, name)).parameters.values()
    theirs = inspect.signature(getattr(pymongo.operations, name)).parameters.values()
    assert [(one.name, one.kind, one.default) for one in ours] == [(one.name, one.kind, one.default) for one in theirs]


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (InsertOne({"a": 1}), "InsertOne({'a': 1})"),
        (InsertOne({"a": 1}, "db.c"), "InsertOne({'a': 1}, namespace='db.c')"),
        (DeleteOne({"a": 1}), "DeleteOne({'a': 1})"),
        (DeleteMany({}, {"locale": "de"}, [("a", 1)]), "DeleteMany({}, collation={'locale': 'de'}, hint={'a': 1})"),
        (ReplaceOne({}, {"x": 1}, True), "ReplaceOne({}, {'x': 1}, upsert=True)"),
        (
            UpdateOne({}, SET, hint="h", sort={"a": 1}),
            "UpdateOne({}, {'$set': {'x': 1}}, hint='h', sort={'a': 1})",
        ),
        (
            UpdateMany({}, SET, array_filters=[{"e": 1}]),
            "UpdateMany({}, {'$set': {'x': 1}}, array_filters=[{'e': 1}])",
        ),
    ],
)
def test_repr(request_: object, expected: str) -> None:
    assert repr(request_) == expected


def test_equality() -> None:
    assert InsertOne({"a": 1}) == InsertOne({"a": 1})
    assert InsertOne({"a": 1}) != InsertOne({"a": 2})
    assert InsertOne({"a": 1}) != InsertOne({"a": 1}, "db.c")
    assert DeleteOne({}) != DeleteMany({})
    assert UpdateOne({}, SET) == UpdateOne({}, SET)
    assert UpdateOne({}, SET) != UpdateOne({}, SET, sort={"a": 1})
    assert UpdateOne({}, SET, hint=[("a", 1)]) == UpdateOne({}, SET, hint={"a": 1})
    assert ReplaceOne({}, {}) != UpdateOne({}, SET)
    assert InsertOne({}) != {}


def test_requests_are_not_hashable() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(InsertOne({}))


def test_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        DeleteOne({}).typo = 1  # type: ignore[attr-defined]  # the point of the test


@pytest.mark.parametrize(
    ("request_", "arguments", "options"),
    [
        (DeleteOne, (5,), {}),
        (DeleteOne, (None,), {}),
        (ReplaceOne, (None, {}), {}),
        (UpdateMany, (None, SET), {}),
        (DeleteMany, ({},), {"hint": 5}),
        (DeleteOne, ({},), {"collation": "de"}),
        (ReplaceOne, ([], {}), {}),
        (ReplaceOne, ({}, {}), {"upsert": 1}),
        (UpdateOne, ("x", SET), {}),
        (UpdateOne, ({}, SET), {"upsert": "yes"}),
        (UpdateMany, ({}, SET), {"array_filters": {"e": 1}}),
    ],
)
def test_wrong_types(request_: Any, arguments: Any, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        request_(*arguments, **options)


def test_update_many_has_no_sort() -> None:
    assert UpdateMany({}, SET).sort is None
    with pytest.raises(TypeError):
        UpdateMany({}, SET, sort={"a": 1})  # type: ignore[call-arg]  # the point of the test


def test_index_models() -> None:
    assert IndexModel("a").document == {"name": "a_1", "key": {"a": 1}}
    model = IndexModel(
        [("a", -1), "b", ("c", "text")], unique=True, name=None, collation={"locale": "de"}, sparse=False
    )
    assert model.document == {
        "key": {"a": -1, "b": 1, "c": "text"},
        "name": "a_-1_b_1_c_text",
        "unique": True,
        "sparse": False,
        "collation": {"locale": "de"},
    }
    assert list(model.document["key"]) == ["a", "b", "c"]
    assert IndexModel({"a": 1, "b": -1}, name="mine").document == {"name": "mine", "key": {"a": 1, "b": -1}}
    assert repr(IndexModel("a", unique=True)) == "IndexModel({'a': 1}, unique=True, name='a_1')"


def test_wrong_index_models() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        IndexModel([])
    with pytest.raises(TypeError, match="keys must be"):
        IndexModel(5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError, match="collation must be"):
        IndexModel("a", collation="de")


def test_search_index_models() -> None:
    definition = {"mappings": {"dynamic": False}}
    assert SearchIndexModel(definition).document == {"definition": definition}
    model = SearchIndexModel(definition, "mine", "vectorSearch", storedSource=True)
    assert model.document == {
        "definition": definition,
        "name": "mine",
        "type": "vectorSearch",
        "storedSource": True,
    }
    assert SearchIndexModel(type="search", name="mine", definition={}).document == {
        "definition": {},
        "name": "mine",
        "type": "search",
    }
    assert repr(SearchIndexModel({}, "mine")) == "SearchIndexModel(definition={}, name='mine')"


def test_wrong_search_index_models() -> None:
    with pytest.raises(TypeError, match=r"definition must be a mapping, not "):
        SearchIndexModel("a")  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError, match=r"name must be a string, not "):
        SearchIndexModel({}, 5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError, match="type must be a string, not 5"):
        SearchIndexModel({}, type=5)  # type: ignore[arg-type]  # the point of the test
