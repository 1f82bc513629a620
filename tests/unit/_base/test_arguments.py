from __future__ import annotations

import re
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import pytest
from bson.raw_bson import RawBSONDocument
from bson.son import SON

from motorlite._base import arguments

RAW = RawBSONDocument(b"\x05\x00\x00\x00\x00")


@pytest.mark.parametrize("value", [{}, OrderedDict(), SON(), MappingProxyType({}), RAW])
def test_mappings(value: Any) -> None:
    arguments.check_mapping("filter", value)


@pytest.mark.parametrize("value", [None, [], "x", 5])
def test_what_is_not_a_mapping(value: Any) -> None:
    with pytest.raises(TypeError, match=f"filter must be a mapping, not {re.escape(repr(value))}"):
        arguments.check_mapping("filter", value)


def test_documents() -> None:
    arguments.check_document("document", {})
    arguments.check_document("document", SON())
    arguments.check_document("document", RAW)
    # It could not be given an _id.
    with pytest.raises(TypeError, match="document must be a dict, another mutable mapping or a RawBSON"):
        arguments.check_document("document", MappingProxyType({}))


def test_items() -> None:
    arguments.check_items("documents", [], "a list")
    arguments.check_items("documents", iter(()), "a list")
    values: tuple[Any, ...] = ({}, "a", b"a", None, 5)
    for wrong in values:
        with pytest.raises(TypeError, match="documents must be a list, not "):
            arguments.check_items("documents", wrong, "a list")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("a", 1), r"expected a name or a \(name, direction\) pair, not 1; write \[\('a', 1\)\]$"),
        (["a", 1], r"not 1; write \[\('a', 1\)\]$"),
        (["a", "b", 1], "not 1$"),
        ([("a", "asc")], r"the direction of 'a' must be 1, -1, '2d' or the like, not 'asc'; write 1$"),
        ([("a", "DESCENDING")], "not 'DESCENDING'; write -1$"),
        ([("a", 1.5)], "not 1.5$"),
    ],
)
def test_wrong_keys_say_what_to_write(keys: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        arguments.index_document(keys, "keys")


def test_booleans_strings_and_lists() -> None:
    arguments.check_boolean("upsert", False)
    with pytest.raises(TypeError, match="upsert must be True or False, not 1"):
        arguments.check_boolean("upsert", 1)
    arguments.check_string("name", "")
    with pytest.raises(TypeError, match=r"name must be a string, not "):
        arguments.check_string("name", b"a")
    arguments.check_list("array_filters", [])
    with pytest.raises(TypeError, match="array_filters must be a list, not "):
        arguments.check_list("array_filters", ())


def test_a_hint_names_itself() -> None:
    with pytest.raises(TypeError, match=r"^hint must be a mapping or a list of \(name, direction\) pairs, not 5$"):
        arguments.hint_value(5)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError, match=r"^sort must be a mapping or a list"):
        arguments.converted("sort", 5, arguments.index_document)


def test_collations() -> None:
    class Collation:
        document = MappingProxyType({"locale": "de"})

    assert arguments.collation_document(None) is None
    assert arguments.collation_document({"locale": "de"}) == {"locale": "de"}
    assert arguments.collation_document(Collation()) == {"locale": "de"}
    with pytest.raises(TypeError, match=r"collation must be a Collation, a mapping or None, not "):
        arguments.collation_document("de")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("a", [("a", 1)]),
        ({"a": -1, "b": 1}, [("a", -1), ("b", 1)]),
        ([("a", -1), "b"], [("a", -1), ("b", 1)]),
        (("a", "b"), [("a", 1), ("b", 1)]),
        ({"a": -1, "b": 1}.items(), [("a", -1), ("b", 1)]),
        (SON({"a": "text"}).items(), [("a", "text")]),
    ],
)
def test_index_pairs(keys: Any, expected: Any) -> None:
    assert arguments.index_pairs(keys) == expected


def test_index_pairs_with_a_direction() -> None:
    assert arguments.index_pairs("a", -1) == [("a", -1)]
    with pytest.raises(TypeError, match="a direction goes with one key name"):
        arguments.index_pairs(["a"], -1)
    with pytest.raises(TypeError, match="keys must be"):
        arguments.index_pairs(5)  # type: ignore[arg-type]  # the point of the test


def test_index_documents() -> None:
    assert arguments.index_document([("b", -1), "a"]) == {"b": -1, "a": 1}
    items: Any = {"b": -1, "a": 1}.items()
    assert arguments.index_document(items) == {"b": -1, "a": 1}
    assert list(arguments.index_document({"b": 1, "a": "2d"}).items()) == [("b", 1), ("a", "2d")]
    assert arguments.hint_value([("a", 1)]) == {"a": 1}
    assert arguments.hint_value("a_1") == "a_1"
    assert arguments.hint_value(None) is None


@pytest.mark.parametrize("keys", ["a", 5, [5], [("a",)], [("a", 1, 2)], [(1, 1)], [("a", 1.5)], {"a": None}])
def test_what_is_not_an_index_document(keys: Any) -> None:
    # PyMongo unpacks pairs, so a wrong number of values is a ValueError.
    with pytest.raises((TypeError, ValueError)):
        arguments.index_document(keys)


@pytest.mark.parametrize("keys", [[], {}, ()])
def test_empty_index_documents(keys: Any) -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        arguments.index_document(keys)


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


@pytest.mark.parametrize("fields", ["abc", 5, [1], None])
def test_what_is_not_a_projection(fields: Any) -> None:
    with pytest.raises(TypeError, match="fields must be a mapping or a list of names"):
        arguments.fields_document(fields, "fields")


CHECKS: arguments.Checks = {"batchSize": arguments.count, "maxTimeMS": arguments.server_milliseconds}


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


@pytest.mark.parametrize("name", ["batchsize", "batch_size", "maxTimeMs", "max_time", "batchSizes"])
def test_misspelt_names_are_not_passed_on(name: str) -> None:
    with pytest.raises(TypeError, match=f"has no option {name}=5; did you mean (batchSize|maxTimeMS)"):
        arguments.checked("aggregate", {name: 5}, CHECKS, {})


def test_without_further_options_none_is_unknown() -> None:
    with pytest.raises(TypeError, match=r"aggregate.. has no option later=5 .allowed: batchSize, maxTimeMS."):
        arguments.checked("aggregate", {"later": 5}, CHECKS)
