"""Shell: bulk_write of a client, with the reading of its results (bulk write specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.arguments.checks import optional
from motorlite._api.bulk_write import BulkWrite
from motorlite._api.collection.documents import id_first, identify
from motorlite._api.cursors.server_cursor import kill
from motorlite._api.session import is_in_transaction
from motorlite._api.settings import Configured
from motorlite._api.time_limits import for_close
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_document, converted, located, mapping, wrong
from motorlite._operations.contract import Call
from motorlite._operations.cursors import LostCursor
from motorlite._operations.slices import ITEMS, release
from motorlite.errors import InvalidOperation, PyMongoError
from motorlite.results import ClientBulkWriteResult
from motorlite.write_concern import as_write_concern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._operations.client_bulk import ClientBulkResult, Statement
    from motorlite._operations.contract import CursorReply
    from motorlite._operations.slices import Slices
    from motorlite.errors import ClientBulkWriteException
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
    from motorlite.write_concern import WriteConcern


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

        Retries: each command as a retryable write, unless it has an UpdateMany or a DeleteMany (docs/retries.md).

        Source: bulk write specification.
        """
        from motorlite._operations.client_bulk import ClientBulkResult

        for name, value in (("ordered", ordered), ("verbose_results", verbose_results)):
            converted(name, value, boolean)
        optional("bypass_document_validation", bypass_document_validation, boolean)
        optional("let", let, mapping)
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
        options = {
            "ordered": ordered,
            "verbose": verbose_results,
            "codec_options": self._settings.codec_options,
            "write_concern": write_concern,
            "bypass_document_validation": bypass_document_validation,
            "comment": comment,
            "let": let,
        }
        bulk = ClientBulkWrite(self._core, call, max_time_ms, options)
        # A copy, since the application may change its list meanwhile.
        statements = await bulk.turns.compute(_statements(list(models)))
        result = ClientBulkResult(statements, is_ordered=ordered, is_verbose=verbose_results)
        await bulk.write(statements, result)
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


class ClientBulkWrite(BulkWrite):
    """A running bulk write of a client."""

    __slots__ = ("_result", "_statements")

    _statements: list[Statement]
    _result: ClientBulkResult

    async def write(self, statements: list[Statement], result: ClientBulkResult) -> None:
        """Send the statements, and collect what is known about them in `result`."""
        self._statements, self._result = statements, result
        await self.execute("bulkWrite", "admin", None, has_session=self._is_acknowledged)

    async def _send_batches(self) -> None:
        start, result = 0, self._result
        while start < len(self._statements) and result.can_continue:
            start += await self._send_batch(start)
        if not result.details["writeErrors"] and len(self._statements) > ITEMS:
            await self.turns.compute(release(self._statements), is_limited=False)

    def _error(self) -> ClientBulkWriteException | None:
        return self._result.error

    def _error_after(self, failure: Exception) -> Exception:
        has_reached = False
        if isinstance(failure, PyMongoError):
            has_reached = failure.reached_server
            # Of the call, not of its newest command.
            failure.reached_server |= self._has_written
            failure.may_have_been_executed |= self._has_written and not self._is_acknowledged
        return self._result.interrupted(failure) if has_reached or self._result.has_observed else failure

    async def _send_batch(self, start: int) -> int:
        """Send the batch from operation `start` on, and read its results. Return the number of operations."""
        from motorlite._operations.client_bulk import ClientBulkBatch

        batch = ClientBulkBatch(self._statements, start, max_time_ms=self._limit.remaining(), **self._options)
        if not self._is_acknowledged:
            await self._send(batch, self._core.executor.execute)
            return batch.count
        opened = await self._send(batch, self._core.executor.open)
        self._result.merge(opened.reply.reply, batch.count)
        database, _, collection = opened.reply.namespace.partition(".")
        cursor = LostCursor(opened.address, database, collection, opened.reply.cursor_id, pin=opened.pin)
        try:
            await self._read(cursor, opened.reply, start, batch.count)
        except Exception:
            await self._close(cursor)  # before the caller sees the error
            raise
        except BaseException:  # cancelled: the cursor is killed in the background
            self._core.kill_cursor(cursor)
            raise
        await self._close(cursor)
        return batch.count

    async def _read(self, cursor: LostCursor, reply: CursorReply, start: int, count: int) -> None:
        """Read the results of a batch of `count` operations, to the end or to the error that ends the bulk write."""
        from motorlite._operations.client_bulk import MoreResults

        while True:
            try:
                await self.turns.compute(self._result.take(reply.documents, start, count), is_limited=False)
                if not cursor.cursor_id:
                    self._result.check_complete()
            except PyMongoError as error:
                error.address = cursor.address
                raise
            if not (cursor.cursor_id and self._result.can_continue):
                return
            get_more = MoreResults(
                cursor.database,
                cursor.collection,
                cursor.cursor_id,
                address=cursor.address,
                codec_options=self._options["codec_options"],
                comment=self._options["comment"],
                pin=cursor.pin,
            )
            reply = await self._core.executor.execute(get_more, self._call)
            cursor.cursor_id = reply.cursor_id
            self.turns.restart()

    async def _close(self, cursor: LostCursor) -> None:
        """Kill the cursor of the results if the server still has it, and release its connection."""
        call, kill_call = self._call, None
        if cursor.cursor_id and (cursor.pin is None or cursor.pin.is_usable):
            limit = for_close(self._core, call.deadline.timeout)
            kill_call = Call(call.session, limit, call.operation_id, call.options)
        await kill(self._core, cursor, kill_call)
