"""Shell: insert_many and bulk_write of a collection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from motorlite._api.arguments.checks import optional
from motorlite._api.bulk_write import BulkWrite
from motorlite._api.collection.base import CollectionBase
from motorlite._api.collection.documents import collect, take_documents
from motorlite._api.turns import Meanwhile, refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_items, converted, mapping
from motorlite._base.error_documents import has_written
from motorlite._operations.bulk import BATCHES, BulkResult, insert_run, is_long, merge, ordered_runs, unordered_runs
from motorlite._operations.slices import ITEMS, release
from motorlite.errors import OperationFailure, PyMongoError
from motorlite.results import BulkWriteResult, InsertManyResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bson.raw_bson import RawBSONDocument

    from motorlite._api.session import AsyncClientSession
    from motorlite._operations.bulk import BulkBatch, BulkRun
    from motorlite._operations.contract import Call
    from motorlite.errors import BulkWriteError
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne


class CollectionBulkWrite(BulkWrite):
    """A running bulk write of a collection."""

    __slots__ = ("_names", "_result", "_runs")

    _names: tuple[str, str]
    _runs: Sequence[BulkRun]
    _result: BulkResult

    async def write(self, name: str, names: tuple[str, str], runs: Sequence[BulkRun]) -> dict[str, Any] | None:
        """Execute the runs on a collection, as the operation `name`.

        Returns:
            The details of the result, or None if the write is unacknowledged.
        """
        is_ordered = self._options["ordered"]
        self._names, self._runs, self._result = names, runs, BulkResult(ordered=is_ordered)
        await self.execute(name, *names, has_session=self._is_acknowledged or is_ordered)
        return self._result.details if self._is_acknowledged else None

    async def _send_batches(self) -> None:
        for run in self._runs:
            await self._send_run(run, has_successor=run is not self._runs[-1])
            if not self._result.can_continue:
                break
        for run in self._runs:
            if len(run.statements) > ITEMS:
                await self.turns.compute(release(run.statements), is_limited=False)

    async def _send_run(self, run: BulkRun, *, has_successor: bool) -> None:
        start, result = 0, self._result
        while start < len(run.statements) and result.can_continue:
            batch = BATCHES[run.kind](
                *self._names,
                run,
                start,
                has_successor=has_successor,
                max_time_ms=self._limit.remaining(),
                **self._options,
            )
            reply = await self._send(batch, self._write)
            if reply is not None:
                if is_long(reply):
                    await self.turns.compute(merge(result, run, start, reply), is_limited=False)
                else:
                    result.merge(run, start, reply)
            start += batch.count

    async def _write(self, batch: BulkBatch, call: Call) -> dict[str, Any] | None:
        write = self._core.executor.execute
        if not batch.leaves_work:
            return await write(batch, call)
        # Else either this process or the server would have nothing to do.
        with Meanwhile(self._core, batch.prepare_next()) as meanwhile:
            batch.when_taken = meanwhile.begin
            return await write(batch, call)

    def _error(self) -> BulkWriteError | None:
        return self._result.error

    def _error_after(self, failure: Exception) -> Exception | None:
        details = self._result.details
        if self._is_acknowledged:
            vars(failure)["partial_result"] = BulkWriteResult(details, True)
        elif isinstance(failure, OperationFailure):
            return None  # the answer to a batch that is acknowledged only to stop at its errors
        if isinstance(failure, PyMongoError) and self._has_written:
            failure.reached_server = True  # the call did, if not its newest command
            failure.may_have_been_executed |= not self._is_acknowledged or has_written(details)
        return failure


class AsyncCollection(CollectionBase[DocumentT]):
    """insert_many and bulk_write."""

    __slots__ = ()

    async def insert_many(
        self,
        documents: Iterable[DocumentT | RawBSONDocument],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
    ) -> InsertManyResult:
        """Insert documents, in as many commands as the server's limits require.

        Args:
            documents: The documents. Those without an `_id` get one (except a RawBSONDocument).
            ordered: Stop at the first error; otherwise try all.
            bypass_document_validation: Insert them even if the collection's validator would reject them.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of all commands together; 0 for no limit.
            max_time_ms: Time limit of all commands together on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError: `documents` is not an iterable of mutable mappings, or is empty.
            InvalidOperation: It is an iterator, and had none.
            BulkWriteError: Some documents could not be inserted; `details` lists them.
            PyMongoError: A command failed as a whole; `partial_result` describes the writes before it.
            bson.errors.InvalidDocument, OverflowError, ...: bson's error for a value that it cannot encode, also with
                a `partial_result`.

        Retries: each command as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        check_items("documents", documents, "a list of documents")
        converted("ordered", ordered, boolean)
        options: dict[str, Any] = {"ordered": ordered, "comment": comment}
        options["bypass_document_validation"] = bypass_document_validation
        bulk = await self._begin_bulk(session, timeoutMS, max_time_ms, options)
        # A copy, so that it does not matter what the application adds to its list meanwhile, or removes.
        found = [] if isinstance(documents, Iterator) else list(documents)
        if isinstance(documents, Iterator):
            await bulk.turns.compute(collect(documents, found))
        # Freeing the last references takes long, so the documents in `found` are released in slices.
        del documents
        run = insert_run(found)
        inserted_ids = await bulk.turns.compute(take_documents(run, self._settings.codec_options))
        details = await bulk.write("insert", self._names, [run])
        return InsertManyResult(inserted_ids, details is not None)

    async def bulk_write(
        self,
        requests: Sequence[
            InsertOne[DocumentT] | UpdateOne | UpdateMany | ReplaceOne[DocumentT] | DeleteOne | DeleteMany
        ],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        let: Mapping[str, Any] | None = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
    ) -> BulkWriteResult:
        """Execute write requests, in as few commands as their order and the server's limits allow.

        Args:
            requests: InsertOne, UpdateOne, UpdateMany, ReplaceOne, DeleteOne and DeleteMany (PyMongo's are accepted).
            ordered: Execute them in order and stop at the first error; otherwise try all, in any order.
            bypass_document_validation: Write documents that the collection's validator would reject.
            session: The session to use.
            comment: Shown in the server's log and profile.
            let: Variables for aggregation expressions in filters and updates (MongoDB 5.0 and later).
            timeoutMS: Time limit of all commands together; 0 for no limit.
            max_time_ms: Time limit of all commands together on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError: A request is wrong.
            InvalidOperation: There are no requests.
            BulkWriteError: Some requests failed; `details` has counts, and errors by the index of the request.
            PyMongoError: A command failed as a whole; `partial_result` says what was written before it.
            bson.errors.InvalidDocument, OverflowError, ...: What bson raises for a value that it cannot encode, with a
                `partial_result` as well.

        Retries: each command as a retryable write, unless it has an UpdateMany or a DeleteMany (docs/retries.md).

        Source: CRUD specification.
        """
        check_items("requests", requests, "a list of requests, such as [InsertOne({...})]")
        converted("ordered", ordered, boolean)
        optional("let", let, mapping)
        options: dict[str, Any] = {"ordered": ordered, "comment": comment, "let": let}
        options["bypass_document_validation"] = bypass_document_validation
        bulk = await self._begin_bulk(session, timeoutMS, max_time_ms, options)
        requests = list(requests)
        runs = await bulk.turns.compute(ordered_runs(requests) if ordered else unordered_runs(requests))
        if len(requests) > ITEMS:
            await bulk.turns.compute(release(requests))
        for run in runs:
            if run.kind == "insert":
                # No more at once than fit into a batch.
                encodes = run is runs[0]
                codec_options, where = self._settings.codec_options, "requests[{}].document"
                await bulk.turns.compute(take_documents(run, codec_options, encodes=encodes, where=where))
        details = await bulk.write("bulkWrite", self._names, runs)
        return BulkWriteResult(details or {}, details is not None)

    async def _begin_bulk(
        self,
        session: AsyncClientSession | None,
        timeout_ms: float | None,
        max_time_ms: float | None,
        options: dict[str, Any],
    ) -> CollectionBulkWrite:
        write_concern = self._write_concern(session)
        options |= {"write_concern": write_concern, "codec_options": self._settings.codec_options}
        call = self._begin(session, timeout_ms, write_concern.acknowledged) or await refused()
        return CollectionBulkWrite(self._core, call, max_time_ms, options)
