"""Scans of a scripted deployment: batches, frames, errors, and cancellation at each await."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import anyio.lowlevel
import bson
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from motorlite import arrow
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import ConfigurationError, ExecutionTimeout, OperationFailure
from motorlite.testing.cancellation import cancel_at_every_point
from tests.support.clients import one_member

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from motorlite.testing.scripted import ScriptedServer
    from tests.support.clients import Client

pytestmark = pytest.mark.anyio


def batch(field: str, numbers: range, cursor_id: int) -> dict[str, Any]:
    return {"cursor": {"id": cursor_id, "ns": "db.coll", field: [{"_id": n, "text": f"text {n}"} for n in numbers]}}


FIRST, SECOND, LAST = (
    batch("firstBatch", range(2), 7),
    batch("nextBatch", range(2, 4), 7),
    batch("nextBatch", range(4, 5), 0),
)
ROWS = [{"_id": n, "text": f"text {n}"} for n in range(5)]
REFUSED = {"ok": 0, "code": 13, "errmsg": "no"}


async def soon(function: Callable[[], Any], _until: float) -> Any:
    """Instead of a thread, for which virtual time does not wait."""
    await anyio.lowlevel.checkpoint()
    return function()


class Scene:
    def __init__(self, client: Client, server: ScriptedServer) -> None:
        self.client = client
        self.coll: Any = client.db.coll
        self.server = server

    def commands(self, name: str) -> list[Any]:
        return [item.document for item in self.server.received if item.name == name]

    def in_use(self) -> int:
        return sum(stats.in_use + stats.pending for stats in self.client.stats().servers.values())


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    answers = {"find": FIRST, "aggregate": FIRST, "getMore": [SECOND, LAST] * 100}
    async with one_member(answers) as (client, server):
        client._core.enter()
        monkeypatch.setattr(client._core.runtime, "run_in_thread", soon)
        yield Scene(client, server)


async def test_a_table_has_all_batches(scene: Scene) -> None:
    assert (await arrow.find_arrow(scene.coll)).to_pylist() == ROWS
    assert (await arrow.aggregate_arrow(scene.coll, [])).to_pylist() == ROWS
    assert scene.in_use() == 0


async def test_batches_are_of_a_size_that_does_not_keep_the_event_loop(scene: Scene) -> None:
    await arrow.find_arrow(scene.coll)
    await arrow.aggregate_arrow(scene.coll, [])
    await arrow.find_arrow(scene.coll, batch_size=7)
    sizes = [command["batchSize"] for command in scene.commands("find")]
    assert sizes == [5_000, 7]
    assert [command["cursor"] for command in scene.commands("aggregate")] == [{"batchSize": 5_000}]
    assert {command["batchSize"] for command in scene.commands("getMore")} == {5_000, 7}


async def test_a_schema_chooses_the_fields(scene: Scene) -> None:
    table = await arrow.find_arrow(scene.coll, {"x": 1}, schema={"text": str})
    assert table.column_names == ["text"]
    assert table.num_rows == len(ROWS)
    await arrow.aggregate_arrow(scene.coll, [{"$match": {}}], schema=arrow.Schema({"text": str}))
    (find,), (aggregate,) = scene.commands("find"), scene.commands("aggregate")
    assert (find["filter"], find["projection"]) == ({"x": 1}, {"_id": False, "text": True})
    assert aggregate["pipeline"] == [{"$match": {}}, {"$project": {"_id": False, "text": True}}]


async def test_record_batches(scene: Scene) -> None:
    found = [each async for each in arrow.find_arrow_batches(scene.coll)]
    assert [each.num_rows for each in found] == [2, 2, 1]
    assert pa.Table.from_batches(found).to_pylist() == ROWS
    found = [each async for each in arrow.aggregate_arrow_batches(scene.coll, [])]
    assert pa.Table.from_batches(found).to_pylist() == ROWS


async def test_frames(scene: Scene) -> None:
    for found in (await arrow.find_pandas(scene.coll), await arrow.aggregate_pandas(scene.coll, [])):
        pd.testing.assert_frame_equal(found, pd.DataFrame(ROWS), check_dtype=False)
    for found in (await arrow.find_polars(scene.coll), await arrow.aggregate_polars(scene.coll, [])):
        assert isinstance(found, pl.DataFrame)
        assert found.to_dicts() == ROWS
    for found in (await arrow.find_numpy(scene.coll), await arrow.aggregate_numpy(scene.coll, [])):
        assert found["_id"].tolist() == [0, 1, 2, 3, 4]
        assert found["text"].tolist() == [row["text"] for row in ROWS]
        assert found["text"].dtype.kind == np.dtype(np.str_).kind


async def test_an_empty_result(scene: Scene) -> None:
    scene.server.on("find", batch("firstBatch", range(0), 0))
    assert (await arrow.find_arrow(scene.coll)).num_rows == 0
    assert (await arrow.find_arrow(scene.coll, schema={"a": int})).schema == pa.schema([("a", pa.int64())])
    assert (await arrow.find_numpy(scene.coll, schema={"a": int}))["a"].tolist() == []
    assert [each async for each in arrow.find_arrow_batches(scene.coll)] == []


async def test_what_has_no_table_is_refused(scene: Scene) -> None:
    with pytest.raises(ConfigurationError, match="cursor_type"):
        await arrow.find_arrow(scene.coll, cursor_type=2)
    with pytest.raises(ConfigurationError, match=r"\$out"):
        await arrow.aggregate_arrow(scene.coll, [{"$out": "other"}])
    with pytest.raises(TypeError, match="schema"):
        await arrow.find_arrow(scene.coll, schema=["a"])
    assert scene.server.received == [] or not scene.commands("find")


@pytest.mark.parametrize(
    "use",
    [
        lambda it: arrow.find_arrow(it),
        lambda it: arrow.aggregate_pandas(it, []),
        lambda it: anext(arrow.find_arrow_batches(it)),
        lambda it: arrow.insert_arrow(it, {}),
    ],
    ids=["find", "aggregate", "batches", "insert"],
)
@pytest.mark.parametrize("what", ["x", None])
async def test_what_is_no_collection_is_refused(use: Callable[[Any], Awaitable[Any]], what: Any) -> None:
    with pytest.raises(TypeError, match=f"^collection must be an instance of AsyncCollection, not {what!r}"):
        await use(what)


async def test_a_server_that_fails_half_way(scene: Scene) -> None:
    scene.server.on("getMore", SECOND, REFUSED)
    with pytest.raises(OperationFailure, match="no"):
        await arrow.find_arrow(scene.coll)
    assert scene.in_use() == 0
    scene.server.on("getMore", SECOND, LAST)
    assert (await arrow.find_arrow(scene.coll)).num_rows == len(ROWS)


async def test_conversion_ends_with_the_time_limit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def late(_function: Any, _until: float) -> Any:
        raise WaitTimeout

    monkeypatch.setattr(scene.client._core.runtime, "run_in_thread", late)
    with pytest.raises(ExecutionTimeout, match="converted") as caught:
        await arrow.find_arrow(scene.coll, timeoutMS=50)
    assert caught.value.timeout
    assert caught.value.client_limit == pytest.approx(0.05, abs=0.01)


@pytest.mark.parametrize("late", [False, True])
async def test_a_cancelled_scan_leaves_nothing(scene: Scene, late: bool) -> None:
    async def scan() -> None:
        scene.server.on("getMore", SECOND, LAST)
        await arrow.find_arrow(scene.coll)

    async def check() -> None:
        scene.server.on("getMore", SECOND, LAST)
        assert (await arrow.find_arrow(scene.coll)).to_pylist() == ROWS
        assert scene.in_use() == 0

    assert await cancel_at_every_point(scan, check, late=late) > 3


async def test_an_iterator_that_is_left_closes_its_cursor(scene: Scene) -> None:
    async with contextlib.aclosing(arrow.find_arrow_batches(scene.coll, prefetch=0)) as batches:
        async for each in batches:
            assert each.num_rows == 2
            break
    (killed,) = scene.commands("killCursors")
    assert killed["cursors"] == [bson.Int64(7)]
    assert scene.in_use() == 0
