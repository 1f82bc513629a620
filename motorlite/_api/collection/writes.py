"""Shell: a collection's write methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from motorlite._api.arguments.identifiers import id_first
from motorlite._api.collection.base import CollectionBase
from motorlite._api.collection.bulk import BulkWrite
from motorlite._api.collection.documents import collect, identified, take_documents
from motorlite._api.transactions.context import BOUND
from motorlite._api.turns import Turns
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import boolean, check_items, collation_document, converted, hint_value, mapping
from motorlite._operations.writes.bulk_runs import insert_run, ordered_runs, unordered_runs
from motorlite._operations.writes.delete import Delete
from motorlite._operations.writes.insert import Insert
from motorlite._operations.writes.slices import ITEMS, release
from motorlite._operations.writes.statements import delete_statement, replace_statement, update_statement
from motorlite._operations.writes.update import Update
from motorlite._operations.writes.usual import UsualWrites
from motorlite.results import BulkWriteResult, DeleteResult, InsertManyResult, InsertOneResult, UpdateResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bson.raw_bson import RawBSONDocument

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import Filter
    from motorlite._base.arguments import Hint, Pipeline
    from motorlite._execution.call import Call
    from motorlite._operations.writes.bulk_runs import Run
    from motorlite.collation import CollationLike
    from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne


class CollectionWrites(CollectionBase[DocumentT]):
    """insert, update, replace, delete and bulk_write."""

    __slots__ = ()

    async def insert_one(
        self,
        document: DocumentT | RawBSONDocument,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> InsertOneResult:
        """Insert a document.

        Args:
            document: The document. Gets an `_id` if it has none (except a RawBSONDocument).
            bypass_document_validation: Insert it even if the collection's validator would reject it.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: `document` is not a mutable mapping.
            bson.errors.InvalidDocument, OverflowError, ...: bson's error for a value that it cannot encode.
            DuplicateKeyError: A document with the same unique key exists.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

        Source: CRUD specification.
        """
        inserted_id, document = identified(document)
        if bypass_document_validation is None and session is None and comment is None and not BOUND:
            usual = self._usual_writes or self._make_usual_writes()
            if usual.are_possible:
                call = self._begin(None, timeoutMS)
                await self._core.executor.execute(usual.insert(document), call)
                return InsertOneResult(inserted_id, True)
        write_concern = self._write_concern(session)
        call = self._begin(session, timeoutMS, write_concern.acknowledged)
        operation = Insert(
            *self._names,
            id_first(document),
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            bypass_document_validation=bypass_document_validation,
            comment=comment,
        )
        await self._core.executor.execute(operation, call)
        return InsertOneResult(inserted_id, write_concern.acknowledged)

    def _make_usual_writes(self) -> UsualWrites:
        options, concern = self._settings.codec_options, self._settings.write_concern
        self._usual_writes = UsualWrites(*self._names, codec_options=options, write_concern=concern)
        return self._usual_writes

    async def insert_many(
        self,
        documents: Iterable[DocumentT | RawBSONDocument],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> InsertManyResult:
        """Insert documents, in as many commands as the server's limits require.

        Args:
            documents: The documents. Those without an `_id` get one (except a RawBSONDocument).
            ordered: Stop at the first error; otherwise try all.
            bypass_document_validation: Insert them even if the collection's validator would reject them.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of all commands together; 0 for no limit.

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
        call = self._begin(session, timeoutMS, self._settings.write_concern.acknowledged)
        turns = Turns(self._core, call.deadline)
        # A copy: what the application adds to its list meanwhile, or removes, makes no difference.
        found = [] if isinstance(documents, Iterator) else list(documents)
        if isinstance(documents, Iterator):
            await turns.compute(collect(documents, found))
        # Freeing the last references takes long, so the documents in `found` are released in slices.
        del documents
        run = insert_run(found)
        inserted_ids = await turns.compute(take_documents(run, self._settings.codec_options))
        options = {"bypass_document_validation": bypass_document_validation, "comment": comment}
        details = await self._execute_runs("insert", [run], ordered, call, turns, options)
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
        call = self._begin(session, timeoutMS, self._settings.write_concern.acknowledged)
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
        details = await self._execute_runs("bulkWrite", runs, ordered, call, turns, options)
        return BulkWriteResult(details or {}, details is not None)

    async def _execute_runs(
        self,
        name: str,
        runs: Sequence[Run],
        ordered: bool,
        call: Call,
        turns: Turns,
        options: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        bulk = BulkWrite(self._core, self._settings, self._names, turns, name=name, is_ordered=ordered, options=options)
        return await bulk.execute(runs, call)

    async def update_one(
        self,
        filter: Filter,
        update: Mapping[str, Any] | Pipeline,
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: CollationLike | None = None,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> UpdateResult:
        """Update the first matching document.

        Args:
            filter: A query.
            update: Update operators, or a list of stages.
            upsert: Insert a document if none matches.
            bypass_document_validation: Write a document that the collection's validator would reject.
            collation: A Collation or its document.
            array_filters: Filters that select the array elements to update.
            hint: The index to use, by name or by keys.
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            sort: The order that determines the first match (MongoDB 8.0 and later).
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

        Source: CRUD specification.
        """
        statement = update_statement(
            filter,
            update,
            upsert=_flag("upsert", upsert),
            collation=None if collation is None else collation_document(collation),
            array_filters=array_filters,
            hint=None if hint is None else hint_value(hint),
            sort=sort,
        )
        return await self._update(statement, bypass_document_validation, session, let, comment, timeoutMS)

    async def update_many(
        self,
        filter: Filter,
        update: Mapping[str, Any] | Pipeline,
        upsert: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        bypass_document_validation: bool | None = None,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> UpdateResult:
        """Update all matching documents.

        Args:
            filter: A query.
            update: Update operators, or a list of stages.
            upsert: Insert a document if none matches.
            array_filters: Filters that select the array elements to update.
            bypass_document_validation: Write documents that the collection's validator would reject.
            collation: A Collation or its document.
            hint: The index to use, by name or by keys.
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff); not after network errors, since it may affect
        several documents.

        Source: CRUD specification.
        """
        statement = update_statement(
            filter,
            update,
            multi=True,
            upsert=_flag("upsert", upsert),
            collation=None if collation is None else collation_document(collation),
            array_filters=array_filters,
            hint=None if hint is None else hint_value(hint),
        )
        return await self._update(statement, bypass_document_validation, session, let, comment, timeoutMS)

    async def replace_one(
        self,
        filter: Filter,
        replacement: Mapping[str, Any],
        upsert: bool = False,
        bypass_document_validation: bool | None = None,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        sort: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> UpdateResult:
        """Replace the first matching document.

        Args:
            filter: A query.
            replacement: The new document.
            upsert: Insert it if none matches.
            bypass_document_validation: Write a document that the collection's validator would reject.
            collation: A Collation or its document.
            hint: The index to use, by name or by keys.
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            sort: The order that determines the first match (MongoDB 8.0 and later).
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

        Source: CRUD specification.
        """
        statement = replace_statement(
            filter,
            replacement,
            upsert=_flag("upsert", upsert),
            collation=None if collation is None else collation_document(collation),
            hint=None if hint is None else hint_value(hint),
            sort=sort,
        )
        return await self._update(statement, bypass_document_validation, session, let, comment, timeoutMS)

    async def _update(
        self,
        statement: dict[str, Any],
        bypass_document_validation: bool | None,
        session: AsyncClientSession | None,
        let: Mapping[str, Any] | None,
        comment: Any,
        timeout_ms: float | None,
    ) -> UpdateResult:
        if bypass_document_validation is None and session is None and let is None and comment is None and not BOUND:
            usual = self._usual_writes or self._make_usual_writes()
            if usual.are_possible:
                call = self._begin(None, timeout_ms)
                return UpdateResult(await self._core.executor.execute(usual.update(statement), call), True)
        if let is not None:
            converted("let", let, mapping)
        write_concern = self._write_concern(session)
        call = self._begin(session, timeout_ms, write_concern.acknowledged)
        operation = Update(
            *self._names,
            statement,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            bypass_document_validation=bypass_document_validation,
            let=let,
            comment=comment,
        )
        return UpdateResult(await self._core.executor.execute(operation, call), write_concern.acknowledged)

    async def delete_one(
        self,
        filter: Filter,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> DeleteResult:
        """Delete the first matching document.

        Args:
            filter: A query.
            collation: A Collation or its document.
            hint: The index to use, by name or by keys (MongoDB 4.4 and later).
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

        Source: CRUD specification.
        """
        statement = delete_statement(
            filter,
            collation=None if collation is None else collation_document(collation),
            hint=None if hint is None else hint_value(hint),
        )
        return await self._delete(statement, session, let, comment, timeoutMS)

    async def delete_many(
        self,
        filter: Filter,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> DeleteResult:
        """Delete all matching documents.

        Args:
            filter: A query.
            collation: A Collation or its document.
            hint: The index to use, by name or by keys (MongoDB 4.4 and later).
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff); not after network errors, since it may affect
        several documents.

        Source: CRUD specification.
        """
        statement = delete_statement(
            filter,
            multi=True,
            collation=None if collation is None else collation_document(collation),
            hint=None if hint is None else hint_value(hint),
        )
        return await self._delete(statement, session, let, comment, timeoutMS)

    async def _delete(
        self,
        statement: dict[str, Any],
        session: AsyncClientSession | None,
        let: Mapping[str, Any] | None,
        comment: Any,
        timeout_ms: float | None,
    ) -> DeleteResult:
        if session is None and let is None and comment is None and not BOUND and "hint" not in statement:
            usual = self._usual_writes or self._make_usual_writes()
            if usual.are_possible:
                call = self._begin(None, timeout_ms)
                return DeleteResult(await self._core.executor.execute(usual.delete(statement), call), True)
        if let is not None:
            converted("let", let, mapping)
        write_concern = self._write_concern(session)
        call = self._begin(session, timeout_ms, write_concern.acknowledged)
        operation = Delete(
            *self._names,
            statement,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            let=let,
            comment=comment,
        )
        return DeleteResult(await self._core.executor.execute(operation, call), write_concern.acknowledged)


def _flag(name: str, value: Any) -> bool:
    return value if type(value) is bool else bool(converted(name, value, boolean))
