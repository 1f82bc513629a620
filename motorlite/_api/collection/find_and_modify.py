"""Shell: the collection methods that change one document and return it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from motorlite._api.arguments.checks import given_options, given_write_concern, optional
from motorlite._api.arguments.find_options import sort_document
from motorlite._api.arguments.method_options import FindAndModifyOptions
from motorlite._api.collection.base import CollectionBase
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import (
    boolean,
    check_replacement,
    check_update,
    converted,
    fields_document,
    hint_value,
    mapping,
    wrong,
)
from motorlite._operations.find_and_modify import FindAndModify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import Filter, Projection
    from motorlite._base.arguments import Hint, Pipeline

# Maps the server's option names to the operation's argument names.
_ARGUMENTS = {
    "collation": "collation",
    "maxTimeMS": "max_time_ms",
    "bypassDocumentValidation": "bypass_document_validation",
}


class AsyncCollection(CollectionBase[DocumentT]):
    """find_one_and_update, find_one_and_replace and find_one_and_delete."""

    __slots__ = ()

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

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

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

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

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

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable write).

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
        given.update((_ARGUMENTS[name], value) for name, value in found.items())
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


def _write_arguments(upsert: bool, return_document: bool) -> dict[str, bool]:
    converted("upsert", upsert, boolean)
    if not isinstance(return_document, bool):
        raise TypeError(wrong("return_document", return_document, "ReturnDocument.BEFORE or ReturnDocument.AFTER"))
    return {"upsert": upsert, "return_new": return_document}
