"""Shell: an open cursor on a server: its batch, its getMore commands and its close."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import bson

from motorlite._api.call_options import effective
from motorlite._api.session import state_of
from motorlite._api.turns import give_way
from motorlite._api.typings import DocumentT
from motorlite._base.error_documents import REFUSALS
from motorlite._base.values import EncodedDocuments
from motorlite._client.leftovers import give_back, is_settled, kill_command
from motorlite._client.prefetch import Prefetch, in_background
from motorlite._operations.contract import Call, TimeLimit
from motorlite._operations.cursors import GetMore, LostCursor
from motorlite.errors import InvalidOperation, OperationFailure, PyMongoError, RetryStrategyError, detached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bson.codec_options import CodecOptions

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.time_limits import CursorLimits
    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._operations.contract import CallOptions, CursorReply, Opened, Pin
    from motorlite._sessions.session import Session
    from motorlite.read_preferences import ServerMode

# CursorNotFound, CursorKilled, QueryPlanKilled, CappedPositionLost (a tailable cursor was overtaken): the server has
# already closed the cursor.
_CLOSED_ON_SERVER = frozenset({43, 237, 175, 136})
# The phases in which the time of an operation runs out between two of its attempts.
_BETWEEN_ATTEMPTS = frozenset({"backoff", "retry delay"})


TWO_READERS: Final = "two tasks are reading from the same cursor; give each its own, or take turns"


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class GetMoreOptions:
    """The options of a cursor's getMore commands. The cursor's setters may change them."""

    # 0: the server chooses.
    batch_size: int = 0
    comment: Any = None
    is_await_data: bool = False
    # The server never ends the cursor: after an empty batch, more documents may come.
    is_endless: bool = False
    # The server streams the batches.
    is_exhaust: bool = False
    # The program gets each batch as the bytes of its documents, which are EncodedDocuments here.
    is_raw: bool = False
    # The maximum number of documents that the cursor returns in total; 0: no limit.
    limit: int = 0
    max_await_time_ms: float | None = None
    # 1: request a batch while the program works through the one before.
    prefetch: int = 0
    read_preference: ServerMode | None = None


class ServerCursor(Generic[DocumentT]):
    """A cursor on a server. `close` kills it there. Dropping the last reference kills it in the background."""

    _more: ClassVar[type[GetMore]] = GetMore

    __slots__ = (
        "__weakref__",
        "_ahead",
        "_call_options",
        "_codec_options",
        "_core",
        "_explicit_session",
        "_failure",
        "_generation",
        "_implicit_session",
        "_is_closed",
        "_is_reading",
        "_limits",
        "_pin",
        "_transaction",
        "address",
        "cursor_id",
        "documents",
        "namespace",
        "options",
        "retrieved",
    )

    def __init__(
        self,
        core: Core,
        opened: Opened,
        session: AsyncClientSession | None,
        limits: CursorLimits,
        codec_options: CodecOptions[Any],
        options: GetMoreOptions,
        call_options: CallOptions,
    ) -> None:
        self._core = core
        self._generation = core.generation
        self._explicit_session = session
        self._implicit_session: Session | None = opened.session
        # Behind a load balancer, and of an exhaust cursor: the connection for all commands of the cursor.
        self._pin: Pin | None = opened.pin
        # The transaction that the cursor is part of.
        self._transaction = None if session is None else session._state.transaction
        self._limits = limits
        self._codec_options = codec_options
        self.options: GetMoreOptions = options
        # Those of the call that opened the cursor.
        self._call_options = call_options
        self.namespace: str = opened.reply.namespace
        # The error of a getMore that left the server cursor's position unknown. A copy: the original was raised through
        # frames that reference the cursor, so keeping it would keep the cursor alive.
        self._failure: BaseException | None = None
        self._is_closed = False
        self._is_reading = False
        # The batch after the one that the program works through.
        self._ahead: Prefetch | None = None
        self.address: Address = opened.address
        # 0: the server has closed it.
        self.cursor_id = 0
        # Documents received but not yet returned.
        self.documents: deque[DocumentT] = deque()
        self.retrieved = 0
        self._learn(opened.reply)
        if self.cursor_id:
            core.open_cursors.add(self)

    @property
    def is_open(self) -> bool:
        """Whether there may be more documents."""
        return self.has_more and self._failure is None

    @property
    def is_exhausted(self) -> bool:
        """Whether `fetch` certainly returns nothing more."""
        return not self.has_more

    @property
    def has_more(self) -> bool:
        """Whether `fetch` may return a batch; otherwise it raises, because documents may be missing."""
        return self.cursor_id != 0 or self._ahead is not None or self._failure is not None

    @property
    def is_complete(self) -> bool:
        """Whether all documents within the limit were received, while the server still has the cursor."""
        return self.cursor_id != 0 and 0 < self.options.limit <= self.retrieved

    def _learn(self, reply: CursorReply) -> None:
        if self._is_closed:
            return  # by another task, while this reply was pending
        self._move(reply)
        self._take(reply)

    def _move(self, reply: CursorReply) -> None:
        """Learn whether the server still has the cursor. First, so that it is killed even if the rest fails."""
        self.cursor_id = reply.cursor_id
        if not self.cursor_id:
            self._release()

    def _take(self, reply: CursorReply) -> None:
        """Hand out the documents of a batch."""
        documents = reply.documents
        self.retrieved += len(documents)
        if self.options.is_raw and documents:
            self.documents.append(self._joined(documents))  # type: ignore[arg-type]  # of a raw cursor
        else:
            self.documents.extend(documents)

    def _joined(self, documents: Sequence[Any]) -> bytes:
        if isinstance(documents, EncodedDocuments):
            return b"".join(documents)
        # The fallback of an operation that was refused may have any documents.
        return b"".join(bson.encode(document, codec_options=self._codec_options) for document in documents)

    def _release(self) -> None:
        """Release the session and connection that the cursor held for its commands."""
        session, self._implicit_session = self._implicit_session, None
        if session is not None:
            self._core.executor.release(session)
        self._unpin()

    def _unpin(self) -> None:
        pin, self._pin = self._pin, None
        if pin is not None:
            pin.release()

    @property
    def _is_cut_off(self) -> bool:
        """Whether the connection for all commands of the cursor is lost, so that no further getMore can be sent."""
        return self._pin is not None and self._pin.is_lost

    def _unpin_lost(self) -> None:
        """Release the connection of an exhaust cursor if it is lost: any other one reaches the cursor, to kill it."""
        if self._is_cut_off and not self._core.options.load_balanced:
            self._unpin()

    def _batch_size(self) -> int:
        size, limit = self.options.batch_size, self.options.limit
        if not limit:
            return size
        remaining = limit - self.retrieved
        return remaining if not size or size > remaining else size

    async def fetch(self, deadline: Deadline) -> None:
        """Fetch the next batch (one getMore, retried only for overload errors).

        Raises:
            InvalidOperation: Another task is reading from this cursor, or an earlier getMore failed and left the
                cursor's position unknown.
        """
        self._check_process()
        if self._ahead is not None and await self._fetch_ahead(self._ahead, deadline):
            return
        core = self._core
        try:
            if self._failure is not None:
                message = "the cursor cannot continue: a getMore failed or was cancelled, so documents may be missing"
                raise InvalidOperation(message) from self._failure
            if self._is_reading:
                raise InvalidOperation(TWO_READERS)
            core.enter()
            session = self._implicit_session or state_of(self._explicit_session, core)
        except PyMongoError:
            await give_way()
            raise
        self._is_reading = True
        try:
            call = Call(session, deadline, None, effective(self._call_options))
            reply = await core.executor.execute(self._get_more(), call)
        except BaseException as error:
            self._learn_failure(error)
            raise
        finally:
            self._is_reading = False
            if self._is_closed:  # by another task, which left the cleanup to this getMore
                self._close_late()
        self._learn(reply)

    def _check_process(self) -> None:
        if self._core.is_of_parent(self._generation):
            raise InvalidOperation(
                "the cursor was opened before a fork and belongs to the parent process: run the query again"
            )

    async def _fetch_ahead(self, ahead: Prefetch, deadline: Deadline) -> bool:
        """Take the batch that `prefetch` requested. False if the request has not begun: it is taken back."""
        if not ahead.has_begun:
            self._take_back(ahead)
            return False
        await ahead.wait(deadline)
        self._ahead = None
        reply = ahead.result()
        if not self._is_closed:
            self._take(reply)
        return True

    def _take_back(self, ahead: Prefetch) -> None:
        """Cancel the request for a batch. If it has not begun, the cursor is not being read any more."""
        self._ahead = None
        ahead.cancel()
        if not ahead.has_begun:
            self._is_reading = False

    def prefetch(self, deadline: Deadline) -> None:
        """Request the next batch in the background, unless the cursor has none or must not be used meanwhile."""
        if not self.cursor_id or self._failure is not None or self._is_closed or self.is_complete:
            return
        if self._explicit_session is not None or self.options.is_exhaust or self.options.is_await_data:
            return
        call = Call(self._implicit_session, in_background(deadline), None, effective(self._call_options))
        self._is_reading = True
        tools = self._core.prefetching
        self._ahead = ahead = Prefetch(tools.waiter)
        ahead.task = tools.spawn(self._run_ahead, ahead, self._get_more(), call, name="prefetch")

    async def _run_ahead(self, ahead: Prefetch, get_more: GetMore, call: Call) -> None:
        if self._ahead is not ahead:
            return  # taken back
        ahead.has_begun = True
        reply: CursorReply | None = None
        failure: BaseException | None = None
        try:
            reply = await self._core.executor.execute(get_more, call)
            if not self._is_closed:
                self._move(reply)
        except BaseException as error:
            self._learn_failure(error)
            if not isinstance(error, Exception):
                failure = InvalidOperation("the cursor or its client was closed while the next batch was on its way")
                raise
            failure = detached(error)
        finally:
            self._is_reading = False
            ahead.finish(reply, failure)
            del failure
            if self._is_closed:
                self._close_late()

    def _get_more(self) -> GetMore:
        options = self.options
        database, _, collection = self.namespace.partition(".")
        return self._more(
            database,
            collection,
            self.cursor_id,
            address=self.address,
            read_preference=options.read_preference,
            batch_size=self._batch_size(),
            max_await_time_ms=options.max_await_time_ms if options.is_await_data else None,
            is_await_data=options.is_await_data,
            comment=options.comment,
            codec_options=self._codec_options,
            pin=self._pin,
            is_exhaust=options.is_exhaust,
        )

    def _close_late(self) -> None:
        if self._pin is not None and self.cursor_id:
            # `close` could not use the connection while this getMore was in flight.
            self._core.kill_cursor(self._lose())
        else:
            self._release()

    def _learn_failure(self, error: BaseException) -> None:
        if isinstance(error, OperationFailure) and error.code in _CLOSED_ON_SERVER:
            self.cursor_id = 0
            self._release()
        elif not (isinstance(error, PyMongoError) and was_not_executed(error)) or self._is_cut_off:
            self._failure = detached(error)
            self._unpin_lost()
            is_bound = self._pin is not None and self._core.options.load_balanced
            if self.cursor_id and not is_bound and not getattr(error, "timeout", False):
                # No further reads are possible, so the server need not keep the cursor until the program drops it. One
                # with its own connection keeps that until then (load balancers specification), and after a timeout,
                # `close` kills the cursor with its own time limit (client-side operations timeout, "Cursors").
                self._core.kill_cursor(self._lose())
                self._release()

    async def close(self, timeout_ms: float | None = None) -> None:
        """Kill the cursor on the server, if it is open there, and release the implicit session."""
        self._is_closed = True
        if self._core.is_of_parent(self._generation):
            self.cursor_id, self._ahead = 0, None
            return  # the parent continues to read from it
        if self._ahead is not None:
            self._take_back(self._ahead)
        if self._is_reading and self._pin is not None:
            return  # the getMore in flight closes the cursor when it ends
        if not self.cursor_id:
            return
        try:
            self._core.enter()
        except InvalidOperation:  # the client is closed or bound to another event loop
            self._core.kill_cursor(self._lose())
            return
        self._unpin_lost()
        lost = self._lose()
        await kill(self._core, lost, self._kill_call(lost, timeout_ms))

    def to_kill(self) -> LostCursor | None:
        """Return the server's cursor to a client that closes, unless it is closed or a command is in flight.

        It takes along the implicit session, which endSessions then ends. This cursor stays open, so that its next step
        reports the closed client.
        """
        if not self.cursor_id or self._is_reading:
            return None
        database, _, collection = self.namespace.partition(".")
        session, self._implicit_session = self._implicit_session, None
        return LostCursor(self.address, database, collection, self.cursor_id, session=session, pin=self._pin)

    def _lose(self) -> LostCursor:
        """Detach the server's cursor, with the session and connection that it held for its commands."""
        cursor_id, self.cursor_id = self.cursor_id, 0
        database, _, collection = self.namespace.partition(".")
        session = None
        if not self._is_reading:  # otherwise the getMore in flight uses it, and releases it when it ends
            session, self._implicit_session = self._implicit_session, None
        pin, self._pin = self._pin, None
        return LostCursor(self.address, database, collection, cursor_id, session=session, pin=pin)

    def _kill_call(self, lost: LostCursor, timeout_ms: float | None) -> Call | None:
        """Return the call settings of killCursors, or None if it cannot reach the cursor."""
        core, session = self._core, lost.session
        if session is None and self._explicit_session is not None and not self._explicit_session.has_ended:
            session = state_of(self._explicit_session, core)
        if core.options.load_balanced and lost.pin is None:
            # Only the connection of its transaction is certain to reach the cursor, or else closes when it is released.
            can_be_sent = session is not None and session.transaction is self._transaction and session.is_idle
        else:
            can_be_sent = lost.pin is None or lost.pin.is_usable
        return Call(session, self._limits.close(core, timeout_ms)) if can_be_sent else None

    def __del__(self) -> None:
        # May run in another thread, at any point of the event loop's work: the garbage collector runs anywhere.
        # After the client, it may run when the modules are gone, and their names with them.
        if self.cursor_id and not self._core.is_over and not self._core.is_of_parent(self._generation):
            self._core.kill_cursor(self._lose())


async def kill(core: Core, cursor: LostCursor, call: Call | None) -> None:
    """Kill a cursor for the task that has read it, and release what it held. None: there is nothing to send.

    Where that is cancelled or times out, the cursor is killed in the background.
    """
    is_done = call is None
    try:
        if call is not None:
            await core.executor.execute(kill_command(cursor, TimeLimit.DEADLINE), call)
        is_done = True
    except PyMongoError as error:
        # Behind a load balancer, another attempt would hold the connection.
        is_done = (cursor.pin is not None and core.options.load_balanced) or is_settled(error)
    finally:
        if is_done:
            give_back(cursor, core.executor)
        else:
            core.kill_cursor(cursor)


def was_not_executed(error: PyMongoError) -> bool:
    """Whether a failed getMore left the cursor's position unchanged: it reached no server, or a server rejected it.

    A getMore may be sent again only after it changed nothing. So it changed nothing if it ended while another attempt
    was in question.
    """
    if not error.reached_server or not REFUSALS.isdisjoint(error.error_labels):
        return True
    return error.phase in _BETWEEN_ATTEMPTS or isinstance(error, InvalidOperation | RetryStrategyError)
