"""Shell: insert_many and bulk_write: their batch loop. All commands share one deadline, operation id and session."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._api.collection.base import CollectionBase
from motorlite._api.collection.documents import collect, take_documents
from motorlite._api.time_limits import ServerTime
from motorlite._api.turns import Turns, refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_items, converted, mapping
from motorlite._base.error_documents import has_written
from motorlite._operations.bulk_batch import BATCHES
from motorlite._operations.bulk_result import BulkResult, is_long, merge
from motorlite._operations.bulk_runs import insert_run, ordered_runs, unordered_runs
from motorlite._operations.contract import Call
from motorlite._operations.slices import ITEMS, release
from motorlite._sessions.session import Session
from motorlite.errors import BulkWriteExecutionTimeout, OperationFailure, PyMongoError
from motorlite.results import BulkWriteResult, InsertManyResult
from motorlite.write_concern import DEFAULT_WRITE_CONCERN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bson.raw_bson import RawBSONDocument

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._client.core import Core
    from motorlite._operations.bulk_batch import BulkBatch
    from motorlite._operations.bulk_runs import BulkRun
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne


class BulkWrite:
    """The state shared by all batches of a bulk write.

    `options` are the command's options: `bypass_document_validation`, `let`, `comment`.
    """

    __slots__ = (
        "_core",
        "_has_begun",
        "_has_written",
        "_is_ordered",
        "_limit",
        "_name",
        "_names",
        "_options",
        "_settings",
        "_turns",
        "_write_concern",
    )

    def __init__(
        self,
        core: Core,
        settings: Settings,
        names: tuple[str, str],
        turns: Turns,
        *,
        name: str,
        is_ordered: bool,
        options: Mapping[str, Any],
        limit: ServerTime,
    ) -> None:
        self._core = core
        # The name of the operation, for its events.
        self._name = name
        self._settings = settings
        self._write_concern = settings.write_concern
        # The names of the database and the collection.
        self._names = names
        self._turns = turns
        # A command was sent, or at least tried.
        self._has_begun = False
        # A command was sent with success.
        self._has_written = False
        self._is_ordered = is_ordered
        self._options = options
        self._limit = limit

    async def execute(self, runs: Sequence[BulkRun], call: Call) -> dict[str, Any] | None:
        """Send all batches. An ordered bulk write stops at its first error.

        Returns:
            The merged results of the batches, or None for an unacknowledged write.

        Raises:
            BulkWriteError: A write failed, or its write concern was not satisfied.
            Exception: A command failed as a whole, or could not be encoded; `partial_result` describes the writes
                before it.
        """
        # One deadline and one operation id for all commands.
        operation_id = self._core.new_operation_id()
        if call.session is not None and call.session.in_transaction:
            self._write_concern = DEFAULT_WRITE_CONCERN  # only its commit has one
        call = Call(call.session, call.deadline, operation_id, call.options)
        with self._core.executor.published(self._name, *self._names, operation_id, call.session):
            return await self._execute_runs(runs, call)

    async def _execute_runs(self, runs: Sequence[BulkRun], call: Call) -> dict[str, Any] | None:
        result = BulkResult(ordered=self._is_ordered)
        # One implicit session serves all batches. The first acknowledged batch acquires its server session.
        # Unacknowledged writes have no session (driver sessions specification).
        is_acknowledged = self._write_concern.acknowledged
        has_session = is_acknowledged or self._is_ordered
        implicit = Session(is_implicit=True) if call.session is None and has_session else None
        call = Call(call.session or implicit, call.deadline, call.operation_id, call.options)
        try:
            for run in runs:
                await self._execute_run(run, result, call, has_successor=run is not runs[-1])
                if not result.can_continue:
                    break
            for run in runs:
                if len(run.statements) > ITEMS:
                    await self._turns.compute(release(run.statements), is_limited=False)
        except Exception as failure:
            # Not only driver errors: bson may refuse a document of a later batch after other documents were written.
            if is_acknowledged:
                vars(failure)["partial_result"] = BulkWriteResult(result.details, True)
            elif isinstance(failure, OperationFailure):
                return None  # the answer to a batch that is acknowledged only to stop at its errors
            if not isinstance(failure, PyMongoError):
                await self._core.checkpoint()  # of bson: perhaps before anything was waited for
            elif self._has_written:
                failure.reached_server = True  # the call did, if not its newest command
                failure.may_have_been_executed |= not is_acknowledged or has_written(result.details)
            raise
        finally:
            if implicit is not None and implicit.server_session is not None:
                self._core.executor.release(implicit)
        if not is_acknowledged:
            return None
        error = result.error
        if error is not None:
            if isinstance(error, BulkWriteExecutionTimeout):
                # The newest command carried what remained of the client's limit, or of its own, as the server's limit.
                error.client_limit = None if call.deadline.timeout == inf else call.deadline.timeout
                error.server_limit = error.client_limit or self._limit.seconds(self._core.default_max_time)
            try:
                raise error
            finally:
                del error
        return result.details

    async def _execute_run(self, run: BulkRun, result: BulkResult, call: Call, *, has_successor: bool) -> None:
        start = 0
        while start < len(run.statements) and result.can_continue:
            batch = BATCHES[run.kind](
                *self._names,
                run,
                start,
                ordered=self._is_ordered,
                has_successor=has_successor,
                codec_options=self._settings.codec_options,
                write_concern=self._write_concern,
                max_time_ms=self._limit.remaining(),
                **self._options,
            )
            batch.is_continuation, self._has_begun = self._has_begun, True
            await self._turns.compute(batch.prepare())
            reply = await self._execute_batch(batch, call)
            self._has_written = True
            self._turns.restart()
            if reply is not None:
                if is_long(reply):
                    await self._turns.compute(merge(result, run, start, reply), is_limited=False)
                else:
                    result.merge(run, start, reply)
            start += batch.count

    async def _execute_batch(self, batch: BulkBatch, call: Call) -> Mapping[str, Any] | None:
        return await self._core.executor.execute(batch, call)


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

        Retries: each command for overload errors (up to 5, with backoff), and network errors and failovers
        once (retryable write).

        Source: CRUD specification.
        """
        check_items("documents", documents, "a list of documents")
        converted("ordered", ordered, boolean)
        call = self._begin(session, timeoutMS, self._settings.write_concern.acknowledged) or await refused()
        limit = ServerTime(self._core, call.deadline, max_time_ms)
        turns = Turns(self._core, call.deadline)
        # A copy, so that it does not matter what the application adds to its list meanwhile, or removes.
        found = [] if isinstance(documents, Iterator) else list(documents)
        if isinstance(documents, Iterator):
            await turns.compute(collect(documents, found))
        # Freeing the last references takes long, so the documents in `found` are released in slices.
        del documents
        run = insert_run(found)
        inserted_ids = await turns.compute(take_documents(run, self._settings.codec_options))
        options = {"bypass_document_validation": bypass_document_validation, "comment": comment}
        details = await self._execute_runs("insert", [run], ordered, call, turns, options, limit)
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

        Retries: each command for overload errors (up to 5, with backoff), and once after a network error or a
        failover (retryable write) unless it has an UpdateMany or a DeleteMany, which may affect several
        documents.

        Source: CRUD specification.
        """
        check_items("requests", requests, "a list of requests, such as [InsertOne({...})]")
        converted("ordered", ordered, boolean)
        if let is not None:
            converted("let", let, mapping)
        call = self._begin(session, timeoutMS, self._settings.write_concern.acknowledged) or await refused()
        limit = ServerTime(self._core, call.deadline, max_time_ms)
        turns = Turns(self._core, call.deadline)
        requests = list(requests)
        runs = await turns.compute(ordered_runs(requests) if ordered else unordered_runs(requests))
        if len(requests) > ITEMS:
            await turns.compute(release(requests))
        for run in runs:
            if run.kind == "insert":
                # No more at once than fit into a batch.
                encodes = run is runs[0]
                codec_options, where = self._settings.codec_options, "requests[{}].document"
                await turns.compute(take_documents(run, codec_options, encodes=encodes, where=where))
        options = {"bypass_document_validation": bypass_document_validation, "comment": comment, "let": let}
        details = await self._execute_runs("bulkWrite", runs, ordered, call, turns, options, limit)
        return BulkWriteResult(details or {}, details is not None)

    async def _execute_runs(
        self,
        name: str,
        runs: Sequence[BulkRun],
        ordered: bool,
        call: Call,
        turns: Turns,
        options: Mapping[str, Any],
        limit: ServerTime,
    ) -> dict[str, Any] | None:
        bulk = BulkWrite(
            self._core,
            self._settings,
            self._names,
            turns,
            name=name,
            is_ordered=ordered,
            options=options,
            limit=limit,
        )
        return await bulk.execute(runs, call)
