"""Pure: the keyword arguments that methods take under the server's names: their types and their checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from motorlite import arguments
from motorlite._api import validation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import TimeoutMode


class TimeOptions(TypedDict, total=False):
    """How long an operation may take.

    Keys:
        maxTimeMS: Time for the server, milliseconds; ignored when a timeout is set.
        timeoutMS: The limit of the whole operation; 0 for no limit.
    """

    maxTimeMS: float | None
    timeoutMS: float | None


class CursorTimeOptions(TimeOptions, total=False):
    """How long an operation with a cursor may take.

    Keys:
        timeoutMode: Whether the timeout limits the ``"cursorLifetime"`` or each ``"iteration"``.
    """

    timeoutMode: TimeoutMode | None


class AggregateOptions(CursorTimeOptions, total=False):
    """What `aggregate` on a collection takes besides its named arguments.

    Keys:
        allowDiskUse: Whether stages may use temporary files.
        batchSize: How many documents in a batch.
        bypassDocumentValidation: For a pipeline that writes.
        collation: A Collation or its document.
        hint: The index to use, by name or by keys.
        explain: Return the plan as the only document.
        maxAwaitTimeMS: How long the server waits for new documents.
    """

    allowDiskUse: bool | None
    batchSize: int | None
    bypassDocumentValidation: bool | None
    collation: Any
    hint: arguments.Hint | None
    explain: bool | None
    maxAwaitTimeMS: float | None


class DatabaseAggregateOptions(AggregateOptions, total=False):
    """What `aggregate` on a database takes besides its named arguments.

    Keys:
        let: Variables for the pipeline.
        comment: Shown in the server's log and profile.
    """

    let: Mapping[str, Any] | None
    comment: Any


class CountOptions(TimeOptions, total=False):
    """What `count_documents` takes besides its named arguments.

    Keys:
        skip, limit: Count only a part of the matches.
        collation: A Collation or its document.
        hint: The index to use, by name or by keys.
    """

    skip: int | None
    limit: int | None
    collation: Any
    hint: arguments.Hint | None


class EstimateOptions(TimeOptions, total=False):
    """What `estimated_document_count` takes besides its named arguments.

    Keys:
        session: The session to use.
    """

    session: AsyncClientSession | None


class DistinctOptions(TimeOptions, total=False):
    """What `distinct` takes besides its named arguments.

    Keys:
        collation: A Collation or its document.
    """

    collation: Any


class FindAndModifyOptions(TimeOptions, total=False):
    """What the `find_one_and_*` methods take besides their named arguments.

    Keys:
        collation: A Collation or its document.
        bypassDocumentValidation: Write documents that the collection's validator would refuse.
    """

    collation: Any
    bypassDocumentValidation: bool | None


class RenameOptions(TimeOptions, total=False):
    """What `rename` takes besides its named arguments.

    Keys:
        dropTarget: Replace an existing collection.
    """

    dropTarget: bool | None


class ListCollectionsOptions(CursorTimeOptions, total=False):
    """What `list_collections` takes besides its named arguments.

    Keys:
        nameOnly: Return names and types only, which takes no locks.
        authorizedCollections: Return what the user may access.
        batchSize: How many documents in a batch.
    """

    nameOnly: bool | None
    authorizedCollections: bool | None
    batchSize: int | None


class ListDatabasesOptions(TimeOptions, total=False):
    """What `list_databases` takes besides its named arguments.

    Keys:
        filter: Which databases.
        nameOnly: Return names only, which takes no locks.
        authorizedDatabases: Return what the user may access.
    """

    filter: Mapping[str, Any] | None
    nameOnly: bool | None
    authorizedDatabases: bool | None


class CreateCollectionOptions(TimeOptions, total=False):
    """What `create_collection` takes besides its named arguments, as the create command names it.

    Keys:
        capped, size, max: A collection of fixed size.
        timeseries, expireAfterSeconds: A time series collection.
        clusteredIndex: A clustered collection.
        changeStreamPreAndPostImages: Keep the documents' versions for change streams.
        validator, validationLevel, validationAction: Which documents are allowed.
        viewOn, pipeline: A view.
        collation: The default collation.
        storageEngine, indexOptionDefaults: For the storage engine.
        comment: Shown in the server's log and profile.
    """

    capped: bool | None
    size: float | None
    max: int | None
    timeseries: Mapping[str, Any] | None
    expireAfterSeconds: int | None
    clusteredIndex: bool | Mapping[str, Any] | None
    changeStreamPreAndPostImages: Mapping[str, Any] | None
    validator: Mapping[str, Any] | None
    validationLevel: str | None
    validationAction: str | None
    viewOn: str | None
    pipeline: arguments.Pipeline | None
    collation: Any
    storageEngine: Mapping[str, Any] | None
    indexOptionDefaults: Mapping[str, Any] | None
    comment: Any


def hint_value(value: Any) -> Any:
    """An index by name or by keys."""
    return arguments.hint_value(value)


TIME_CHECKS: validation.Checks = {
    "maxTimeMS": validation.server_milliseconds,
    "timeoutMS": validation.milliseconds,
}
CURSOR_TIME_CHECKS: validation.Checks = {**TIME_CHECKS, "timeoutMode": validation.anything}
AGGREGATE_CHECKS: validation.Checks = {
    **CURSOR_TIME_CHECKS,
    "allowDiskUse": validation.boolean,
    "batchSize": validation.count,
    "bypassDocumentValidation": validation.boolean,
    "collation": arguments.collation_document,
    "hint": hint_value,
    "explain": validation.boolean,
    "maxAwaitTimeMS": validation.server_milliseconds,
}
DATABASE_AGGREGATE_CHECKS: validation.Checks = {
    **AGGREGATE_CHECKS,
    "let": validation.mapping,
    "comment": validation.anything,
}
COUNT_CHECKS: validation.Checks = {
    **TIME_CHECKS,
    "skip": validation.count,
    "limit": validation.count,
    "collation": arguments.collation_document,
    "hint": hint_value,
}
ESTIMATE_CHECKS: validation.Checks = {**TIME_CHECKS, "session": validation.anything}
DISTINCT_CHECKS: validation.Checks = {**TIME_CHECKS, "collation": arguments.collation_document}
FIND_AND_MODIFY_CHECKS: validation.Checks = {
    **TIME_CHECKS,
    "collation": arguments.collation_document,
    "bypassDocumentValidation": validation.boolean,
}
RENAME_CHECKS: validation.Checks = {**TIME_CHECKS, "dropTarget": validation.boolean}
LIST_COLLECTIONS_CHECKS: validation.Checks = {
    **CURSOR_TIME_CHECKS,
    "nameOnly": validation.boolean,
    "authorizedCollections": validation.boolean,
    "batchSize": validation.count,
}
LIST_DATABASES_CHECKS: validation.Checks = {
    **TIME_CHECKS,
    "filter": validation.mapping,
    "nameOnly": validation.boolean,
    "authorizedDatabases": validation.boolean,
}
CREATE_CHECKS: validation.Checks = {
    **TIME_CHECKS,
    "capped": validation.boolean,
    "size": validation.anything,
    "max": validation.integer,
    "timeseries": validation.mapping,
    "expireAfterSeconds": validation.integer,
    "clusteredIndex": validation.anything,
    "changeStreamPreAndPostImages": validation.mapping,
    "validator": validation.mapping,
    "validationLevel": validation.text,
    "validationAction": validation.text,
    "viewOn": validation.text,
    "pipeline": validation.mappings,
    "collation": arguments.collation_document,
    "storageEngine": validation.mapping,
    "indexOptionDefaults": validation.mapping,
    "comment": validation.anything,
}
