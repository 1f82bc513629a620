"""The contract between operations and the executor."""

from __future__ import annotations

import pytest

from motorlite._base.values import ServerFacts
from motorlite._operations.contract import CursorReply, Kind, Operation


class Unfinished(Operation[None]):
    """Declares only what has no default."""

    name = "unfinished"
    kind = Kind.READ


def test_an_operation_must_build_a_command() -> None:
    operation = Unfinished("db")
    with pytest.raises(TypeError, match="Unfinished does not build a command"):
        operation.command(ServerFacts(("a", 1)))
    with pytest.raises(TypeError, match="Unfinished does not parse a reply"):
        operation.parse({"ok": 1})
    with pytest.raises(TypeError, match="Unfinished is always acknowledged"):
        operation.unacknowledged()


@pytest.mark.parametrize("namespace", ["db.coll", ""])
def test_a_cursor_that_is_closed_already_may_have_a_namespace(namespace: str) -> None:
    cursor = {"id": 0, "firstBatch": [], **({"ns": namespace} if namespace else {})}
    assert CursorReply({"cursor": cursor}, "firstBatch").namespace == namespace
