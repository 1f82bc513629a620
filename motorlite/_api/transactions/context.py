"""Shell: the blocks around a transaction, and around the operations of a bound session."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextvars import Token
    from types import TracebackType


class EndsTransactions(Protocol):
    """A session whose transaction can be ended."""

    @property
    def in_transaction(self) -> bool: ...

    async def commit_transaction(self) -> None: ...

    async def _abort_after(self, error: BaseException) -> None: ...


class Ends(Protocol):
    """A session that can be ended."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


SessionT = TypeVar("SessionT", bound=Ends)

# The session of the innermost enclosing `bind` block.
_bound: ContextVar[Any] = ContextVar("motorlite.session", default=None)

BOUND: Final[set[BoundSession[Any]]] = set()
"""The open `bind` blocks of all tasks. While there is none, operations do not read the context variable."""


def bound_session() -> Any:
    """Return the session of the innermost enclosing `bind` block, or None."""
    return _bound.get()


class TransactionContext:
    """The end of a transaction: ``async with session.start_transaction():`` commits, or aborts after an exception."""

    __module__ = "motorlite.client_session"

    __slots__ = ("_session",)

    def __init__(self, session: EndsTransactions) -> None:
        self._session = session

    def __await__(self) -> Generator[Any, None, Self]:
        """Return the same object: code written for PyMongo awaits `start_transaction`."""
        return self
        yield

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._session.in_transaction:
            return
        if error is None:
            await self._session.commit_transaction()
        else:
            await self._session._abort_after(error)


class BoundSession(Generic[SessionT]):
    """A block whose operations use one session: ``async with session.bind():``."""

    __module__ = "motorlite.client_session"

    __slots__ = ("_ends_session", "_session", "_token")

    def __init__(self, session: SessionT, ends_session: bool) -> None:
        self._session = session
        self._ends_session = ends_session
        self._token: Token[Any] | None = None

    async def __aenter__(self) -> SessionT:
        self._token = _bound.set(self._session)
        BOUND.add(self)
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        token, self._token = self._token, None
        BOUND.discard(self)
        if token is not None:
            _bound.reset(token)
        if self._ends_session:
            await self._session.__aexit__(kind, error, trace)
