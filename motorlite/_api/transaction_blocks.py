"""Shell: the blocks around a transaction, and around the operations of a bound session."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType


class EndsTransactions(Protocol):
    """A session whose transaction can be ended."""

    @property
    def in_transaction(self) -> bool: ...

    async def commit_transaction(self) -> None: ...

    async def _abort_after(self, error: BaseException) -> None: ...

    def _leave_commit(self) -> None: ...


class Ends(Protocol):
    """A session that can be ended."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


SessionT = TypeVar("SessionT", bound=Ends)

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


class TransactionContext:
    """The end of a transaction: ``async with session.start_transaction():`` commits, or aborts after an exception."""

    __module__ = "motorlite.client_session"

    __slots__ = ("_session",)

    def __init__(self, session: EndsTransactions) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._session!r}>"

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
        if error is not None:
            await self._session._abort_after(error)
            return
        try:
            await self._session.commit_transaction()
        except InvalidOperation as refused:  # an operation is still running
            if self._session.in_transaction:
                await self._session._abort_after(refused)
            raise
        except BaseException as failed:
            if not isinstance(failed, Exception):
                self._session._leave_commit()
            raise


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
