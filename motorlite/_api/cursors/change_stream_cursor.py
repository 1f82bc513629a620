"""Shell: the cursor of a change stream on a server. Another one takes its place when the stream resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from motorlite._api.call_options import effective
from motorlite._api.cursors.server_cursor import TWO_READERS, ServerCursor, was_not_executed
from motorlite._api.session import state_of
from motorlite._api.turns import give_way
from motorlite._api.typings import DocumentT
from motorlite._base.error_codes import CURSOR_NOT_FOUND
from motorlite._execution.call import Call
from motorlite._operations.reads.change_stream import WatchMore, is_resumable
from motorlite.errors import AutoReconnect, InvalidOperation, PyMongoError, error_code

if TYPE_CHECKING:
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._execution.operation import CursorReply, Opened
    from motorlite._operations.cursors.get_more import GetMore
    from motorlite._operations.reads.change_stream import Position, Watch


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
        """Whether its server is known. Otherwise a getMore would wait for that very server to return."""
        return self._core.is_known(self.address)

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
            self.may_resume = is_resumable(error, self._wire_version)
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
