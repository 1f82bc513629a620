"""Bulk writes: their batches, what they share and what they add up to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import decode, encode
from bson.errors import InvalidDocument
from bson.raw_bson import RawBSONDocument

from motorlite import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, WriteConcern
from motorlite.errors import BulkWriteError, InvalidOperation, NetworkTimeout, OperationFailure, WriteConcernError
from tests.support import fake_core

if TYPE_CHECKING:
    from tests.support.fake_core import Collection, FakeCore

pytestmark = pytest.mark.anyio


@pytest.fixture
def _batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_core.FACTS, "max_write_batch_size", 2)


def documents(sent: fake_core.Sent) -> list[dict[str, Any]]:
    return [decode(data) for data in sent.sequences[0].documents]


async def test_insert_many(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 3})
    given: list[Any] = [{"a": 1}, {"_id": None}, RawBSONDocument(encode({"_id": 5}))]
    result = await coll.insert_many(iter(given))
    assert result.inserted_ids == [given[0]["_id"], None]
    assert result.acknowledged
    assert documents(core.last) == [{"_id": given[0]["_id"], "a": 1}, {"_id": None}, {"_id": 5}]
    assert core.last.command == {"insert": "things", "ordered": True}


@pytest.mark.usefixtures("_batches_of_two")
async def test_all_batches_share_deadline_operation_id_and_session(coll: Collection, core: FakeCore) -> None:
    def later(sent: fake_core.Sent) -> dict[str, Any]:
        core.time += 1
        assert sent.session is not None
        sent.session.server_session = core.sessions.acquire(core.time, None)
        return {"ok": 1, "n": len(sent.sequences[0].documents)}

    core.reply(later, later, later)
    await coll.insert_many([{"_id": i} for i in range(5)], comment="c", timeoutMS=9000)
    assert [documents(sent) for sent in core.executor.sent] == [
        [{"_id": 0}, {"_id": 1}],
        [{"_id": 2}, {"_id": 3}],
        [{"_id": 4}],
    ]
    assert len({sent.operation_id for sent in core.executor.sent}) == 1
    assert {sent.deadline.expires_at for sent in core.executor.sent} == {1009.0}
    sessions = {sent.session for sent in core.executor.sent}
    assert core.executor.released == list(sessions)
    assert all(sent.command["comment"] == "c" for sent in core.executor.sent)


async def test_an_explicit_session_is_kept(coll: Collection, core: FakeCore) -> None:
    session = coll.database.client.start_session()
    core.reply({"ok": 1, "n": 1})
    await coll.insert_many([{}], session=session)
    assert core.last.session is session._state
    assert core.executor.released == []


async def test_requests_in_order(coll: Collection, core: FakeCore) -> None:
    core.reply(
        {"ok": 1, "n": 1},
        {"ok": 1, "n": 4, "nModified": 3, "upserted": [{"index": 1, "_id": 8}]},
        {"ok": 1, "n": 2},
        {"ok": 1, "n": 1},
    )
    inserted: dict[str, Any] = {"a": 1}
    result = await coll.bulk_write(
        [
            InsertOne(inserted),
            UpdateOne({"a": 1}, {"$set": {"b": 1}}),
            ReplaceOne({"a": 2}, {"b": 1}, upsert=True),
            UpdateMany({}, {"$set": {"b": 1}}),
            DeleteMany({"a": 1}),
            DeleteOne({"a": 1}),
            InsertOne({"_id": 3}),
        ],
        let={"v": 1},
        comment="c",
        bypass_document_validation=True,
    )
    assert core.names == ["insert", "update", "delete", "insert"]
    assert "_id" in inserted
    assert (result.inserted_count, result.matched_count, result.modified_count) == (2, 3, 3)
    assert (result.deleted_count, result.upserted_ids) == (2, {2: 8})
    assert result.acknowledged
    assert core.executor.sent[1].command == {
        "update": "things",
        "ordered": True,
        "let": {"v": 1},
        "comment": "c",
        "bypassDocumentValidation": True,
    }


async def test_requests_in_any_order(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 2}, {"ok": 1, "n": 1})
    await coll.bulk_write([InsertOne({}), DeleteOne({}), InsertOne({})], ordered=False)
    assert core.names == ["insert", "delete"]
    assert core.last.command["ordered"] is False


INSERTED = {"ok": 1, "n": 2}
FAILED = {"ok": 1, "n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "duplicate"}]}
CONCERN_ERROR = {"code": 91, "errmsg": "shutting down"}


@pytest.mark.usefixtures("_batches_of_two")
@pytest.mark.parametrize(
    ("ordered", "replies", "inserted", "failed", "concern_errors"),
    [
        (True, [INSERTED, FAILED], 3, [3], []),
        (False, [FAILED, INSERTED, FAILED], 4, [1, 5], []),
        # One that was retried in vain does not stop an ordered bulk write.
        (True, [{**INSERTED, "writeConcernError": CONCERN_ERROR}, INSERTED, INSERTED], 6, [], [CONCERN_ERROR]),
    ],
    ids=["ordered: stops at the first error", "unordered: tries all", "a write concern error"],
)
async def test_errors(
    coll: Collection,
    core: FakeCore,
    ordered: bool,
    replies: list[dict[str, Any]],
    inserted: int,
    failed: list[int],
    concern_errors: list[dict[str, Any]],
) -> None:
    core.reply(*replies)
    with pytest.raises(BulkWriteError) as caught:
        await coll.insert_many([{"_id": number} for number in range(6)], ordered=ordered)
    assert core.names == ["insert"] * len(replies)
    details: Any = caught.value.details
    assert details["nInserted"] == inserted
    assert [(error["index"], error["op"]) for error in details["writeErrors"]] == [(n, {"_id": n}) for n in failed]
    assert details["writeConcernErrors"] == concern_errors


async def test_a_write_concern_error_without_a_reply_is_raised(coll: Collection, core: FakeCore) -> None:
    core.reply(WriteConcernError("no"))
    with pytest.raises(WriteConcernError):
        await coll.insert_many([{}])


async def test_a_command_that_fails_as_a_whole(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "n": 1}, NetworkTimeout("lost"))
    with pytest.raises(NetworkTimeout):
        await coll.bulk_write([InsertOne({}), DeleteOne({}), InsertOne({})])
    assert core.names == ["insert", "delete"]


async def test_unacknowledged(coll: Collection, core: FakeCore) -> None:
    unacknowledged = coll.with_options(write_concern=WriteConcern(w=0))
    result = await unacknowledged.bulk_write([InsertOne({}), DeleteOne({})], ordered=False)
    assert not result.acknowledged
    assert core.names == ["insert", "delete"]
    assert core.last.session is None
    assert [sent.command["writeConcern"] for sent in core.executor.sent] == [{"w": 0}, {"w": 0}]


async def test_an_ordered_unacknowledged_bulk_write_stops_at_an_error(coll: Collection, core: FakeCore) -> None:
    unacknowledged = coll.with_options(write_concern=WriteConcern(w=0))
    core.reply({"ok": 1, "n": 1}, {"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 1, "errmsg": "no"}]})
    requests: list[Any] = [InsertOne({}), DeleteOne({}), InsertOne({})]
    result = await unacknowledged.bulk_write(requests)
    assert not result.acknowledged
    assert core.names == ["insert", "delete"]
    assert not any("writeConcern" in sent.command for sent in core.executor.sent)
    core.reply({"ok": 1, "n": 1}, {"ok": 1, "n": 1}, None)
    await unacknowledged.bulk_write(requests)
    assert core.names[2:] == ["insert", "delete", "insert"]
    assert core.last.command["writeConcern"] == {"w": 0}


async def test_the_reply_to_a_batch_of_an_unacknowledged_bulk_write_is_not_raised(
    coll: Collection, core: FakeCore
) -> None:
    unacknowledged = coll.with_options(write_concern=WriteConcern(w=0))
    core.reply(OperationFailure("no", 13))
    result = await unacknowledged.bulk_write([InsertOne({}), DeleteOne({})])
    assert not result.acknowledged
    assert core.names == ["insert"]
    core.reply({"ok": 1, "n": 1, "writeConcernError": {"code": 64, "errmsg": "late"}})
    assert not (await unacknowledged.bulk_write([InsertOne({}), DeleteOne({})])).acknowledged
    assert core.names[1:] == ["insert", "delete"]
    core.reply(NetworkTimeout("lost"))
    with pytest.raises(NetworkTimeout) as caught:
        await unacknowledged.bulk_write([InsertOne({}), DeleteOne({})])
    assert "partial_result" not in vars(caught.value)


async def test_nothing_to_do(coll: Collection) -> None:
    with pytest.raises(TypeError, match="at least one document"):
        await coll.insert_many([])
    with pytest.raises(InvalidOperation, match="at least one request"):
        await coll.bulk_write([])


@pytest.mark.usefixtures("_batches_of_two")
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize(
    ("value", "error"), [({1, 2}, InvalidDocument), (2**63, OverflowError), ("\ud800", UnicodeEncodeError)]
)
async def test_what_bson_refuses_in_a_later_batch_says_what_was_written(
    coll: Collection, core: FakeCore, ordered: bool, value: Any, error: type[Exception]
) -> None:
    core.reply({"ok": 1, "n": 2})
    with pytest.raises(error) as caught:
        await coll.insert_many([{"_id": 0}, {"_id": 1}, {"_id": 2, "a": value}], ordered=ordered)
    assert core.names == ["insert"]
    assert vars(caught.value)["partial_result"].inserted_count == 2
