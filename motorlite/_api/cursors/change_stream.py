"""Shell: change streams (change streams specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import bson

from motorlite._api.cursors.base import CursorBase
from motorlite._api.cursors.change_stream_cursor import ChangeStreamCursor
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import converted, positive
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bson.codec_options import CodecOptions

    from motorlite._api.cursors.limits import CursorLimits
    from motorlite._api.cursors.server_cursor import GetMoreOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._execution.call import CallOptions
    from motorlite._execution.operation import Opened
    from motorlite._operations.reads.change_stream import Position, Watch


class AsyncChangeStream(CursorBase[DocumentT]):
    """The changes to a collection, a database or a whole deployment, created by `watch`.

    The stream reports the changes from the moment on when it opens: at the beginning of ``async with``, when it is
    awaited, or at the first step, iteration or `try_next`. Use ``async with`` or `close`.

    When the server of the stream fails, or the connection to it, the stream continues on another cursor, once for each
    failure, without losing or repeating a change. `resume_token` lets another stream, in another process, continue
    where this one stands.

    A step that is cancelled or that times out loses nothing either: the next step resumes first. If steps time out
    before the stream has returned its first change, close it and watch again with more time: the server cannot read its
    log fast enough.

    Source: change streams specification.
    """

    __module__ = "motorlite"

    __slots__ = ("_final_options", "_make_watch", "_position", "_watch")

    _cursor: ChangeStreamCursor[DocumentT] | None

    def __init__(
        self,
        core: Core,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        get_more: GetMoreOptions,
        call_options: CallOptions,
        *,
        position: Position,
        make_watch: Callable[[Mapping[str, Any]], Watch],
        final_options: CodecOptions[Any] | None,
    ) -> None:
        super().__init__(core, session, limits, codec_options, get_more, call_options)
        self._position = position
        # Makes the command that opens the stream where the given options of the stage say.
        self._make_watch = make_watch
        # Decodes the changes, if the cursor returns them undecoded.
        self._final_options = final_options

    # --- opening and resuming ---

    def _first_operation(self) -> Watch:
        watch = self._watch = self._make_watch(self._position.stage_options())
        return watch

    def _server_cursor(self, opened: Opened, call_options: CallOptions) -> ChangeStreamCursor[DocumentT]:
        settings = (self._session, self._limits, self._codec_options, self._get_more, call_options)
        return ChangeStreamCursor(self._position, self._watch, self._core, opened, *settings)

    async def _fetch(self, is_patient: bool) -> bool:
        cursor = self._cursor
        if cursor is None or not cursor.is_open:
            return False
        deadline = self._limits.step(self._core)
        documents = cursor.documents
        try:
            if cursor.is_lost:
                await self._resume(cursor, deadline)
            while not documents:
                await self._advance(cursor, deadline)
                if not (is_patient and cursor.is_open):
                    break
        except BaseException:
            if not cursor.is_open:
                self._end()
            raise
        return bool(documents)

    async def _advance(self, cursor: ChangeStreamCursor[DocumentT], deadline: Deadline) -> None:
        """Fetch a batch. If that fails, resume; the new cursor may bring a batch."""
        if not cursor.cursor_id:  # the server has ended the stream
            return
        core = self._core
        if cursor.is_reachable:
            try:
                await cursor.fetch(deadline)
            except PyMongoError:
                if self._is_closed:  # by another task, which killed the cursor: this is how the iteration ends
                    return
                if not cursor.may_resume:
                    raise
                # The first time at once. If opening succeeds and reading fails again and again, slowly.
                until = core.now() + (core.backoff(cursor.resumes - 1) if cursor.resumes else 0)
                if until >= deadline.expires_at:
                    raise
                if cursor.resumes:
                    await core.pause(until)
            else:
                return
        if cursor.is_open:  # another task may have closed it during the pause
            await self._resume(cursor, deadline)

    async def _resume(self, cursor: ChangeStreamCursor[DocumentT], deadline: Deadline) -> None:
        await cursor.resume(self._first_operation(), deadline)

    async def __aenter__(self) -> Self:
        # Unlike other cursors, it is opened: a change in the block must not escape it.
        return await self

    # --- iterating ---

    async def __anext__(self) -> DocumentT:
        if self._documents or await self._fill():
            return self._take()
        raise StopAsyncIteration

    async def next(self) -> DocumentT:
        """Return the next change. Waits until there is one.

        Raises:
            StopAsyncIteration: The stream is closed, or the server has ended it (``"invalidate"``).
            InvalidOperation: The pipeline removed the change's `_id`, the resume token.
            PyMongoError: The stream could not continue. It is closed, unless `alive` is true: then the next step
                resumes.

        Retries: getMore for overload errors (up to 5, with backoff). After another error that permits it, the stream
        resumes with an aggregate command (retryable read).
        """
        return await self.__anext__()

    async def try_next(self) -> DocumentT | None:
        """Return the next change, or None if the server has none right now. Sends at most one getMore.

        The server waits up to `max_await_time_ms` for a change, a second by default. Programs that store
        `resume_token` use this method, and store the token after each call: it moves on without changes too.

        Raises:
            InvalidOperation: The pipeline removed the change's `_id`, the resume token.
            PyMongoError: As in `next`.

        Retries: getMore for overload errors (up to 5, with backoff). After another error that permits it, the stream
        resumes with an aggregate command (retryable read).
        """
        if not self._documents:
            if self._cursor is not None:
                await self._fetch(is_patient=False)
            elif not self._is_closed:
                await self._open()
        return self._take() if self._documents else None

    async def to_list(self, length: int | None = None) -> list[DocumentT]:
        """Return the changes that the server has, up to its first empty batch. If it fails, none of them is lost.

        Args:
            length: The maximum number of changes; None for all.

        Raises:
            TypeError, ValueError: `length` is not a positive integer.
            PyMongoError: As in `next`.

        Retries: getMore for overload errors (up to 5, with backoff). After another error that permits it, the stream
        resumes with an aggregate command (retryable read).
        """
        if length is not None:
            converted("length", length, positive)
        taken: list[DocumentT] = []
        found: list[DocumentT] = []
        place = self._position.place
        try:
            while (length is None or len(found) < length) and (self._documents or await self._fill(is_patient=False)):
                change = self._documents[0]
                found.append(self._take())
                taken.append(change)
        except BaseException:
            # The application gets none of them now, so the stream is back where the call began.
            self._position.place = place
            if not self._is_closed:
                self._documents.extendleft(reversed(taken))
            raise
        return found

    def _take(self) -> DocumentT:
        """Return the next change of the batch."""
        documents = self._documents
        change = documents.popleft()
        try:
            # First: a change that cannot be decoded is not returned, so the position stays before it.
            decoded = self._decoded(change)
            is_resumable = self._position.returned(change, is_last=not documents)
        except BaseException:  # decoders of the application may raise anything
            self._end()
            raise
        if not is_resumable:
            self._end()
            raise InvalidOperation(
                "the change has no _id, the token to resume from: the pipeline of a change stream must not remove it"
            )
        return decoded

    def _decoded(self, change: DocumentT) -> DocumentT:
        if self._final_options is None:
            return change
        raw: Any = change
        decoded: DocumentT = bson.decode(raw.raw, self._final_options)
        return decoded

    def _end(self) -> None:
        """Close the stream after an error that it cannot survive."""
        assert self._cursor is not None
        self._is_closed = True
        self._cursor.abandon()

    # --- state ---

    @property
    def resume_token(self) -> dict[str, Any] | None:
        """The token behind the last returned change, for `resume_after` and `start_after` of another stream.

        It also moves on when the server finds no change, so that resuming skips what it has already looked through.
        None before the server has sent the first one.
        """
        token: Any = self._position.token
        # Old servers let pipelines change `_id` to anything; they refuse it when the stream resumes.
        found: dict[str, Any] | None = dict(token) if isinstance(token, Mapping) else token
        return found
