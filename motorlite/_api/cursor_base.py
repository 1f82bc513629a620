"""Shell: what both kinds of cursor have in common: opened at the first step, awaitable and iterable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self

from motorlite._api.server_cursor import GetMoreOptions, ServerCursor
from motorlite._api.session import state_of
from motorlite._api.typings import DocumentT
from motorlite._api.validation import converted, milliseconds, positive
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from bson.codec_options import CodecOptions

    from motorlite._api.core import CoreLike
    from motorlite._api.cursor_limits import CursorLimits
    from motorlite._api.session import AsyncClientSession
    from motorlite._execution.operation import Operation
    from motorlite.deadline import Deadline
    from motorlite.values import Address


class CursorBase(ABC, Generic[DocumentT]):
    """A cursor. `_first_operation` says which command opens it; everything else is here."""

    __slots__ = (
        "__weakref__",
        "_codec_options",
        "_core",
        "_cursor",
        "_documents",
        "_get_more",
        "_is_closed",
        "_is_opening",
        "_limits",
        "_session",
        "_stops_on_empty_batch",
    )

    # Iterable with ``async for`` alone, although it can be sliced.
    __iter__: ClassVar[None] = None

    def __init__(
        self,
        core: CoreLike,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        get_more: GetMoreOptions,
    ) -> None:
        self._core = core
        self._session = session
        self._limits = limits
        self._codec_options = codec_options
        self._get_more = get_more
        # None until the first step.
        self._cursor: ServerCursor[DocumentT] | None = None
        # The batch at hand: the open cursor's own, so that the hot loop looks in one place.
        self._documents: deque[DocumentT] = deque()
        self._is_opening = False
        self._is_closed = False
        # Iterating a tailable cursor ends at each empty batch, while the cursor stays alive.
        self._stops_on_empty_batch = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} cannot be copied or pickled: it is one reader of one cursor in the server"
        )

    @abstractmethod
    def _first_operation(self, deadline: Deadline) -> Operation:
        """The command that opens the cursor."""

    # --- opening ---

    def __await__(self) -> Generator[Any, None, Self]:
        return self._opened().__await__()

    async def _opened(self) -> Self:
        if self._cursor is None:
            self._check_not_closed()
            await self._open()
        return self

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise InvalidOperation("the cursor has been closed")

    async def _open(self) -> None:
        if self._is_opening:
            raise InvalidOperation("two tasks are reading from the same cursor; give each its own, or take turns")
        core = self._core
        core.enter()
        session = state_of(self._session, core)
        self._is_opening = True
        try:
            deadline = self._limits.open(core, self._get_more.max_await_time_ms)
            reply = await core.executor.execute(self._first_operation(deadline), session, deadline)
        finally:
            self._is_opening = False
        cursor = ServerCursor[DocumentT](core, reply, self._session, self._limits, self._codec_options, self._get_more)
        self._cursor = cursor
        self._documents = cursor.documents
        if self._is_closed:  # by another task, while the reply was under way
            cursor.documents.clear()
            await cursor.close()
        elif cursor.is_complete:
            await cursor.close()

    # --- iterating ---

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DocumentT:
        if self._documents or await self._fill():
            return self._documents.popleft()
        raise StopAsyncIteration

    async def next(self) -> DocumentT:
        """The next document.

        Raises:
            StopAsyncIteration: There is none.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        return await self.__anext__()

    async def to_list(self, length: int | None = None) -> list[DocumentT]:
        """The remaining documents.

        Args:
            length: At most so many; None for all. The cursor stays open when there are more.

        Raises:
            TypeError, ValueError: `length` is not a positive integer.

        Retries: getMore for overload errors only (up to 5, with backoff).
        """
        if length is not None:
            converted("length", length, positive)
        found: list[DocumentT] = []
        while (length is None or len(found) < length) and (self._documents or await self._fill()):
            documents = self._documents
            if length is None or len(found) + len(documents) <= length:
                found.extend(documents)
                documents.clear()
            else:
                found.extend(documents.popleft() for _ in range(length - len(found)))
        return found

    async def _fill(self) -> bool:
        """Get a batch; False when the iteration ends here."""
        if self._is_closed:
            return False
        if self._cursor is None:
            await self._open()
            if self._documents:
                return True
            if self._stops_on_empty_batch:
                return False
        return await self._fetch(is_patient=not self._stops_on_empty_batch)

    async def _fetch(self, is_patient: bool) -> bool:
        """Get the next batch with documents; with `is_patient` False stop after one that has none."""
        cursor = self._cursor
        if cursor is None or not cursor.cursor_id:
            return False
        deadline = self._limits.step(self._core)
        while cursor.cursor_id:
            await cursor.fetch(deadline)
            if cursor.is_complete:
                await cursor.close()
            if cursor.documents:
                return True
            if not is_patient:
                break
        return False

    # --- the end ---

    async def close(self, timeoutMS: float | None = None) -> None:
        """Close the cursor, on the server too. It has no effect on a closed or exhausted one.

        Args:
            timeoutMS: The limit of the killCursors command; by default that of the cursor, afresh.

        Retries: overload errors (up to 5, with backoff). Errors are not raised: the server closes an
        abandoned cursor by itself, later.
        """
        if timeoutMS is not None:
            converted("timeoutMS", timeoutMS, milliseconds)
        self._is_closed = True
        self._documents.clear()
        if self._cursor is not None:
            await self._cursor.close(timeoutMS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    aclose = close

    # --- what is known ---

    @property
    def alive(self) -> bool:
        """Whether there may be more documents. True before the first step."""
        if self._documents:
            return True
        return not self._is_closed and (self._cursor is None or self._cursor.is_open)

    @property
    def cursor_id(self) -> int | None:
        """The server's number of the cursor, 0 when it is closed there, None before the first step."""
        return None if self._cursor is None else self._cursor.cursor_id

    @property
    def address(self) -> Address | None:
        """The server that the cursor is on, None before the first step."""
        return None if self._cursor is None else self._cursor.address

    @property
    def retrieved(self) -> int:
        """How many documents the server has sent."""
        return 0 if self._cursor is None else self._cursor.retrieved

    @property
    def session(self) -> AsyncClientSession | None:
        """The explicit session of the cursor."""
        return self._session
