"""Which commands carry a limit for the server: from a deadline, and from the client's default."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._base.values import ServerFacts
from motorlite._execution import building
from motorlite._execution.building import CommandDefaults
from motorlite._operations.commands import RunCommand
from motorlite._operations.contract import TimeLimit
from motorlite._operations.cursors import GetMore, KillCursors
from motorlite._operations.find import Find
from motorlite._operations.reads import Explain
from tests.unit._operations.facts_table import ADDRESS, TABLE

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

FACTS: Final = ServerFacts(("a", 1), max_wire_version=25)
# What frees resources of the server, and what the client does for itself.
NEVER: Final = {"getMore", "killCursors", "endSessions"}
NOW: Final = 50.0
DEFAULT: Final = CommandDefaults(250)


def sent(
    operation: Operation[Any], deadline: Deadline = NO_DEADLINE, limits: CommandDefaults = DEFAULT
) -> dict[str, Any]:
    """The operation's command with its limits, as `CommandBuilder` adds them."""
    document = operation.command(FACTS).document
    if limits.are_used:
        building.add_server_limits(document, operation, deadline, FACTS, limits, 7)
    if deadline is not NO_DEADLINE:
        building.add_time_limit(document, operation, deadline, NOW, 0.0)
    return document


OPERATIONS: Final = pytest.mark.parametrize(
    "operation", [row.operation for row in TABLE], ids=lambda operation: type(operation).__name__
)


@OPERATIONS
def test_the_default(operation: Operation[Any]) -> None:
    expected = None if operation.name in NEVER or operation.ends is not None else 250
    assert sent(operation).get("maxTimeMS") == expected


@OPERATIONS
def test_the_rest_of_a_deadline(operation: Operation[Any]) -> None:
    found = sent(operation, Deadline(NOW + 2, inf, 2))
    assert found.get("maxTimeMS") == (None if operation.name in NEVER else 2000)


@OPERATIONS
def test_without_any_limit(operation: Operation[Any]) -> None:
    assert "maxTimeMS" not in sent(operation, limits=CommandDefaults())
    # timeoutMS=0, the caller's own word for no limit.
    assert "maxTimeMS" not in sent(operation, Deadline(is_set=True))


@pytest.mark.parametrize("own", [0, 7])
def test_the_caller_s_own_value(own: int) -> None:
    for operation in (Find("db", "c", max_time_ms=own), RunCommand("db", {"ping": 1, "maxTimeMS": own})):
        assert sent(operation)["maxTimeMS"] == own
    explained = sent(Explain(Find("db", "c", max_time_ms=own)))
    assert (explained["maxTimeMS"], "maxTimeMS" in explained["explain"]) == (own, False)


def test_the_time_that_a_server_waits_for_data_is_no_limit() -> None:
    waiting = GetMore("db", "c", 5, address=ADDRESS, is_await_data=True, max_await_time_ms=1000)
    assert sent(waiting)["maxTimeMS"] == 1000
    hello = RunCommand("admin", {"hello": 1, "maxAwaitTimeMS": 1000})
    assert "maxTimeMS" not in sent(hello)


def test_a_cursor_that_the_application_closes_with_a_timeout() -> None:
    """The client-side operations timeout specification's tests want the refreshed timeout to be sent there."""
    closing = KillCursors("db", "c", [5], address=ADDRESS, time_limit=TimeLimit.DEADLINE)
    assert "maxTimeMS" not in sent(closing)
    assert sent(closing, Deadline(NOW + 2, inf, 2))["maxTimeMS"] == 2000
