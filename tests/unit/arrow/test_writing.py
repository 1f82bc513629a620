"""Rows become documents, and errors name the rows of the table."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from bson import Decimal128
from bson.codec_options import DEFAULT_CODEC_OPTIONS, TypeRegistry
from pymongoarrow.errors import ArrowWriteError

from motorlite import arrow
from motorlite.arrow import _writing
from motorlite.arrow._writing import DecimalEncoder, Rows, storable, table_of
from motorlite.errors import BulkWriteError, OperationFailure
from tests.support.clients import one_member

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

pytestmark = pytest.mark.anyio

TABLE = pa.table({"a": [1, 2, None], "b": ["x", None, "z"]})
ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": None, "b": "z"}]
FORMS: dict[str, Callable[[], Any]] = {
    "table": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "polars": lambda: pl.from_arrow(TABLE),
    "arrays": lambda: {"a": np.array([1, 2]), "b": np.array(["x", "y"])},
    "pandas": lambda: pd.DataFrame({"a": [1.5, np.nan]}),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_can_be_inserted(form: str) -> None:
    table = storable(table_of(FORMS[form](), exclude_none=False), converts=True)
    expected = {
        "arrays": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}],
        "pandas": [{"a": 1.5}, {"a": pytest.approx(float("nan"), nan_ok=True)}],
    }
    assert table.to_pylist() == expected.get(form, ROWS)


def test_a_missing_value_of_pandas_is_left_out_like_null() -> None:
    table = table_of(pd.DataFrame({"a": [1.5, np.nan]}), exclude_none=True)
    documents = Rows(table, DEFAULT_CODEC_OPTIONS, exclude_none=True).take()
    assert list(map(dict, documents)) == [{"a": 1.5}, {}]


def test_what_cannot_be_inserted() -> None:
    with pytest.raises(TypeError, match="tabular"):
        table_of([{"a": 1}], exclude_none=False)
    with pytest.raises(ValueError, match="column 'a'"):
        storable(pa.table({"a": pa.array([1], pa.int8())}), converts=False)


@pytest.mark.parametrize(
    "tabular",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=[1, "1"]),
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    ],
)
def test_columns_of_one_name_are_refused(tabular: Any) -> None:
    """One of them would be lost."""
    with pytest.raises(ValueError, match="same name"):
        storable(table_of(tabular, exclude_none=False), converts=True)


def test_a_frame_without_columns() -> None:
    assert storable(table_of(pd.DataFrame(), exclude_none=False), converts=True).num_columns == 0


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2**63], pa.uint64()),
        pa.array([{"n": 2**64 - 1}], pa.struct([("n", pa.uint64())])),
        pa.array([[2**63 + 5]], pa.list_(pa.uint64())),
        pa.array([2**63], pa.uint64()).dictionary_encode(),
        pa.array([2**62], pa.timestamp("s")),
    ],
)
def test_a_value_too_large_for_bson_is_refused_and_no_other_one_stored(column: Any) -> None:
    with pytest.raises(ValueError, match="column 'a'"):
        storable(pa.table({"a": column}), converts=True)


def test_the_largest_values_are_stored_and_dates_lose_only_what_is_finer_than_milliseconds() -> None:
    kind = pa.struct([("n", pa.uint64()), ("at", pa.timestamp("us"))])
    table = storable(pa.table({"a": pa.array([{"n": 2**63 - 1, "at": 1_234_567}], kind)}), converts=True)
    assert table["a"].to_pylist() == [{"n": 2**63 - 1, "at": datetime(1970, 1, 1, 0, 0, 1, 234_000)}]


@pytest.mark.parametrize("codecs", [[], [DecimalEncoder()]])
def test_decimals_are_stored(codecs: Any) -> None:
    table = pa.table({"a": pa.array([Decimal("1.25")], pa.decimal128(5, 2))})
    options = DEFAULT_CODEC_OPTIONS.with_options(type_registry=TypeRegistry(codecs))
    (document,) = Rows(table, options, exclude_none=False).take()
    assert document["a"] == Decimal128("1.25")


def test_documents_are_taken_in_limited_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_writing, "DOCUMENTS", 2)
    rows = Rows(TABLE, DEFAULT_CODEC_OPTIONS, exclude_none=True)
    assert [len(rows.take()) for _ in range(3)] == [2, 1, 0]
    monkeypatch.setattr(_writing, "BYTES", 10)
    rows = Rows(TABLE, DEFAULT_CODEC_OPTIONS, exclude_none=True)
    assert len(rows.take()) == 1
    rows.stop()
    assert rows.take() == []


@asynccontextmanager
async def inserting(answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Any, Any]]:
    """A collection whose rows are inserted two by two, and its server. Virtual time does not wait for threads."""

    async def soon(function: Callable[[], Any], _until: float) -> Any:
        await anyio.lowlevel.checkpoint()
        return function()

    monkeypatch.setattr(_writing, "DOCUMENTS", 2)
    async with one_member({"insert": answers}) as (client, server):
        client._core.enter()
        monkeypatch.setattr(client._core.runtime, "run_in_thread", soon)
        yield client.db.coll, server


async def test_all_rows_are_inserted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with inserting([{"n": 2}, {"n": 1}], monkeypatch) as (coll, server):
        result = await arrow.insert_arrow(coll, TABLE, timeoutMS=10_000)
        assert result.inserted_count == 3
        sent = [item.document["documents"] for item in server.received if item.name == "insert"]
    assert [[{k: row[k] for k in ("a", "b")} for row in rows] for rows in sent] == [ROWS[:2], ROWS[2:]]


async def test_an_error_names_the_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    duplicate = {"n": 0, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "duplicate"}]}
    async with inserting([{"n": 2}, duplicate], monkeypatch) as (coll, _):
        with pytest.raises(ArrowWriteError) as caught:
            await arrow.insert_arrow(coll, TABLE)
    assert isinstance(caught.value.__cause__, BulkWriteError)
    assert [entry["index"] for entry in caught.value.details["writeErrors"]] == [2]
    assert caught.value.details["nInserted"] == 2


async def test_an_error_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"ok": 0, "code": 13, "errmsg": "not allowed"}
    async with inserting([{"n": 2}, refused], monkeypatch) as (coll, _):
        with pytest.raises(ArrowWriteError) as caught:
            await arrow.insert_arrow(coll, TABLE)
    assert isinstance(caught.value.__cause__, OperationFailure)
    (entry,) = caught.value.details["writeErrors"]
    assert (entry["index"], caught.value.details["nInserted"]) == (2, 2)
    assert "not allowed" in entry["errmsg"]


async def test_an_error_of_a_later_command_for_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = {"ok": 0, "code": 13, "errmsg": "not allowed"}
    large = pa.table({"text": ["x" * 5_000_000] * 2})  # a command takes one of these
    async with inserting([{"n": 1}, refused], monkeypatch) as (coll, _):
        with pytest.raises(ArrowWriteError) as caught:
            await arrow.insert_arrow(coll, large)
    (entry,) = caught.value.details["writeErrors"]
    assert (entry["index"], caught.value.details["nInserted"]) == (1, 1)
