"""Change streams: their command, their tokens, their errors and their end."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.codec_options import CodecOptions, TypeDecoder, TypeRegistry
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from bson.son import SON
from bson.timestamp import Timestamp
from outcome import Value

import motorlite
from motorlite import Collation, ReadPreference
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    CursorNotFound,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ProtocolError,
    PyMongoError,
)
from motorlite.read_concern import ReadConcern
from tests.support.change_log import change, token
from tests.support.fake_core import ADDRESS, Collection, FakeCore, batch, next_batch

if TYPE_CHECKING:
    from motorlite import AsyncMongoClient

pytestmark = pytest.mark.anyio

LABEL = "ResumableChangeStreamError"


def first(*numbers: int, after: int | None = None, cursor_id: int = 7) -> dict[str, Any]:
    return _reply(batch([change(number) for number in numbers], cursor_id), after)


def more(*numbers: int, after: int | None = None, cursor_id: int = 7) -> dict[str, Any]:
    return _reply(next_batch([change(number) for number in numbers], cursor_id), after)


def _reply(reply: dict[str, Any], after: int | None) -> dict[str, Any]:
    if after is not None:
        reply["cursor"]["postBatchResumeToken"] = token(after)
    return reply


def reached(error: Any) -> Any:
    """An error of a command that the server may have executed."""
    error.reached_server = True
    return error


def lost(_: Any = None) -> AutoReconnect:
    return reached(AutoReconnect("lost"))  # type: ignore[no-any-return]


def labelled(code: int = 6, label: str = LABEL) -> OperationFailure:
    return OperationFailure("failed", code, {"ok": 0, "code": code, "errorLabels": [label]})


def stage(core: FakeCore) -> Any:
    """The options of the stage of the last aggregate command."""
    commands = [sent.command for sent in core.executor.sent if sent.name == "aggregate"]
    return commands[-1]["pipeline"][0]["$changeStream"]


class TestCommand:
    @pytest.mark.parametrize(
        ("watch", "database", "name", "options"),
        [
            (lambda client: client.app.things.watch(), "app", "things", {}),
            (lambda client: client.app.watch(), "app", 1, {}),
            (lambda client: client.watch(), "admin", 1, {"allChangesForCluster": True}),
        ],
        ids=["collection", "database", "client"],
    )
    async def test_on_each_level(
        self, client: AsyncMongoClient, core: FakeCore, watch: Any, database: str, name: Any, options: dict[str, Any]
    ) -> None:
        core.reply(first(), {"ok": 1})
        async with await watch(client):
            assert core.last.operation.database == database
            assert core.last.command == {"aggregate": name, "pipeline": [{"$changeStream": options}], "cursor": {}}

    async def test_all_options(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), more(), {"ok": 1})
        coll = coll.with_options(read_preference=ReadPreference.NEAREST, read_concern=ReadConcern("majority"))
        stream = coll.watch(
            [{"$match": {"operationType": "insert"}}],
            full_document="updateLookup",
            full_document_before_change="whenAvailable",
            show_expanded_events=True,
            resume_after=token(1),
            start_after=token(2),
            start_at_operation_time=Timestamp(3, 4),
            max_await_time_ms=250,
            batch_size=9,
            collation=Collation("de"),
            comment={"a": 1},
        )
        assert await stream.try_next() is None
        assert core.last.command == {
            "aggregate": "things",
            "pipeline": [
                {
                    "$changeStream": {
                        "fullDocument": "updateLookup",
                        "fullDocumentBeforeChange": "whenAvailable",
                        "showExpandedEvents": True,
                        "resumeAfter": token(1),
                        "startAfter": token(2),
                        "startAtOperationTime": Timestamp(3, 4),
                    }
                },
                {"$match": {"operationType": "insert"}},
            ],
            "cursor": {"batchSize": 9},
            "collation": {"locale": "de"},
            "comment": {"a": 1},
            "readConcern": {"level": "majority"},
        }
        assert core.last.operation.selector == core.last.operation.read_preference == ReadPreference.NEAREST
        assert await stream.try_next() is None
        assert core.last.command == {
            "getMore": 7,
            "collection": "things",
            "batchSize": 9,
            "maxTimeMS": 250,
            "comment": {"a": 1},
        }
        assert core.last.operation.is_await_data

    async def test_values_that_only_the_server_knows_are_sent(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first())
        async with await coll.watch(full_document="ofTheFuture", full_document_before_change=""):
            assert stage(core) == {"fullDocument": "ofTheFuture", "fullDocumentBeforeChange": ""}

    async def test_it_resumes_with_what_it_was_opened_with(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), lost, first())
        pipeline: list[dict[str, Any]] = [{"$match": {"a": 1}}]
        given = token(1)
        async with await coll.watch(pipeline, resume_after=given, max_await_time_ms=5) as stream:
            pipeline[0]["$match"]["a"] = 2
            given["_data"] = "other"
            await stream.try_next()
            assert core.last.command["pipeline"] == [{"$changeStream": {"resumeAfter": token(1)}}, {"$match": {"a": 1}}]

    async def test_it_is_one_object_with_one_reader(self, coll: Collection) -> None:
        stream = coll.watch()
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="AsyncChangeStream cannot be copied or pickled"):
                attempt(stream)
        with pytest.raises(TypeError):
            iter(stream)  # type: ignore[call-overload]


class TestSteps:
    async def test_awaiting_opens_it(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(after=4))
        stream = coll.watch()
        assert (stream.alive, stream.resume_token, core.names) == (True, None, [])
        assert await stream is stream
        assert await stream is stream
        assert (stream.alive, stream.resume_token, stream.cursor_id, stream.address) == (True, token(4), 7, ADDRESS)
        assert core.names == ["aggregate"]
        await stream.close()
        assert not stream.alive
        assert core.names == ["aggregate", "killCursors"]

    async def test_iterating_waits_for_changes(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), more(), more(1, 2), more(), more(3, cursor_id=0))
        assert [event async for event in coll.watch()] == [change(number) for number in (1, 2, 3)]
        assert core.names == ["aggregate", *["getMore"] * 4]

    async def test_try_next_asks_once(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(after=1), more(after=2), more(3, 4, after=5))
        stream = coll.watch()
        assert (await stream.try_next(), core.names) == (None, ["aggregate"])
        async with stream:
            assert (await stream.try_next(), stream.resume_token) == (None, token(2))
            assert (await stream.try_next(), stream.resume_token) == (change(3), token(3))
            assert (await stream.try_next(), stream.resume_token) == (change(4), token(5))
            assert core.names == ["aggregate", "getMore", "getMore"]
        assert await stream.try_next() is None

    async def test_to_list_ends_at_the_first_empty_batch(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(1), more(2, 3), more(), more(4, 5, after=9), more())
        async with coll.watch() as stream:
            assert await stream.to_list() == [change(1), change(2), change(3)]
            assert stream.resume_token == token(3)
            assert await stream.to_list(1) == [change(4)]
            assert stream.resume_token == token(4)
            assert await stream.to_list() == [change(5)]
            assert stream.resume_token == token(9)
            for wrong in (0, -1, 1.5, "1"):
                with pytest.raises((TypeError, ValueError), match="length must be"):
                    await stream.to_list(wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("error", [labelled(), NetworkTimeout("too late")])
    async def test_a_list_that_fails_loses_nothing(self, coll: Collection, core: FakeCore, error: PyMongoError) -> None:
        error.reached_server = True
        core.reply(first(1, 2, after=2), more(3, 4, after=4), error)
        if not error.timeout:
            core.reply(reached(OperationFailure("failed", 280, {"ok": 0, "code": 280})))
        stream = coll.watch(resume_after=token(0))
        assert await stream.next() == change(1)
        with pytest.raises(PyMongoError):
            await stream.to_list()
        assert stream.resume_token == token(1)
        core.reply(first(5, after=5), more())
        if stream.alive:
            assert [await stream.next() for _ in range(3)] == [change(2), change(3), change(4)]
            assert stream.resume_token == token(4)
            assert await stream.to_list() == [change(5)]
            assert stage(core) == {"resumeAfter": token(4)}
        assert stream.alive == error.timeout

    async def test_the_server_ends_it(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(1), more(2, cursor_id=0, after=3))
        stream = coll.watch()
        assert await stream.next() == change(1)
        assert stream.alive
        assert await stream.next() == change(2)
        assert (stream.alive, stream.resume_token) == (False, token(3))
        with pytest.raises(StopAsyncIteration):
            await stream.next()
        assert await stream.try_next() is None
        assert await stream.to_list() == []
        assert core.names == ["aggregate", "getMore"]
        assert len(core.executor.released) == 1

    async def test_a_closed_one_returns_nothing(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(1, 2))
        stream = await coll.watch()
        await stream.close()
        with pytest.raises(StopAsyncIteration):
            await stream.next()
        assert await stream.try_next() is None
        unopened = coll.watch()
        await unopened.close()
        assert (await unopened.try_next(), await unopened.to_list()) == (None, [])
        with pytest.raises(InvalidOperation, match="closed"):
            await unopened
        with pytest.raises(InvalidOperation, match="closed"):
            async with unopened:
                pytest.fail("a closed stream was entered")
        assert core.names == ["aggregate", "killCursors"]

    @pytest.mark.parametrize("is_lost", [False, True])
    @pytest.mark.parametrize("end", ["client", "session"])
    async def test_it_ends_with_its_client_and_its_session(
        self, coll: Collection, core: FakeCore, end: str, is_lost: bool
    ) -> None:
        session = coll.database.client.start_session()
        core.reply(first(1))
        stream = coll.watch(session=session)
        await stream.next()
        if is_lost:
            core.reply(lost, lost)
            with pytest.raises(AutoReconnect):
                await stream.next()
        assert stream.alive
        await (coll.database.client.close() if end == "client" else session.end_session())
        with pytest.raises(InvalidOperation, match=r"closed|ended"):
            await stream.try_next()
        # A loop that goes on while the stream is alive ends.
        assert (stream.alive, await stream.try_next()) == (False, None)

    @pytest.mark.parametrize("end", ["client", "session"])
    async def test_one_that_is_not_open_ends_with_its_client_and_its_session(
        self, coll: Collection, core: FakeCore, end: str
    ) -> None:
        session = coll.database.client.start_session()
        stream = coll.watch(session=session)
        await (coll.database.client.close() if end == "client" else session.end_session())
        assert stream.alive
        with pytest.raises(InvalidOperation, match=r"closed|ended"):
            await stream.try_next()
        assert (stream.alive, await stream.try_next()) == (False, None)

    async def test_the_token_belongs_to_the_stream(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(1, 2))
        async with coll.watch() as stream:
            found = await stream.next()
            found["_id"]["_data"] = "changed"
            given: Any = stream.resume_token
            given["_data"] = "changed"
            assert stream.resume_token == token(1)

    @pytest.mark.parametrize("changed", [5, "text"])
    async def test_a_token_that_the_pipeline_changed(self, coll: Collection, core: FakeCore, changed: Any) -> None:
        core.reply(batch([{"_id": changed}], 7))
        async with coll.watch() as stream:
            assert await stream.next() == {"_id": changed}
            assert stream.resume_token == changed

    @pytest.mark.parametrize("broken", [{}, {"_id": None}])
    async def test_a_change_without_a_token_closes_it(
        self, coll: Collection, core: FakeCore, broken: dict[str, Any]
    ) -> None:
        core.reply(first(1), next_batch([{**change(2), "_id": None}, broken], 7))
        stream = coll.watch([{"$project": {"_id": 0}}])
        await stream.next()
        with pytest.raises(InvalidOperation, match="the change has no _id"):
            await stream.next()
        assert not stream.alive
        assert stream.resume_token == token(1)
        assert await stream.try_next() is None
        await core.run_spawned()
        assert core.names == ["aggregate", "getMore", "killCursors"]

    async def test_two_readers(self, coll: Collection, core: FakeCore) -> None:
        stream = await open_stream(coll, core)

        def meanwhile(_: Any) -> Any:
            second = stream.try_next()
            second.send(None)  # other tasks run before it raises
            with pytest.raises(InvalidOperation, match="two tasks"):
                second.send(Value(None))
            return more(1)

        core.reply(meanwhile, lost, meanwhile, {"ok": 1})
        assert await stream.next() == change(1)
        core.executor.replies[1] = lambda _: (meanwhile(_), first(2))[1]
        assert await stream.next() == change(2)


async def open_stream(coll: Any, core: FakeCore, **options: Any) -> Any:
    core.reply(first(after=1))
    return await coll.watch(**options)


NOT_PRIMARY = reached(NotPrimaryError("no label", {"ok": 0, "code": 10107}))
TOO_SLOW = reached(OperationFailure("too slow", 50, {"ok": 0, "code": 50}))
# After it is opened: the replies, what the steps bring, the commands, and after which change the last one resumes.
STEPS: dict[str, tuple[list[Any], list[Any], str, int | None]] = {
    "behind the last change": (
        [more(1, 2), lost, first(3), more(4)],
        [1, 2, 3, 4],
        "getMore getMore aggregate getMore",
        2,
    ),
    "after each failure in a row": (
        [lost, first(after=2), lost, first(after=3), lost, first(4)],
        [4],
        "getMore aggregate getMore aggregate getMore aggregate",
        3,
    ),
    "until the server ends it": (
        [lost, lost, first(cursor_id=0, after=2)],
        [AutoReconnect, StopAsyncIteration],
        "getMore aggregate aggregate",
        1,
    ),
    "at the next step, without a label": ([NOT_PRIMARY, first(2)], [NotPrimaryError, 2], "getMore aggregate", 1),
    "at the next step, after a timeout": ([TOO_SLOW, first(2)], [OperationFailure, 2], "getMore aggregate", 1),
    # A getMore that was shed leaves it as it is.
    "not": ([labelled(462, "SystemOverloadedError"), more(2)], [OperationFailure, 2], "getMore getMore", None),
}


class TestResuming:
    @pytest.mark.parametrize("how", STEPS)
    async def test_it_resumes(self, coll: Collection, core: FakeCore, how: str) -> None:
        replies, outcomes, commands, token_of = STEPS[how]
        stream = await open_stream(coll, core)
        core.reply(*copy.deepcopy(replies))
        for outcome in outcomes:
            if isinstance(outcome, int):
                assert await stream.next() == change(outcome)
            else:
                with pytest.raises(outcome):
                    await stream.next()
        assert core.names == ["aggregate", *commands.split()]
        assert stage(core) == ({} if token_of is None else {"resumeAfter": token(token_of)})
        is_ended = StopAsyncIteration in outcomes
        assert (stream.alive, len(core.executor.released)) == (not is_ended, is_ended)
        assert not is_ended or stream.resume_token == token(2)

    async def test_the_first_command_does_not_resume(self, coll: Collection, core: FakeCore) -> None:
        core.reply(lost, first(1))
        stream = coll.watch()
        with pytest.raises(AutoReconnect):
            await stream.next()
        assert (stream.alive, core.names) == (True, ["aggregate"])
        assert await stream.next() == change(1)

    @pytest.mark.parametrize("explicit", [False, True])
    async def test_in_the_same_session(self, coll: Collection, core: FakeCore, explicit: bool) -> None:
        core.reply(first(1), lost, lost, first(), more(2))
        session = coll.database.client.start_session() if explicit else None
        stream = coll.watch(session=session)
        await stream.next()
        with pytest.raises(AutoReconnect):
            await stream.next()
        await stream.next()
        sessions = [sent.session for sent in core.executor.sent]
        assert len(set(sessions[1:])) == 1
        assert sessions[0] is (sessions[1] if explicit else None)
        assert core.executor.released == []
        await stream.close()
        assert len(core.executor.released) == (0 if explicit else 1)
        if session is not None:
            await session.end_session()

    async def test_slower_and_slower(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), *[lost, first()] * 4, more(1), lost, first(), lost, first(2))
        stream = coll.watch()
        await stream.next()
        assert core.paused == pytest.approx([0.1, 0.2, 0.4])
        await stream.next()
        assert core.paused[3:] == pytest.approx([0.1])

    async def test_not_if_the_time_limit_ends_before(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), lost, first(), lost, first(1))
        stream = coll.watch(timeoutMS=100)
        with pytest.raises(AutoReconnect):
            await stream.next()
        assert (core.names, core.paused) == (["aggregate", "getMore", "aggregate", "getMore"], [])
        assert await stream.next() == change(1)

    async def test_closed_by_another_task_during_a_pause(
        self, coll: Collection, core: FakeCore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        core.reply(first(), lost, first(), lost)
        stream = coll.watch()

        async def pause(until: float) -> None:
            await stream.close()

        monkeypatch.setattr(core, "pause", pause)
        with pytest.raises(StopAsyncIteration):
            await stream.next()
        assert core.names[-2:] == ["getMore", "killCursors"]
        assert len(core.executor.released) == 1

    async def test_try_next_resumes_once_and_asks_no_more(self, coll: Collection, core: FakeCore) -> None:
        stream = await open_stream(coll, core)
        core.reply(lost, first(after=2))
        assert (await stream.try_next(), stream.resume_token) == (None, token(2))
        assert core.names == ["aggregate", "getMore", "aggregate"]

    @pytest.mark.parametrize("error", [lost(), labelled(), CursorNotFound("gone", 43, {"ok": 0, "code": 43})])
    async def test_if_that_fails_the_next_step_resumes_first(
        self, coll: Collection, core: FakeCore, error: PyMongoError
    ) -> None:
        stream = await open_stream(coll, core)
        core.reply(error, NetworkTimeout("late"), first(2, after=3), more(4))
        with pytest.raises(NetworkTimeout):
            await stream.try_next()
        assert (stream.alive, stream.resume_token) == (True, token(1))
        assert await stream.try_next() == change(2)
        assert await stream.try_next() == change(4)
        assert core.names == ["aggregate", "getMore", "aggregate", "aggregate", "getMore"]
        await core.run_spawned()
        killed = [sent.command["cursors"] for sent in core.executor.sent if sent.name == "killCursors"]
        assert killed == ([] if isinstance(error, CursorNotFound) else [[7]])

    @pytest.mark.parametrize("end", ["closed", "dropped"])
    async def test_a_stream_that_could_not_resume_leaves_nothing(
        self, coll: Collection, core: FakeCore, end: str
    ) -> None:
        stream = await open_stream(coll, core)
        core.reply(lost, lost)
        with pytest.raises(AutoReconnect):
            await stream.next()
        if end == "closed":
            await stream.close()
        else:
            del stream
            gc.collect()
        await core.run_spawned()
        assert core.names == ["aggregate", "getMore", "aggregate", "killCursors"]
        assert len(core.executor.released) == 1

    @pytest.mark.parametrize(
        "error",
        [
            OperationFailure("no", 280, {"ok": 0, "code": 280}),
            labelled(11601, "NonResumableChangeStreamError"),
            OperationFailure("killed", 237, {"ok": 0, "code": 237}),
            ProtocolError("nonsense"),
            # A value that the codec options refuse.
            ValueError("year 10000"),
        ],
        ids=lambda error: str(getattr(error, "code", None) or type(error).__name__),
    )
    @pytest.mark.parametrize("when", ["getMore", "resuming"])
    async def test_other_errors_close_it(self, coll: Collection, core: FakeCore, error: Any, when: str) -> None:
        error.reached_server = True
        stream = await open_stream(coll, core)
        core.reply(*[lost, error] if when == "resuming" else [error])
        with pytest.raises(type(error)):
            await stream.next()
        assert (stream.alive, await stream.try_next()) == (False, None)
        await core.run_spawned()
        assert core.names.count("aggregate") == (2 if when == "resuming" else 1)
        assert len(core.executor.released) == 1

    async def test_a_server_that_is_known_to_be_lost_is_not_waited_for(self, coll: Collection, core: FakeCore) -> None:
        stream = await open_stream(coll, core)
        core.lost.add(ADDRESS)
        core.reply(first(2))
        assert await stream.next() == change(2)
        assert core.names == ["aggregate", "aggregate"]

    async def test_closed_by_another_task_meanwhile(self, coll: Collection, core: FakeCore) -> None:
        stream = await open_stream(coll, core)

        def meanwhile(_: Any) -> Any:
            with pytest.raises(StopIteration):
                stream.close().send(None)
            return first(2, cursor_id=8)

        core.reply(lost, meanwhile)
        with pytest.raises(StopAsyncIteration):
            await stream.next()
        await core.run_spawned()
        assert [sent.command["cursors"] for sent in core.executor.sent if sent.name == "killCursors"] == [[7], [8]]
        assert len(core.executor.released) == 1


class TestTimeouts:
    async def test_each_step_has_the_whole_time(self, coll: Collection, core: FakeCore) -> None:
        core.reply(first(), more(1), lost, first(2))
        stream = await coll.watch(timeoutMS=2000, max_await_time_ms=500)
        core.time += 5
        await stream.next()
        core.time += 5
        await stream.next()
        sent = [each for each in core.executor.sent if each.name != "killCursors"]
        assert [each.deadline.expires_at for each in sent] == [1002.0, 1007.0, 1012.0, 1012.0]
        assert [each.is_time_limited for each in sent] == [True, False, False, True]
        assert sent[1].command["maxTimeMS"] == 500
        core.time += 5
        await stream.close()
        assert core.last.deadline.expires_at == 1017.0

    async def test_a_step_that_times_out_resumes_at_the_next_one(self, coll: Collection, core: FakeCore) -> None:
        def late(sent: Any) -> Any:
            core.time += 3
            error = NetworkTimeout("late")
            error.phase, error.reached_server = "reply", True
            return error

        core.reply(first(after=1), late, first(), more(2))
        stream = await coll.watch(timeoutMS=2000)
        with pytest.raises(NetworkTimeout):
            await stream.next()
        assert (stream.alive, core.names) == (True, ["aggregate", "getMore"])
        assert await stream.next() == change(2)
        assert core.names == ["aggregate", "getMore", "aggregate", "getMore"]
        assert stage(core) == {"resumeAfter": token(1)}

    async def test_the_limit_of_a_block_around_a_step(self, coll: Collection, core: FakeCore) -> None:
        stream = await open_stream(coll, core)
        core.reply(more(2))
        with motorlite.timeout(5):
            await stream.next()
        assert core.last.deadline.timeout == 5


class Upper(TypeDecoder):
    bson_type = str

    def transform_bson(self, value: str) -> Any:
        return Text(value)


class Refusing(TypeDecoder):
    bson_type = int

    def transform_bson(self, value: int) -> Any:
        if value == 2:
            raise ValueError("the second")
        return value


class Text:
    """Cannot be encoded."""

    def __init__(self, value: str) -> None:
        self.value = value


class TestCodecOptions:
    async def test_tokens_do_not_pass_through_decoders(self, coll: Collection, core: FakeCore) -> None:
        options: CodecOptions[Any] = CodecOptions(type_registry=TypeRegistry([Upper()]))
        raw = RawBSONDocument(bson.encode(change(1)), options.with_options(document_class=RawBSONDocument))
        core.reply(batch([raw], 7), lost, first())
        stream = coll.with_options(options).watch()
        found = await stream.next()
        assert found["operationType"].value == "insert"
        assert stream.resume_token == token(1)
        await stream.try_next()
        assert bson.decode(bson.encode(stage(core)["resumeAfter"])) == token(1)
        assert core.last.operation.codec_options.document_class is RawBSONDocument

    @pytest.mark.parametrize("kind", [RawBSONDocument, SON])
    async def test_tokens_have_the_class_of_the_documents(self, coll: Collection, core: FakeCore, kind: Any) -> None:
        options: CodecOptions[Any] = CodecOptions(document_class=kind)
        core.reply(batch([bson.decode(bson.encode(change(1)), options)], 7), more(after=2))
        stream = coll.with_options(options).watch()
        found = await stream.next()
        assert (stream.resume_token, type(stream.resume_token)) == (found["_id"], kind)
        await stream.try_next()
        assert (dict(stream.resume_token or {}), type(stream.resume_token)) == (token(2), kind)

    @pytest.mark.parametrize("step", ["next", "try_next", "to_list"])
    async def test_a_change_that_cannot_be_decoded_closes_the_stream(
        self, coll: Collection, core: FakeCore, step: str
    ) -> None:
        options: CodecOptions[Any] = CodecOptions(type_registry=TypeRegistry([Refusing()]))
        core.reply(batch([RawBSONDocument(bson.encode(change(number))) for number in (1, 2, 3)], 7))
        stream = coll.with_options(options).watch(resume_after=token(0))
        if step != "to_list":
            assert (await stream.next())["_id"] == token(1)
        with pytest.raises(InvalidBSON, match="the second"):
            await getattr(stream, step)()
        assert not stream.alive
        assert stream.resume_token == (token(0) if step == "to_list" else token(1))
        await core.run_spawned()
        assert core.last.name == "killCursors"


RAW: dict[str, Any] = {"aggregate": "things", "pipeline": [{"$changeStream": {}}], "cursor": {}}
TAILABLE = {"find": "things", "tailable": True, "awaitData": True}


@pytest.mark.parametrize(
    "make",
    [
        lambda coll, **options: coll.aggregate([{"$changeStream": {}}], **options),
        lambda coll, **options: coll.database.aggregate([{"$changeStream": {}}], **options),
        lambda coll, **options: coll.database.cursor_command(RAW, **options),
        lambda coll, **options: coll.database.cursor_command(TAILABLE, **options),
    ],
    ids=["pipeline", "pipeline of a database", "command", "tailable command"],
)
class TestOtherCursorsWithoutEnd:
    async def test_to_list_ends_at_the_first_empty_batch(self, coll: Collection, core: FakeCore, make: Any) -> None:
        core.reply(first(), more(), more(1, 2), more(3), more(), more(4, 5), more(), {"ok": 1})
        async with make(coll) as cursor:
            assert await cursor.to_list() == []
            assert core.names[1:] == ["getMore"], "the first batch is always empty"
            assert await cursor.to_list() == [change(1), change(2), change(3)]
            assert await cursor.to_list(1) == [change(4)]
            assert await cursor.to_list() == [change(5)]
            assert cursor.alive

    async def test_iterating_waits(self, coll: Collection, core: FakeCore, make: Any) -> None:
        core.reply(first(), more(), more(1), more(2, cursor_id=0))
        assert [found async for found in make(coll)] == [change(1), change(2)]

    async def test_a_timeout_limits_each_step(self, coll: Collection, core: FakeCore, make: Any) -> None:
        core.reply(first(1), more(2), {"ok": 1})
        async with make(coll, timeoutMS=2000) as cursor:
            await cursor.next()
            core.time += 5
            await cursor.next()
            command, get_more = core.executor.sent
            assert (command.deadline.expires_at, get_more.deadline.expires_at) == (1002.0, 1007.0)
            assert (command.is_time_limited, get_more.is_time_limited) == (True, False)
            assert get_more.operation.is_await_data
        with pytest.raises(ConfigurationError, match="'iteration', because the cursor is tailable"):
            make(coll, timeoutMS=5, timeoutMode="cursorLifetime")


async def test_a_cursor_that_ends_is_read_through_its_empty_batches(coll: Collection, core: FakeCore) -> None:
    core.reply(first(1), more(), more(2, cursor_id=0))
    assert await coll.aggregate([], maxAwaitTimeMS=5).to_list() == [change(1), change(2)]
