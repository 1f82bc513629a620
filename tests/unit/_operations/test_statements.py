from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from motorlite._operations.statements import (
    delete_statement,
    is_multi,
    replace_statement,
    statement_of,
    update_statement,
)
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne

SET = {"$set": {"x": 1}}


def test_update() -> None:
    assert update_statement({"a": 1}, SET) == {"q": {"a": 1}, "u": SET}
    assert update_statement(
        {},
        SET,
        multi=True,
        upsert=True,
        collation={"locale": "de"},
        array_filters=[{"e": 1}],
        hint={"a": 1},
        sort={"a": 1},
    ) == {
        "q": {},
        "u": SET,
        "upsert": True,
        "collation": {"locale": "de"},
        "hint": {"a": 1},
        "sort": {"a": 1},
        "multi": True,
        "arrayFilters": [{"e": 1}],
    }


def test_an_update_with_a_pipeline() -> None:
    assert update_statement({}, [{"$set": {"x": 1}}])["u"] == [{"$set": {"x": 1}}]


@pytest.mark.parametrize("update", [{}, [], {"x": 1}, {"x": 1, "$set": {}}])
def test_what_is_not_an_update(update: Any) -> None:
    with pytest.raises(ValueError, match="update must"):
        update_statement({}, update)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (({}, "x"), {}),
        (({}, None), {}),
        ((None, SET), {}),
        (([], SET), {}),
        (({}, SET), {"array_filters": {"e": 1}}),
        (({}, SET), {"sort": [("x", 1)]}),
    ],
)
def test_wrong_types_in_an_update(arguments: Any, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        update_statement(*arguments, **options)


def test_replacement() -> None:
    assert replace_statement({"a": 1}, {}) == {"q": {"a": 1}, "u": {}}
    assert replace_statement({}, {"x": 1}, upsert=True, hint="h", sort={"x": 1}, collation={"locale": "de"}) == {
        "q": {},
        "u": {"x": 1},
        "upsert": True,
        "collation": {"locale": "de"},
        "hint": "h",
        "sort": {"x": 1},
    }
    raw = RawBSONDocument(bson.encode({"$x": 1}))
    assert replace_statement({}, raw)["u"] is raw, "raw documents are not looked into"


def test_what_is_not_a_replacement() -> None:
    with pytest.raises(ValueError, match=r"replacement must not begin with an update operator.*'\$set'"):
        replace_statement({}, SET)
    with pytest.raises(TypeError, match=r"replacement must be a mapping, not "):
        replace_statement({}, [])  # type: ignore[arg-type]  # the point of the test


def test_delete() -> None:
    assert delete_statement({"x": 1}) == {"q": {"x": 1}, "limit": 1}
    assert delete_statement({}, multi=True, collation={"locale": "de"}, hint="h") == {
        "q": {},
        "limit": 0,
        "collation": {"locale": "de"},
        "hint": "h",
    }
    with pytest.raises(TypeError, match=r"filter must be a mapping, not "):
        delete_statement(None)  # type: ignore[arg-type]  # the point of the test


def test_which_statements_may_change_several_documents() -> None:
    assert is_multi(update_statement({}, SET, multi=True))
    assert is_multi(delete_statement({}, multi=True))
    assert not is_multi(update_statement({}, SET))
    assert not is_multi(replace_statement({}, {}))
    assert not is_multi(delete_statement({}))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (InsertOne({"_id": 1}), ("insert", {"_id": 1})),
        (
            UpdateOne({"a": 1}, SET, upsert=True, array_filters=[{"e": 1}], hint=[("a", 1)], sort={"a": 1}),
            (
                "update",
                {
                    "q": {"a": 1},
                    "u": SET,
                    "upsert": True,
                    "arrayFilters": [{"e": 1}],
                    "hint": {"a": 1},
                    "sort": {"a": 1},
                },
            ),
        ),
        (UpdateMany({}, SET, upsert=False), ("update", {"q": {}, "u": SET, "multi": True})),
        (
            ReplaceOne({}, {"x": 1}, collation={"locale": "de"}, sort={"a": 1}),
            ("update", {"q": {}, "u": {"x": 1}, "collation": {"locale": "de"}, "sort": {"a": 1}}),
        ),
        (DeleteOne({}, hint="h"), ("delete", {"q": {}, "limit": 1, "hint": "h"})),
        (DeleteMany({}), ("delete", {"q": {}, "limit": 0})),
    ],
)
def test_statement_of_a_request(request_: object, expected: tuple[str, Any]) -> None:
    assert statement_of(request_) == expected


def test_statement_of_a_subclass() -> None:
    class Special(DeleteOne):
        pass

    assert statement_of(Special({})) == ("delete", {"q": {}, "limit": 1})


@pytest.mark.parametrize("wrong", [{"insert": 1}, None, InsertOne])
def test_what_is_not_a_request(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"a write request must be an InsertOne, .* or DeleteMany, not "):
        statement_of(wrong)


def test_requests_are_validated_like_the_methods() -> None:
    with pytest.raises(ValueError, match="update must begin with an update operator"):
        statement_of(UpdateOne({}, {"x": 1}))
    with pytest.raises(ValueError, match="replacement must not begin"):
        statement_of(ReplaceOne({}, SET))
