"""Where change streams stand, with what they resume, and after which errors."""

from __future__ import annotations

from typing import Any

import pytest
from bson.timestamp import Timestamp

from motorlite._operations.change_stream import Position, Watch, WatchMore, is_resumable
from motorlite._operations.contract import CursorReply
from motorlite._wire.replies import error_from_reply
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    CursorNotFound,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ProtocolError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from tests.support.servers import V4_2, V4_4, V7_0, sent

T1, T2, T3 = ({"_data": name} for name in "123")
GIVEN = {"_data": "given"}
TIME, LATER = Timestamp(5, 1), Timestamp(6, 1)
LABEL = "ResumableChangeStreamError"
# Change streams specification, "Resumable Error".
CODES = (6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436, 63, 150, 13388, 234, 133)


def reply(*tokens: Any, after: Any = None, field: str = "nextBatch", **others: Any) -> CursorReply:
    """A reply with changes that have these tokens."""
    cursor: dict[str, Any] = {"id": 7, "ns": "db.coll", field: [{"_id": token} for token in tokens]}
    if after is not None:
        cursor["postBatchResumeToken"] = after
    return CursorReply({"cursor": cursor, **others}, field)


def opened(*tokens: Any, **others: Any) -> CursorReply:
    return reply(*tokens, field="firstBatch", **{"operationTime": TIME, **others})


# What happens to a position: a reply opens it or continues it, or the application gets a change with this token, which
# is the last one of its batch or not.
OPENED, RECEIVED, RETURNED, LAST = "opened", "received", "returned", "last"


def after(given: Any, *steps: tuple[str, Any]) -> Position:
    position = Position(*given)
    for step, what in steps:
        if step == OPENED:
            position.opened(what)
        elif step == RECEIVED:
            position.received(what)
        else:
            assert position.returned({"_id": what}, is_last=step == LAST)
    return position


@pytest.mark.parametrize(
    ("given", "steps", "token"),
    [
        ((), [], None),
        ((None, None, TIME), [], None),
        # The caller's own is the first.
        ((T1, None), [], T1),
        ((None, T2), [], T2),
        ((T1, T2), [], T2),
        # That of an empty batch.
        ((), [(RECEIVED, reply(after=T1))], T1),
        ((), [(RECEIVED, reply(after=T1)), (RECEIVED, reply())], T1),
        # That of a batch with changes counts from the last one on.
        ((GIVEN,), [(RECEIVED, reply(T1, T2, after=T3))], GIVEN),
        ((GIVEN,), [(RECEIVED, reply(T1, T2, after=T3)), (RETURNED, T1)], T1),
        ((GIVEN,), [(RECEIVED, reply(T1, T2, after=T3)), (RETURNED, T1), (LAST, T2)], T3),
        # Without one, the last change has it.
        ((), [(RECEIVED, reply(T1, after=T3)), (LAST, T1), (RECEIVED, reply(T2)), (LAST, T2)], T2),
    ],
)
def test_token(given: Any, steps: list[tuple[str, Any]], token: Any) -> None:
    assert after(given, *steps).token == token


def test_a_change_of_the_token_by_the_application_has_no_effect() -> None:
    position = Position()
    change = {"_id": {"_data": "1"}}
    position.returned(change, is_last=False)
    change["_id"]["_data"] = "2"
    assert position.token == {"_data": "1"}


@pytest.mark.parametrize("change", [{}, {"_id": None}, {"x": 1}])
def test_a_change_without_a_token(change: dict[str, Any]) -> None:
    position = Position(GIVEN)
    assert not position.returned(change, is_last=True)
    assert position.token == GIVEN


FIRST_CHANGE = [(OPENED, opened(T1)), (RECEIVED, opened(T1)), (LAST, T1)]
NO_CHANGE = [(OPENED, opened()), (RECEIVED, reply(after=T1))]


@pytest.mark.parametrize(
    ("given", "steps", "options"),
    [
        # At first they are the caller's.
        ((), [], {}),
        ((T1,), [], {"resumeAfter": T1}),
        ((None, T1), [], {"startAfter": T1}),
        ((None, None, TIME), [], {"startAtOperationTime": TIME}),
        ((T1, T2, TIME), [], {"resumeAfter": T1, "startAfter": T2, "startAtOperationTime": TIME}),
        (({}, None), [], {"resumeAfter": {}}),
        # With a token.
        *(
            (given, FIRST_CHANGE, {"resumeAfter": T1})
            for given in ((), (GIVEN,), (None, None, TIME), (GIVEN, None, TIME))
        ),
        # startAfter without a change stays startAfter.
        ((None, GIVEN, TIME), [(OPENED, opened())], {"startAfter": GIVEN}),
        ((None, GIVEN, TIME), NO_CHANGE, {"startAfter": T1}),
        ((None, GIVEN, TIME), [*NO_CHANGE, (RECEIVED, reply(T2))], {"startAfter": T1}),
        ((None, GIVEN, TIME), [*NO_CHANGE, (RECEIVED, reply(T2)), (LAST, T2)], {"resumeAfter": T2}),
        # Without a token the caller's time, or that of the first reply.
        ((None, None, LATER), [(OPENED, opened())], {"startAtOperationTime": LATER}),
        ((), [(OPENED, opened()), (OPENED, opened(operationTime=LATER))], {"startAtOperationTime": TIME}),
        # Otherwise the command is the same again: the reply has a token, changes, or no time.
        ((), [(OPENED, opened(after=T1))], {}),
        ((), [(OPENED, opened(T1))], {}),
        ((), [(OPENED, opened(operationTime=None))], {}),
    ],
)
def test_stage_options(given: Any, steps: list[tuple[str, Any]], options: dict[str, Any]) -> None:
    position = after(given, *steps)
    # A command that failed is sent again as it was.
    assert position.stage_options() == position.stage_options() == options


class TestResumable:
    @pytest.mark.parametrize("wire_version", [8, 9, 25])
    @pytest.mark.parametrize(
        "error", [AutoReconnect("lost"), NetworkTimeout("late"), PoolClearedError("cleared"), CursorNotFound("", 43)]
    )
    def test_what_no_server_says_and_a_lost_cursor(self, error: Any, wire_version: int) -> None:
        error.reached_server = True
        assert is_resumable(error, wire_version)

    def test_a_server_that_cannot_be_selected(self) -> None:
        assert is_resumable(ServerSelectionTimeoutError("none"), 25)

    @pytest.mark.parametrize("is_reachable", [True, False])
    def test_a_server_that_is_lost_after_it_rejected_a_getmore(self, is_reachable: bool) -> None:
        for labels in (["SystemOverloadedError", "RetryableError"], ["SystemOverloadedError"], ["RetryableError"], []):
            error = error_from_reply({"ok": 0, "code": 462, "errmsg": "", "errorLabels": labels}, 25)
            error.reached_server = True
            resumes = bool(labels) and not is_reachable
            assert is_resumable(error, 25, is_reachable=is_reachable) is resumes

    def test_an_error_of_the_handshake_for_a_getmore(self) -> None:
        assert is_resumable(NotPrimaryError("no", {"code": 91}), 25)
        assert not is_resumable(OperationFailure("who are you?", 18), 25)

    @pytest.mark.parametrize("code", [*CODES, 5, 1, 216, 280])
    def test_before_4_4_the_code_decides(self, code: int) -> None:
        error = error_from_reply({"ok": 0, "code": code, "errmsg": ""}, 8)
        error.reached_server = True
        assert is_resumable(error, 8) is (code in CODES)
        assert not is_resumable(error, 9)

    @pytest.mark.parametrize("code", [*CODES, 5, 280])
    def test_since_4_4_the_label_decides(self, code: int) -> None:
        error = error_from_reply({"ok": 0, "code": code, "errmsg": "", "errorLabels": [LABEL]}, 9)
        error.reached_server = True
        assert is_resumable(error, 9)
        assert is_resumable(error, 8) is (code in CODES)

    @pytest.mark.parametrize(
        "error",
        [
            ProtocolError("nonsense"),
            InvalidOperation("closed"),
            ConfigurationError("no"),
            WaitQueueTimeoutError("full"),
        ],
    )
    @pytest.mark.parametrize("reached", [True, False])
    def test_what_the_client_says_itself(self, error: Any, reached: bool) -> None:
        error.reached_server = reached
        assert not is_resumable(error, 25)


class TestCommands:
    def test_the_server_that_gets_the_command_is_remembered(self) -> None:
        watch = Watch("db", "coll", [{"$changeStream": {}}])
        for facts in (V4_2, V4_4, V7_0):
            assert sent(watch, facts)["pipeline"] == [{"$changeStream": {}}]
            assert watch.wire_version == facts.max_wire_version

    def test_a_token_of_another_type_is_malformed(self) -> None:
        for operation, field in ((Watch("db", "coll", []), "firstBatch"), (more(), "nextBatch")):
            cursor = {"id": 7, "ns": "db.coll", field: []}
            assert operation.parse({"cursor": cursor}).cursor_id == 7
            with pytest.raises(ProtocolError, match="postBatchResumeToken is of type int; it must be a document"):
                operation.parse({"cursor": {**cursor, "postBatchResumeToken": 5}})


def more() -> WatchMore:
    return WatchMore("db", "coll", 7, address=("a", 1))
