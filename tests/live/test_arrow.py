"""motorlite.arrow on a real server: every type, both ways, inference, limits and cancellation."""

from __future__ import annotations

import contextlib
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import anyio
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bson import Binary, Code, Decimal128, Int64, ObjectId
from pymongoarrow.errors import ArrowWriteError
from pymongoarrow.types import BinaryType, CodeType, Decimal128Type, ObjectIdType

import motorlite
from motorlite import arrow
from motorlite.errors import BulkWriteError, ConfigurationError, ExecutionTimeout, PyMongoError
from tests.live.clients import open_cursors
from tests.live.load import is_at_rest
from tests.support.clients import make_client
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

NOW = datetime(2024, 2, 29, 12, 30, 15, 123000)
FULL: dict[str, Any] = {
    "_id": ObjectId("0123456789abcdef01234567"),
    "int32": 1,
    "int64": Int64(2**40),
    "double": 1.5,
    "text": "ä text",
    "flag": True,
    "at": NOW,
    "decimal": Decimal128("1.25"),
    "bytes": Binary(b"\x00\x01", 5),
    "code": Code("f()"),
    "nested": {"x": 1, "deeper": {"y": "z"}},
    "list": [1, 2, 3],
    "structs": [{"a": 1}, {"a": 2}],
    "nothing": None,
}
SCHEMA = arrow.Schema(
    {
        "_id": ObjectId,
        "int32": pa.int32(),
        "int64": int,
        "double": float,
        "text": str,
        "flag": bool,
        "at": datetime,
        "decimal": Decimal128,
        "bytes": BinaryType(5),
        "code": Code,
        "nested": {"x": pa.int32(), "deeper": {"y": str}},
        "list": [pa.int32()],
        "structs": [{"a": pa.int32()}],
        "nothing": None,
    }
)
# Several batches, the second of many pieces.
MANY = 30_000


@pytest.fixture
async def coll(deployment: LocalServer, database_name: str) -> AsyncIterator[Any]:
    async with make_client(deployment) as client:
        yield client[database_name].c
        await until(lambda: is_at_rest(client))


async def fill(coll: Any, *, count: int = MANY) -> None:
    await coll.insert_many(
        [{"_id": number, "text": f"text {number}" * 10, "half": number / 2} for number in range(count)]
    )


@pytest.mark.parametrize("schema", [SCHEMA, SCHEMA.to_arrow(), None])
async def test_every_type(coll: Any, schema: Any) -> None:
    empty = {"_id": ObjectId("ffffffffffffffffffffffff")}
    await coll.insert_many([FULL, empty])
    found = await arrow.find_arrow(coll, sort={"_id": 1}, schema=schema)
    assert found.schema == SCHEMA.to_arrow()
    rows = found.to_pylist()
    assert rows[0] == FULL
    # As in pymongoarrow, a missing document is one of nulls.
    assert rows[1] == dict.fromkeys(FULL) | empty | {"nested": {"x": None, "deeper": {"y": None}}}
    assert await arrow.aggregate_arrow(coll, [{"$sort": {"_id": 1}}], schema=schema) == found


async def test_what_was_found_can_be_inserted(coll: Any) -> None:
    await coll.insert_one(FULL)
    table = await arrow.find_arrow(coll, schema=SCHEMA)
    await coll.drop()
    result = await arrow.insert_arrow(coll, table)
    assert result.inserted_count == 1
    assert await coll.find_one() == FULL
    assert await arrow.find_arrow(coll, schema=SCHEMA) == table


async def test_many_batches(coll: Any) -> None:
    await fill(coll)
    table = await arrow.find_arrow(coll, sort={"_id": 1})
    assert table.num_rows == MANY
    assert table["_id"].to_pylist() == list(range(MANY))
    assert table["half"][MANY - 1].as_py() == (MANY - 1) / 2
    batches = [batch async for batch in arrow.find_arrow_batches(coll, sort={"_id": 1}, batch_size=7_000)]
    assert [batch.num_rows for batch in batches] == [7_000] * 4 + [2_000]
    assert pa.Table.from_batches(batches) == table
    stages: list[Any] = [{"$match": {"_id": {"$lt": 500}}}, {"$sort": {"_id": 1}}]
    found = [batch async for batch in arrow.aggregate_arrow_batches(coll, stages, schema={"half": float})]
    assert pa.Table.from_batches(found) == table.select(["half"])[:500]


async def test_the_first_type_decides_and_integers_widen(coll: Any) -> None:
    """As one pymongoarrow context has it, also where pieces are inferred one by one."""
    pad = "x" * 1000
    head = [{"_id": number, "a": number, "b": "text", "pad": pad} for number in range(3_000)]
    tail = [
        {"_id": 3_000 + number, "a": Int64(2**40 + number), "b": number, "c": {"x": 1}, "pad": pad}
        for number in range(3_000)
    ]
    await coll.insert_many([*head, *tail])
    table = await arrow.find_arrow(coll, sort={"_id": 1})
    assert table.schema.field("a").type == pa.int64()
    assert table.schema.field("b").type == pa.string()
    assert table["a"].to_pylist() == [document["a"] for document in [*head, *tail]]
    assert table["b"].to_pylist() == ["text"] * 3_000 + [None] * 3_000
    assert table["c"].to_pylist() == [{"x": None}] * 3_000 + [{"x": 1}] * 3_000


async def test_batches_that_differ(coll: Any) -> None:
    values: list[Any] = [None, {"id": ObjectId()}, "text", {"list": [Code("f()")]}]
    documents = [{"_id": number, "a": value} for number, value in enumerate(values)]
    await coll.insert_many([*documents, {"_id": 4}, {"_id": 5}])
    expected = [{"id": None, "list": None} | (value if isinstance(value, dict) else {}) for value in [*values, {}, {}]]
    options: Any = {"sort": {"_id": 1}, "projection": {"_id": False, "a": True}, "batch_size": 1}
    assert (await arrow.find_arrow(coll, **options))["a"].to_pylist() == expected
    assert len(await arrow.find_pandas(coll, **options)) == 6
    assert len(await arrow.find_polars(coll, **options)) == 6
    batches = [
        batch async for batch in arrow.find_arrow_batches(coll, {"_id": {"$gt": 2}}, **options | {"sort": {"_id": -1}})
    ]
    assert [(batch.num_rows, batch.num_columns) for batch in batches] == [(1, 0), (1, 0), (1, 1)]
    empty = await arrow.find_arrow(coll, {"_id": 9}, schema={"a": {"id": ObjectId, "list": [Code]}})
    assert (empty.num_rows, len(empty.to_pandas())) == (0, 0)


async def test_an_empty_result(coll: Any) -> None:
    assert await arrow.find_arrow(coll, schema=SCHEMA) == SCHEMA.to_arrow().empty_table()
    assert (await arrow.find_arrow(coll)).num_rows == 0
    assert [batch async for batch in arrow.find_arrow_batches(coll)] == []
    assert len(await arrow.find_pandas_all(coll, schema=SCHEMA)) == 0
    assert (await arrow.find_polars_all(coll, schema={"a": int})).is_empty()
    assert {name: len(array) for name, array in (await arrow.find_numpy_all(coll, schema={"a": int})).items()} == {
        "a": 0
    }


async def test_a_schema_that_does_not_fit(coll: Any) -> None:
    await coll.insert_many([{"a": 1}, {"a": "text"}])
    with pytest.raises(TypeError, match="unexpected type `string` instead of expected type `int64`"):
        await arrow.find_arrow(coll, sort={"_id": 1}, schema={"a": int})
    table = await arrow.find_arrow(coll, sort={"_id": 1}, schema={"a": int}, allow_invalid=True)
    assert table["a"].to_pylist() == [1, None]
    with pytest.raises(ValueError, match="Unsupported type identifier"):
        await arrow.find_arrow(coll, schema={"a": object})
    with pytest.raises(TypeError, match=r"schema.*pymongoarrow\.api\.Schema"):
        await arrow.find_arrow(coll, schema=["a"])


async def test_an_id_that_is_a_document(coll: Any) -> None:
    """As that of a group by several fields."""
    await coll.insert_many([{"_id": {"a": n, "b": str(n)}, "n": n} for n in range(2)])
    schema = {"_id": {"a": int}}
    expected = [{"_id": {"a": 0}}, {"_id": {"a": 1}}]
    assert (await arrow.find_arrow(coll, schema=schema)).to_pylist() == expected
    assert (await arrow.aggregate_arrow(coll, [{"$sort": {"n": 1}}], schema=schema)).to_pylist() == expected


async def test_what_has_no_table_is_refused(coll: Any) -> None:
    with pytest.raises(ConfigurationError, match="cursor_type"):
        await arrow.find_arrow(coll, cursor_type=motorlite.CursorType.TAILABLE)
    with pytest.raises(ConfigurationError, match=r"\$out or \$merge"):
        await arrow.aggregate_arrow(coll, [{"$out": "other"}])
    with pytest.raises(TypeError, match="tabular"):
        await arrow.insert_arrow(coll, [{"a": 1}])
    with pytest.raises(ValueError, match="column 'a'"):
        await arrow.insert_arrow(coll, pa.table({"a": pa.array([1], pa.uint8())}), auto_convert=False)


async def test_frames_and_arrays(coll: Any) -> None:
    await fill(coll)
    schema = {"_id": int, "text": str, "half": float}
    for method in (arrow.find_pandas, arrow.find_pandas_all):
        frame = await method(coll, sort={"_id": 1}, schema=schema)
        assert isinstance(frame, pd.DataFrame)
        assert frame["_id"].tolist() == list(range(MANY))
        assert frame["text"].iloc[-1] == f"text {MANY - 1}" * 10
    polars = await arrow.aggregate_polars_all(coll, [{"$sort": {"_id": 1}}], schema=schema)
    assert isinstance(polars, pl.DataFrame)
    assert polars["half"].sum() == sum(range(MANY)) / 2
    arrays = await arrow.find_numpy_all(coll, sort={"_id": 1}, schema=schema)
    assert {name: array.dtype.kind for name, array in arrays.items()} == {"_id": "i", "text": "U", "half": "f"}
    assert arrays["_id"].tolist() == list(range(MANY))
    assert (await arrow.aggregate_numpy_all(coll, [{"$limit": 3}], schema=schema))["half"].tolist() == [0, 0.5, 1]
    assert (await arrow.find_polars(coll, {"_id": 7}))["_id"].to_list() == [7]
    assert (await arrow.aggregate_pandas(coll, [{"$count": "n"}]))["n"].tolist() == [MANY]


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame, dict, pa.RecordBatch.from_pydict])
async def test_insert_from(coll: Any, make: Any) -> None:
    columns = {"a": np.arange(3), "b": np.array([0.5, 1.5, 2.5]), "c": np.array([True, False, True])}
    result = await arrow.write(coll, make(columns))
    assert result.inserted_count == 3
    found = await coll.find({}, {"_id": 0}).to_list()
    assert found == [{"a": 0, "b": 0.5, "c": True}, {"a": 1, "b": 1.5, "c": False}, {"a": 2, "b": 2.5, "c": True}]


async def test_types_that_bson_lacks(coll: Any) -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int8()),
            "unsigned": pa.array([2**32 - 1, None], pa.uint32()),
            "single": pa.array([0.5, None], pa.float32()),
            "day": pa.array([date(2024, 2, 29), None]),
            "nested": pa.array([{"days": [date(2024, 2, 29)]}, None]),
            "price": pa.array([Decimal("1.25"), None]),
            "fine": pa.array([NOW.replace(microsecond=123456), None], pa.timestamp("us")),
        }
    )
    await arrow.insert_arrow(coll, table, exclude_none=True)
    first, second = await coll.find({}, {"_id": 0}).sort("_id").to_list()
    assert first == {
        "small": 1,
        "unsigned": 2**32 - 1,
        "single": 0.5,
        "day": datetime(2024, 2, 29),
        "nested": {"days": [datetime(2024, 2, 29)]},
        "price": Decimal128("1.25"),
        "fine": NOW,
    }
    assert second == {}


async def test_insert_many_rows_and_name_the_one_that_failed(coll: Any) -> None:
    count = 60_000
    table = pa.table({"_id": pa.array(range(count)), "text": pa.array(["x" * 200] * count)})
    assert (await arrow.insert_arrow(coll, table)).inserted_count == count
    await coll.delete_many({"_id": {"$lt": 55_000}})
    with pytest.raises(ArrowWriteError) as caught:
        await arrow.insert_arrow(coll, table)
    assert isinstance(caught.value.__cause__, BulkWriteError)
    assert caught.value.details["nInserted"] == 55_000
    assert [entry["index"] for entry in caught.value.details["writeErrors"]] == [55_000]
    assert await coll.count_documents({}) == count


async def test_a_cancelled_scan_closes_its_cursor(coll: Any, deployment: LocalServer) -> None:
    await fill(coll)
    with anyio.move_on_after(60) as scope:
        async for _ in arrow.find_arrow_batches(coll, batch_size=100):
            scope.cancel()
    assert scope.cancelled_caught
    await until(lambda: not open_cursors(deployment, coll.full_name))
    async with contextlib.aclosing(arrow.find_arrow_batches(coll, batch_size=100)) as batches:
        async for _ in batches:
            break
    await until(lambda: not open_cursors(deployment, coll.full_name))


@pytest.mark.parametrize("is_block", [True, False])
async def test_the_limit_is_for_the_whole_call(coll: Any, is_block: bool) -> None:
    await fill(coll)
    block: Any
    options: Any
    block, options = (motorlite.timeout(0.03), {}) if is_block else (contextlib.nullcontext(), {"timeoutMS": 30})
    with pytest.raises(PyMongoError) as caught, block:
        await arrow.find_arrow(coll, batch_size=10, **options)
    assert caught.value.timeout
    table = pa.table({"a": pa.array(range(200_000))})
    with pytest.raises((ArrowWriteError, ExecutionTimeout)):
        await arrow.insert_arrow(coll, table, timeoutMS=30)


async def test_extension_types_are_pymongoarrows(coll: Any) -> None:
    await coll.insert_one(FULL)
    table = await arrow.find_arrow(coll)
    kinds = {name: table.schema.field(name).type for name in ("_id", "decimal", "bytes", "code")}
    assert kinds == {"_id": ObjectIdType(), "decimal": Decimal128Type(), "bytes": BinaryType(5), "code": CodeType()}
