"""Shell: the methods of a collection that write with one command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from motorlite._api.arguments.checks import for_operation, given_options, given_write_concern, optional
from motorlite._api.arguments.find_options import sort_document
from motorlite._api.arguments.method_options import FindAndModifyOptions
from motorlite._api.collection.base import CollectionBase
from motorlite._api.collection.documents import id_first, identified
from motorlite._api.session import BOUND
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import (
    boolean,
    check_replacement,
    check_update,
    collation_document,
    converted,
    fields_document,
    hint_value,
    mapping,
    server_milliseconds,
    wrong,
)
from motorlite._operations.single_writes import Delete, FindAndModify, Insert, TemplateWrites, Update
from motorlite._operations.statements import delete_statement, replace_statement, update_statement
from motorlite.results import DeleteResult, InsertOneResult, UpdateResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bson.raw_bson import RawBSONDocument

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import Filter, Projection
    from motorlite._base.arguments import Hint, Pipeline
    from motorlite.collation import CollationLike


class AsyncCollection(CollectionBase[DocumentT]):
    """insert_one, update, replace and delete, and find_one_and_..."""

    __slots__ = ()

    async def insert_one(
        self,
        document: DocumentT | RawBSONDocument,
        bypass_document_validation: bool | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
    ) -> InsertOneResult:
        """Insert a document.

        Args:
            document: The document. Gets an `_id` if it has none (except a RawBSONDocument).
            bypass_document_validation: Insert it even if the collection's validator would reject it.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError: `document` is not a mutable mapping.
            bson.errors.InvalidDocument, OverflowError, ...: bson's error for a value that it cannot encode.
            DuplicateKeyError: A document with the same unique key exists.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        inserted_id, document = identified(document)
        if (
            bypass_document_validation is None
            and session is None
            and comment is None
            and max_time_ms is None
            and not BOUND
        ):
            usual = self._template_writes or self._make_template_writes()
            if usual.are_possible:
                call = self._begin(None, timeoutMS) or await refused()
                await self._core.executor.execute(usual.insert(document), call)
                return InsertOneResult(inserted_id, True)
        write_concern = self._write_concern(session)
        call = self._begin(session, timeoutMS, write_concern.acknowledged) or await refused()
        operation = Insert(
            *self._names,
            id_first(document),
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            bypass_document_validation=bypass_document_validation,
            comment=comment,
            max_time_ms=optional("max_time_ms", max_time_ms, server_milliseconds),
        )
        await self._core.executor.execute(operation, call)
        return InsertOneResult(inserted_id, write_concern.acknowledged)

    def _make_template_writes(self) -> TemplateWrites:
        options, concern = self._settings.codec_options, self._settings.write_concern
        self._template_writes = TemplateWrites(*self._names, codec_options=options, write_concern=concern)
        return self._template_writes

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
        *,
        max_time_ms: float | None = None,
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
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

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
        options = (session, let, comment, timeoutMS, max_time_ms, bypass_document_validation)
        return UpdateResult(*await self._change(Update, statement, *options))

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
        *,
        max_time_ms: float | None = None,
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
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: overload errors only, since it may affect several documents (docs/retries.md).

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
        options = (session, let, comment, timeoutMS, max_time_ms, bypass_document_validation)
        return UpdateResult(*await self._change(Update, statement, *options))

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
        *,
        max_time_ms: float | None = None,
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
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

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
        options = (session, let, comment, timeoutMS, max_time_ms, bypass_document_validation)
        return UpdateResult(*await self._change(Update, statement, *options))

    async def delete_one(
        self,
        filter: Filter,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
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
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        statement = delete_statement(
            filter,
            collation=None if collation is None else collation_document(collation),
            hint=None if hint is None else hint_value(hint),
        )
        return DeleteResult(*await self._change(Delete, statement, session, let, comment, timeoutMS, max_time_ms))

    async def delete_many(
        self,
        filter: Filter,
        collation: CollationLike | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
        *,
        max_time_ms: float | None = None,
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
            max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.

        Raises:
            TypeError, ValueError: An argument is wrong.
            PyMongoError: The operation failed.

        Retries: overload errors only, since it may affect several documents (docs/retries.md).

        Source: CRUD specification.
        """
        statement = delete_statement(
            filter,
            multi=True,
            collation=None if collation is None else collation_document(collation),
            hint=None if hint is None else hint_value(hint),
        )
        return DeleteResult(*await self._change(Delete, statement, session, let, comment, timeoutMS, max_time_ms))

    async def _change(
        self,
        kind: type[Update] | type[Delete],
        statement: dict[str, Any],
        session: AsyncClientSession | None,
        let: Mapping[str, Any] | None,
        comment: Any,
        timeout_ms: float | None,
        max_time_ms: float | None,
        bypass_document_validation: bool | None = None,
    ) -> tuple[Any, bool]:
        """Execute an update or a deletion. Return the reply, and whether it was acknowledged."""
        if (
            session is None
            and let is None
            and comment is None
            and max_time_ms is None
            and not BOUND
            and bypass_document_validation is None
            and (kind is Update or "hint" not in statement)
        ):
            usual = self._template_writes or self._make_template_writes()
            if usual.are_possible:
                call = self._begin(None, timeout_ms) or await refused()
                usual_operation = usual.update(statement) if kind is Update else usual.delete(statement)
                return await self._core.executor.execute(usual_operation, call), True
        optional("let", let, mapping)
        write_concern = self._write_concern(session)
        call = self._begin(session, timeout_ms, write_concern.acknowledged) or await refused()
        validation: dict[str, Any] = {}
        if bypass_document_validation is not None:  # there is no such option of a deletion
            validation["bypass_document_validation"] = bypass_document_validation
        operation = kind(
            *self._names,
            statement,
            codec_options=self._settings.codec_options,
            write_concern=write_concern,
            let=let,
            comment=comment,
            max_time_ms=optional("max_time_ms", max_time_ms, server_milliseconds),
            **validation,
        )
        return await self._core.executor.execute(operation, call), write_concern.acknowledged

    # --- writes that return the document ---

    async def find_one_and_delete(
        self,
        filter: Filter,
        projection: Projection | None = None,
        sort: Hint | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[FindAndModifyOptions],
    ) -> DocumentT | None:
        """Delete the first matching document and return it. None if none matches.

        Args:
            filter: A query.
            projection: The fields to return: a mapping, or names to include.
            sort: The order that determines the first match.
            hint: The index to use, by name or by keys (MongoDB 4.4 and later).
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            options: See `FindAndModifyOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        given: dict[str, Any] = {"let": let, "comment": comment, "hint": hint_value(hint)}
        return await self._find_and_modify("delete", filter, projection, sort, session, given, {**options})

    async def find_one_and_replace(
        self,
        filter: Filter,
        replacement: Mapping[str, Any],
        projection: Projection | None = None,
        sort: Hint | None = None,
        upsert: bool = False,
        return_document: bool = False,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[FindAndModifyOptions],
    ) -> DocumentT | None:
        """Replace the first matching document and return it. None if none matches.

        Args:
            filter: A query.
            replacement: The new document.
            projection: The fields to return: a mapping, or names to include.
            sort: The order that determines the first match.
            upsert: Insert the replacement if none matches.
            return_document: `ReturnDocument.BEFORE` or `ReturnDocument.AFTER`.
            hint: The index to use, by name or by keys (MongoDB 4.4 and later).
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            options: See `FindAndModifyOptions`.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        check_replacement(replacement)
        given: dict[str, Any] = {"let": let, "comment": comment, "hint": hint_value(hint)}
        given |= {"replacement": replacement, **_write_arguments(upsert, return_document)}
        return await self._find_and_modify("replace", filter, projection, sort, session, given, {**options})

    async def find_one_and_update(
        self,
        filter: Filter,
        update: Mapping[str, Any] | Pipeline,
        projection: Projection | None = None,
        sort: Hint | None = None,
        upsert: bool = False,
        return_document: bool = False,
        array_filters: Sequence[Mapping[str, Any]] | None = None,
        hint: Hint | None = None,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[FindAndModifyOptions],
    ) -> DocumentT | None:
        """Update the first matching document and return it. None if none matches.

        Args:
            filter: A query.
            update: Update operators, or a list of stages.
            projection: The fields to return: a mapping, or names to include.
            sort: The order that determines the first match.
            upsert: Insert a document if none matches.
            return_document: `ReturnDocument.BEFORE` or `ReturnDocument.AFTER`.
            array_filters: Filters that select the array elements to update.
            hint: The index to use, by name or by keys (MongoDB 4.4 and later).
            session: The session to use.
            let: Variables for aggregation expressions (MongoDB 5.0 and later).
            comment: Shown in the server's log and profile.
            options: See `FindAndModifyOptions`.

        Raises:
            TypeError, ValueError, bson.errors.InvalidDocument: An argument is wrong, or BSON cannot encode it.
            PyMongoError: The operation failed.

        Retries: as a retryable write (docs/retries.md).

        Source: CRUD specification.
        """
        check_update(update)
        given: dict[str, Any] = {"let": let, "comment": comment, "hint": hint_value(hint)}
        given |= {"update": update, "array_filters": array_filters}
        given |= _write_arguments(upsert, return_document)
        return await self._find_and_modify("update", filter, projection, sort, session, given, {**options})

    async def _find_and_modify(
        self,
        change: str,
        filter: Filter,
        projection: Projection | None,
        sort: Hint | None,
        session: AsyncClientSession | None,
        given: dict[str, Any],
        options: dict[str, Any],
    ) -> DocumentT | None:
        found, further = given_options(f"find_one_and_{change}", FindAndModifyOptions, options)
        optional("let", given["let"], mapping)
        settings = self._settings
        write_concern = given_write_concern(further, self._write_concern(session))
        call = self._begin(session, found.pop("timeoutMS", None), write_concern.acknowledged) or await refused()
        given |= for_operation(found)
        operation: FindAndModify[DocumentT] = FindAndModify(
            self._database_name,
            self._name,
            filter,
            projection=None if projection is None else fields_document(projection),
            sort=optional("sort", sort, sort_document),
            codec_options=settings.codec_options,
            write_concern=write_concern,
            options=further,
            **given,
        )
        document: DocumentT | None = await self._core.executor.execute(operation, call)
        return document


def _flag(name: str, value: Any) -> bool:
    return value if type(value) is bool else bool(converted(name, value, boolean))


def _write_arguments(upsert: bool, return_document: bool) -> dict[str, bool]:
    # PyMongo takes None here, unlike in `update_one`.
    if upsert is not None:
        converted("upsert", upsert, boolean)
    if not isinstance(return_document, bool):
        raise TypeError(wrong("return_document", return_document, "ReturnDocument.BEFORE or ReturnDocument.AFTER"))
    return {"upsert": bool(upsert), "return_new": return_document}
