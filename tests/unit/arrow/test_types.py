"""Which fields a schema asks for, how inferred types combine, and what can be stored."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from pymongoarrow.types import ObjectIdType

from motorlite.arrow._types import merged, merged_fields, projection, stored, with_whole_structs

STRUCT = pa.struct([("x", pa.int32())])
WIDER = pa.struct([("x", pa.int64()), ("y", pa.string())])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("a", pa.int32())], {"_id": False, "a": True}),
        ([("_id", ObjectIdType())], {"_id": True}),
        ([("a", pa.struct([("b", STRUCT), ("c", pa.string())]))], {"_id": False, "a.b.x": True, "a.c": True}),
        ([("a", pa.list_(STRUCT))], {"_id": False, "a.x": True}),
        ([("a", pa.large_list(pa.string()))], {"_id": False, "a": True}),
        ([("a", pa.struct([]))], {"_id": False, "a": True}),
    ],
)
def test_a_schema_asks_for_its_fields_and_no_others(fields: Any, expected: dict[str, bool]) -> None:
    assert projection(pa.schema(fields)) == expected


@pytest.mark.parametrize(
    ("known", "found", "expected", "agrees"),
    [
        (pa.int32(), pa.int32(), pa.int32(), True),
        (pa.int32(), pa.null(), pa.int32(), True),
        (pa.null(), STRUCT, STRUCT, True),
        (pa.int32(), pa.int64(), pa.int64(), True),
        (pa.int64(), pa.int32(), pa.int64(), True),
        (pa.int64(), pa.float64(), pa.int64(), False),
        (pa.string(), STRUCT, pa.string(), False),
        (STRUCT, WIDER, WIDER, True),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64()), True),
        (pa.list_(pa.int32()), pa.list_(pa.string()), pa.list_(pa.int32()), False),
        (STRUCT, pa.struct([("x", pa.string())]), STRUCT, False),
    ],
)
def test_the_first_type_decides_but_null_and_int32_give_way(
    known: Any, found: Any, expected: Any, agrees: bool
) -> None:
    assert merged(known, found) == (expected, agrees)


def test_new_fields_follow_the_known_ones() -> None:
    known, found = pa.schema([("b", pa.int32())]), pa.schema([("a", pa.string()), ("b", pa.bool_())])
    assert merged_fields(known, found) == ([pa.field("b", pa.int32()), pa.field("a", pa.string())], False)


def test_a_missing_struct_is_one_of_nulls() -> None:
    first, second = pa.table({"b": [1]}), pa.table({"a": [{"x": {"y": 1}}], "b": [2]})
    joined = pa.concat_tables([first, second], promote_options="permissive")
    assert with_whole_structs(joined).to_pylist() == [{"b": 1, "a": {"x": {"y": None}}}, {"b": 2, "a": {"x": {"y": 1}}}]
    empty = pa.array([None], pa.struct([]))
    assert with_whole_structs(pa.table({"a": empty})).to_pylist() == [{"a": None}]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.int64()),
        (pa.duration("ms"), pa.int64()),
        (pa.float16(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.date32(), pa.timestamp("ms")),
        (pa.timestamp("ns", tz="UTC"), pa.timestamp("ms", tz="UTC")),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.list_(pa.int8()), pa.list_(pa.int32())),
        (pa.large_list(pa.float32()), pa.large_list(pa.float64())),
        (pa.struct([("x", pa.int8())]), pa.struct([("x", pa.int32())])),
        (pa.large_string(), pa.large_string()),
        (ObjectIdType(), ObjectIdType()),
    ],
)
def test_a_type_that_bson_lacks_becomes_the_next_larger_one(kind: Any, expected: Any) -> None:
    assert stored(kind, "a", converts=True) == expected


@pytest.mark.parametrize(("kind", "converts"), [(pa.int8(), False), (pa.float32(), False), (pa.time32("s"), True)])
def test_other_types_are_refused_with_the_name_of_their_column(kind: Any, converts: bool) -> None:
    with pytest.raises(ValueError, match=f"column 'a'.*{re.escape(str(kind))}"):
        stored(kind, "a", converts=converts)
