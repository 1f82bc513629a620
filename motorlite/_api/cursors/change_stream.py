"""Shell: change streams, and how they resume (change streams specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from motorlite._api.arguments.checks import optional
from motorlite._api.call_options import effective
from motorlite._api.cursors.base import CursorBase
from motorlite._api.cursors.server_cursor import TWO_READERS, ServerCursor, was_not_executed
from motorlite._api.session import state_of
from motorlite._api.turns import give_way
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import positive
from motorlite._base.error_documents import CURSOR_NOT_FOUND
from motorlite._operations.change_stream import WatchMore, is_resumable
from motorlite._operations.contract import Call
from motorlite.errors import AutoReconnect, InvalidOperation, PyMongoError, error_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._api.cursors.server_cursor import GetMoreOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.time_limits import CursorLimits
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._operations.change_stream import Position, Watch
    from motorlite._operations.contract import CallOptions, CursorReply, Opened
    from motorlite._operations.cursors import GetMore


# The cursor of a change stream on a server. Another one takes its place when the stream resumes.


class ChangeStreamCursor(ServerCursor[DocumentT]):
    """The open cursor of a change stream. Its implicit session stays when another cursor takes its place."""

    __slots__ = ("_position", "_wire_version", "is_lost", "may_resume", "resumes")

    _more: ClassVar[type[GetMore]] = WatchMore

    def __init__(self, position: Position, watch: Watch, core: Core, opened: Opened, *settings: Any) -> None:
        self._position = position
        # Of the server that opened the cursor.
        self._wire_version = watch.wire_version
        # Another cursor has to take its place: it failed, or what it would return next is unknown.
        self.is_lost: bool = False
        # After the newest failure, the stream resumes by itself. Otherwise it resumes at the application's next step.
        self.may_resume: bool = False
        # How often the stream has resumed since it last got on.
        self.resumes: int = 0
        position.opened(opened.reply)
        super().__init__(core, opened, *settings)

    @property
    def is_open(self) -> bool:
        return (self.is_lost or self.cursor_id != 0) and self._failure is None and not self._is_closed

    @property
    def is_exhausted(self) -> bool:
        return not self.is_open

    @property
    def is_reachable(self) -> bool:
        """Whether a getMore can be sent: its server is known, and the connection that it may need is not lost."""
        return self._core.is_known(self.address) and not self._is_cut_off

    @property
    def can_continue(self) -> bool:
        """Whether it is open, and not that of a parent process."""
        return self.is_open and not self._core.is_of_parent(self._generation)

    async def fetch(self, deadline: Deadline) -> None:
        self.may_resume = False
        await super().fetch(deadline)
        self.resumes = 0

    def _learn(self, reply: CursorReply) -> None:
        super()._learn(reply)
        self._position.received(reply)

    def _learn_failure(self, error: BaseException) -> None:
        self.may_resume = False
        if isinstance(error, PyMongoError):
            self.may_resume = is_resumable(error, self._wire_version, is_reachable=self.is_reachable)
            can_continue = self.may_resume or error.timeout or isinstance(error, AutoReconnect)
            if error_code(error) == CURSOR_NOT_FOUND:
                self.cursor_id = 0
                self._unpin()
            if not can_continue and was_not_executed(error):
                return  # nothing has changed
        else:
            # Cancelled. Not an exception of `bson`: the codec options would refuse the same change again.
            can_continue = not isinstance(error, Exception)
        self.is_lost = can_continue
        if not can_continue:
            super()._learn_failure(error)

    async def resume(self, watch: Watch, deadline: Deadline) -> None:
        """Open another cursor with `watch`, in the same session. The server closes this one.

        Raises:
            InvalidOperation: Another task is reading from the stream.
        """
        core = self._core
        try:
            if self._is_reading:
                raise InvalidOperation(TWO_READERS)
            self._check_process()
            core.enter()
            session = self._implicit_session or state_of(self._explicit_session, core)
        except PyMongoError:
            await give_way()
            raise
        self._is_reading = self.is_lost = True
        self.resumes += 1
        try:
            if self.cursor_id:
                # In the background, because its server may be down. The session is not lost with it.
                core.kill_cursor(self._lose())
            opened = await core.executor.open(watch, Call(session, deadline, None, effective(self._call_options)))
        except BaseException as error:
            self._learn_failure(error)
            raise
        finally:
            self._is_reading = False
            if self._is_closed:  # by another task, which left the session to this one
                self._release()
        self._adopt(watch, opened)

    def _adopt(self, watch: Watch, opened: Opened) -> None:
        self.address, self._pin, self.namespace = opened.address, opened.pin, opened.reply.namespace
        self.cursor_id = opened.reply.cursor_id
        if opened.session is not None:
            self._implicit_session = opened.session
        if self._is_closed:
            self.abandon()
            return
        self._wire_version = watch.wire_version
        self.is_lost = False
        # The new cursor begins behind the last returned change, so it sends the others again.
        self.documents.clear()
        self._position.opened(opened.reply)
        self._learn(opened.reply)
        if opened.reply.documents:
            self.resumes = 0

    def abandon(self) -> None:
        """Close the stream; the server's cursor in the background."""
        self._is_closed = True
        self.documents.clear()
        if self._core.is_of_parent(self._generation):
            return
        if self.cursor_id:
            self._core.kill_cursor(self._lose())
        else:
            self._release()

    async def close(self, timeout_ms: float | None = None) -> None:
        await super().close(timeout_ms)
        if not self._is_reading and not self._core.is_of_parent(
            self._generation
        ):  # otherwise a resume in progress needs the session, and releases it when it ends
            self._release()

    def __del__(self) -> None:
        super().__del__()
        session, self._implicit_session = self._implicit_session, None
        if session is None or self._core.is_over:  # checked before the fork, as in `Core.is_over`
            return
        if not self._core.is_of_parent(self._generation):  # the stream could not resume
            self._core.release_session(session)


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

    async def _open(self) -> None:
        try:
            await super()._open()
        except BaseException:
            self._end_if_over()
            raise

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
            self._end_if_over()
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

        Retries: getMore for overload errors only; the stream resumes by a retryable read (docs/retries.md).
        """
        return await self.__anext__()

    async def try_next(self) -> DocumentT | None:
        """Return the next change, or None if the server has none right now. Sends at most one getMore.

        The server waits up to `max_await_time_ms` for a change, a second by default. Programs that store
        `resume_token` use this method, and store the token after each call: it moves on without changes too.

        Raises:
            InvalidOperation: The pipeline removed the change's `_id`, the resume token.
            PyMongoError: As in `next`.

        Retries: getMore for overload errors only; the stream resumes by a retryable read (docs/retries.md).
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

        Retries: getMore for overload errors only; the stream resumes by a retryable read (docs/retries.md).
        """
        optional("length", length, positive)
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

    def _end_if_over(self) -> None:
        """Close the stream if no further step can succeed. A program that goes on while it is alive would never end."""
        cursor, session = self._cursor, self._session
        is_cut_off = self._core.is_closed or (session is not None and session.has_ended)
        if is_cut_off or (cursor is not None and not cursor.can_continue):
            self._end()

    def _end(self) -> None:
        """Close the stream after an error that it cannot survive."""
        self._is_closed = True
        if self._cursor is not None:
            self._cursor.abandon()

    # --- state ---

    @property
    def resume_token(self) -> Mapping[str, Any] | None:
        """The token behind the last returned change, for `resume_after` and `start_after` of another stream.

        It also moves on when the server finds no change, so that resuming skips what it has already looked through.
        None before the server has sent the first one. It has the class of the collection's documents.
        """
        token: Any = self._position.token
        kind = (self._final_options or self._codec_options).document_class
        found: Mapping[str, Any] | None
        if not isinstance(token, Mapping):
            found = token  # old servers let pipelines change `_id` to anything, and refuse it when the stream resumes
        elif kind is dict and not isinstance(token, RawBSONDocument):
            found = dict(token)
        else:
            # From its bytes: reading its fields would show them to the application's decoders.
            found = bson.decode(bson.encode(token), CodecOptions(document_class=kind))
        return found
