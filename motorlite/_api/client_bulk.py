"""Shell: bulk writes of a client: the batch loop, and the reading of the results (bulk write specification)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite._api.collection.documents import id_first, identify
from motorlite._api.session import is_in_transaction
from motorlite._api.settings import Configured
from motorlite._api.time_limits import ServerTime, for_close
from motorlite._api.turns import Turns, refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_document, converted, located, mapping, wrong
from motorlite._client.leftovers import give_back, is_settled, kill_command
from motorlite._operations.contract import Call, TimeLimit
from motorlite._operations.cursors import GetMore, LostCursor
from motorlite._operations.slices import ITEMS, release
from motorlite._sessions.session import Session
from motorlite.errors import InvalidOperation, PyMongoError
from motorlite.results import ClientBulkWriteResult
from motorlite.write_concern import as_write_concern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._client.core import Core
    from motorlite._operations.client_bulk import ClientBulkResult, Statement
    from motorlite._operations.contract import CursorReply
    from motorlite._operations.slices import Slices
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
    from motorlite.write_concern import WriteConcern

_NAME: Final = "bulkWrite"


class AsyncMongoClient(Configured[DocumentT]):
    """bulk_write of a client."""

    __slots__ = ()

    async def bulk_write(
        self,
        models: Sequence[InsertOne[Any] | UpdateOne | UpdateMany | ReplaceOne[Any] | DeleteOne | DeleteMany],
        session: AsyncClientSession | None = None,
        ordered: bool = True,
        verbose_results: bool = False,
        bypass_document_validation: bool | None = None,
        comment: Any = None,
        let: Mapping[str, Any] | None = None,
        write_concern: WriteConcern | None = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
    ) -> ClientBulkWriteResult:
        """Write to several collections, in as many commands as the server's limits require (MongoDB 8.0 and later).

        Args:
            models: The writes, each with its `namespace`. Documents to insert that have no `_id` get one.
            session: The session to use.
            ordered: Stop at the first error; otherwise try all. Must be false if the writes are unacknowledged.
            verbose_results: Return the result of each write that succeeds, not only the counts.
            bypass_document_validation: Write documents that the collections' validators would reject.
            comment: Shown in the server's log and profile.
            let: Variables for aggregation expressions.
            write_concern: The acknowledgement to wait for; the client's by default. Not in a transaction.
            timeoutMS: Time limit of all commands together; 0 for no limit.
            max_time_ms: Time limit on the server for all commands together, in milliseconds; ignored if a timeout is
                set.

        Raises:
            TypeError, ValueError: An argument is wrong.
            InvalidOperation: There are no models, one has no namespace, the options do not fit an unacknowledged write
                or a transaction, or the server is older than 8.0.
            ClientBulkWriteException: Some writes failed, or a command did; `write_errors`, `error` and
                `partial_result` have the details.
            PyMongoError: No command could be sent.

        Retries: each command for overload errors (up to 5, with backoff), and network errors and failovers once
        (retryable write) unless it has an UpdateMany or a DeleteMany, which may affect several documents; getMore
        for overload errors only.

        Source: bulk write specification.
        """
        from motorlite._operations.client_bulk import ClientBulkResult

        for name, value in (("ordered", ordered), ("verbose_results", verbose_results)):
            converted(name, value, boolean)
        if bypass_document_validation is not None:
            converted("bypass_document_validation", bypass_document_validation, boolean)
        if let is not None:
            converted("let", let, mapping)
        if not isinstance(models, list | tuple):
            raise TypeError(wrong("models", models, "a list of write models"))
        if not models:
            raise InvalidOperation("models must contain at least one model; check for an empty list before the call")
        if write_concern is None:
            write_concern = self._write_concern(session)
        elif is_in_transaction(session):
            raise InvalidOperation("Cannot set write concern after starting a transaction")
        else:
            write_concern = converted("write_concern", write_concern, as_write_concern)
        if not write_concern.acknowledged and (verbose_results or ordered):
            what = "verbose results" if verbose_results else "ordered writes"
            raise InvalidOperation(f"Cannot request unacknowledged write concern and {what}")
        call = self._begin(session, timeoutMS, write_concern.acknowledged) or await refused()
        limit = ServerTime(self._core, call.deadline, max_time_ms)
        turns = Turns(self._core, call.deadline)
        statements = await turns.compute(_statements(models))
        options = {
            "ordered": ordered,
            "verbose": verbose_results,
            "codec_options": self._settings.codec_options,
            "write_concern": write_concern,
            "bypass_document_validation": bypass_document_validation,
            "comment": comment,
            "let": let,
        }
        result = ClientBulkResult(statements, is_ordered=ordered, is_verbose=verbose_results)
        await ClientBulkWrite(self._core, statements, result, turns, options, limit).execute(call)
        return result.success() if write_concern.acknowledged else ClientBulkWriteResult({}, False, False)


def _statements(models: Sequence[object]) -> Slices[list[Statement]]:
    """Return the operations of all models. Documents to insert get an `_id`."""
    from motorlite._operations.client_bulk import statement_of

    found: list[Statement] = []
    try:
        for model in models:
            statement = statement_of(model)
            if statement.kind == "insert":
                document = statement.fields["document"]
                check_document("document", document)
                identify(document)
                statement = statement._replace(fields={"document": id_first(document)})
            found.append(statement)
            if not len(found) % ITEMS:
                yield
    except (TypeError, ValueError) as error:
        raise located(error, f"models[{len(found)}]") from None
    return found


class ClientBulkWrite:
    """A running bulk write. All its commands share one deadline, one operation id and one session."""

    __slots__ = (
        "_core",
        "_has_begun",
        "_has_written",
        "_is_acknowledged",
        "_limit",
        "_options",
        "_result",
        "_statements",
        "_turns",
    )

    def __init__(
        self,
        core: Core,
        statements: list[Statement],
        result: ClientBulkResult,
        turns: Turns,
        options: Mapping[str, Any],
        limit: ServerTime,
    ) -> None:
        self._core = core
        self._statements = statements
        self._result = result
        self._turns = turns
        # The arguments of every batch.
        self._options = options
        self._limit = limit
        self._is_acknowledged: bool = options["write_concern"].acknowledged
        # A command was sent, or at least tried.
        self._has_begun = False
        # A command was sent with success.
        self._has_written = False

    async def execute(self, call: Call) -> None:
        """Send all batches and read their results. An ordered bulk write stops at its first error.

        Raises:
            ClientBulkWriteException: A write or a command failed, or a write concern was not satisfied.
            Exception: Nothing was sent.
        """
        operation_id = self._core.new_operation_id()
        call = Call(call.session, call.deadline, operation_id, call.options)
        with self._core.executor.published(_NAME, "admin", None, operation_id, call.session):
            await self._execute(call)

    async def _execute(self, call: Call) -> None:
        # One implicit session serves all commands; the first acquires its server session. Unacknowledged writes have
        # none (driver sessions specification).
        implicit = Session(is_implicit=True) if call.session is None and self._is_acknowledged else None
        call = Call(call.session or implicit, call.deadline, call.operation_id, call.options)
        result, start = self._result, 0
        try:
            while start < len(self._statements) and result.can_continue:
                start += await self._execute_batch(start, call)
            if not result.details["writeErrors"] and len(self._statements) > ITEMS:
                await self._turns.compute(release(self._statements), is_limited=False)
        except Exception as failure:
            # Not only driver errors: bson may refuse a document of a later batch after other documents were written.
            has_reached = False
            if isinstance(failure, PyMongoError):
                has_reached = failure.reached_server
                # Of the call, not of its newest command.
                failure.reached_server |= self._has_written
                failure.may_have_been_executed |= self._has_written and not self._is_acknowledged
            else:
                await self._core.checkpoint()  # of bson: perhaps before anything was waited for
            if not result.has_observed and not has_reached:
                raise
            error = result.interrupted(failure)
            try:
                raise error from failure
            finally:
                del error
        finally:
            if implicit is not None and implicit.server_session is not None:
                self._core.executor.release(implicit)
        failed = result.error
        if failed is not None:
            if failed.timeout:
                failed.client_limit = None if call.deadline.timeout == inf else call.deadline.timeout
                failed.server_limit = failed.client_limit or self._limit.seconds(self._core.default_max_time)
            try:
                raise failed
            finally:
                del failed

    async def _execute_batch(self, start: int, call: Call) -> int:
        """Send the batch from operation `start` on, and read its results. Return the number of operations."""
        from motorlite._operations.client_bulk import ClientBulkBatch

        batch = ClientBulkBatch(self._statements, start, max_time_ms=self._limit.remaining(), **self._options)
        batch.is_continuation, self._has_begun = self._has_begun, True
        await self._turns.compute(batch.prepare())
        executor = self._core.executor
        if not self._is_acknowledged:
            await executor.execute(batch, call)
            self._has_written = True
            self._turns.restart()
            return batch.count
        opened = await executor.open(batch, call)
        self._has_written = True
        self._turns.restart()
        self._result.merge(opened.reply.reply, batch.count)
        database, _, collection = opened.reply.namespace.partition(".")
        cursor = LostCursor(opened.address, database, collection, opened.reply.cursor_id, pin=opened.pin)
        try:
            await self._read(cursor, opened.reply, start, batch.count, call)
        except Exception:
            await self._close(cursor, call)
            raise
        except BaseException:  # cancelled: the cursor is killed in the background
            self._core.kill_cursor(cursor)
            raise
        await self._close(cursor, call)
        return batch.count

    async def _read(self, cursor: LostCursor, reply: CursorReply, start: int, count: int, call: Call) -> None:
        """Read the results of a batch of `count` operations, to the end or to the error that ends the bulk write."""
        while True:
            try:
                await self._turns.compute(self._result.take(reply.documents, start, count), is_limited=False)
                if not cursor.cursor_id:
                    self._result.check_complete()
            except PyMongoError as error:
                error.address = cursor.address
                raise
            if not (cursor.cursor_id and self._result.can_continue):
                return
            get_more = GetMore(
                cursor.database,
                cursor.collection,
                cursor.cursor_id,
                address=cursor.address,
                codec_options=self._options["codec_options"],
                comment=self._options["comment"],
                pin=cursor.pin,
            )
            reply = await self._core.executor.execute(get_more, call)
            cursor.cursor_id = reply.cursor_id
            self._turns.restart()

    async def _close(self, cursor: LostCursor, call: Call) -> None:
        """Kill the cursor of the results if the server still has it, and release its connection."""
        is_done = not cursor.cursor_id
        try:
            if not is_done:
                is_done = await self._kill(cursor, call)
        finally:
            if is_done:
                give_back(cursor, self._core.executor)
            else:
                self._core.kill_cursor(cursor)

    async def _kill(self, cursor: LostCursor, call: Call) -> bool:
        """Try to kill the cursor. Return whether nothing is left to do."""
        if cursor.pin is not None and not cursor.pin.is_usable:
            return True
        limit = for_close(self._core, call.deadline.timeout)
        try:
            operation = kill_command(cursor, TimeLimit.DEADLINE)
            await self._core.executor.execute(operation, Call(call.session, limit, call.operation_id, call.options))
        except PyMongoError as error:
            return cursor.pin is not None or is_settled(error)
        return True
