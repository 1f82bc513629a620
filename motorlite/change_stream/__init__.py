"""Pure: change streams, as returned by `watch`."""

from __future__ import annotations

from motorlite._api.cursors.change_stream import AsyncChangeStream

__all__ = ["AsyncChangeStream"]
