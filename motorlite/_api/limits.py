"""Shell: how long an operation may run (client-side operations timeout, and the caller's own cancel scopes).

A duration is given in milliseconds as `timeoutMS` or in seconds to `motorlite.timeout`; inside it is a float
of seconds, None where nothing was set and infinity where 0 asked for no limit.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from math import inf, isnan
from typing import TYPE_CHECKING

from anyio import current_time

from motorlite.deadline import NO_DEADLINE, Deadline
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._api.core import CoreLike


class _Limit:
    """The innermost `motorlite.timeout` block: when it ends, and how long it was meant to be (seconds)."""

    __slots__ = ("expires_at", "seconds")

    def __init__(self, expires_at: float, seconds: float) -> None:
        self.expires_at = expires_at
        self.seconds = seconds


_block: ContextVar[_Limit | None] = ContextVar("motorlite.timeout", default=None)


@contextmanager
def timeout(seconds: float | None) -> Iterator[None]:
    """Limit everything that is executed in a ``with`` block, all operations together.

    The limit wins over `timeoutMS` of client, database and collection, and bounds a `timeoutMS` that is given
    to a single operation. A block inside another cannot last longer than the outer one.

    Args:
        seconds: How long; 0 lifts inherited limits, None changes nothing.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: `seconds` is negative.
        InvalidOperation: No event loop is running.

    Source: client-side operations timeout specification.
    """
    if seconds is None:
        yield
        return
    duration = _duration("seconds", seconds, 1.0)
    try:
        now = current_time()
    except RuntimeError as error:
        raise InvalidOperation("motorlite.timeout() must be entered while an event loop is running") from error
    outer = _block.get()
    limit = _Limit(now + duration, duration)
    if outer is not None:
        limit = _Limit(min(limit.expires_at, outer.expires_at), min(duration, outer.seconds))
    token = _block.set(limit)
    try:
        yield
    finally:
        _block.reset(token)


def _duration(name: str, value: float, unit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name}={value!r} is wrong; allowed: a number, 0 for no limit")
    if value < 0 or isnan(value):
        raise ValueError(f"{name}={value!r} is wrong; allowed: 0 for no limit, or a positive number")
    return value * unit if value else inf


def duration_from_ms(timeout_ms: float) -> float:
    """`timeoutMS` as seconds; 0 becomes infinity. Raises TypeError and ValueError."""
    return _duration("timeoutMS", timeout_ms, 0.001)


def is_timeout_set(inherited: float | None, timeout_ms: float | None) -> bool:
    """Whether `timeoutMS` is set for an operation at any level."""
    return timeout_ms is not None or inherited is not None or _block.get() is not None


def deadline(core: CoreLike, inherited: float | None, timeout_ms: float | None = None) -> Deadline:
    """The deadline of an operation that starts now.

    Args:
        core: Knows the time and the enclosing cancel scope.
        inherited: Seconds, from client, database or collection.
        timeout_ms: What the caller of this one operation asked for.
    """
    block = _block.get()
    scope = core.scope_deadline()
    if timeout_ms is not None:
        return _from_now(core, duration_from_ms(timeout_ms), block, scope)
    if block is not None:
        return Deadline(block.expires_at, scope, block.seconds)
    if inherited is not None:
        return _from_now(core, inherited, None, scope)
    return NO_DEADLINE if scope == inf else Deadline(inf, scope)


def _from_now(core: CoreLike, seconds: float, block: _Limit | None, scope: float) -> Deadline:
    expires_at = core.now() + seconds
    if block is not None:
        expires_at, seconds = min(expires_at, block.expires_at), min(seconds, block.seconds)
    return Deadline(expires_at, scope, seconds, is_set=True)


def refreshed(core: CoreLike, seconds: float) -> Deadline:
    """A whole new `seconds` for one iteration of a cursor, bounded by the block and the scope around it."""
    return _from_now(core, seconds, _block.get(), core.scope_deadline())


def continued(core: CoreLike, lifetime: Deadline) -> Deadline:
    """The deadline of a later step under `lifetime`: its own end, or that of the block around the step."""
    block = _block.get()
    scope = core.scope_deadline()
    if block is None and scope == lifetime.scope_expires_at:
        return lifetime
    if block is None or block.expires_at >= lifetime.expires_at:
        return Deadline(lifetime.expires_at, scope, lifetime.timeout, is_set=lifetime.is_set)
    return Deadline(block.expires_at, scope, block.seconds)


def for_close(core: CoreLike, seconds: float, timeout_ms: float | None = None) -> Deadline:
    """The deadline of a cursor's close: refreshed, also when that of the cursor or the block has passed."""
    scope = core.scope_deadline()
    block = _block.get()
    if timeout_ms is not None:
        seconds = duration_from_ms(timeout_ms)
    elif seconds == inf and block is not None:
        seconds = block.seconds
    if seconds == inf:
        return NO_DEADLINE if scope == inf else Deadline(inf, scope)
    return Deadline(core.now() + seconds, scope, seconds)
