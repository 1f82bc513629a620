from __future__ import annotations

from typing import Any

import pytest

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
    with pytest.raises(TypeError, match="unhashable"):
        hash(InsertOne({}))


def test_a_repr_has_what_was_given() -> None:
    many = DeleteMany({}, {"locale": "de"}, [("a", 1)])
    assert repr(many) == "DeleteMany({}, collation={'locale': 'de'}, hint={'a': 1})"
    assert repr(ReplaceOne({}, {"x": 1}, True)) == "ReplaceOne({}, {'x': 1}, upsert=True)"
    assert repr(IndexModel("a", unique=True)) == "IndexModel({'a': 1}, unique=True, name='a_1')"
    assert repr(SearchIndexModel({}, "mine")) == "SearchIndexModel(definition={}, name='mine')"
    with pytest.raises(AttributeError):
        many.typo = 1  # type: ignore[attr-defined]  # the point of the test


@pytest.mark.parametrize(
    ("request_", "arguments", "options", "text"),
    [
        (DeleteOne, (5,), {}, "filter must be a mapping, not 5"),
        (DeleteOne, (None,), {}, "filter must be a mapping, not None"),
        (ReplaceOne, (None, {}), {}, "filter must be a mapping"),
        (ReplaceOne, ([], {}), {}, "filter must be a mapping"),
        (UpdateMany, (None, SET), {}, "filter must be a mapping"),
        (UpdateOne, ("x", SET), {}, "filter must be a mapping"),
        (DeleteMany, ({},), {"hint": 5}, "hint must be"),
        (DeleteOne, ({},), {"collation": "de"}, "collation must be"),
        (ReplaceOne, ({}, {}), {"upsert": 1}, "upsert must be True or False, not 1"),
        (UpdateOne, ({}, SET), {"upsert": "yes"}, "upsert must be"),
        (UpdateMany, ({}, SET), {"array_filters": {"e": 1}}, "array_filters must be a list"),
        (UpdateMany, ({}, SET), {"sort": {"a": 1}}, "unexpected keyword argument 'sort'"),
        (IndexModel, (5,), {}, "keys must be"),
        (IndexModel, ("a",), {"collation": "de"}, "collation must be"),
        (SearchIndexModel, ("a",), {}, "definition must be a mapping, not "),
        (SearchIndexModel, ({}, 5), {}, "name must be a string, not "),
        (SearchIndexModel, ({},), {"type": 5}, "type must be a string, not 5"),
    ],
)
def test_wrong_types(request_: Any, arguments: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        request_(*arguments, **options)


def test_index_models() -> None:
    assert IndexModel("a").document == {"name": "a_1", "key": {"a": 1}}
    # As with PyMongo, whose name the server has if the index exists.
    assert IndexModel([("a", 1), "b", ("a", -1)]).document == {"name": "a_1_b_1_a_-1", "key": {"a": -1, "b": 1}}
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
    with pytest.raises(ValueError, match="must not be empty"):
        IndexModel([])
    assert IndexModel({"a": 1, "b": -1}, name="mine").document == {"name": "mine", "key": {"a": 1, "b": -1}}


def test_search_index_models() -> None:
    definition = {"mappings": {"dynamic": False}}
    assert SearchIndexModel(definition).document == {"definition": definition}
    model = SearchIndexModel(definition, "mine", "vectorSearch", storedSource=True)
    named = {"name": "mine", "type": "vectorSearch"}
    assert model.document == {"definition": definition, **named, "storedSource": True}
    assert SearchIndexModel(definition={}, **named).document == {"definition": {}, **named}
