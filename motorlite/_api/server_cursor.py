"""Shell: a cursor that is open on a server: its batch, its getMore commands and its end."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic

from motorlite._api.lost_cursors import give_back, is_settled, kill_command
from motorlite._api.session import state_of
from motorlite._api.typings import DocumentT
from motorlite._execution.lost_cursor import LostCursor
from motorlite._operations.get_more import GetMore
from motorlite.errors import SYSTEM_OVERLOADED, InvalidOperation, OperationFailure, PyMongoError, detached

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

    from motorlite._api.core import CoreLike
    from motorlite._api.cursor_limits import CursorLimits
    from motorlite._api.session import AsyncClientSession
    from motorlite._execution.operation import CursorReply, Pin
    from motorlite._execution.session import Session
    from motorlite.deadline import Deadline
    from motorlite.read_preferences import _ServerMode
    from motorlite.values import Address

# CursorNotFound, CursorKilled, QueryPlanKilled, CappedPositionLost (a tailable cursor was overtaken): the server has no
# such cursor any more.
_CLOSED_ON_SERVER = frozenset({43, 237, 175, 136})


class GetMoreOptions:
    """What the getMore commands of a cursor carry; setters of the cursor may change it."""

    __slots__ = ("batch_size", "comment", "is_await_data", "limit", "max_await_time_ms", "read_preference")

    def __init__(
        self,
        *,
        batch_size: int = 0,
        comment: Any = None,
        is_await_data: bool = False,
        limit: int = 0,
        max_await_time_ms: float | None = None,
        read_preference: _ServerMode | None = None,
    ) -> None:
        # 0: the server decides.
        self.batch_size: int = batch_size
        self.comment: Any = comment
        self.is_await_data: bool = is_await_data
        # How many documents the cursor returns in all; 0: no limit.
        self.limit: int = limit
        self.max_await_time_ms: float | None = max_await_time_ms
        self.read_preference: _ServerMode | None = read_preference


class ServerCursor(Generic[DocumentT]):
    """A cursor on a server. `close` kills it there; so does losing the last reference, in the background."""

    __slots__ = (
        "_codec_options",
        "_core",
        "_explicit_session",
        "_failure",
        "_implicit_session",
        "_is_closed",
        "_is_reading",
        "_limits",
        "_namespace",
        "_pin",
        "address",
        "cursor_id",
        "documents",
        "options",
        "retrieved",
    )

    def __init__(
        self,
        core: CoreLike,
        reply: CursorReply,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        options: GetMoreOptions,
    ) -> None:
        self._core = core
        self._explicit_session = session
        self._implicit_session: Session | None = reply.session
        # Behind a load balancer: the connection that all commands of the cursor are sent on.
        self._pin: Pin | None = reply.pin
        self._limits = limits
        self._codec_options = codec_options
        self.options: GetMoreOptions = options
        self._namespace = reply.namespace
        # Of a getMore after which the position of the server's cursor is not known; a copy, since the error itself came
        # through frames that have the cursor, which would then never be dropped.
        self._failure: BaseException | None = None
        self._is_closed = False
        self._is_reading = False
        # None only where no cursor is left on the server.
        self.address: Address | None = reply.address
        # 0: the server has closed it.
        self.cursor_id = 0
        # The documents that are here and were not handed out.
        self.documents: deque[DocumentT] = deque()
        self.retrieved = 0
        self._learn(reply)

    @property
    def is_open(self) -> bool:
        """Whether the server may have more documents."""
        return self.cursor_id != 0 and self._failure is None

    @property
    def is_complete(self) -> bool:
        """Whether all documents that the limit allows are here, while the server keeps the cursor."""
        return self.cursor_id != 0 and 0 < self.options.limit <= self.retrieved

    def _learn(self, reply: CursorReply) -> None:
        if self._is_closed:
            return  # by another task, while this reply was under way
        # At first: should the rest fail, the cursor is killed nevertheless.
        self.cursor_id = reply.cursor_id
        self.documents.extend(reply.documents)
        self.retrieved += len(reply.documents)
        if not self.cursor_id:
            self._release()

    def _release(self) -> None:
        """Give back what the cursor has kept for its commands."""
        session, self._implicit_session = self._implicit_session, None
        if session is not None:
            self._core.executor.release(session)
        pin, self._pin = self._pin, None
        if pin is not None:
            pin.release()

    def _address(self) -> Address:
        assert self.address is not None, "an open cursor is on a server"
        return self.address

    def _batch_size(self) -> int:
        size, limit = self.options.batch_size, self.options.limit
        if not limit:
            return size
        remaining = limit - self.retrieved
        return remaining if not size or size > remaining else size

    async def fetch(self, deadline: Deadline) -> None:
        """Get the next batch (one getMore, retried only for overload errors).

        Raises:
            InvalidOperation: Another task is reading from this cursor, or an earlier getMore failed in a way that
                makes it unknown which documents come next.
        """
        if self._failure is not None:
            message = "the cursor cannot continue: a getMore failed or was cancelled, so documents may be missing"
            raise InvalidOperation(message) from self._failure
        if self._is_reading:
            raise InvalidOperation("two tasks are reading from the same cursor; give each its own, or take turns")
        core = self._core
        core.enter()
        session = self._implicit_session or state_of(self._explicit_session, core)
        self._is_reading = True
        try:
            reply = await core.executor.execute(self._get_more(), session, deadline)
        except BaseException as error:
            self._learn_failure(error)
            raise
        finally:
            self._is_reading = False
            if self._is_closed:  # by another task, which left the rest to this getMore
                self._close_late()
        self._learn(reply)

    def _get_more(self) -> GetMore:
        options = self.options
        database, _, collection = self._namespace.partition(".")
        return GetMore(
            database,
            collection,
            self.cursor_id,
            address=self._address(),
            read_preference=options.read_preference,
            batch_size=self._batch_size(),
            max_await_time_ms=options.max_await_time_ms if options.is_await_data else None,
            is_await_data=options.is_await_data,
            comment=options.comment,
            codec_options=self._codec_options,
            pin=self._pin,
        )

    def _close_late(self) -> None:
        if self._pin is not None and self.cursor_id:
            # `close` could send nothing on the connection while this getMore was under way.
            self._core.kill_cursor(self._lose())
        else:
            self._release()

    def _learn_failure(self, error: BaseException) -> None:
        if isinstance(error, OperationFailure) and error.code in _CLOSED_ON_SERVER:
            self.cursor_id = 0
            self._release()
        elif not (isinstance(error, PyMongoError) and _was_not_executed(error)):
            self._failure = detached(error)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Kill the cursor on the server, if it is open there, and give the implicit session back."""
        self._is_closed = True
        if self._is_reading and self._pin is not None:
            return  # the getMore that is under way closes the cursor at its end
        if not self.cursor_id:
            return
        lost = self._lose()
        is_done = False
        try:
            is_done = await self._kill(lost, timeout_ms)
        finally:
            if not is_done:  # cancelled, out of time, or on another event loop: the cursor is killed all the same
                self._core.kill_cursor(lost)

    def _lose(self) -> LostCursor:
        """The cursor as it is on the server, with what it had kept for its commands."""
        cursor_id, self.cursor_id = self.cursor_id, 0
        database, _, collection = self._namespace.partition(".")
        session = None
        if not self._is_reading:  # else the getMore that is under way uses it, and gives it back at its end
            session, self._implicit_session = self._implicit_session, None
        pin, self._pin = self._pin, None
        return LostCursor(self._address(), database, collection, cursor_id, session=session, pin=pin)

    async def _kill(self, lost: LostCursor, timeout_ms: float | None) -> bool:
        """Whether nothing is left to do."""
        core = self._core
        try:
            core.enter()
        except InvalidOperation:  # the client is closed, or this is not its event loop
            return False
        session = lost.session
        if session is None and self._explicit_session is not None and not self._explicit_session.has_ended:
            session = state_of(self._explicit_session, core)
        if lost.pin is None or lost.pin.is_usable:
            try:
                await core.executor.execute(kill_command(lost), session, self._limits.close(core, timeout_ms))
            except PyMongoError as error:
                if lost.pin is None and not is_settled(error):
                    return False
        give_back(lost, core.executor)
        return True

    def __del__(self) -> None:
        # Maybe in another thread, or amid whatever the event loop was doing: the garbage collector runs anywhere.
        if self.cursor_id:
            self._core.kill_cursor(self._lose())


def _was_not_executed(error: PyMongoError) -> bool:
    """Whether a failed getMore did not move the cursor: no server got it, or an overloaded one shed it."""
    return not error.reached_server or error.has_error_label(SYSTEM_OVERLOADED)
