"""Shell: time limits of operations (client-side operations timeout, and the caller's own cancel scopes).

Callers pass milliseconds as `timeoutMS` or seconds to `motorlite.timeout`, or to `pymongo.timeout`. Internally a
duration is a float of seconds, None if unset, and infinity if 0 asked for no limit.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar, Token
from math import ceil, inf, isnan
from typing import TYPE_CHECKING

from motorlite._api.pymongo_blocks import innermost
from motorlite._base.arguments import converted, server_milliseconds, wrong
from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._client.loop_time import loop_time
from motorlite.errors import InvalidOperation, no_time_left

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from motorlite._api.pymongo_blocks import Theirs
    from motorlite._client.core import Core


class _Limit:
    """The innermost `motorlite.timeout` block: its end, and its intended duration (seconds).

    `latest` is the latest possible end of the limits inside the block: its own end, or for a block of 0 that of the
    blocks around it. A block that `is_cap` has nothing else, and limits nothing by itself.
    """

    __slots__ = ("expires_at", "is_cap", "latest", "seconds")

    def __init__(self, expires_at: float, seconds: float, latest: float | None = None, *, is_cap: bool = False) -> None:
        self.expires_at = expires_at
        self.seconds = seconds
        self.latest: float = expires_at if latest is None else latest
        self.is_cap = is_cap


# A look-up here tells whether the program uses PyMongo too, whose blocks count as well.
_modules = sys.modules
_block: ContextVar[_Limit | None] = ContextVar("motorlite.timeout", default=None)


class timeout:  # PyMongo's name, and that of asyncio's and anyio's counterparts
    """Limit all operations in a ``with`` block together; ``async with`` does the same.

    The limit overrides `timeoutMS` of client, database and collection, and caps the `timeoutMS` of a single
    operation. An inner block cannot last longer than the outer one, but it can lift its limit, as in PyMongo.

    Args:
        seconds: The limit. 0: no limit, as with ``timeoutMS=0``: the driver retries operations, as `docs/retries.md`
            describes, until they succeed, are cancelled or the retry budget is empty. None: `timeoutMS` of client,
            database and collection applies, as if there were no blocks around this one. Limits inside such a block
            still end with the blocks around it.

    Raises:
        TypeError: `seconds` is not a number.
        ValueError: `seconds` is negative.
        InvalidOperation: No event loop is running, or the block has been entered already.

    Source: client-side operations timeout specification.
    """

    __module__ = "motorlite"

    __slots__ = ("_duration", "_seconds", "_token")

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._duration = None if seconds is None else _duration("seconds", seconds, 1.0)
        # Inside of the block: what restores the outer one.
        self._token: Token[_Limit | None] | None = None

    def __enter__(self) -> None:
        duration, outer = self._duration, _block.get()
        if duration is None and outer is None:
            return
        if self._token is not None:
            raise InvalidOperation(f"{self!r} has been entered already; make one for each block")
        try:
            now = loop_time()
        except InvalidOperation:
            raise InvalidOperation("motorlite.timeout() needs a running event loop") from None
        latest = inf if outer is None else outer.latest
        if duration is None:
            limit = _Limit(latest, inf, is_cap=True)
        elif duration == inf:
            limit = _Limit(inf, inf, latest)
        else:
            seconds = duration if outer is None else min(duration, outer.seconds)
            limit = _Limit(min(now + duration, latest), seconds)
        self._token = _block.set(limit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            _block.reset(token)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"motorlite.timeout({self._seconds!r})"


@contextmanager
def within(lifetime: Deadline) -> Iterator[None]:
    """Put all operations in a ``with`` block under the deadline of something longer (an upload, a download).

    An enclosing `motorlite.timeout` block that ends earlier applies instead. A deadline that is not set changes
    nothing.
    """
    outer = _block.get()
    if not lifetime.is_set or (outer is not None and not outer.is_cap and outer.expires_at < lifetime.expires_at):
        yield
        return
    latest = inf if outer is None else outer.latest
    token = _block.set(_Limit(min(lifetime.expires_at, latest), lifetime.timeout))
    try:
        yield
    finally:
        _block.reset(token)


def _duration(name: str, value: float, unit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(wrong(f"{name}", value, "a number, 0 for no limit"))
    if value < 0 or isnan(value):
        raise ValueError(wrong(f"{name}", value, "0 for no limit, or a positive number"))
    return value * unit if value else inf


def duration_from_ms(timeout_ms: float) -> float:
    """Convert `timeoutMS` to seconds; 0 becomes infinity. Raises TypeError and ValueError."""
    return _duration("timeoutMS", timeout_ms, 0.001)


def _around(core: Core) -> _Limit | None:
    """Return the block around the caller: motorlite's, PyMongo's, or what both leave together."""
    block, pymongo = _block.get(), _modules.get("pymongo")
    theirs = None if pymongo is None else innermost(pymongo)
    return block if theirs is None else _combined(core, block, theirs)


def _combined(core: Core, block: _Limit | None, theirs: Theirs) -> _Limit:
    latest, seconds = core.now() + theirs.remaining, theirs.seconds or inf
    is_cap = theirs.seconds is None
    if block is not None:
        latest, seconds = min(latest, block.latest), min(seconds, block.seconds)
        is_cap = is_cap and block.is_cap
    # What one library's blocks leave of their limits (`latest`) is none itself, and no end beside the other's 0.
    return _Limit(latest if is_cap or seconds < inf else inf, seconds, latest, is_cap=is_cap)


def _is_in_theirs() -> bool:
    pymongo = _modules.get("pymongo")
    theirs = None if pymongo is None else innermost(pymongo)
    return theirs is not None and theirs.seconds is not None


def is_timeout_set(inherited: float | None, timeout_ms: float | None) -> bool:
    """Whether `timeoutMS` is set for an operation at any level."""
    block = _block.get()
    is_in_ours = block is not None and not block.is_cap
    return timeout_ms is not None or inherited is not None or is_in_ours or _is_in_theirs()


def deadline(core: Core, inherited: float | None, timeout_ms: float | None = None) -> Deadline:
    """Return the deadline of an operation that starts now.

    Args:
        core: Provides the time and the enclosing cancel scope.
        inherited: Seconds, from client, database or collection.
        timeout_ms: The timeoutMS of this one call.

    Raises:
        InvalidOperation: The limit of an enclosing `pymongo.timeout` block cannot be read.
    """
    # As `_around`, without the call.
    block, pymongo = _block.get(), _modules.get("pymongo")
    if pymongo is not None:
        theirs = innermost(pymongo)
        if theirs is not None:
            block = _combined(core, block, theirs)
    scope = core.scope_deadline()
    if timeout_ms is not None:
        return _from_now(core, duration_from_ms(timeout_ms), block, scope)
    if block is not None and not block.is_cap:
        return Deadline(block.expires_at, scope, block.seconds, is_set=True)
    if inherited is not None:
        # `timeoutMS=0` sets no limit, so there is none that could end with the blocks around.
        return _from_now(core, inherited, None if inherited == inf else block, scope)
    return NO_DEADLINE if scope == inf else Deadline(inf, scope)


def _from_now(core: Core, seconds: float, block: _Limit | None, scope: float) -> Deadline:
    expires_at = core.now() + seconds
    if block is not None:
        expires_at, seconds = min(expires_at, block.latest), min(seconds, block.seconds)
    return Deadline(expires_at, scope, seconds, is_set=True)


def refreshed(core: Core, seconds: float) -> Deadline:
    """Return a deadline of `seconds` from now for one cursor iteration, capped by the enclosing block and scope."""
    return _from_now(core, seconds, _around(core), core.scope_deadline())


def continued(core: Core, lifetime: Deadline) -> Deadline:
    """Return the deadline of a later step under `lifetime`: its own end, or the end of the block around the step."""
    block = _around(core)
    if block is not None and block.is_cap:
        block = None
    scope = core.scope_deadline()
    if block is None and scope == lifetime.scope_expires_at:
        return lifetime
    if block is None or block.expires_at >= lifetime.expires_at:
        is_set = lifetime.is_set or block is not None
        return Deadline(lifetime.expires_at, scope, lifetime.timeout, is_set=is_set)
    return Deadline(block.expires_at, scope, block.seconds)


def of_session(core: Core, limit: Deadline, timeout_ms: float | None) -> Deadline:
    """Return the deadline of an operation in a `with_transaction` call whose own deadline is `limit`.

    Raises:
        InvalidOperation: The operation has a timeoutMS of its own (CSOT, "Validation and Overrides").
    """
    if timeout_ms is not None:
        raise InvalidOperation("timeoutMS cannot be set for an operation in with_transaction, which has a time limit")
    return continued(core, limit)


def for_close(core: Core, seconds: float, timeout_ms: float | None = None) -> Deadline:
    """Return the deadline of a cursor's close: restarted, even if the cursor's or the block's has passed."""
    scope = core.scope_deadline()
    block = _around(core)
    if timeout_ms is not None:
        seconds = duration_from_ms(timeout_ms)
    elif seconds == inf and block is not None:
        seconds = block.seconds
    if seconds == inf:
        return NO_DEADLINE if scope == inf else Deadline(inf, scope)
    return Deadline(core.now() + seconds, scope, seconds)


class ServerTime:
    """The `max_time_ms` of a call with several commands, which share it.

    It begins with the first command, and each command carries what remains, as in the parts of a request that mongos
    sends to the shards. A timeout replaces it, even one of 0.

    Raises:
        TypeError, ValueError: `max_time_ms` is not a number of milliseconds.
    """

    __slots__ = ("_ends_at", "_is_replaced", "_milliseconds", "_now")

    def __init__(self, core: Core, limit: Deadline, max_time_ms: float | None) -> None:
        self._milliseconds: int | None = None
        if max_time_ms is not None:
            self._milliseconds = converted("max_time_ms", max_time_ms, server_milliseconds)
        # A timeout is set.
        self._is_replaced = limit.is_set
        self._now = core.now
        # None before the first command.
        self._ends_at: float | None = None

    def remaining(self) -> int | None:
        """Return the maxTimeMS of the next command. None: the call has none of its own.

        Raises:
            ExecutionTimeout: Nothing remains.
        """
        limit = self._milliseconds
        if not limit or self._is_replaced:
            return limit
        if self._ends_at is None:
            self._ends_at = self._now() + limit / 1000
            return limit
        left = (self._ends_at - self._now()) * 1000
        if left <= 0:
            raise no_time_left(None, limit / 1000)
        # Rounded up: 0 would be no limit.
        return min(ceil(left), limit)

    def seconds(self, default: float) -> float | None:
        """Return the limit of the whole call, or else `default`; None for no limit, or a timeout."""
        if self._is_replaced:
            return None
        return (default if self._milliseconds is None else self._milliseconds / 1000) or None
