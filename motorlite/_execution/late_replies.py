"""Pure: how long a late reply, whose caller has left, is worth waiting for, and which cursor it opened.

`_pool.late_replies` waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite._wire.replies import is_namespace, whole

if TYPE_CHECKING:
    from collections.abc import Mapping


# Seconds to wait beyond the command's own time limit, and for a command without one.
_MARGIN: Final = 1.0
_WITHOUT_LIMIT: Final = 1.0


class OpenCursor(NamedTuple):
    """An open cursor on a server, without a caller to use it."""

    database: str
    collection: str
    cursor_id: int


def worth_waiting_until(limit: float | None, sent_at: float, now: float) -> float:
    """The loop time until which to wait for the reply. Then the connection closes, so the server stops the work.

    Args:
        limit: The milliseconds after which the server ends the command; None: it does not.
        sent_at: The loop time at which it was sent.
        now: The loop time at which its caller stopped waiting.
    """
    if limit is None:
        return now + _WITHOUT_LIMIT
    return max(now, sent_at + limit / 1000) + _MARGIN


def open_cursor(reply: Mapping[str, Any]) -> OpenCursor | None:
    """Return the cursor that the reply opened and that must be killed, or None."""
    cursor = reply.get("cursor")
    if not isinstance(cursor, dict):
        return None
    cursor_id, namespace = whole(cursor.get("id")), cursor.get("ns")
    if not cursor_id or not is_namespace(namespace):
        return None
    database, _, collection = namespace.partition(".")
    return OpenCursor(database, collection, cursor_id)
