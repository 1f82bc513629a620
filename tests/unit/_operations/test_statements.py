from __future__ import annotations

from functools import partial
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
LOCALE = {"locale": "de"}
RAW = RawBSONDocument(bson.encode({"$x": 1}))


class Special(DeleteOne):
    pass


@pytest.mark.parametrize(
    ("request_", "statement", "shown"),
    [
        (UpdateOne({"a": 1}, SET), update_statement({"a": 1}, SET), {"q": {"a": 1}, "u": SET}),
        (
            UpdateOne({}, SET, upsert=True, array_filters=[{"e": 1}], hint=[("a", 1)], sort={"a": 1}, collation=LOCALE),
            update_statement(
                {}, SET, upsert=True, array_filters=[{"e": 1}], hint={"a": 1}, sort={"a": 1}, collation=LOCALE
            ),
            {
                "q": {},
                "u": SET,
                "upsert": True,
                "collation": LOCALE,
                "arrayFilters": [{"e": 1}],
                "hint": {"a": 1},
                "sort": {"a": 1},
            },
        ),
        (UpdateOne({}, [SET]), update_statement({}, [SET]), {"q": {}, "u": [SET]}),
        (UpdateMany({}, SET, upsert=False), update_statement({}, SET, multi=True), {"q": {}, "u": SET, "multi": True}),
        (ReplaceOne({"a": 1}, {}), replace_statement({"a": 1}, {}), {"q": {"a": 1}, "u": {}}),
        (
            ReplaceOne({}, {"x": 1}, upsert=True, hint="h", sort={"x": 1}, collation=LOCALE),
            replace_statement({}, {"x": 1}, upsert=True, hint="h", sort={"x": 1}, collation=LOCALE),
            {"q": {}, "u": {"x": 1}, "upsert": True, "collation": LOCALE, "hint": "h", "sort": {"x": 1}},
        ),
        # Raw documents are not looked into.
        (ReplaceOne({}, RAW), replace_statement({}, RAW), {"q": {}, "u": RAW}),
        (DeleteOne({"x": 1}), delete_statement({"x": 1}), {"q": {"x": 1}, "limit": 1}),
        (Special({}), delete_statement({}), {"q": {}, "limit": 1}),
        (
            DeleteMany({}, collation=LOCALE, hint="h"),
            delete_statement({}, multi=True, collation=LOCALE, hint="h"),
            {"q": {}, "limit": 0, "collation": LOCALE, "hint": "h"},
        ),
    ],
)
def test_statement(request_: Any, statement: dict[str, Any], shown: dict[str, Any]) -> None:
    kind = "delete" if isinstance(request_, DeleteOne | DeleteMany) else "update"
    assert statement_of(request_) == (kind, statement)
    assert statement == shown
    assert is_multi(statement) is isinstance(request_, UpdateMany | DeleteMany)


def test_the_statement_of_an_insert() -> None:
    assert statement_of(InsertOne({"_id": 1})) == ("insert", {"_id": 1})


WRONG_UPDATES: list[Any] = [{}, [], {"x": 1}, {"x": 1, **SET}]
WRONG_PAIRS: list[Any] = [({}, "x"), ({}, None), (None, SET), ([], SET)]
WRONG_OPTIONS: list[dict[str, Any]] = [{"array_filters": {"e": 1}}, {"sort": [("x", 1)]}]


@pytest.mark.parametrize(
    ("make", "arguments", "kind", "text"),
    [
        *((update_statement, ({}, update), ValueError, "update must") for update in WRONG_UPDATES),
        *((update_statement, pair, TypeError, "must be") for pair in WRONG_PAIRS),
        *((partial(update_statement, **options), ({}, SET), TypeError, "must be") for options in WRONG_OPTIONS),
        (replace_statement, ({}, SET), ValueError, r"replacement must not begin with an update operator.*'\$set'"),
        (replace_statement, ({}, []), TypeError, "replacement must be a mapping, not "),
        (delete_statement, (None,), TypeError, "filter must be a mapping, not "),
        # Requests are validated like the methods.
        (statement_of, (UpdateOne({}, {"x": 1}),), ValueError, "update must begin with an update operator"),
        (statement_of, (ReplaceOne({}, SET),), ValueError, "replacement must not begin"),
    ],
)
def test_what_is_no_statement(make: Any, arguments: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make(*arguments)


@pytest.mark.parametrize("wrong", [{"insert": 1}, None, InsertOne])
def test_what_is_not_a_request(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"a write request must be an InsertOne, .* or DeleteMany, not "):
        statement_of(wrong)
