"""Shell: explicit sessions and their transactions (driver sessions, causal consistency and transactions)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, Self, TypeVar

from bson.timestamp import Timestamp

from motorlite._api import time_limits
from motorlite._api.arguments.checks import optional
from motorlite._api.transaction_options import SessionOptions
from motorlite._api.transactions import AsyncClientSession as SessionTransactions
from motorlite._api.typings import ClientT_co
from motorlite._base.arguments import boolean, converted, instance, milliseconds, wrong
from motorlite._sessions.session import UNACKNOWLEDGED, Concerns, Session, newest_cluster_time
from motorlite.errors import ConfigurationError, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from types import TracebackType

    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core

ClientT = TypeVar("ClientT")
SessionT = TypeVar("SessionT", bound="AsyncClientSession[Any]")
_SESSION: Final = "an AsyncClientSession or None"


# The innermost `bind` block that the task, or the one that started it, has entered. It may be closed by now.
_bound: ContextVar[BoundSession[Any] | None] = ContextVar("motorlite.session", default=None)

BOUND: Final[set[BoundSession[Any]]] = set()
"""The open `bind` blocks of all tasks. While there is none, operations do not read the context variable."""


def bound_session() -> Any:
    """Return the session of the innermost enclosing `bind` block, or None.

    A task that was started in a block and outlives it no longer uses its session.
    """
    block = _innermost()
    return None if block is None else block.session


def _innermost() -> BoundSession[Any] | None:
    block = _bound.get()
    while block is not None and block not in BOUND:
        block = block.outer
    return block


@contextmanager
def unbound() -> Iterator[None]:
    """Keep the operations in a ``with`` block out of the session that the caller's `bind` has set.

    These are the driver's own operations, and those of a retry strategy: its write would wait for the turn of the write
    that waits for the strategy.
    """
    token = _bound.set(None)
    try:
        yield
    finally:
        _bound.reset(token)


class AsyncClientSession(SessionTransactions, Generic[ClientT_co]):
    """A logical session. Pass it as `session=` to operations that belong together.

    Created by `AsyncMongoClient.start_session`. Use it in ``async with``, or call `end_session`. Several tasks may use
    it at the same time: retryable writes then wait for one another, and other operations do not. In a transaction, a
    second operation at the same time raises InvalidOperation.

    A causally consistent session does not cover unacknowledged writes. A session that is not used for the first time
    within a minute may have expired on the server.
    """

    __module__ = "motorlite"

    __slots__ = ()

    _client: ClientT_co

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception) and self.in_transaction:
            await self._abort_after(error)
        await self.end_session()

    def __repr__(self) -> str:
        state = "ended" if self._has_ended else "in a transaction" if self.in_transaction else "open"
        return f"<{type(self).__name__} of {self._client!r}, {state}>"

    @property
    def client(self) -> ClientT_co:
        """The client that started this session."""
        return self._client

    @property
    def options(self) -> SessionOptions:
        """The options that the session was started with."""
        return self._options

    @property
    def has_ended(self) -> bool:
        """Whether `end_session` was called."""
        return self._has_ended

    @property
    def session_id(self) -> Mapping[str, Any]:
        """The `lsid` document of the session.

        Raises:
            InvalidOperation: The session has ended.
        """
        self._check_open()
        state = self._state
        if state.server_session is None:
            self._core.enter()
            # Any pooled session works: the server recreates an expired one.
            state.server_session = self._core.sessions.acquire(self._core.now(), None)
        return state.server_session.lsid

    @property
    def cluster_time(self) -> Mapping[str, Any] | None:
        """The newest `$clusterTime` that the session has seen."""
        return self._state.cluster_time

    @property
    def operation_time(self) -> Timestamp | None:
        """The `operationTime` of the session's last operation."""
        return self._state.operation_time

    def advance_cluster_time(self, cluster_time: Mapping[str, Any]) -> None:
        """Advance `cluster_time` to that of another session.

        Raises:
            TypeError: `cluster_time` is not a mapping.
            ValueError: `cluster_time` is not a `$clusterTime` document.
        """
        allowed = "a $clusterTime document, with a Timestamp as clusterTime"
        instance("cluster_time", cluster_time, Mapping, allowed)
        if not isinstance(cluster_time.get("clusterTime"), Timestamp):
            raise ValueError(wrong("cluster_time", cluster_time, allowed))
        self._state.cluster_time = newest_cluster_time(self._state.cluster_time, cluster_time)

    def advance_operation_time(self, operation_time: Timestamp) -> None:
        """Advance `operation_time` to that of another session.

        Raises:
            TypeError: `operation_time` is not a Timestamp.
        """
        instance("operation_time", operation_time, Timestamp)
        known = self._state.operation_time
        if known is None or operation_time > known:
            self._state.operation_time = operation_time

    @property
    def snapshot_time(self) -> Timestamp | None:
        """The moment that a snapshot session reads; None before its first read.

        Raises:
            InvalidOperation: The session was not started with `snapshot`.
        """
        if not self._options.snapshot:
            raise InvalidOperation("only a session with snapshot=True has a snapshot_time")
        return self._state.snapshot_time

    # --- the end ---

    def bind(self, end_session: bool = True) -> BoundSession[Self]:
        """Use this session for all operations of its client in an ``async with`` block that are given none.

        Only the operations of its client may be used in the block. The binding also applies in tasks that are started
        there, until the block ends.

        Args:
            end_session: Whether to end the session at the end of the block.

        Raises:
            TypeError: `end_session` is neither True nor False.
        """
        return BoundSession(self, converted("end_session", end_session, boolean))

    async def end_session(self, timeoutMS: float | None = None) -> None:
        """End the session, once. Aborts its transaction; the server session returns to the client's pool.

        Args:
            timeoutMS: Time limit of the abort, in place of the session's `defaultTimeoutMS`; 0 for no limit.

        Retries: the abort as a retryable write, even with retryWrites=False (docs/retries.md).
        """
        optional("timeoutMS", timeoutMS, milliseconds)
        if self._has_ended:
            return
        self._has_ended = True
        state, core = self._state, self._core
        if core.is_of_parent(self._generation):
            return  # it still uses what the session holds
        try:
            is_used = self.in_transaction and state.started_transaction().is_busy
            if state.must_abort or is_used:
                core.enter()
                if state.in_transaction and not is_used:
                    seconds = self._default_seconds() if timeoutMS is None else time_limits.duration_from_ms(timeoutMS)
                    await self._abort(seconds)
                else:
                    core.abort_transaction(state)
        except InvalidOperation:
            core.abort_left(state)  # the client is closing or closed, or this is another event loop
        finally:
            self._release()

    def _release(self) -> None:
        """Release what the session holds."""
        state = self._state
        self._publish_end()
        held = state.end()
        if held is not None:
            held.release()
        if state.server_session is not None:
            self._core.executor.release(state)

    def __del__(self) -> None:
        # As with a cursor, this may run in another thread. No operation uses the session, since it would reference it.
        published = self._published
        if self._has_ended or (self._state.server_session is None and published is None) or self._core.is_over:
            return
        if not self._core.is_of_parent(self._generation):
            self._core.release_session(self._state, None if published is None else published.end)

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the session itself: code written for Motor awaits `start_session`."""
        return self
        yield

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"an {name} cannot be copied, create a new session instead: two copies would use one server session"
        )

    def _for_operation(self, core: Core) -> Session:
        """Return the session's state, for an operation of the client with this core."""
        if core is not self._core:
            if BOUND and bound_session() is self:
                raise InvalidOperation(
                    "Only the client that created the bound session can perform operations within its context block"
                )
            raise InvalidOperation(f"Can only use session with the {type(self._client).__name__} that started it")
        self._check_open()
        self._leave_unsent_commit()
        self._publish_start()
        return self._state


class BoundSession(Generic[SessionT]):
    """A block whose operations use one session: ``async with session.bind():``."""

    __module__ = "motorlite.client_session"

    __slots__ = ("_ends_session", "outer", "session")

    def __init__(self, session: SessionT, ends_session: bool) -> None:
        self.session: SessionT = session
        self._ends_session = ends_session
        # The block around it.
        self.outer: BoundSession[Any] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.session!r}>"

    async def __aenter__(self) -> SessionT:
        if self in BOUND:
            raise InvalidOperation("the block has been entered already; call bind() again for another one")
        self.outer = _innermost()
        _bound.set(self)
        BOUND.add(self)
        return self.session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        BOUND.discard(self)
        if _bound.get() is self:  # a fixture may end in another context than it began in
            _bound.set(self.outer)
        if self._ends_session:
            await self.session.__aexit__(kind, error, trace)


def resolved(session: AsyncClientSession | None) -> AsyncClientSession | None:
    """Return a caller's `session`, or the one bound by the enclosing block."""
    return bound_session() if session is None and BOUND else session


def begin(
    session: AsyncClientSession | None,
    core: Core,
    inherited: float | None,
    timeout_ms: float | None,
    is_acknowledged: bool = True,
) -> tuple[Session | None, Deadline]:
    """Return the state of the session of an operation that starts now, and the operation's deadline.

    Args:
        session: The caller's; None: the bound one, if there is one.
        core: The client's machinery.
        inherited: The timeoutMS of client, database or collection, in seconds.
        timeout_ms: The timeoutMS of this one call.
        is_acknowledged: Whether the operation has a reply.

    Raises:
        TypeError, InvalidOperation, ConfigurationError: As `state_of`.
        InvalidOperation: A timeoutMS of the call is not allowed in `with_transaction`.
    """
    state = state_of(resolved(session), core, is_acknowledged)
    if state is None or state.deadline is None:
        return state, time_limits.deadline(core, inherited, timeout_ms)
    return state, time_limits.of_session(core, state.deadline, timeout_ms)


def is_in_transaction(session: AsyncClientSession | None) -> bool:
    """Whether an operation with a caller's `session`, or the bound one, belongs to a transaction.

    Raises:
        TypeError: `session` is not an AsyncClientSession.
    """
    session = resolved(session)
    if session is None:
        return False
    instance("session", session, AsyncClientSession, _SESSION)
    return session.in_transaction


def state_of(session: AsyncClientSession | None, core: Core, is_acknowledged: bool = True) -> Session | None:
    """Return the executor's view of a caller's `session`.

    Raises:
        TypeError: `session` is not an AsyncClientSession.
        InvalidOperation: The session has ended or belongs to another client.
        ConfigurationError: The write is unacknowledged (driver sessions specification), outside of a transaction.
    """
    if session is None:
        return None
    instance("session", session, AsyncClientSession, _SESSION)
    state = session._for_operation(core)
    if not is_acknowledged and not state.in_transaction:
        raise ConfigurationError(f"{UNACKNOWLEDGED}: WriteConcern(w=0)")
    return state


def session_of(client: ClientT, settings: Any, core: Core, options: SessionOptions) -> AsyncClientSession[ClientT]:
    """Return a session of `client`. Its transactions inherit the client's settings."""
    inherited = Concerns(settings.read_concern, settings.write_concern, settings.read_preference)
    return AsyncClientSession(client, core, options, inherited, settings.timeout, settings.call_options)


def session_of_one_call(client: Any, core: Core) -> AsyncClientSession:
    """Return a session of the driver's own, for the operations of one public call that belong together.

    Unlike a session of the caller's, it is left out where the server has no sessions.
    """
    session = session_of(client, client._settings, core, SessionOptions(causal_consistency=False))
    session._state = Session(is_implicit=True)
    return session
