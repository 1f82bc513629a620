"""Shell: the methods of a collection that write with as many commands as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from motorlite._api.collection.base import CollectionBase
from motorlite._api.collection.bulk import BulkWrite
from motorlite._api.collection.documents import take_documents
from motorlite._api.limits import ServerTime
from motorlite._api.turns import Turns, refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_items, converted, mapping
from motorlite._operations.writes.bulk_runs import insert_run, ordered_runs, unordered_runs
from motorlite._operations.writes.slices import ITEMS, release
from motorlite.results import BulkWriteResult, InsertManyResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bson.raw_bson import RawBSONDocument

    from motorlite._api.session import AsyncClientSession
    from motorlite._execution.call import Call
    from motorlite._operations.writes.bulk_runs import Run
    from motorlite._operations.writes.slices import Slices
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne


class CollectionBulkWrites(CollectionBase[DocumentT]):
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
            TypeError: `documents` is not an iterable of mutable mappings, or has none.
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
        # A copy: what the application adds to its list meanwhile, or removes, makes no difference.
        found = [] if isinstance(documents, Iterator) else list(documents)
        if isinstance(documents, Iterator):
            await turns.compute(_collect(documents, found))
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
                # Not more at once than a batch may have.
                encodes = run is runs[0]
                codec_options, where = self._settings.codec_options, "requests[{}].document"
                await turns.compute(take_documents(run, codec_options, encodes=encodes, where=where))
        options = {"bypass_document_validation": bypass_document_validation, "comment": comment, "let": let}
        details = await self._execute_runs("bulkWrite", runs, ordered, call, turns, options, limit)
        return BulkWriteResult(details or {}, details is not None)

    async def _execute_runs(
        self,
        name: str,
        runs: Sequence[Run],
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


def _collect(documents: Iterator[Any], found: list[Any]) -> Slices[None]:
    """Append `documents`, which the application may make one by one, to `found`."""
    while part := list(islice(documents, ITEMS)):
        found += part
        yield
