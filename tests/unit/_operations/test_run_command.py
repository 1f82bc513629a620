from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.commands import RunCommand, RunCursorCommand
from motorlite._operations.contract import TimeLimit
from motorlite.errors import InvalidOperation
from tests.support.servers import V7_0, sent


def test_the_command_is_sent_as_it_is() -> None:
    command = {"ping": 1, "writeConcern": {"w": 0}, "maxTimeMS": 5}
    operation = RunCommand("db", command)
    assert sent(operation) == {"ping": 1, "writeConcern": {"w": 0}, "maxTimeMS": 5}
    assert operation.command(V7_0).name == "ping"
    assert command == {"ping": 1, "writeConcern": {"w": 0}, "maxTimeMS": 5}


def test_what_the_caller_does_later_has_no_effect() -> None:
    command: dict[str, Any] = {"ping": 1}
    operation = RunCommand("db", command)
    command["comment"] = "changed"
    assert sent(operation) == {"ping": 1}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"getMore": 5, "collection": "c", "maxTimeMS": 600_000}, True),
        ({"getMore": 5, "collection": "c"}, False),
        ({"hello": 1, "maxAwaitTimeMS": 10_000, "topologyVersion": {}}, True),
        ({"isMaster": 1, "maxAwaitTimeMS": 10_000}, True),
        ({"ismaster": 1, "maxAwaitTimeMS": 10_000}, True),
        ({"hello": 1, "maxTimeMS": 5}, False),
        ({"find": "c", "maxTimeMS": 5}, False),
    ],
    ids=repr,
)
def test_commands_that_wait_for_news(command: dict[str, Any], expected: bool) -> None:
    assert RunCommand("db", command).is_await_data is expected


def test_an_empty_command() -> None:
    with pytest.raises(ValueError, match="a command must not be empty"):
        RunCommand("db", {})


def test_a_reply_without_a_cursor() -> None:
    with pytest.raises(InvalidOperation, match="the reply to ping has no cursor"):
        RunCursorCommand("db", {"ping": 1}).parse({"ok": 1})


def test_how_long_a_getmore_waits_is_no_limit() -> None:
    """A timeout replaces limits, but not the time that the server waits for documents."""
    get_more = {"getMore": 7, "collection": "coll"}
    assert RunCommand("db", {**get_more, "maxTimeMS": 500}).time_limit is TimeLimit.AWAIT
    # The server refuses a maxTimeMS for cursors that do not wait.
    assert RunCommand("db", get_more).time_limit is TimeLimit.OMIT
    assert RunCommand("db", {"hello": 1, "maxAwaitTimeMS": 500}).time_limit is TimeLimit.DEADLINE


@pytest.mark.parametrize("name", ["killCursors", "endSessions", "killOp", "killSessions", "killAllSessions"])
def test_what_frees_a_server_s_resources_gets_no_default(name: str) -> None:
    assert RunCommand("admin", {name: 1}).time_limit is TimeLimit.DEADLINE
