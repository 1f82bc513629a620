"""Shell: explicit sessions (driver sessions and causal consistency specifications)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self

from bson.timestamp import Timestamp

from motorlite._api.missing import SESSION, no_attribute
from motorlite._api.typings import ClientT_co
from motorlite._base.arguments import boolean, converted, instance, wrong
from motorlite._sessions.session import Session, newest_cluster_time
from motorlite.errors import ConfigurationError, InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from motorlite._client.core import Core


class SessionOptions:
    """The options of a session.

    Attributes:
        causal_consistency: Whether reads observe the session's earlier operations.
    """

    __module__ = "motorlite"

    __slots__ = ("causal_consistency",)

    def __init__(self, causal_consistency: bool | None = None) -> None:
        if causal_consistency is not None:
            converted("causal_consistency", causal_consistency, boolean)
        self.causal_consistency: bool = causal_consistency is None or causal_consistency


class AsyncClientSession(Generic[ClientT_co]):
    """A logical session. Pass it as `session=` to operations that belong together.

    Created by `AsyncMongoClient.start_session`. Use it in ``async with``, or call `end_session`. Operations of one
    session must not run at the same time.
    """

    __module__ = "motorlite"

    __slots__ = ("_client", "_core", "_has_ended", "_options", "_state")

    def __init__(self, client: ClientT_co, core: Core, options: SessionOptions) -> None:
        self._client = client
        self._core = core
        self._options = options
        self._state = Session(is_implicit=False, is_causally_consistent=options.causal_consistency)
        self._has_ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.end_session()

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

    async def end_session(self) -> None:
        """End the session. Sends nothing: the server session returns to the client's pool, once."""
        if not self._has_ended:
            self._has_ended = True
            if self._state.server_session is not None:
                self._core.executor.release(self._state)

    def __del__(self) -> None:
        # As with a cursor, this may run in another thread. No operation uses the session, since it would reference it.
        if not self._has_ended and self._state.server_session is not None:
            self._core.release_session(self._state)

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the session itself: code written for Motor awaits `start_session`."""
        return self
        yield

    if not TYPE_CHECKING:  # type checkers would accept every name as an attribute

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that names the missing feature."""
            raise no_attribute("AsyncClientSession", name, SESSION)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a session cannot be copied or pickled: two copies would use one server session; start another")

    def _check_open(self) -> None:
        if self._has_ended:
            raise InvalidOperation("the session has ended")

    def _for_operation(self, core: Core) -> Session:
        """Return the session's state, for an operation of the client with this core."""
        if core is not self._core:
            raise InvalidOperation("a session can only be used with the client that started it")
        self._check_open()
        return self._state


def state_of(session: AsyncClientSession | None, core: Core, is_acknowledged: bool = True) -> Session | None:
    """Return the executor's view of a caller's `session`.

    Raises:
        TypeError: `session` is not an AsyncClientSession.
        InvalidOperation: The session has ended or belongs to another client.
        ConfigurationError: The write is unacknowledged (driver sessions specification).
    """
    if session is None:
        return None
    instance("session", session, AsyncClientSession, "an AsyncClientSession of this client, or None")
    if not is_acknowledged:
        raise ConfigurationError("an explicit session cannot be used for an unacknowledged write (w=0)")
    return session._for_operation(core)


def session_of_one_call(client: Any, core: Core) -> AsyncClientSession:
    """Return a session of the driver's own, for the operations of one public call that belong together.

    Unlike a session of the caller's, it is left out where the server has no sessions.
    """
    session = AsyncClientSession(client, core, SessionOptions(causal_consistency=False))
    session._state = Session(is_implicit=True)
    return session
