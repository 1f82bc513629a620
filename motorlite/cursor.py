"""Pure: cursors, as returned by `find`, `aggregate` and the list methods."""

from __future__ import annotations

from motorlite._api.constants import CursorType
from motorlite._api.cursors.base import Batches
from motorlite._api.cursors.command_cursor import AsyncCommandCursor, AsyncRawBatchCommandCursor, AsyncRawBatchCursor
from motorlite._api.cursors.cursor import AsyncCursor

__all__ = [
    "AsyncCommandCursor",
    "AsyncCursor",
    "AsyncRawBatchCommandCursor",
    "AsyncRawBatchCursor",
    "Batches",
    "CursorType",
]
