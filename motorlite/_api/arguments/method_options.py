"""Pure: keyword arguments of methods under their server names: their types and their checks.

Methods whose arguments become a command pass on others as fields of the command, as PyMongo does, unless a name looks
misspelt.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypedDict

from motorlite._base import arguments
from motorlite._base.arguments import converted, text
from motorlite.errors import InvalidName
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.typings import TimeoutMode
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


# By name, for all methods. Of the options without a check, `session` and `timeoutMode` are checked where they are used,
# and others by the server.
_CHECKS: Final[arguments.Checks] = {
    **dict.fromkeys(("maxTimeMS", "maxAwaitTimeMS"), arguments.server_milliseconds),
    **dict.fromkeys(("allowDiskUse", "bypassDocumentValidation", "capped", "dropTarget", "explain"), arguments.boolean),
    **dict.fromkeys(("authorizedCollections", "authorizedDatabases", "nameOnly"), arguments.boolean),
    **dict.fromkeys(("batchSize", "limit", "skip"), arguments.count),
    **dict.fromkeys(("expireAfterSeconds", "max"), arguments.integer),
    **dict.fromkeys(("changeStreamPreAndPostImages", "filter", "let", "storageEngine"), arguments.mapping),
    **dict.fromkeys(("indexOptionDefaults", "timeseries", "validator"), arguments.mapping),
    **dict.fromkeys(("validationAction", "validationLevel", "viewOn"), arguments.text),
    "collation": arguments.collation_document,
    "hint": arguments.hint_value,
    "pipeline": arguments.mappings,
    "prefetch": arguments.zero_or_one,
    "timeoutMS": arguments.milliseconds,
}


@cache
def checks_of(kind: Any) -> arguments.Checks:
    """Return the checks of the options in a TypedDict."""
    return {name: _CHECKS.get(name, arguments.anything) for name in kind.__optional_keys__}


def given_options(
    method: str, kind: type[Mapping[str, Any]], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a method that are in the TypedDict `kind`, checked, and further fields of the command.

    Raises:
        TypeError, ValueError: See `arguments.checked`.
    """
    further: dict[str, Any] = {}
    return arguments.checked(method, options, checks_of(kind), further), further


def optional(name: str, value: Any, check: arguments.Check) -> Any:
    """What `check` makes of an argument, unless it is None; see `arguments.converted`."""
    return None if value is None else converted(name, value, check)


def given_write_concern(further: dict[str, Any], usual: WriteConcern) -> WriteConcern:
    """Return the write concern among fields of the command, from which it is taken out, or else the usual one.

    Raises:
        TypeError, ValueError: It is not valid.
    """
    return WriteConcern(**further.pop("writeConcern")) if "writeConcern" in further else usual


# The names of databases and collections.

_FORBIDDEN_IN_DATABASE_NAMES = frozenset(' ./\\"$\x00')


def database_name(name: Any) -> str:
    """Return `name` if it is a valid database name."""
    converted("name", name, text)
    if not name:
        raise InvalidName("a database name cannot be empty")
    found = sorted(_FORBIDDEN_IN_DATABASE_NAMES.intersection(name))
    # Users of external authentication mechanisms are stored in "$external".
    if found and name != "$external":
        database, _, collection = name.partition(".")
        hint = f" (a collection is client[{database!r}][{collection!r}])" if "." in found and collection else ""
        raise InvalidName(f"a database name cannot contain {found[0]!r}: {name!r}{hint}")
    return str(name)


def collection_name(name: Any) -> str:
    """Return `name` if it is a valid collection name."""
    converted("name", name, text)
    if not name or ".." in name:
        raise InvalidName(f"a collection name cannot be empty or have an empty part: {name!r}")
    if name[0] == "." or name[-1] == ".":
        raise InvalidName(f"a collection name cannot start or end with a dot: {name!r}")
    if "$" in name and not name.startswith(("oplog.$main", "$cmd")):
        raise InvalidName(f"a collection name cannot contain '$': {name!r}")
    if "\x00" in name:
        raise InvalidName(f"a collection name cannot contain the null character: {name!r}")
    return str(name)
