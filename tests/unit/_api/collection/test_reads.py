"""The reads of a collection."""

from __future__ import annotations

from typing import Any

import pytest

import motorlite
from motorlite import ReadConcern, ReadPreference
from motorlite._base.deadline import NO_DEADLINE
from motorlite._operations.contract import Kind
from motorlite._topology.selection import WritesByPreference
from motorlite.errors import ConfigurationError
from tests.support.fake_core import Collection, FakeCore, batch, next_batch

pytestmark = pytest.mark.anyio


async def test_find(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([]), batch([]))
    await coll.find({"a": 1}, ["b"], 2, 3).to_list()
    assert core.last.command == {
        "find": "things",
        "filter": {"a": 1},
        "limit": 3,
        "projection": {"b": 1},
        "skip": 2,
    }
    await coll.find().to_list()
    assert core.last.command == {"find": "things", "filter": {}}


async def test_find_one(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"_id": 1}]), batch([]))
    assert await coll.find_one({"_id": 1}) == {"_id": 1}
    assert core.last.command == {"find": "things", "filter": {"_id": 1}, "limit": 1, "singleBatch": True}
    assert core.last.deadline is NO_DEADLINE
    assert core.last.operation.selector == ReadPreference.PRIMARY
    assert await coll.find_one() is None
    assert core.last.command["filter"] == {}
    core.reply(batch([]), batch([]))
    await coll.find_one(5)
    assert core.last.command["filter"] == {"_id": 5}
    await coll.find_one("x", {"a": 0})
    assert (core.last.command["filter"], core.last.command["projection"]) == ({"_id": "x"}, {"a": 0})


async def test_find_one_with_options(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"_id": 1}]))
    session = coll.database.client.start_session()
    found = await coll.find_one(
        {"a": 1}, ["b"], sort={"c": -1}, skip=2, limit=9, max_time_ms=7, session=session, timeoutMS=50
    )
    assert found == {"_id": 1}
    assert core.last.command == {
        "find": "things",
        "filter": {"a": 1},
        "sort": {"c": -1},
        "projection": {"b": 1},
        "skip": 2,
        "limit": 1,
        "singleBatch": True,
    }
    assert core.last.session is session._state
    assert core.last.deadline.expires_at == 1000.05


@pytest.mark.parametrize("empty", [[], {}, ""])
async def test_an_empty_sort_is_none(coll: Collection, core: FakeCore, empty: Any) -> None:
    """As in PyMongo; object mappers pass what they have collected."""
    core.reply(batch([]), batch([]))
    await coll.find_one({}, sort=empty)
    await coll.find({}, sort=empty).to_list()
    assert ["sort" in sent.command for sent in core.executor.sent] == [False, False]


async def test_settings_reach_the_operation(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([]), {"ok": 1, "n": 3})
    other = coll.with_options(
        read_preference=ReadPreference.SECONDARY, read_concern=ReadConcern("majority"), timeoutMS=900
    )
    await other.find_one({})
    assert core.last.operation.selector == ReadPreference.SECONDARY
    assert core.last.operation.read_preference == ReadPreference.SECONDARY
    assert core.last.command["readConcern"] == {"level": "majority"}
    assert core.last.deadline.timeout == 0.9
    await other.estimated_document_count()
    assert core.last.command["readConcern"] == {"level": "majority"}


async def test_counts(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"n": 4}]), batch([]), {"ok": 1, "n": 9})
    assert await coll.count_documents({"a": 1}, skip=1, limit=5, hint="a_1", collation={"locale": "de"}) == 4
    assert core.last.command == {
        "aggregate": "things",
        "pipeline": [
            {"$match": {"a": 1}},
            {"$skip": 1},
            {"$limit": 5},
            {"$group": {"_id": 1, "n": {"$sum": 1}}},
        ],
        "collation": {"locale": "de"},
        "hint": "a_1",
        "cursor": {},
    }
    assert await coll.count_documents({}, maxTimeMS=4, comment="c") == 0
    assert (core.last.command["maxTimeMS"], core.last.command["comment"]) == (4, "c")
    assert await coll.estimated_document_count(comment="c", maxTimeMS=4) == 9
    assert core.last.command == {"count": "things", "comment": "c", "maxTimeMS": 4}


async def test_distinct(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "values": [1]})
    assert await coll.distinct("a", {"b": 1}, comment="c", hint="a_1", maxTimeMS=4, collation={"locale": "de"}) == [1]
    assert core.last.command == {
        "distinct": "things",
        "key": "a",
        "query": {"b": 1},
        "collation": {"locale": "de"},
        "hint": "a_1",
        "comment": "c",
        "maxTimeMS": 4,
    }


class TestAggregate:
    async def test_a_pipeline(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([{"a": 1}], 7), next_batch([{"a": 2}]), batch([]))
        cursor = coll.aggregate(
            [{"$match": {}}],
            let={"v": 1},
            comment="c",
            allowDiskUse=True,
            batchSize=1,
            collation={"locale": "de"},
            hint={"a": 1},
            maxTimeMS=5,
        )
        assert core.executor.sent == []
        assert await cursor.to_list() == [{"a": 1}, {"a": 2}]
        assert core.executor.sent[0].command == {
            "aggregate": "things",
            "pipeline": [{"$match": {}}],
            "allowDiskUse": True,
            "collation": {"locale": "de"},
            "hint": {"a": 1},
            "let": {"v": 1},
            "comment": "c",
            "maxTimeMS": 5,
            "cursor": {"batchSize": 1},
        }
        assert core.last.command == {"getMore": 7, "collection": "things", "batchSize": 1, "comment": "c"}
        await coll.aggregate([], maxTimeMS=5, timeoutMS=100)
        assert "maxTimeMS" not in core.last.command, "a timeout replaces the user's limit"
        assert core.last.deadline.timeout == 0.1

    async def test_explain(self, coll: Collection, core: FakeCore) -> None:
        core.reply({"ok": 1, "queryPlanner": {}})
        assert await coll.aggregate([], explain=True).to_list() == [{"ok": 1, "queryPlanner": {}}]
        assert "cursor" not in core.last.command

    @pytest.mark.parametrize("stage", [{"$out": "x"}, {"$merge": {"into": "x"}}])
    async def test_a_writing_pipeline_follows_the_preference_where_it_may(
        self, coll: Collection, core: FakeCore, stage: Any
    ) -> None:
        core.reply(batch([]), batch([]))
        coll = coll.with_options(read_preference=ReadPreference.SECONDARY)
        await coll.aggregate([stage])
        assert core.last.operation.kind is Kind.WRITE
        # What it means is decided when the server is selected.
        assert core.last.operation.selector == WritesByPreference(ReadPreference.SECONDARY)

    async def test_the_await_time(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2]))
        await coll.aggregate([], maxAwaitTimeMS=40).to_list()
        assert core.last.command["maxTimeMS"] == 40
        with pytest.raises(ConfigurationError, match=r"maxAwaitTimeMS must be .*, not 40"):
            await coll.aggregate([], maxAwaitTimeMS=40, timeoutMS=40)


class TestCommandCursor:
    async def test_try_next_asks_once(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([], 7), next_batch([], 7), next_batch([5, 6], 7))
        cursor = coll.aggregate([])
        assert await cursor.try_next() is None
        assert core.names == ["aggregate"]
        assert await cursor.try_next() is None
        found: list[Any] = [await cursor.try_next(), await cursor.try_next()]
        assert found == [5, 6]
        assert core.names == ["aggregate", "getMore", "getMore"]
        await cursor.close()
        assert await cursor.try_next() is None

    async def test_batch_size(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([]))
        await coll.aggregate([]).batch_size(9).to_list()
        assert core.last.command["batchSize"] == 9
        with pytest.raises(ValueError, match=r"batch_size must be .*, not -1"):
            coll.aggregate([]).batch_size(-1)


@pytest.mark.filterwarnings("ignore:call_options")
async def test_blocks_hold_for_their_calls_only(coll: Collection, core: FakeCore) -> None:
    """Calls without options share one value, which no block may change."""
    core.reply(*[batch([])] * 5)
    await coll.find_one()
    usual = core.last.call
    with motorlite.timeout(5):
        await coll.find_one()
        assert core.last.deadline.is_set
    with motorlite.call_options(priority=7):
        await coll.find_one()
        assert core.last.call.options.priority == 7
        assert core.last.deadline is NO_DEADLINE
    await coll.with_options(timeoutMS=50).find_one()
    assert core.last.deadline.timeout == 0.05
    await coll.find_one()
    assert core.last.call is usual
    assert (usual.session, usual.deadline, usual.operation_id) == (None, NO_DEADLINE, None)
    assert usual.options.priority == 50


async def test_find_one_of_collections_with_other_settings(coll: Collection, core: FakeCore) -> None:
    core.reply(*[batch([])] * 4)
    other = coll.with_options(read_concern=ReadConcern("majority"), read_preference=ReadPreference.SECONDARY)
    await other.find_one({"a": 2})
    assert core.last.command["readConcern"] == {"level": "majority"}
    assert core.last.operation.selector == ReadPreference.SECONDARY
    for _ in range(2):
        await coll.find_one({"a": 3})
        assert core.last.command == {"find": "things", "filter": {"a": 3}, "limit": 1, "singleBatch": True}
        assert core.last.operation.selector == ReadPreference.PRIMARY
        # The operations of one collection share nothing that one of them could change.
        core.last.command["limit"] = 99
    operation = core.last.operation
    assert (operation.namespace, operation.size_hint() > 0) == ("app.things", True)
    assert operation.reading_from(ReadPreference.NEAREST).selector == ReadPreference.NEAREST
    assert operation.selector == ReadPreference.PRIMARY
    await coll["more"].find_one({"a": 4})
    assert core.last.command["find"] == "things.more"
