"""Checks of arguments, and hints, sorts, projections and index keys in the form that commands need."""

from __future__ import annotations

import re
from collections import OrderedDict
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._base import arguments
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Callable

RAW = RawBSONDocument(b"\x05\x00\x00\x00\x00")
CHECKS: arguments.Checks = {"batchSize": arguments.count, "maxTimeMS": arguments.server_milliseconds}
ID = "65f1c7f6c2a4f1f6c2a4f1f6"


@pytest.mark.parametrize(
    ("check", "value", "error"),
    [
        (arguments.integer, True, TypeError),
        (arguments.integer, 1.5, TypeError),
        (arguments.count, -1, ValueError),
        (arguments.positive, 0, ValueError),
        (arguments.milliseconds, "1", TypeError),
        (arguments.milliseconds, float("nan"), ValueError),
        (arguments.milliseconds, -1, ValueError),
        (arguments.server_milliseconds, float("inf"), ValueError),
        (arguments.server_milliseconds, 2**63, ValueError),
        (arguments.boolean, 1, TypeError),
        (arguments.text, b"x", TypeError),
        (arguments.mapping, [], TypeError),
        (arguments.mappings, {}, TypeError),
        (arguments.mappings, [1], TypeError),
    ],
)
def test_wrong_values(check: arguments.Check, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"^x must be .*, not {re.escape(repr(value))}"):
        arguments.converted("x", value, check)


@pytest.mark.parametrize(
    ("check", "value", "result"),
    [
        (arguments.anything, None, None),
        (arguments.integer, -3, -3),
        (arguments.count, 0, 0),
        (arguments.positive, 1, 1),
        (arguments.milliseconds, 1.5, 1.5),
        (arguments.server_milliseconds, 1.5, 1),
        (arguments.boolean, False, False),
        (arguments.text, "x", "x"),
        (arguments.mapping, {"a": 1}, {"a": 1}),
        (arguments.mappings, ({"a": 1},), [{"a": 1}]),
    ],
)
def test_right_values(check: arguments.Check, value: Any, result: Any) -> None:
    assert arguments.converted("x", value, check) == result


@pytest.mark.parametrize(
    ("check", "right", "wrong", "allowed"),
    [
        (arguments.check_mapping, [{}, OrderedDict(), SON(), MappingProxyType({}), RAW], [None, 5], "a mapping"),
        # A proxy could not be given an _id.
        (
            arguments.check_document,
            [{}, SON(), RAW],
            [MappingProxyType({})],
            "a dict, another mutable mapping or a Raw",
        ),
        (arguments.check_boolean, [False], [1], "True or False"),
        (arguments.check_string, [""], [b"a"], "a string"),
        (arguments.check_list, [[]], [()], "a list"),
        (partial(arguments.check_items, allowed="a list"), [[], iter(())], [{}, "a", b"a", None, 5], "a list"),
        (partial(arguments.instance, kind=int), [3], ["3"], "an instance of int"),
        (partial(arguments.instance, kind=int, allowed="a number"), [3], ["3"], "a number"),
    ],
)
def test_checks_by_name(check: Callable[[str, Any], None], right: list[Any], wrong: list[Any], allowed: str) -> None:
    for value in right:
        check("x", value)
    for value in wrong:
        with pytest.raises(TypeError, match=f"^x must be {allowed}.*, not {re.escape(repr(value))}"):
            check("x", value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ID, rf"write {{'_id': ObjectId\('{ID}'\)}}$"),
        (ObjectId(ID), rf"write {{'_id': ObjectId\('{ID}'\)}}$"),
        ([("a", 1)], r"write dict\(\.\.\.\) around it$"),
        ("x", "not 'x'$"),
        ([], r"not \[\]$"),
    ],
)
def test_what_was_meant_instead_of_a_mapping(value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        arguments.converted("filter", value, arguments.mapping)
    with pytest.raises(TypeError, match=message):
        arguments.check_mapping("filter", value)


def test_a_forgotten_await_is_named() -> None:
    async def found() -> int:
        return 5

    coroutine = found()
    with pytest.raises(TypeError, match=r"limit must be an integer, not <coroutine .*>; await it first$"):
        arguments.converted("limit", coroutine, arguments.integer)
    coroutine.close()

    class Cursor:
        async def __anext__(self) -> int:
            return 5

    with pytest.raises(TypeError, match=r"; read it first, as with `await cursor\.to_list\(\)`$"):
        arguments.converted("documents", Cursor(), arguments.mappings)


# --- options ---


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "did you mean batchSize") for name in ("batchsize", "batch_size", "batchSizes")),
        *((name, "did you mean maxTimeMS") for name in ("maxTimeMs", "max_time")),
    ],
)
def test_a_misspelt_name_is_no_field_of_the_command(name: str, message: str) -> None:
    for further in (None, dict[str, Any]()):
        with pytest.raises(TypeError, match=rf"aggregate\(\) has no option {name}=5; {message}\?$"):
            arguments.checked("aggregate", {name: 5}, CHECKS, further)


def test_fields_of_the_command_are_passed_on() -> None:
    further: dict[str, Any] = {}
    options = {"batchSize": 5, "cursor": {}, "later": None, "maxTimeMS": None}
    assert arguments.checked("aggregate", options, CHECKS, further) == {"batchSize": 5}
    assert further == {"cursor": {}, "later": None}
    concern = {"level": "local"}
    arguments.checked("aggregate", {"readConcern": concern}, {**CHECKS, "read_concern": arguments.anything}, further)
    assert further["readConcern"] == concern
    with pytest.raises(TypeError, match=r"writeConcern must be .*, not 5"):
        arguments.checked("aggregate", {"writeConcern": 5}, CHECKS, further)
    with pytest.raises(TypeError, match=r"aggregate.. has no option later=5 .allowed: batchSize, maxTimeMS."):
        arguments.checked("aggregate", {"later": 5}, CHECKS)


def test_parameters_of_the_method_are_options_too() -> None:
    def insert_one(self: object, document: object, *, by_name: int = 0, **options: Any) -> None:
        def check_later() -> None:
            arguments.checked("insert_one", options, {"limit": arguments.count})

        check_later()

    with pytest.raises(TypeError, match=r"no option byName=1; did you mean by_name\?$"):
        insert_one(None, {}, byName=1)
    with pytest.raises(TypeError, match=r"no option zzz=1 \(allowed: by_name, document, limit\)$"):
        insert_one(None, {}, zzz=1)


# --- keys, hints and projections ---


def test_collations() -> None:
    class Collation:
        document = MappingProxyType({"locale": "de"})

    assert arguments.collation_document(None) is None
    assert arguments.collation_document({"locale": "de"}) == {"locale": "de"}
    assert arguments.collation_document(Collation()) == {"locale": "de"}
    for wrong in ("de", WriteConcern(1)):
        with pytest.raises(TypeError, match=r"collation must be a Collation, a mapping or None, not "):
            arguments.collation_document(wrong)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("a", [("a", 1)]),
        ({"a": -1, "b": 1}, [("a", -1), ("b", 1)]),
        ([("a", -1), "b"], [("a", -1), ("b", 1)]),
        (("a", "b"), [("a", 1), ("b", 1)]),
        ({"b": -1, "a": 1}.items(), [("b", -1), ("a", 1)]),
        (SON({"b": "text", "a": "2d"}).items(), [("b", "text"), ("a", "2d")]),
    ],
)
def test_index_keys(keys: Any, expected: list[tuple[str, Any]]) -> None:
    assert arguments.index_pairs(keys) == expected
    if not isinstance(keys, str):
        assert list(arguments.index_document(keys).items()) == expected
        assert arguments.hint_value(keys) == dict(expected)


@pytest.mark.parametrize("value", [None, 0.5, b"a", ObjectId(), [1], "asc"])
def test_bounds_have_values_of_any_type(value: Any) -> None:
    assert arguments.bounds_document([("a", value)]) == arguments.bounds_document({"a": value}) == {"a": value}
    with pytest.raises((TypeError, ValueError), match="direction of 'a'"):
        arguments.index_document([("a", value)])


def test_a_direction_or_a_hint_by_name() -> None:
    assert arguments.index_pairs("a", -1) == [("a", -1)]
    assert arguments.hint_value("a_1") == "a_1"
    assert arguments.hint_value(None) is None
    with pytest.raises(TypeError, match="a direction goes with one key name"):
        arguments.index_pairs(["a"], -1)
    wrong: Any = 5
    with pytest.raises(TypeError, match="keys must be"):
        arguments.index_pairs(wrong)
    with pytest.raises(TypeError, match=r"^hint must be a mapping or a list of \(name, direction\) pairs, not 5$"):
        arguments.hint_value(wrong)
    with pytest.raises(TypeError, match=r"^sort must be a mapping or a list"):
        arguments.converted("sort", 5, arguments.index_document)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("a", "^keys must be a mapping or a list"),
        (5, "^keys must be a mapping or a list"),
        (("a", 1), r"expected a name or a \(name, direction\) pair, not 1; write \[\('a', 1\)\]$"),
        (["a", 1], r"not 1; write \[\('a', 1\)\]$"),
        (["a", "b", 1], "not 1$"),
        ([5], r"expected a name or a \(name, direction\) pair, not 5$"),
        # PyMongo unpacks pairs, so a wrong number of values is a ValueError.
        ([("a",)], r"pair, not \('a',\)$"),
        ([("a", 1, 2)], r"pair, not \('a', 1, 2\)$"),
        ([(1, 1)], "the name of a key must be a str, not 1$"),
        ([("a", "asc")], r"the direction of 'a' must be 1, -1, '2d' or the like, not 'asc'; write 1$"),
        ([("a", "DESCENDING")], "not 'DESCENDING'; write -1$"),
        ([("a", 1.5)], "not 1.5$"),
        ({"a": None}, "the direction of 'a' must be .*, not None$"),
        ([], "must not be empty"),
        ({}, "must not be empty"),
        ((), "must not be empty"),
    ],
)
def test_wrong_keys_say_what_to_write(keys: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        arguments.index_document(keys, "keys")


def test_index_names() -> None:
    # Index management specification, "Index Name Generation".
    assert arguments.index_name([("name", 1), ("dob", -1)]) == "name_1_dob_-1"
    assert arguments.index_name([("spot", "2d")]) == "spot_2d"


def test_projections() -> None:
    projection = {"a": 0}
    assert arguments.fields_document(projection) is projection
    assert arguments.fields_document(["a", "b.c"]) == {"a": 1, "b.c": 1}
    assert arguments.fields_document(name for name in ("a", "b")) == {"a": 1, "b": 1}
    assert arguments.fields_document([]) == {}
    wrong: Any
    for wrong in ("abc", 5, [1], None):
        with pytest.raises(TypeError, match="fields must be a mapping or a list of names"):
            arguments.fields_document(wrong, "fields")
