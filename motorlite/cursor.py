"""Pure: cursors, as returned by `find`, `aggregate` and the list methods."""

from __future__ import annotations

from motorlite._api.constants import CursorType
from motorlite._api.cursors.batches import Batches
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.cursors.raw import AsyncRawBatchCommandCursor, AsyncRawBatchCursor

__all__ = [
    "AsyncCommandCursor",
    "AsyncCursor",
    "AsyncRawBatchCommandCursor",
    "AsyncRawBatchCursor",
    "Batches",
    "CursorType",
]
