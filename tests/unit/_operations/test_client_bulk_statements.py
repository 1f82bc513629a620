from __future__ import annotations

from typing import Any

import pymongo
import pytest

from motorlite._operations.client_bulk import statement_of
from motorlite.collation import Collation
from motorlite.errors import InvalidName, InvalidOperation
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne

SET = {"$set": {"x": 1}}
STAGES = [{"$set": {"x": 1}}]
COLLATION = {"locale": "en"}
OPTIONS: dict[str, Any] = {"hint": "x_1", "collation": Collation("en"), "namespace": "d.c"}


@pytest.mark.parametrize(
    ("model", "kind", "fields"),
    [
        (InsertOne({"_id": 1}, "d.c"), "insert", {"document": {"_id": 1}}),
        (
            UpdateOne({"a": 1}, SET, upsert=True, array_filters=[{"e": 1}], sort={"a": 1}, **OPTIONS),
            "update",
            {
                "filter": {"a": 1},
                "updateMods": SET,
                "multi": False,
                "upsert": True,
                "arrayFilters": [{"e": 1}],
                "hint": "x_1",
                "collation": COLLATION,
                "sort": {"a": 1},
            },
        ),
        (
            UpdateMany({}, STAGES, upsert=False, **OPTIONS),
            "update",
            {
                "filter": {},
                "updateMods": STAGES,
                "multi": True,
                "upsert": False,
                "hint": "x_1",
                "collation": COLLATION,
            },
        ),
        (
            ReplaceOne({}, {"y": 2}, sort={"a": 1}, namespace="d.c"),
            "update",
            {"filter": {}, "updateMods": {"y": 2}, "multi": False, "sort": {"a": 1}},
        ),
        (
            DeleteOne({"a": 1}, **OPTIONS),
            "delete",
            {"filter": {"a": 1}, "multi": False, "hint": "x_1", "collation": COLLATION},
        ),
        (DeleteMany({}, namespace="d.c"), "delete", {"filter": {}, "multi": True}),
        (pymongo.DeleteOne({}, namespace="d.c"), "delete", {"filter": {}, "multi": False}),
    ],
)
def test_operations(model: Any, kind: str, fields: dict[str, Any]) -> None:
    statement = statement_of(model)
    assert (statement.kind, statement.namespace, statement.fields) == (kind, "d.c", fields)
    assert list(statement.fields) == list(fields)
    assert statement.is_multi is fields.get("multi", False)
    assert list(statement.shown.items()) == [(kind, "d.c"), *fields.items()]


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (InsertOne({}), InvalidOperation, "needs a namespace, but one has none: InsertOne"),
        (DeleteOne({}, namespace="c"), InvalidName, "must be 'database.collection', not 'c'"),
        (DeleteOne({}, namespace=".c"), InvalidName, "must be 'database.collection'"),
        (DeleteOne({}, namespace="d."), InvalidName, "must be 'database.collection'"),
        (DeleteOne({}, namespace="x" * 1000), InvalidName, f"not '{'x' * 200}'$"),
        ({"insert": 0}, TypeError, "a write request must be"),
        # Those of motorlite refuse these themselves.
        (pymongo.UpdateOne({}, {"x": 1}, namespace="d.c"), ValueError, "update"),
        (pymongo.ReplaceOne({}, SET, namespace="d.c"), ValueError, "replacement"),
    ],
)
def test_wrong_models(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        statement_of(model)
