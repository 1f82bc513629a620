"""Servers of several releases, and what an operation sends to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._base.values import ServerFacts

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation


def server(wire_version: int = 21, **limits: Any) -> ServerFacts:
    """A member of a replica set; 21 is MongoDB 7.0."""
    return ServerFacts(("db1.test", 27017), max_wire_version=wire_version, session_timeout_minutes=30, **limits)


V4_2 = server(8)
V4_4 = server(9)
V5_0 = server(13)
V7_0 = server(21)
V8_0 = server(25)


def sent(operation: Operation[Any], facts: ServerFacts = V7_0) -> dict[str, Any]:
    """The command document; the name must come first and the document be a new one each time."""
    command = operation.command(facts)
    assert next(iter(command.document)) == command.name
    # The executor decorates in place; the next attempt must not see that.
    before = dict(command.document)
    command.document["lsid"] = {}
    for value in command.document.values():
        if isinstance(value, dict) and "level" in value:
            value["afterClusterTime"] = "decorated"
    again = operation.command(facts).document
    assert "lsid" not in again
    assert "afterClusterTime" not in again.get("readConcern", {})
    assert list(again) == list(before)
    return again
