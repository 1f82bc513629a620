"""Pure: what a client does before it sends an operation, to protect itself and the server."""

from __future__ import annotations

from motorlite.overload.fallback import CallBlock, Fallback
from motorlite.overload.wait_queue import WaitQueue

__all__ = ["CallBlock", "Fallback", "WaitQueue"]
