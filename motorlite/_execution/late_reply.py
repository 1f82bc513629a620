"""Pure: a reply whose caller does not wait for it any more: how long it is worth waiting for, and what is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite._replies import is_namespace, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds that the server gets on top of the time limit that it knows, and where it knows none.
_MARGIN: Final = 1.0
_WITHOUT_LIMIT: Final = 1.0


class OpenCursor(NamedTuple):
    """A cursor on a server that no caller has."""

    database: str
    collection: str
    cursor_id: int


def worth_waiting_until(command: Mapping[str, Any], sent_at: float, now: float) -> float:
    """The loop time at which the connection is closed instead, which makes the server stop the work.

    Args:
        command: As it was sent; what counts is its maxTimeMS.
        sent_at: When it was sent, loop time.
        now: When its caller stopped waiting, loop time.
    """
    limit = command.get("maxTimeMS")
    if isinstance(limit, (int, float)):
        return float(max(now, sent_at + limit / 1000) + _MARGIN)
    return now + _WITHOUT_LIMIT


def open_cursor(reply: Mapping[str, Any]) -> OpenCursor | None:
    """The cursor that the reply opened, which has to be killed."""
    cursor = reply.get("cursor")
    if not isinstance(cursor, dict):
        return None
    cursor_id, namespace = whole(cursor.get("id")), cursor.get("ns")
    if not cursor_id or not is_namespace(namespace):
        return None
    database, _, collection = namespace.partition(".")
    return OpenCursor(database, collection, cursor_id)
