"""Which fields a schema asks for, how inferred types combine, and what can be stored."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest
from pymongoarrow.types import BinaryType, ObjectIdType

from motorlite.arrow._types import empty_documents, fieldless, fitted, projection, stored, widened

STRUCT = pa.struct([("x", pa.int32())])
WIDER = pa.struct([("x", pa.int64()), ("y", pa.string())])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("a", pa.int32())], {"_id": False, "a": True}),
        ([("_id", ObjectIdType())], {"_id": True}),
        ([("_id", pa.struct([("a", pa.string())])), ("n", pa.int32())], {"_id.a": True, "n": True}),
        ([("a", pa.struct([("b", STRUCT), ("c", pa.string())]))], {"_id": False, "a.b.x": True, "a.c": True}),
        ([("a", pa.list_(STRUCT))], {"_id": False, "a.x": True}),
        ([("a", pa.large_list(pa.string()))], {"_id": False, "a": True}),
        ([("a", pa.struct([]))], {"_id": False, "a": True}),
    ],
)
def test_a_schema_asks_for_its_fields_and_no_others(fields: Any, expected: dict[str, bool]) -> None:
    assert projection(pa.schema(fields)) == expected


@pytest.mark.parametrize(
    ("known", "found", "expected"),
    [
        (pa.int32(), pa.int32(), pa.int32()),
        (pa.int32(), pa.null(), pa.int32()),
        (pa.null(), STRUCT, STRUCT),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (ObjectIdType(), ObjectIdType(), ObjectIdType()),
        (STRUCT, WIDER, WIDER),
        (WIDER, STRUCT, WIDER),
        (pa.struct([]), STRUCT, STRUCT),
        (pa.list_(pa.null()), pa.list_(STRUCT), pa.list_(STRUCT)),
        (pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.int64())),
    ],
)
def test_null_int32_and_documents_give_way(known: Any, found: Any, expected: Any) -> None:
    assert widened(known, found, "a") == expected


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (pa.int64(), pa.float64()),
        (pa.string(), STRUCT),
        (ObjectIdType(), pa.string()),
        (BinaryType(5), BinaryType(6)),
        (pa.list_(pa.int32()), pa.list_(pa.string())),
        (STRUCT, pa.struct([("x", BinaryType(5))])),
    ],
)
def test_types_without_a_common_one_are_an_error_that_names_the_field(known: Any, found: Any) -> None:
    with pytest.raises(ValueError, match=r"'a\.b'"):
        widened(known, found, "a.b")


def test_a_table_gets_the_fields_of_a_schema() -> None:
    ids = pa.array([b"x" * 12], pa.binary(12)).cast(ObjectIdType())
    wide = pa.struct([("id", ObjectIdType()), ("deeper", pa.struct([("y", ObjectIdType())])), ("n", pa.int64())])
    table = pa.table(
        {
            "s": pa.StructArray.from_arrays([ids, pa.array([1], pa.int32())], names=["id", "n"]),
            "l": pa.array([[{"n": 1}, None]], pa.list_(pa.struct([("n", pa.int32())]))),
            "nothing": pa.array([None], pa.list_(pa.null())),
            "null": pa.nulls(1),
        }
    )
    kinds = [("s", wide), ("l", pa.list_(wide)), ("nothing", pa.list_(wide)), ("null", wide), ("new", wide)]
    found = fitted(table, pa.schema(kinds))
    found.validate(full=True)
    nulls = {"id": None, "deeper": {"y": None}, "n": None}
    assert found.schema == pa.schema(kinds)
    assert found.to_pylist() == [
        {
            "s": {**nulls, "id": ids[0].as_py(), "n": 1},
            "l": [{**nulls, "n": 1}, nulls],
            "nothing": None,
            "null": nulls,
            "new": nulls,
        }
    ]


def test_rows_without_fields() -> None:
    kind = pa.schema([("a", pa.int32()), ("b", pa.struct([]))])
    assert fitted(fieldless(2), kind).to_pylist() == [{"a": None, "b": {}}] * 2
    assert fieldless(2).num_rows == fitted(fieldless(2), pa.schema([])).num_rows == 2
    assert empty_documents(2).to_pylist() == [{}, {}]


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
