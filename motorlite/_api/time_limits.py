"""Shell: time limits of operations (client-side operations timeout, and the caller's own cancel scopes).

Callers pass milliseconds as `timeoutMS` or seconds to `motorlite.timeout`, or to `pymongo.timeout`. Internally a
duration is a float of seconds, None if unset, and infinity if 0 asked for no limit.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import Context, ContextVar, Token, copy_context
from math import ceil, inf, isnan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args

from motorlite._api.typings import TimeoutMode
from motorlite._base.arguments import converted, server_milliseconds, wrong
from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._client.loop_time import loop_time
from motorlite._operations.contract import TimeLimit
from motorlite.errors import ConfigurationError, InvalidOperation, no_time_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import ModuleType, TracebackType

    from motorlite._client.core import Core

    Timeout: TypeAlias = Callable[[float | None], AbstractContextManager[None]]


# The `pymongo.timeout` block around an operation, from code that still uses PyMongo beside motorlite.
#
# PyMongo is never imported here: without it, no such block can exist. It keeps the limit in context variables with
# private names. They are used only after a trial block, in a context of its own, has shown that they mean what they
# should. In a PyMongo where they do not, an operation inside of a block is refused rather than left without its
# limit.

# Seconds: a limit for trial blocks, and one that no outer block has.
_TRIAL = 60.0
_FOREVER = 1e9


class PyMongoBlock(NamedTuple):
    """The innermost `pymongo.timeout` block: its argument, and the seconds that are left.

    Of a block of 0 or None, these are the seconds that are left of the blocks around it.
    """

    seconds: float | None
    remaining: float


class _Readable:
    """The blocks of a PyMongo that is understood."""

    __slots__ = ("_remaining", "_timeout", "deadline", "module", "seconds")

    def __init__(self, module: Any, timeout: Timeout) -> None:
        private = module._csot
        self.module: ModuleType = module
        self._timeout = timeout
        # What return the argument of the innermost block, None without one, and the end of all, infinity without.
        self.seconds: Callable[[], float | None] = private.TIMEOUT.get
        self.deadline: Callable[[], float] = private.DEADLINE.get
        self._remaining: Callable[[], float | None] = private.remaining

    def __call__(self) -> PyMongoBlock | None:
        seconds = self.seconds()
        if seconds:
            return PyMongoBlock(seconds, self._left())
        if self.deadline() == inf:
            return None if seconds is None else PyMongoBlock(seconds, inf)
        # `timeout(None)` or `timeout(0)` in a block: nothing is limited, but no limit set there may outlast the block.
        with self._timeout(_FOREVER):
            return PyMongoBlock(seconds, self._left())

    def _left(self) -> float:
        left = self._remaining()
        return inf if left is None else left

    def is_right(self) -> bool:
        """Whether trial blocks read as they should."""
        with self._timeout(_TRIAL):
            outer = self()
            with self._timeout(None):
                lifted = self()
        return (
            self() is None
            and outer is not None
            and outer.seconds == _TRIAL
            and lifted is not None
            and lifted.seconds is None
            and all(_TRIAL / 2 < found.remaining <= _TRIAL for found in (outer, lifted))
        )


class _Unreadable:
    """The blocks of a PyMongo that is not understood: whether there is one shows in the variables that it sets."""

    __slots__ = ("_variables", "deadline", "module", "seconds")

    def __init__(self, module: ModuleType, timeout: Timeout) -> None:
        self.module: ModuleType = module
        # Not those of a context without any block, so that it is looked at more closely.
        self.seconds = self.deadline = lambda: 0.0
        try:
            self._variables = Context().run(_set_by, timeout)
        except Exception:  # as in `_blocks_of`
            self._variables = frozenset()

    def __call__(self) -> None:
        context = copy_context()
        if not self._variables or any(variable in context for variable in self._variables):
            version = getattr(self.module, "version", "of an unknown version")
            raise InvalidOperation(
                f"motorlite cannot read the limit of pymongo.timeout() in PyMongo {version}, and would have to "
                "ignore it: use motorlite.timeout() instead"
            )


def _set_by(timeout: Timeout) -> frozenset[ContextVar[Any]]:
    with timeout(_TRIAL):
        return frozenset(copy_context())


def _blocks_of(pymongo: ModuleType, timeout: Timeout) -> _Readable | _Unreadable:
    unreadable = _Unreadable(pymongo, timeout)
    try:
        readable = _Readable(pymongo, timeout)
        return readable if Context().run(readable.is_right) else unreadable
    except Exception:  # another PyMongo's: anything may be missing, or have become something else
        return unreadable


# Of the PyMongo that was found last.
_blocks: _Readable | _Unreadable | None = None


def innermost(pymongo: ModuleType) -> PyMongoBlock | None:
    """Return the innermost `pymongo.timeout` block around the caller, or None.

    Args:
        pymongo: PyMongo's module, from `sys.modules`.

    Raises:
        InvalidOperation: There is, or may be, such a block, and this PyMongo keeps its limit where it is not found.
    """
    global _blocks
    blocks = _blocks
    if blocks is None or blocks.module is not pymongo:
        timeout = getattr(pymongo, "timeout", None)
        if timeout is None:  # it is being imported
            return None
        blocks = _blocks = _blocks_of(pymongo, timeout)
    if blocks.seconds() is None and blocks.deadline() == inf:
        return None
    return blocks()


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
MODULES: Final = sys.modules
BLOCK: Final[ContextVar[_Limit | None]] = ContextVar("motorlite.timeout", default=None)


class timeout:  # PyMongo's name, and that of asyncio's and anyio's counterparts
    """Limit all operations in a ``with`` block together; ``async with`` does the same.

    The limit overrides `timeoutMS` of client, database and collection, and caps the `timeoutMS` of a single
    operation. An inner block cannot last longer than the outer one, but it can lift its limit, as in PyMongo.

    Args:
        seconds: The limit. 0: no limit, as with ``timeoutMS=0``: the driver retries operations, as `docs/retries.md`
            describes, until they succeed, are cancelled or the retry budget is empty. None: `timeoutMS` of client,
            database and collection applies again. All limits inside such a block still end with the blocks around it.

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
        duration, outer = self._duration, BLOCK.get()
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
        self._token = BLOCK.set(limit)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        if token is not None:
            BLOCK.reset(token)

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
    outer = BLOCK.get()
    if not lifetime.is_set or (outer is not None and not outer.is_cap and outer.expires_at < lifetime.expires_at):
        yield
        return
    latest = inf if outer is None else outer.latest
    token = BLOCK.set(_Limit(min(lifetime.expires_at, latest), lifetime.timeout))
    try:
        yield
    finally:
        BLOCK.reset(token)


def _duration(name: str, value: float, unit: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(wrong(f"{name}", value, "a number, 0 for no limit"))
    if value < 0 or isnan(value):
        raise ValueError(wrong(f"{name}", value, "0 for no limit, or a positive number"))
    return value * unit if value else inf


def duration_from_ms(timeout_ms: float) -> float:
    """Convert `timeoutMS` to seconds; 0 becomes infinity. Raises TypeError and ValueError."""
    return _duration("timeoutMS", timeout_ms, 0.001)


def _around_in_pymongo() -> PyMongoBlock | None:
    pymongo = MODULES.get("pymongo")
    return None if pymongo is None else innermost(pymongo)


def _around(core: Core) -> _Limit | None:
    """Return the block around the caller: motorlite's, PyMongo's, or what both leave together."""
    block, pymongo_block = BLOCK.get(), _around_in_pymongo()
    return block if pymongo_block is None else _combined(core, block, pymongo_block)


def _combined(core: Core, block: _Limit | None, pymongo_block: PyMongoBlock) -> _Limit:
    latest, seconds = core.now() + pymongo_block.remaining, pymongo_block.seconds or inf
    is_cap = pymongo_block.seconds is None
    if block is not None:
        latest, seconds = min(latest, block.latest), min(seconds, block.seconds)
        is_cap = is_cap and block.is_cap
    # What one library's blocks leave of their limits (`latest`) is none itself, and no end beside the other's 0.
    return _Limit(latest if is_cap or seconds < inf else inf, seconds, latest, is_cap=is_cap)


def is_timeout_set(inherited: float | None, timeout_ms: float | None) -> bool:
    """Whether `timeoutMS` is set for an operation at any level."""
    block = BLOCK.get()
    if timeout_ms is not None or inherited is not None or (block is not None and not block.is_cap):
        return True
    pymongo_block = _around_in_pymongo()
    return pymongo_block is not None and pymongo_block.seconds is not None


def deadline(
    core: Core, inherited: float | None, timeout_ms: float | None = None, scope: float | None = None
) -> Deadline:
    """Return the deadline of an operation that starts now.

    Args:
        core: Provides the time and the enclosing cancel scope.
        inherited: Seconds, from client, database or collection.
        timeout_ms: The timeoutMS of this one call.
        scope: What `core.enter` returned.

    Raises:
        InvalidOperation: The limit of an enclosing `pymongo.timeout` block cannot be read.
    """
    # As `_around`, without the call.
    block, pymongo = BLOCK.get(), MODULES.get("pymongo")
    if pymongo is not None:
        pymongo_block = innermost(pymongo)
        if pymongo_block is not None:
            block = _combined(core, block, pymongo_block)
    if scope is None:
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


# How `timeoutMS` applies to the steps of a cursor (client-side operations timeout, "Cursors").

_MODES = get_args(TimeoutMode)


class CursorLimits:
    """Deadlines of one cursor: of the command that opens it, of each iteration step, and of its close.

    Args:
        inherited: Seconds, from client, database or collection.
        timeout_ms: The caller's timeoutMS, or None.
        mode: Whether the timeout limits the cursor's lifetime or each step; None for the default.
        is_tailable: The cursor is tailable: it has no end, so only its steps can be limited.
        is_await_data: The server waits for new data.

    Raises:
        ValueError: `mode` or `timeout_ms` has a wrong value.
        ConfigurationError: `mode` is set without a timeout, or to cursorLifetime for a tailable cursor.
    """

    __slots__ = (
        "_first",
        "_inherited",
        "_is_await_data",
        "_is_by_iteration",
        "_timeout_ms",
        "_within",
    )

    def __init__(
        self,
        inherited: float | None,
        timeout_ms: float | None = None,
        mode: TimeoutMode | None = None,
        *,
        is_tailable: bool = False,
        is_await_data: bool = False,
    ) -> None:
        if timeout_ms is not None:
            duration_from_ms(timeout_ms)
        if mode is not None and mode not in _MODES:
            raise ValueError(wrong("timeoutMode", mode, " or ".join(map(repr, _MODES))))
        if is_tailable and mode == "cursorLifetime":
            raise ConfigurationError(wrong("timeoutMode", mode, "'iteration', because the cursor is tailable"))
        if mode is not None and not is_timeout_set(inherited, timeout_ms):
            raise ConfigurationError(wrong("timeoutMode", mode, "None, because timeoutMS is not set"))
        self._inherited = inherited
        self._timeout_ms = timeout_ms
        self._is_await_data = is_await_data
        self._is_by_iteration = is_tailable or mode == "iteration"
        # The deadline of the command that opened the cursor, and that of the `with_transaction` call around it.
        self._first = NO_DEADLINE
        self._within: Deadline | None = None

    @property
    def time_limit(self) -> TimeLimit:
        """Whether the command that opens the cursor may carry maxTimeMS, which limits the cursor's lifetime."""
        return TimeLimit.OMIT if self._is_by_iteration and not self._is_await_data else TimeLimit.SEND

    def open(self, core: Core, max_await_time_ms: float | None = None, within: Deadline | None = None) -> Deadline:
        """Return the deadline of the command that opens the cursor.

        `within`: that of the `with_transaction` call around it.

        Raises:
            ConfigurationError: The server would wait for data longer than `timeoutMS` allows.
            InvalidOperation: The cursor has a timeoutMS of its own `within` another.
        """
        if within is None:
            first = deadline(core, self._inherited, self._timeout_ms)
        else:
            first = of_session(core, within, self._timeout_ms)
        if max_await_time_ms is not None and max_await_time_ms >= first.timeout * 1000:
            allowed = f"less than timeoutMS, which is {first.timeout * 1000:g}"
            raise ConfigurationError(wrong("maxAwaitTimeMS", max_await_time_ms, allowed))
        self._first, self._within = first, within
        return first

    def step(self, core: Core) -> Deadline:
        """Return the deadline of one iteration step, which may send several getMore commands."""
        if self._is_by_iteration and self._first.timeout != inf:
            step, within = refreshed(core, self._first.timeout), self._within
            return step if within is None or step.expires_at <= within.expires_at else continued(core, within)
        return continued(core, self._first)

    def close(self, core: Core, timeout_ms: float | None = None) -> Deadline:
        """Return the deadline of killCursors, restarted so that an expired cursor is closed on the server too."""
        return for_close(core, self._first.timeout, timeout_ms)
