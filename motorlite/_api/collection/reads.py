"""Shell: a collection's read methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from motorlite._api.arguments import method_options
from motorlite._api.arguments.checks import given_options, optional
from motorlite._api.arguments.find_options import FIND_ONE_CHECKS, find_arguments, unwrapped
from motorlite._api.collection.base import CollectionBase
from motorlite._api.cursors.command_cursor import (
    AsyncCommandCursor,
    AsyncRawBatchCommandCursor,
    AsyncRawBatchCursor,
    aggregation,
    raw_settings,
)
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.session import BOUND
from motorlite._api.settings import made_call, usual_call
from motorlite._api.turns import give_way, refused
from motorlite._api.typings import DocumentT
from motorlite._base import arguments
from motorlite._base.arguments import fields_document, hint_value
from motorlite._operations.find import FindFirstFacts, FindOne
from motorlite._operations.reads import Count, CountDocuments, Distinct, count_pipeline
from motorlite.errors import ConfigurationError, PyMongoError

if TYPE_CHECKING:
    from motorlite._api.arguments.find_options import FindOneOptions, FindOptions
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import Filter, Projection
    from motorlite._base.arguments import Hint, Pipeline
    from motorlite._client.core import Core
    from motorlite._operations.find import FindFirst


class AsyncCollection(CollectionBase[DocumentT]):
    """find, aggregate, distinct and the counts."""

    __slots__ = ()

    def find(
        self,
        filter: Filter | None = None,
        projection: Projection | None = None,
        skip: int = 0,
        limit: int = 0,
        **options: Unpack[FindOptions],
    ) -> AsyncCursor[DocumentT]:
        """Query documents. Returns a cursor, which runs the query at its first step.

        Args:
            filter: A query; None matches everything.
            projection: The fields to return: a mapping, or names to include.
            skip: The number of matches to skip.
            limit: The maximum number of documents; 0 for all, negative for a single batch, whatever the batch size.
            options: See `FindOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` conflicts with the other arguments.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: find, getMore and killCursors specification; CRUD specification.
        """
        given = _with_limits(options, skip, limit)
        return AsyncCursor(self, self._core, self._settings, self._names, filter, projection, given)

    def find_raw_batches(
        self,
        filter: Filter | None = None,
        projection: Projection | None = None,
        skip: int = 0,
        limit: int = 0,
        **options: Unpack[FindOptions],
    ) -> AsyncRawBatchCursor:
        """Query documents that the program itself decodes. Returns a cursor, which runs the query at its first step.

        Each item of the cursor is one batch: its documents as BSON, one after the other.

        Args:
            filter: A query; None matches everything.
            projection: The fields to return: a mapping, or names to include.
            skip: The number of matches to skip.
            limit: The maximum number of documents; 0 for all, negative for a single batch, whatever the batch size.
            options: See `FindOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` conflicts with the other arguments.

        Retries: find as a retryable read; getMore for overload errors only (docs/retries.md).

        Source: find, getMore and killCursors specification; CRUD specification.
        """
        given = _with_limits(options, skip, limit)
        settings = raw_settings(self._settings)
        return AsyncRawBatchCursor(self, self._core, settings, self._names, filter, projection, given)

    async def find_one(
        self,
        filter: Any = None,
        projection: Projection | None = None,
        **options: Unpack[FindOneOptions],
    ) -> DocumentT | None:
        """Return the first matching document, or None.

        Args:
            filter: A query, or the value of `_id`; None matches everything.
            projection: The fields to return: a mapping, or names to include.
            options: See `FindOneOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).

        Source: CRUD specification.
        """
        if type(filter) is not dict:
            filter = _filter(filter)
        if options or projection is not None or BOUND or "$query" in filter:
            return await self._find_one(filter, projection, {**options})
        core, settings, facts = self._first or self._make_first()
        try:
            scope = core.enter()
        except PyMongoError:
            await give_way()
            raise
        operation: FindFirst[DocumentT] = facts.where(filter)
        call = usual_call(settings, scope) or made_call(core, settings, scope)
        return await core.executor.execute(operation, call)

    def _make_first(self) -> tuple[Core, Settings, FindFirstFacts]:
        settings = self._settings
        facts = FindFirstFacts(
            *self._names,
            read_preference=settings.read_preference,
            codec_options=settings.codec_options,
            read_concern=settings.read_concern,
        )
        self._first = self._core, settings, facts
        return self._first

    async def _find_one(
        self, filter: Any, projection: Projection | None, options: dict[str, Any], method: str = "find_one"
    ) -> DocumentT | None:
        if "$query" in filter:
            filter, options = unwrapped(filter, options)
        query = arguments.checked(method, options, FIND_ONE_CHECKS)
        call = self._begin(query.pop("session", None), query.pop("timeoutMS", None)) or await refused()
        operation: FindOne[DocumentT] = FindOne(
            *self._names,
            filter,
            projection=None if projection is None else fields_document(projection),
            **find_arguments(self._settings, query),
        )
        return await self._core.executor.execute(operation, call)

    def aggregate(
        self,
        pipeline: Pipeline,
        session: AsyncClientSession | None = None,
        let: Mapping[str, Any] | None = None,
        comment: Any = None,
        **options: Unpack[method_options.AggregateOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """Run an aggregation pipeline. Returns a cursor, which runs the pipeline at its first step.

        This also applies to a pipeline with $out or $merge: ``await`` the cursor to run it.

        Args:
            pipeline: The stages.
            session: The session to use.
            let: Variables for the pipeline.
            comment: Shown in the server's log and profile.
            options: See `AggregateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` conflicts with the other arguments.

        Retries: as a retryable read, unless it has $out or $merge; getMore for overload errors only (docs/retries.md).

        Source: CRUD specification.
        """
        given, further = _aggregate_options("aggregate", options, let, comment)
        return aggregation(
            AsyncCommandCursor, self._core, self._settings, self._names, pipeline, session, given, further
        )

    def aggregate_raw_batches(
        self,
        pipeline: Pipeline,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        let: Mapping[str, Any] | None = None,
        **options: Unpack[method_options.AggregateOptions],
    ) -> AsyncRawBatchCommandCursor:
        """Run an aggregation pipeline whose results the program itself decodes. Returns a cursor, as `aggregate` does.

        Each item of the cursor is one batch: its documents as BSON, one after the other.

        Args:
            pipeline: The stages.
            session: The session to use.
            comment: Shown in the server's log and profile.
            let: Variables for the pipeline.
            options: See `AggregateOptions`; without `explain`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            ConfigurationError: `timeoutMode` conflicts with the other arguments, or `explain` is set.

        Retries: as a retryable read, unless it has $out or $merge; getMore for overload errors only (docs/retries.md).

        Source: CRUD specification.
        """
        given, further = _aggregate_options("aggregate_raw_batches", options, let, comment)
        if given.get("explain"):
            raise ConfigurationError("aggregate_raw_batches has no explain: a plan is not a batch; use aggregate")
        settings = raw_settings(self._settings)
        return aggregation(
            AsyncRawBatchCommandCursor, self._core, settings, self._names, pipeline, session, given, further
        )

    async def distinct(
        self,
        key: str,
        filter: Filter | None = None,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        hint: Hint | None = None,
        **options: Unpack[method_options.DistinctOptions],
    ) -> list[Any]:
        """Return the distinct values of a field.

        Args:
            key: The name of the field.
            filter: The documents to consider; None for all.
            session: The session to use.
            comment: Shown in the server's log and profile.
            hint: The index to use (MongoDB 7.1 and later).
            options: See `DistinctOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).

        Source: CRUD specification.
        """
        arguments.converted("key", key, arguments.text)
        optional("filter", filter, arguments.mapping)
        given, further = given_options("distinct", method_options.DistinctOptions, options)
        call = self._begin(session, given.pop("timeoutMS", None)) or await refused()
        operation = Distinct(
            *self._names,
            key,
            filter,
            comment=comment,
            hint=hint_value(hint),
            options=further,
            **self._read_arguments(given),
        )
        return await self._core.executor.execute(operation, call)

    async def count_documents(
        self,
        filter: Filter,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[method_options.CountOptions],
    ) -> int:
        """Count the matching documents, one by one or in an index.

        Args:
            filter: A query; it cannot use $where, $near and $nearSphere.
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `CountOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).

        Source: CRUD specification.
        """
        arguments.converted("filter", filter, arguments.mapping)
        given, further = given_options("count_documents", method_options.CountOptions, options)
        call = self._begin(session, given.pop("timeoutMS", None)) or await refused()
        pipeline = count_pipeline(filter, given.pop("skip", 0), given.pop("limit", 0))
        operation = CountDocuments(
            *self._names, pipeline, comment=comment, options=further, **self._read_arguments(given)
        )
        return await self._core.executor.execute(operation, call)

    async def estimated_document_count(
        self,
        comment: Any = None,
        **options: Unpack[method_options.EstimateOptions],
    ) -> int:
        """Return the number of documents from the collection's metadata. It may be wrong after a crash.

        Args:
            comment: Shown in the server's log and profile.
            options: See `EstimateOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).

        Source: CRUD specification.
        """
        given, further = given_options("estimated_document_count", method_options.EstimateOptions, options)
        call = self._begin(given.pop("session", None), given.pop("timeoutMS", None)) or await refused()
        operation = Count(*self._names, comment=comment, options=further, **self._read_arguments(given))
        return await self._core.executor.execute(operation, call)

    def _read_arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """Combine `given` and the settings into keyword arguments of a read operation."""
        if "maxTimeMS" in given:
            given["max_time_ms"] = given.pop("maxTimeMS")
        return find_arguments(self._settings, given)


def _filter(filter: Any) -> Any:
    """Return the query of `find_one`: anything but a mapping is the value of an `_id`."""
    if filter is None:
        return {}
    return filter if isinstance(filter, Mapping) else {"_id": filter}


def _with_limits(options: Mapping[str, Any], skip: int, limit: int) -> Mapping[str, Any]:
    """Return the options of a query with those that are arguments of their own."""
    if skip == limit == 0:
        return options
    return {**options, "skip": None if skip == 0 else skip, "limit": None if limit == 0 else limit}


def _aggregate_options(
    method: str, options: Mapping[str, Any], let: Any, comment: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a pipeline, checked, with those that are arguments of their own, and further fields."""
    given, further = given_options(method, method_options.AggregateOptions, options)
    own = {"let": optional("let", let, arguments.mapping), "comment": comment}
    return given | {name: value for name, value in own.items() if value is not None}, further
