"""Queries: their command, their batches, their setters and their end."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from contextlib import aclosing
from typing import Any
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
from bson.binary import UuidRepresentation
from bson.code import Code

import motorlite
from motorlite import CursorType, ReadPreference
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    CursorNotFound,
    ExecutionTimeout,
    InvalidOperation,
    NetworkTimeout,
    OperationFailure,
    ServerSelectionTimeoutError,
)
from tests.support.fake_core import ADDRESS, Collection, FakeCore, batch, fake_client, next_batch

pytestmark = pytest.mark.anyio


async def test_iterating_reads_all_batches(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"a": 1}, {"a": 2}], 7), next_batch([], 7), next_batch([{"a": 3}]))
    cursor = coll.find({"x": 1})
    assert core.names == []
    assert [found async for found in cursor] == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert core.names == ["find", "getMore", "getMore"]
    assert core.executor.sent[0].command == {"find": "things", "filter": {"x": 1}}
    assert core.last.command == {"getMore": 7, "collection": "things"}
    assert core.last.operation.selector == ADDRESS
    assert (cursor.alive, cursor.cursor_id, cursor.retrieved, cursor.address) == (False, 0, 3, ADDRESS)
    assert [found async for found in cursor] == []


async def test_awaiting_opens_and_returns_the_cursor(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"a": 1}], 7))
    cursor = coll.find()
    assert (cursor.alive, cursor.cursor_id, cursor.address, cursor.retrieved) == (True, None, None, 0)
    assert await cursor is cursor
    assert await cursor is cursor
    assert core.names == ["find"]
    assert cursor.cursor_id == 7
    assert await cursor.next() == {"a": 1}


async def test_the_distinct_values_of_raw_batches_are_decoded(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "values": [{"a": 1}]})
    assert await coll.find_raw_batches({"x": 1}).distinct("d") == [{"a": 1}]
    assert core.last.command == {"distinct": "things", "key": "d", "query": {"x": 1}}
    assert core.last.operation.codec_options == coll.codec_options


@pytest.mark.parametrize("stage", ["$out", "$merge", "$match"])
@pytest.mark.parametrize("end", ["dropped", "explained", "run", "failed", "closed"])
async def test_a_write_that_was_never_run(coll: Collection, core: FakeCore, stage: str, end: str) -> None:
    cursor: motorlite.AsyncCommandCursor[Any] | None
    options: dict[str, Any] = {"explain": True} if end == "explained" else {}
    cursor = coll.aggregate([{stage: {}}], **options)
    if end == "run":
        core.reply(batch([]))
        await cursor
    elif end == "failed":
        core.reply(OperationFailure("no"))
        with pytest.raises(OperationFailure):
            await cursor
    elif end == "closed":
        await cursor.close()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cursor = None
        gc.collect()
    is_lost = end == "dropped" and stage != "$match"
    assert [str(one.message) for one in caught if one.category is RuntimeWarning] == [
        "aggregate() of app.things, which writes, was never run: await its cursor"
    ] * is_lost


async def test_the_implicit_session_lives_as_long_as_the_cursor(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"a": 1}], 7), next_batch([{"a": 2}], 7), next_batch([]))
    await coll.find().to_list()
    sessions = {sent.session for sent in core.executor.sent[1:]}
    assert core.executor.released == list(sessions)


async def test_to_list_with_a_length(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1, 2, 3], 7), next_batch([4, 5]))
    cursor = coll.find()
    assert await cursor.to_list(2) == [1, 2]
    assert core.names == ["find"]
    assert await cursor.to_list(2) == [3, 4]
    assert await cursor.to_list() == [5]
    with pytest.raises(ValueError, match=r"length must be .*, not 0"):
        await cursor.to_list(0)


# What a query may say, and what its command has then.
SETTERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sort": ([("a", -1), "b"], {"sort": {"a": -1, "b": 1}}),
    "limit": (10, {"limit": 10}),
    "skip": (3, {"skip": 3}),
    "batch_size": (5, {"batchSize": 5}),
    "hint": ([("a", 1)], {"hint": {"a": 1}}),
    "comment": ("c", {"comment": "c"}),
    "max_time_ms": (100, {"maxTimeMS": 100}),
    "collation": ({"locale": "de"}, {"collation": {"locale": "de"}}),
    "min": ([("a", 1)], {"min": {"a": 1}}),
    "max": ({"a": 9}, {"max": {"a": 9}}),
    "max_scan": (4, {"maxScan": 4}),
    "allow_disk_use": (True, {"allowDiskUse": True}),
}
# Without a method of the cursor.
ARGUMENTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "projection": (["a"], {"projection": {"a": 1}}),
    "let": ({"v": 1}, {"let": {"v": 1}}),
    "return_key": (True, {"returnKey": True}),
    "show_record_id": (True, {"showRecordId": True}),
    "no_cursor_timeout": (True, {"noCursorTimeout": True}),
    "allow_partial_results": (True, {"allowPartialResults": True}),
    "oplog_replay": (True, {"oplogReplay": True}),
}


async def test_all_options_reach_the_command(coll: Collection, core: FakeCore) -> None:
    options, command = SETTERS | ARGUMENTS, {"find": "things", "filter": {"x": 1}}
    core.reply(batch([]))
    await coll.find({"x": 1}, **{name: value for name, (value, _) in options.items()})
    for _, expected in options.values():
        command |= expected
    assert core.last.command == command


async def test_setters_chain_and_say_the_same(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([]))
    cursor = coll.find()
    command: dict[str, Any] = {"find": "things", "filter": {"$where": Code("this.a > 1")}}
    for name, (value, expected) in SETTERS.items():
        assert getattr(cursor, name)(value) is cursor
        command |= expected
    await cursor.where("this.a > 1")
    assert core.last.command == command
    for name, (value, _) in SETTERS.items():
        with pytest.raises(InvalidOperation, match="clone"):
            getattr(cursor, name)(value)


async def test_setters_take_back(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([]))
    await coll.find().hint("a_1").hint(None).max_time_ms(5).max_time_ms(None).sort("a", -1)
    assert core.last.command == {"find": "things", "filter": {}, "sort": {"a": -1}}


async def test_slices(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([]), batch([]))
    await coll.find()[2:5]
    assert (core.last.command["skip"], core.last.command["limit"]) == (2, 3)
    await coll.find()[2:]
    assert core.last.command == {"find": "things", "filter": {}, "skip": 2}
    assert await coll.find()[5:5].to_list() == []
    assert core.names == ["find", "find"]
    for wrong in (slice(1, 9, 2), slice(-1, None), slice(5, 2)):
        with pytest.raises(IndexError):
            coll.find()[wrong]
    with pytest.raises(IndexError, match="skip"):
        coll.find()[3]  # type: ignore[index]  # what is tested


async def test_options_that_were_removed_leave_nothing_behind(coll: Collection, core: FakeCore) -> None:
    cursor: Any = coll.find(limit=1, batch_size=1, comment="c", cursor_type=CursorType.TAILABLE_AWAIT)
    core.reply({"ok": 1}, {"ok": 1}, batch([{"a": 1}, {"a": 2}], 7), next_batch([], 7), next_batch([{"a": 3}]))
    await cursor.explain()
    assert core.last.command["explain"]["awaitData"] is True
    for setter in (cursor.limit, cursor.batch_size, cursor.comment):
        setter(None)
    cursor._set("cursor_type", None)
    await cursor.explain()
    assert core.last.command == {"explain": {"find": "things", "filter": {}}}
    assert await cursor.to_list() == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert core.names[2:] == ["find", "getMore", "getMore"]
    assert core.last.command == {"getMore": 7, "collection": "things"}


@pytest.mark.parametrize("read", ["to_list", "async for"])
async def test_a_cursor_that_has_ended_sends_nothing(coll: Collection, core: FakeCore, read: str) -> None:
    core.reply(batch([{"a": 1}]))
    cursor = coll.find()
    for found in ([{"a": 1}], [], []):
        assert (await cursor.to_list() if read == "to_list" else [item async for item in cursor]) == found
    with pytest.raises(StopAsyncIteration):
        await cursor.next()
    assert core.names == ["find"]


async def test_clone_and_rewind(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1], 7), {"ok": 1}, batch([1]), batch([2]))
    cursor = coll.find({"a": 1}, limit=9, comment="c", timeoutMS=5000, timeoutMode="iteration").sort("a")
    assert await cursor.next() == 1
    assert await (await cursor.rewind()).to_list() == [1]
    assert core.names == ["find", "killCursors", "find"]
    copy = cursor.clone()
    assert copy.collection is coll
    assert await copy.to_list() == [2]
    assert core.last.command == core.executor.sent[0].command
    assert not core.last.is_time_limited


async def test_a_clone_keeps_the_query_that_it_was_made_of(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1]), batch([2]), batch([3]))
    query, fields, comment = {"a": {"$in": [1]}}, {"a": 1}, {"why": "test"}
    cursor = coll.find(query, fields, comment=comment)
    clone, shallow = cursor.clone(), copy.copy(cursor)
    query["a"]["$in"].append(2)
    fields["b"] = 1
    comment["why"] = "later"
    for made in (clone, shallow, cursor):
        await made.to_list()
    kept, *changed = (
        {name: sent.command[name] for name in ("filter", "projection", "comment")} for sent in core.executor.sent
    )
    assert kept == {"filter": {"a": {"$in": [1]}}, "projection": {"a": 1}, "comment": {"why": "test"}}
    assert changed == [{"filter": query, "projection": fields, "comment": comment}] * 2


class AttributeDict(dict[str, Any]):
    """Has no copies: `copy` gets a KeyError as it asks for ``__deepcopy__``."""

    __getattr__ = dict.__getitem__


async def test_a_clone_of_what_cannot_be_copied_as_it_is(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1]))
    inner = AttributeDict(b=[AttributeDict(c=1)])
    cursor = coll.find(AttributeDict(a=inner))
    clone = cursor.clone()
    inner["b"].append(2)
    await clone.to_list()
    assert core.last.command["filter"] == {"a": {"b": [{"c": 1}]}}


async def test_find_reads_as_the_collection_says(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([], 7), next_batch([]))
    await coll.with_options(read_preference=ReadPreference.NEAREST).find().to_list()
    assert core.executor.sent[0].operation.selector == ReadPreference.NEAREST
    assert core.last.operation.read_preference == ReadPreference.NEAREST


async def test_getmore_asks_for_no_more_than_the_limit(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1, 2], 7), next_batch([3], 7))
    cursor = coll.find(limit=3, batch_size=2, comment="c")
    assert await cursor.to_list() == [1, 2, 3]
    assert core.names == ["find", "getMore", "killCursors"]
    assert core.executor.sent[1].command == {
        "getMore": 7,
        "collection": "things",
        "batchSize": 1,
        "comment": "c",
    }
    assert not cursor.alive


async def test_a_first_batch_that_is_all_ends_the_cursor(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([1], 7))
    cursor = await coll.find(limit=1).max_await_time_ms(None)
    assert core.names == ["find", "killCursors"]
    assert cursor.alive
    assert await cursor.to_list() == [1]
    assert not cursor.alive


class TestTheEnd:
    @pytest.mark.parametrize("block", [lambda cursor: cursor, aclosing], ids=["async with", "aclosing"])
    async def test_close_kills_the_cursor_with_its_session(self, coll: Collection, core: FakeCore, block: Any) -> None:
        core.reply(batch([1, 2], 7))
        async with block(coll.find()) as cursor:
            await cursor.next()
        assert core.last.command == {"killCursors": "things", "cursors": [7]}
        assert core.last.session is not None
        assert core.executor.released == [core.last.session]
        assert not cursor.alive
        await cursor.close()
        assert core.names == ["find", "killCursors"]
        assert await cursor.to_list() == []

    async def test_a_dropped_cursor_is_killed_in_the_background_if_it_is_open(
        self, coll: Collection, core: FakeCore
    ) -> None:
        core.reply(batch([1]), batch([1], 7))
        await coll.find()
        gc.collect()
        assert core.spawned == []
        await coll.find()
        gc.collect()
        await core.run_spawned()
        assert core.names == ["find", "find", "killCursors"]
        assert len(core.executor.released) == 1

    async def test_errors_of_killcursors_are_not_raised(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), NetworkTimeout("gone"))
        cursor = await coll.find()
        await cursor.close()
        assert len(core.executor.released) == 1

    async def test_a_cursor_that_was_never_opened(self, coll: Collection, core: FakeCore) -> None:
        cursor = coll.find()
        await cursor.close()
        assert core.names == []
        assert not cursor.alive
        with pytest.raises(InvalidOperation, match="closed"):
            await cursor

    async def test_close_while_cancelled_goes_on_in_the_background(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7))
        cursor = await coll.find()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await cursor.close()
        await core.run_spawned()
        assert core.last.command == {"killCursors": "things", "cursors": [7]}
        assert len(core.executor.released) == 1

    async def test_an_explicit_session_is_used_and_kept(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7))
        session = coll.database.client.start_session()
        cursor = coll.find(session=session)
        assert cursor.session is session
        await cursor.next()
        await cursor.next()
        await cursor.close()
        assert [sent.session for sent in core.executor.sent] == [session._state] * 3
        assert core.executor.released == []

    async def test_closing_after_the_session_has_ended(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7))
        session = coll.database.client.start_session()
        cursor = await coll.find(session=session)
        await session.end_session()
        await cursor.close()
        assert core.last.session is None


GONE = CursorNotFound("gone", 43, {"ok": 0, "code": 43})
FORBIDDEN = OperationFailure("no", 13, {"ok": 0, "code": 13})
SHED = OperationFailure("busy", 462, {"ok": 0, "errorLabels": ["SystemOverloadedError"]})
NOT_SENT = ServerSelectionTimeoutError("none")
# Whether the cursor is tailable, the replies, what `to_list` returns again and again, and the commands until `close`.
STORIES: dict[str, tuple[bool, list[Any], list[Any], str]] = {
    "a cursor that is gone is not killed": (False, [batch([1], 7), GONE], [CursorNotFound], "find getMore"),
    "a getMore that was shed or never sent is repeated, and nothing is lost": (
        False,
        [batch([1, 2], 7), next_batch([3], 7), SHED, NOT_SENT, next_batch([4])],
        [OperationFailure, ServerSelectionTimeoutError, [1, 2, 3, 4]],
        "find getMore getMore getMore getMore",
    ),
    "a failed query is repeated": (False, [FORBIDDEN, batch([1])], [OperationFailure, [1], []], "find find"),
    "a tailable cursor stops at an empty batch, but not for ever": (
        True,
        [batch([1], 7), next_batch([], 7), next_batch([2], 7), next_batch([], 7)],
        [[1], [2]],
        "find getMore getMore getMore killCursors",
    ),
    "an empty first batch": (True, [batch([], 7)], [[]], "find killCursors"),
    "a tailable cursor that rolled over just ends": (True, [batch([1], 7), GONE], [[1], []], "find getMore"),
    "other errors of a tailable cursor": (
        True,
        [batch([1], 7), FORBIDDEN],
        [OperationFailure, InvalidOperation],
        "find getMore killCursors",
    ),
}


@pytest.mark.parametrize("story", STORIES)
async def test_reading_on(coll: Collection, core: FakeCore, story: str) -> None:
    is_tailable, replies, outcomes, commands = STORIES[story]
    core.reply(*copy.deepcopy(replies))
    cursor = coll.find(cursor_type=CursorType.TAILABLE if is_tailable else CursorType.NON_TAILABLE)
    for outcome in outcomes:
        if isinstance(outcome, list):
            assert await cursor.to_list() == outcome
        else:
            with pytest.raises(outcome):
                await cursor.to_list()
    has_ended = "killCursors" not in commands
    assert cursor.alive is not (has_ended or outcomes[-1] is InvalidOperation)
    await cursor.close()
    await core.run_spawned()
    assert core.names == commands.split()
    assert ("tailable" in core.executor.sent[0].command) is is_tailable
    assert len(core.executor.released) == (7 in [reply["cursor"]["id"] for reply in replies if isinstance(reply, dict)])


class TestFailures:
    async def test_an_unknown_position_is_not_read_past(self, coll: Collection, core: FakeCore) -> None:
        lost = AutoReconnect("lost")
        lost.reached_server = True
        core.reply(batch([1], 7), lost)
        cursor = coll.find()
        with pytest.raises(AutoReconnect):
            await cursor.to_list()
        assert not cursor.alive
        # At once, and not only when it is closed or dropped.
        await core.run_spawned()
        assert core.names == ["find", "getMore", "killCursors"]
        assert len(core.executor.released) == 1
        with pytest.raises(InvalidOperation, match="documents may be missing"):
            await cursor.next()
        await cursor.close()
        assert core.names == ["find", "getMore", "killCursors"]

    async def test_a_cancelled_getmore_is_not_continued(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7))
        cursor = coll.find()
        await cursor.next()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await cursor.next()
        with pytest.raises(InvalidOperation, match="documents may be missing"):
            await cursor.next()

    async def test_nothing_is_lost_if_the_end_is_cancelled(self, coll: Collection, core: FakeCore) -> None:
        def last(sent: Any) -> Any:
            scope.cancel()
            return next_batch([3], 7)

        core.reply(batch([1, 2], 7), last)
        cursor = coll.find(limit=3, batch_size=2)
        with anyio.CancelScope() as scope:
            await cursor.to_list()
        assert scope.cancelled_caught
        await core.run_spawned()
        assert core.names == ["find", "getMore", "killCursors", "killCursors"]
        assert await cursor.to_list() == [1, 2, 3]

    @pytest.mark.parametrize("is_open", [False, True])
    async def test_two_readers_at_once_are_told(self, coll: Collection, core: FakeCore, is_open: bool) -> None:
        results: list[Any] = []

        async def read() -> None:
            try:
                results.append(await cursor.next())
            except InvalidOperation as error:
                results.append(str(error))

        core.reply(*([batch([], 7), next_batch([1])] if is_open else [batch([1])]))
        cursor = coll.find()
        if is_open:
            await cursor
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(read)
        assert len(results) == 2
        assert 1 in results
        assert any("two tasks" in str(result) for result in results)

    async def test_closing_during_a_getmore(self, coll: Collection, core: FakeCore) -> None:
        def answer(sent: Any) -> Any:
            return {"ok": 1} if sent.name == "killCursors" else next_batch([1], 7)

        core.reply(batch([], 7), *[answer] * 50)
        cursor = await coll.find()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cursor.to_list)
            while "getMore" not in core.names:
                await anyio.lowlevel.checkpoint()
            await cursor.close()
        assert not cursor.alive
        assert cursor.cursor_id == 0
        assert core.names.count("killCursors") == 1
        assert len(core.executor.released) == 1

    async def test_closing_during_the_query(self, coll: Collection, core: FakeCore) -> None:
        cursor = coll.find()
        found: list[Any] = []

        def answer(_: Any) -> Any:
            cursor._is_closed = True
            return batch([1], 7)

        core.reply(answer)
        found += await cursor.to_list()
        assert found == []
        assert core.names == ["find", "killCursors"]


class TestTailable:
    async def test_the_await_time_is_that_of_getmore(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7), next_batch([3], 7))
        cursor = coll.find(cursor_type=CursorType.TAILABLE_AWAIT, timeoutMS=2000).max_await_time_ms(500)
        await cursor.next()
        assert core.last.is_time_limited
        assert core.last.command["awaitData"] is True
        await cursor.next()
        assert core.last.command["maxTimeMS"] == 500
        assert core.last.operation.is_await_data
        core.time += 1.75
        await cursor.next()
        assert core.last.command["maxTimeMS"] == 500, "each step has the whole time"

    async def test_flags(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([]))
        cursor = await coll.find().add_option(2 | 16 | 32 | 128)
        cursor.remove_option(128)
        await cursor
        command = core.last.command
        assert command["tailable"] is command["awaitData"] is command["noCursorTimeout"] is True
        assert "allowPartialResults" not in command
        assert (await coll.find().add_option(2)).remove_option(2)._query == {"cursor_type": 0}
        assert (await coll.find().add_option(2 | 16)).remove_option(-1)._query == coll.find().remove_option(-1)._query
        with pytest.raises(ValueError, match="mask must be an integer of at least 0, not -1"):
            await coll.find().add_option(-1)


class TestTimeouts:
    @pytest.mark.parametrize("await_ms", [200, 201])
    async def test_waiting_longer_than_the_timeout_is_refused(
        self, coll: Collection, core: FakeCore, await_ms: int
    ) -> None:
        waiting: dict[str, Any] = {"timeoutMS": 200, "max_await_time_ms": await_ms}
        for cursor in (coll.find(cursor_type=CursorType.TAILABLE_AWAIT, **waiting), coll.watch(**waiting)):
            with pytest.raises(ConfigurationError, match=f"maxAwaitTimeMS must be less than .*, not {await_ms}"):
                await cursor
        assert core.names == []

    async def test_a_lifetime(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7))
        cursor = coll.find(timeoutMS=2000, max_time_ms=50)
        await cursor.next()
        core.time += 1
        await cursor.next()
        find, get_more = core.executor.sent
        assert find.deadline.expires_at == get_more.deadline.expires_at == 1002.0
        assert find.is_time_limited
        assert not get_more.is_time_limited
        assert "maxTimeMS" not in find.command, "a timeout replaces the user's limit"
        await cursor.close()
        assert core.last.deadline.expires_at == 1003.0, "close has the whole time again"

    async def test_an_iteration(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1], 7), next_batch([2], 7))
        cursor = coll.find(timeoutMS=2000, timeoutMode="iteration")
        await cursor.next()
        core.time += 5
        await cursor.next()
        find, get_more = core.executor.sent
        assert (find.deadline.expires_at, get_more.deadline.expires_at) == (1002.0, 1007.0)
        assert not find.is_time_limited
        await cursor.close(timeoutMS=300)
        assert core.last.deadline.expires_at == 1005.3

    @pytest.mark.parametrize(("seconds", "ends"), [(None, [2.0, 2.0, 2.0]), (0.75, [0.75, 1.75, 2.0])])
    async def test_an_iteration_ends_with_the_transaction_around_it(
        self, coll: Collection, core: FakeCore, seconds: float | None, ends: list[float]
    ) -> None:
        limited = coll.with_options(timeoutMS=5000)

        async def read(session: Any) -> None:
            with motorlite.timeout(seconds):
                cursor = limited.find(timeoutMode="iteration", session=session)
                await cursor.next()
            for each in (1, 1.5):
                core.time += each
                await cursor.next()

        session = coll.database.client.start_session()
        start = core.time = anyio.current_time()
        core.reply(batch([1], 7), next_batch([2], 7), next_batch([3]))
        await session.with_transaction(read, timeoutMS=2000)
        assert [sent.deadline.expires_at - start for sent in core.executor.sent[:3]] == ends

    async def test_documents_at_hand_are_returned_after_the_deadline(self, coll: Collection, core: FakeCore) -> None:
        core.reply(batch([1, 2], 7), ExecutionTimeout("late"))
        cursor = coll.find(timeoutMS=100)
        await cursor.next()
        core.time += 1
        assert await cursor.next() == 2
        with pytest.raises(ExecutionTimeout):
            await cursor.next()

    async def test_one_step_has_one_deadline(self, coll: Collection, core: FakeCore) -> None:
        def later(sent: Any) -> Any:
            core.time += 0.5
            return next_batch([], 7)

        core.reply(batch([], 7), later, later, next_batch([1]))
        cursor = coll.find(timeoutMS=2000, timeoutMode="iteration")
        await cursor.next()
        assert {sent.deadline.expires_at for sent in core.executor.sent[1:]} == {1002.0}

    async def test_inherited(self) -> None:
        client, core = fake_client("mongodb://h/?timeoutMS=5000")
        core.reply(batch([]), batch([]))
        await client.a.b.find()
        assert core.last.deadline.expires_at == 1005.0
        await client.get_database("a", timeoutMS=3000).b.find()
        assert core.last.deadline.expires_at == 1003.0

    async def test_a_mode_needs_a_timeout(self, coll: Collection, core: FakeCore) -> None:
        with pytest.raises(ConfigurationError, match="timeoutMS is not set"):
            coll.find(timeoutMode="iteration")
        core.reply(batch([]))
        with motorlite.timeout(5):
            await coll.find(timeoutMode="iteration")


async def test_explain(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "queryPlanner": {}})
    assert await coll.find({"a": 1}).sort("a").explain() == {"ok": 1, "queryPlanner": {}}
    assert core.last.command == {"explain": {"find": "things", "filter": {"a": 1}, "sort": {"a": 1}}}


async def test_explain_uses_the_codec_options_of_the_query(coll: Collection, core: FakeCore) -> None:
    options = coll.codec_options.with_options(uuid_representation=UuidRepresentation.STANDARD)
    core.reply({"ok": 1, "queryPlanner": {}})
    await coll.with_options(codec_options=options).find({"a": UUID(int=1)}).explain()
    assert core.last.operation.codec_options == options


async def test_max_time_limits_explain(coll: Collection, core: FakeCore) -> None:
    """At the top, where the server heeds it; in the query, where it has no effect, it is not repeated."""
    explained = {"find": "things", "filter": {}}
    await coll.find().max_time_ms(2000).explain()
    assert core.last.command == {"explain": explained, "maxTimeMS": 2000}
    await coll.find(max_time_ms=0).explain()
    assert core.last.command == {"explain": explained, "maxTimeMS": 0}
    await coll.find(max_time_ms=2000).explain(timeoutMS=50)
    assert core.last.command == {"explain": explained}
    assert core.last.deadline.expires_at == 1000.05


async def test_distinct(coll: Collection, core: FakeCore) -> None:
    core.reply({"ok": 1, "values": [1, 2]})
    assert await coll.find({"a": 1}).sort("a").hint("a_1").limit(3).distinct("b", timeoutMS=50) == [1, 2]
    assert core.last.command == {"distinct": "things", "key": "b", "query": {"a": 1}}, "old servers refuse the hint"
    assert core.last.deadline.expires_at == 1000.05


async def test_a_copy_is_another_query(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"a": 1}]), batch([]), batch([]))
    cursor = coll.find({"a": {"$in": [1]}}, sort=[("a", 1)])
    await cursor.next()
    shallow = copy.copy(cursor).limit(5)
    deep = copy.deepcopy(cursor)
    cursor._filter["a"]["$in"].append(2)
    assert await shallow.to_list() == await deep.to_list() == []
    first, second, third = (sent.command for sent in core.executor.sent)
    assert "limit" not in first
    assert second["limit"] == 5
    assert third == {"find": "things", "filter": {"a": {"$in": [1]}}, "sort": {"a": 1}}


async def test_cursors_cannot_be_pickled_and_those_of_commands_not_be_copied(coll: Collection) -> None:
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="AsyncCommandCursor cannot be"):
            duplicate(coll.aggregate([]))
    with pytest.raises(TypeError, match="AsyncCursor cannot be"):
        pickle.dumps(coll.find())
