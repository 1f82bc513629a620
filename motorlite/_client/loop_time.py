"""Shell: the time for what begins before a client is known (`motorlite.timeout`)."""

from __future__ import annotations

from motorlite._net import current


def loop_time() -> float:
    """Return the time of the running event loop, seconds. Raises InvalidOperation if none is running."""
    return current.loop_time()
