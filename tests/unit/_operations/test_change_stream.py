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


class TestTokens:
    def test_there_is_none_before_the_first_reply(self) -> None:
        assert Position().token is None
        assert Position(None, None, TIME).token is None

    @pytest.mark.parametrize(
        ("given", "token"), [((T1, None), T1), ((None, T2), T2), ((T1, T2), T2)], ids=["resume", "start", "both"]
    )
    def test_the_callers_own_token_is_the_first(self, given: Any, token: Any) -> None:
        assert Position(*given).token == token

    def test_that_of_an_empty_batch(self) -> None:
        position = Position()
        position.received(reply(after=T1))
        assert position.token == T1
        position.received(reply())
        assert position.token == T1

    def test_that_of_a_batch_with_changes_counts_from_the_last_one_on(self) -> None:
        position = Position(GIVEN)
        position.received(reply(T1, T2, after=T3))
        assert position.token == GIVEN
        assert position.returned({"_id": T1}, is_last=False)
        assert position.token == T1
        assert position.returned({"_id": T2}, is_last=True)
        assert position.token == T3

    def test_without_one_the_last_change_has_it(self) -> None:
        position = Position()
        position.received(reply(T1, after=T3))
        position.returned({"_id": T1}, is_last=True)
        position.received(reply(T2))
        position.returned({"_id": T2}, is_last=True)
        assert position.token == T2

    def test_a_change_of_the_token_by_the_application_has_no_effect(self) -> None:
        position = Position()
        change = {"_id": {"_data": "1"}}
        position.returned(change, is_last=False)
        change["_id"]["_data"] = "2"
        assert position.token == {"_data": "1"}

    @pytest.mark.parametrize("change", [{}, {"_id": None}, {"x": 1}])
    def test_a_change_without_a_token(self, change: dict[str, Any]) -> None:
        position = Position(GIVEN)
        assert not position.returned(change, is_last=True)
        assert position.token == GIVEN


class TestStageOptions:
    @pytest.mark.parametrize(
        ("given", "options"),
        [
            ((), {}),
            ((T1,), {"resumeAfter": T1}),
            ((None, T1), {"startAfter": T1}),
            ((None, None, TIME), {"startAtOperationTime": TIME}),
            ((T1, T2, TIME), {"resumeAfter": T1, "startAfter": T2, "startAtOperationTime": TIME}),
            (({}, None), {"resumeAfter": {}}),
        ],
    )
    def test_at_first_they_are_the_callers(self, given: Any, options: dict[str, Any]) -> None:
        assert Position(*given).stage_options() == options

    @pytest.mark.parametrize("given", [(), (GIVEN,), (None, None, TIME), (GIVEN, None, TIME)])
    def test_with_a_token(self, given: Any) -> None:
        position = Position(*given)
        position.opened(opened(T1))
        position.received(opened(T1))
        position.returned({"_id": T1}, is_last=True)
        assert position.stage_options() == {"resumeAfter": T1}

    def test_start_after_without_a_change_stays_start_after(self) -> None:
        position = Position(None, GIVEN, TIME)
        position.opened(opened())
        assert position.stage_options() == {"startAfter": GIVEN}
        position.received(reply(after=T1))
        assert position.stage_options() == {"startAfter": T1}
        position.received(reply(T2))
        assert position.stage_options() == {"startAfter": T1}
        position.returned({"_id": T2}, is_last=True)
        assert position.stage_options() == {"resumeAfter": T2}

    def test_without_a_token_the_callers_time(self) -> None:
        position = Position(None, None, LATER)
        position.opened(opened())
        assert position.stage_options() == {"startAtOperationTime": LATER}

    def test_without_either_the_time_of_the_first_reply(self) -> None:
        position = Position()
        position.opened(opened())
        position.opened(opened(operationTime=LATER))
        assert position.stage_options() == {"startAtOperationTime": TIME}

    @pytest.mark.parametrize(
        "first",
        [opened(after=T1), opened(T1), opened(operationTime=None)],
        ids=["a token", "changes", "no time"],
    )
    def test_otherwise_the_command_is_the_same_again(self, first: CursorReply) -> None:
        position = Position()
        position.opened(first)
        assert position.stage_options() == {}

    def test_a_first_command_that_failed_is_sent_again_as_it_was(self) -> None:
        position = Position(T1, T2)
        assert position.stage_options() == position.stage_options() == {"resumeAfter": T1, "startAfter": T2}


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
