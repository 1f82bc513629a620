"""Shell: a running bulk write of a collection or a client: what its batches share, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._api.time_limits import ServerTime
from motorlite._api.turns import Turns
from motorlite._operations.contract import Call
from motorlite._sessions.session import Session
from motorlite.errors import BulkWriteExecutionTimeout, ClientBulkWriteException, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from motorlite._client.core import Core
    from motorlite._operations.bulk import BulkBatch
    from motorlite._operations.client_bulk import ClientBulkBatch

BatchT = TypeVar("BatchT", bound="BulkBatch | ClientBulkBatch")
T = TypeVar("T")


class BulkWrite(ABC):
    """The batches of one call, which share one deadline, one operation id and one session."""

    __slots__ = ("_call", "_core", "_has_begun", "_has_written", "_is_acknowledged", "_limit", "_options", "turns")

    def __init__(self, core: Core, call: Call, max_time_ms: float | None, options: Mapping[str, Any]) -> None:
        self._core = core
        self._call = call
        self._limit = ServerTime(core, call.deadline, max_time_ms)
        self.turns: Turns = Turns(core, call.deadline)
        # The arguments of every batch.
        self._options = options
        self._is_acknowledged: bool = options["write_concern"].acknowledged
        # A command was sent, or at least tried.
        self._has_begun = False
        # A command was sent with success.
        self._has_written = False

    @abstractmethod
    async def _send_batches(self) -> None:
        """Send all batches. An ordered bulk write stops at its first error."""

    @abstractmethod
    def _error(self) -> BulkWriteExecutionTimeout | ClientBulkWriteException | PyMongoError | None:
        """Return the error of an acknowledged bulk write whose batches were all sent, or None."""

    @abstractmethod
    def _error_after(self, failure: Exception) -> Exception | None:
        """Return the error of a bulk write that `failure` ended, perhaps that itself. None: it is no error."""

    async def execute(self, name: str, database: str, collection: str | None, *, has_session: bool) -> None:
        """Send all batches, and raise the error at the end.

        Args:
            name: The operation, for its events.
            database: The database of the operation, for its events.
            collection: Its collection, likewise.
            has_session: Use an implicit session, whose server session the first acknowledged batch acquires.
                Unacknowledged writes have none (driver sessions specification).
        """
        call, executor = self._call, self._core.executor
        operation_id = self._core.new_operation_id()
        with executor.published(name, database, collection, operation_id, call.session):
            implicit = Session(is_implicit=True) if call.session is None and has_session else None
            self._call = Call(call.session or implicit, call.deadline, operation_id, call.options)
            try:
                await self._send_batches()
            except Exception as failure:
                # Not only driver errors: bson may refuse a document of a later batch after others were written.
                if not isinstance(failure, PyMongoError):
                    await self._core.checkpoint()  # of bson: perhaps before anything was waited for
                error = self._error_after(failure)
                try:
                    if error is failure:
                        raise
                    if error is not None:
                        raise error from failure
                finally:
                    del error  # its traceback references this frame
            else:
                if self._is_acknowledged:
                    await self._raise_error()
            finally:
                if implicit is not None and implicit.server_session is not None:
                    executor.release(implicit)

    async def _raise_error(self) -> None:
        error = self._error()
        if error is None:
            return
        await self._core.executor.leave_to_scope(self._call.deadline)
        if isinstance(error, BulkWriteExecutionTimeout | ClientBulkWriteException) and error.timeout:
            # The newest command carried what remained of the client's limit, or of its own, as the server's limit.
            timeout = self._call.deadline.timeout
            error.client_limit = None if timeout == inf else timeout
            error.server_limit = error.client_limit or self._limit.seconds(self._core.default_max_time)
        try:
            raise error
        finally:
            del error

    async def _send(self, batch: BatchT, send: Callable[[BatchT, Call], Awaitable[T]]) -> T:
        """Send a batch."""
        batch.is_continuation, self._has_begun = self._has_begun, True
        await self.turns.compute(batch.prepare())
        result = await send(batch, self._call)
        self._has_written = True
        self.turns.restart()
        return result
