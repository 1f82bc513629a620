"""Shell: the common base of both cursor classes: opened at the first step, awaitable and iterable."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self

from motorlite._api.arguments.checks import optional
from motorlite._api.call_options import effective
from motorlite._api.cursors.server_cursor import TWO_READERS, GetMoreOptions, ServerCursor
from motorlite._api.session import resolved, state_of
from motorlite._api.turns import give_way
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import milliseconds, positive
from motorlite._operations.contract import Call
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

    from bson.codec_options import CodecOptions

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.time_limits import CursorLimits
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._operations.contract import CallOptions, CursorReply, Opened, Operation


class CursorBase(ABC, Generic[DocumentT]):
    """A cursor. Subclasses define the command that opens it (`_first_operation`)."""

    __slots__ = (
        "__weakref__",
        "_call_options",
        "_codec_options",
        "_core",
        "_cursor",
        "_documents",
        "_get_more",
        "_is_closed",
        "_is_empty",
        "_is_opening",
        "_limits",
        "_session",
        "_stops_on_empty_batch",
    )

    if TYPE_CHECKING:
        # Iterable only with ``async for``, although `__getitem__` supports slices.
        __iter__: ClassVar[None] = None
    else:

        def __iter__(self) -> NoReturn:
            """Reject ``for`` and ``list``, which cannot wait for a server."""
            raise TypeError(
                f"an {type(self).__name__} is read asynchronously: use `async for`, or `await cursor.to_list()`"
            )

        def __len__(self) -> NoReturn:
            """Reject ``len``: how many documents there are is known at the end."""
            raise TypeError(
                f"an {type(self).__name__} has no len(): use `len(await cursor.to_list())`, or count_documents()"
            )

    def __bool__(self) -> bool:
        """True, whether there are documents or not."""
        return True

    def __init__(
        self,
        core: Core,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        get_more: GetMoreOptions,
        call_options: CallOptions,
    ) -> None:
        self._core = core
        self._session = session
        self._limits = limits
        self._codec_options = codec_options
        self._get_more = get_more
        self._call_options = call_options
        # None until the first step.
        self._cursor: ServerCursor[DocumentT] | None = None
        # The current batch. It is the open cursor's own deque, so that the hot loop reads a single attribute.
        self._documents: deque[DocumentT] = deque()
        self._is_opening = False
        self._is_closed = False
        # An empty slice of a query: sends nothing to the server.
        self._is_empty = False
        # Iteration over a tailable cursor ends at each empty batch, while the cursor stays alive.
        self._stops_on_empty_batch = False

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(
            f"an {type(self).__name__} cannot be copied or pickled: a cursor on the server has a single reader"
        )

    def __repr__(self) -> str:
        cursor = self._cursor
        if self._is_closed:
            state = "closed"
        elif cursor is None:
            state = "not started"
        else:
            state = "open" if cursor.has_more or self._documents else "exhausted"
        where = self._namespace if cursor is None else cursor.namespace
        return f"<{type(self).__name__} {f'of {where}, ' if where else ''}{state}>"

    @property
    def _namespace(self) -> str:
        """What the cursor reads, ``"database.collection"``; empty if only the server knows it."""
        return ""

    @abstractmethod
    def _first_operation(self) -> Operation[CursorReply]:
        """Return the command that opens the cursor."""

    # --- opening ---

    def __await__(self) -> Generator[Any, None, Self]:
        return self._opened().__await__()

    async def _opened(self) -> Self:
        if self._cursor is None:
            if self._is_closed:
                await give_way()
                self._check_not_closed()
            await self._open()
        return self

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise InvalidOperation("the cursor has been closed; make a new one, or rewind() that of a query")

    async def _open(self) -> None:
        core = self._core
        try:
            if self._is_opening:
                raise InvalidOperation(TWO_READERS)
            core.enter()
            self._session = resolved(self._session)
            session = state_of(self._session, core)
        except PyMongoError:
            await give_way()
            raise
        self._is_opening = True
        try:
            within = None if session is None else session.deadline
            deadline = self._limits.open(core, self._get_more.max_await_time_ms, within)
            call = Call(session, deadline, None, effective(self._call_options))
            opened = await self._execute(call)
        finally:
            self._is_opening = False
        if opened is None:
            self._is_closed = True
            return
        cursor = self._cursor = self._server_cursor(opened, call.options)
        self._documents = cursor.documents
        if self._is_closed:  # by another task, while the reply was pending
            cursor.documents.clear()
            await cursor.close()
        elif cursor.is_complete:
            await cursor.close()
        elif self._get_more.prefetch and cursor.documents:
            cursor.prefetch(self._limits.step(core))

    def _execute(self, call: Call) -> Awaitable[Opened | None]:
        """Execute the command; None if there are no documents and no cursor."""
        return self._core.executor.open(self._first_operation(), call)

    def _server_cursor(self, opened: Opened, call_options: CallOptions) -> ServerCursor[DocumentT]:
        return ServerCursor(
            self._core, opened, self._session, self._limits, self._codec_options, self._get_more, call_options
        )

    # --- iterating ---

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> DocumentT:
        if self._documents or await self._fill():
            return self._documents.popleft()
        raise StopAsyncIteration

    async def next(self) -> DocumentT:
        """Return the next document.

        Raises:
            StopAsyncIteration: There are no more documents.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return await self.__anext__()

    async def to_list(self, length: int | None = None) -> list[DocumentT]:
        """Return the remaining documents.

        A cursor that the server never ends (tailable, or of a pipeline with $changeStream) returns those that the
        server has: up to the first empty batch. After an error that left the cursor usable, call it again: nothing is
        lost.

        Args:
            length: The maximum number of documents; None for all. The cursor stays open if there are more.

        Raises:
            TypeError, ValueError: `length` is not a positive integer.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        optional("length", length, positive)
        found: list[DocumentT] = []
        is_patient = not self._get_more.is_endless
        try:
            while (length is None or len(found) < length) and (self._documents or await self._fill(is_patient)):
                documents = self._documents
                if length is None or len(found) + len(documents) <= length:
                    found.extend(documents)
                    documents.clear()
                else:
                    found.extend(documents.popleft() for _ in range(length - len(found)))
        except BaseException:
            # After an error that left the cursor where it was, or came after the last batch (a cancelled killCursors),
            # a second call must not return a part only.
            if self._cursor is not None and (self._cursor.is_open or self._documents) and not self._is_closed:
                self._documents.extendleft(reversed(found))
            raise
        return found

    async def _fill(self, is_patient: bool = True) -> bool:
        """Fetch a batch. False if the iteration ends here; without `is_patient`, at an empty batch."""
        if self._is_closed or self._is_empty:
            return False
        cursor = self._cursor
        if cursor is None:
            await self._open()
            if self._documents:
                return True
            if self._stops_on_empty_batch:
                return False
        elif cursor.is_exhausted:
            return False
        return await self._fetch(is_patient=is_patient and not self._stops_on_empty_batch)

    async def _fetch(self, is_patient: bool) -> bool:
        """Fetch the next batch that has documents. Without `is_patient`, stop after an empty batch."""
        cursor = self._cursor
        if cursor is None or not cursor.has_more:
            return False
        deadline = self._limits.step(self._core)
        while cursor.has_more:
            await cursor.fetch(deadline)
            if cursor.is_complete:
                await cursor.close()
            if cursor.documents:
                if self._get_more.prefetch:
                    cursor.prefetch(self._limits.step(self._core))
                return True
            if not is_patient:
                break
        return False

    # --- the end ---

    async def close(self, timeoutMS: float | None = None) -> None:
        """Close the cursor, on the server too. No effect on a closed or exhausted cursor.

        Args:
            timeoutMS: Time limit of the killCursors command; by default the cursor's limit, restarted.

        Retries: overload errors only (docs/retries.md). Errors are not raised: the server closes the cursor later.
        """
        optional("timeoutMS", timeoutMS, milliseconds)
        self._is_closed = True
        self._documents.clear()
        if self._cursor is not None:
            await self._cursor.close(timeoutMS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    aclose = close

    # --- state ---

    @property
    def alive(self) -> bool:
        """Whether there may be more documents. True before the first step."""
        if self._documents:
            return True
        return not self._is_closed and (self._cursor is None or self._cursor.is_open)

    @property
    def cursor_id(self) -> int | None:
        """The server's id of the cursor; 0 if the server has closed it, None before the first step."""
        return None if self._cursor is None else self._cursor.cursor_id

    @property
    def address(self) -> Address | None:
        """The address of the cursor's server; None before the first step."""
        return None if self._cursor is None else self._cursor.address

    @property
    def retrieved(self) -> int:
        """The number of documents that the server has sent."""
        return 0 if self._cursor is None else self._cursor.retrieved

    @property
    def session(self) -> AsyncClientSession | None:
        """The explicit session of the cursor."""
        return self._session


class Batches(Generic[DocumentT]):
    """The remaining documents of a cursor, as lists: one for each batch."""

    __module__ = "motorlite.cursor"

    __slots__ = ("_cursor", "_next_batch")

    def __init__(self, cursor: object, next_batch: Callable[[], Awaitable[list[DocumentT] | None]]) -> None:
        self._cursor = cursor
        # Returns None at the end.
        self._next_batch = next_batch

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._cursor!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[DocumentT]:
        batch = await self._next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch


class BatchedCursor(CursorBase[DocumentT]):
    """A cursor that can be read batch by batch."""

    __slots__ = ()

    def batches(self) -> Batches[DocumentT]:
        """Return the remaining documents in lists, one for each batch: ``async for batch in cursor.batches()``.

        The first list has the rest of the current batch. A list has at least one document.

        Retries: getMore for overload errors only (docs/retries.md).
        """
        return Batches(self, self._next_batch)

    async def _next_batch(self) -> list[DocumentT] | None:
        if not (self._documents or await self._fill()):
            return None
        documents = list(self._documents)
        self._documents.clear()
        return documents
