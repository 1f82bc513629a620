"""Pure: the types of keyword arguments under their server names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import TimeoutMode
    from motorlite._base import arguments
    from motorlite.collation import CollationLike


class TimeOptions(TypedDict, total=False):
    """Time limits of an operation.

    Keys:
        maxTimeMS: Time limit on the server, milliseconds; ignored if a timeout is set.
        timeoutMS: Time limit of the whole operation; 0 for no limit.
    """

    maxTimeMS: float | None
    timeoutMS: float | None


class CursorTimeOptions(TimeOptions, total=False):
    """Time limits of an operation with a cursor.

    Keys:
        timeoutMode: Whether the timeout limits the ``"cursorLifetime"`` or each ``"iteration"``.
    """

    timeoutMode: TimeoutMode | None


class AggregateOptions(CursorTimeOptions, total=False):
    """Further options of `aggregate` on a collection.

    Keys:
        allowDiskUse: Whether stages may use temporary files.
        batchSize: Documents per batch.
        bypassDocumentValidation: For a pipeline that writes.
        collation: A Collation or its document.
        hint: The index to use, by name or by keys.
        explain: Return the plan as the only document.
        maxAwaitTimeMS: Time that the server waits for new documents.
        prefetch: 1 to request the next batch while the program works through the current one, as in `FindOptions`.
    """

    allowDiskUse: bool | None
    batchSize: int | None
    bypassDocumentValidation: bool | None
    collation: CollationLike | None
    hint: arguments.Hint | None
    explain: bool | None
    maxAwaitTimeMS: float | None
    prefetch: int | None


class DatabaseAggregateOptions(AggregateOptions, total=False):
    """Further options of `aggregate` on a database.

    Keys:
        let: Variables for the pipeline.
        comment: Shown in the server's log and profile.
    """

    let: Mapping[str, Any] | None
    comment: Any


class CountOptions(TimeOptions, total=False):
    """Further options of `count_documents`.

    Keys:
        skip, limit: Count only a part of the matches.
        collation: A Collation or its document.
        hint: The index to use, by name or by keys.
    """

    skip: int | None
    limit: int | None
    collation: CollationLike | None
    hint: arguments.Hint | None


class EstimateOptions(TimeOptions, total=False):
    """Further options of `estimated_document_count`.

    Keys:
        session: The session to use.
    """

    session: AsyncClientSession | None


class DistinctOptions(TimeOptions, total=False):
    """Further options of `distinct`.

    Keys:
        collation: A Collation or its document.
    """

    collation: CollationLike | None


class FindAndModifyOptions(TimeOptions, total=False):
    """Further options of the `find_one_and_*` methods.

    Keys:
        collation: A Collation or its document.
        bypassDocumentValidation: Write documents that the collection's validator would reject.
    """

    collation: CollationLike | None
    bypassDocumentValidation: bool | None


class RenameOptions(TimeOptions, total=False):
    """Further options of `rename`.

    Keys:
        dropTarget: Replace an existing collection.
    """

    dropTarget: bool | None


class ListCollectionsOptions(CursorTimeOptions, total=False):
    """Further options of `list_collections`.

    Keys:
        nameOnly: Return names and types only, which takes no locks.
        authorizedCollections: Return what the user may access.
        batchSize: Documents per batch.
    """

    nameOnly: bool | None
    authorizedCollections: bool | None
    batchSize: int | None


class ListDatabasesOptions(TimeOptions, total=False):
    """Further options of `list_databases`.

    Keys:
        filter: A query that selects databases.
        nameOnly: Return names only, which takes no locks.
        authorizedDatabases: Return what the user may access.
    """

    filter: Mapping[str, Any] | None
    nameOnly: bool | None
    authorizedDatabases: bool | None


class CreateCollectionOptions(TimeOptions, total=False):
    """Further options of `create_collection`, named as in the create command.

    Keys:
        capped, size, max: A collection of fixed size.
        timeseries, expireAfterSeconds: A time series collection.
        clusteredIndex: A clustered collection.
        changeStreamPreAndPostImages: Keep the documents' versions for change streams.
        validator, validationLevel, validationAction: Rules for valid documents.
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
    collation: CollationLike | None
    storageEngine: Mapping[str, Any] | None
    indexOptionDefaults: Mapping[str, Any] | None
    comment: Any
