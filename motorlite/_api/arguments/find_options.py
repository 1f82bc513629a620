"""Pure: query options: their types, their checks, and the resulting arguments of the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

from motorlite._api.constants import CursorType
from motorlite._base import arguments
from motorlite._base.arguments import WrongValue
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite.collation import CollationLike

_CURSOR_TYPES = (CursorType.NON_TAILABLE, CursorType.TAILABLE, CursorType.TAILABLE_AWAIT, CursorType.EXHAUST)


class CommonFindOptions(TypedDict, total=False):
    """The options that `find` and `find_one` share.

    Keys:
        batch_size: Documents per batch; 0 lets the server choose.
        sort: The order, as (field, direction) pairs or a mapping. A single field name sorts in ascending order.
        hint: The index to use, by name or by keys.
        collation: A Collation or its document.
        max_time_ms: Time limit on the server, milliseconds; ignored if a timeout is set.
        min, max: Inclusive lower and exclusive upper bound for the index in `hint`.
        comment: Shown in the server's log and profile.
        let: Variables for aggregation expressions.
        allow_disk_use: Whether a sort may use temporary files (MongoDB 4.4 and later).
        allow_partial_results: Whether to skip unavailable shards.
        return_key: Return only the keys of the index.
        show_record_id: Add the record id as `$recordId`.
        session: The session to use.
        timeoutMS: Time limit of the whole operation; 0 for no limit.
    """

    batch_size: int | None
    no_cursor_timeout: bool | None
    sort: arguments.Hint | None
    allow_partial_results: bool | None
    oplog_replay: bool | None
    collation: CollationLike | None
    hint: arguments.Hint | None
    max_scan: int | None
    max_time_ms: float | None
    max: arguments.Bounds | None
    min: arguments.Bounds | None
    return_key: bool | None
    show_record_id: bool | None
    comment: Any
    session: AsyncClientSession | None
    allow_disk_use: bool | None
    let: Mapping[str, Any] | None
    timeoutMS: float | None


class FindOneOptions(CommonFindOptions, total=False):
    """The options of `find_one` besides filter and projection: `CommonFindOptions`, and the following.

    Keys:
        skip: The number of matches to skip.
        limit: Has no effect.
    """

    skip: int | None
    limit: int | None


class FindOptions(CommonFindOptions, total=False):
    """Further options of `find`: `CommonFindOptions`, and the following.

    Keys:
        no_cursor_timeout: Keep the cursor open on the server after ten minutes without use.
        cursor_type: A `CursorType`.
        max_await_time_ms: Time that the server waits for new documents (`CursorType.TAILABLE_AWAIT`).
        timeoutMode: Whether the timeout limits the ``"cursorLifetime"`` or each ``"iteration"``.
        prefetch: 1 to request the next batch while the program works through the current one; 0, the default, to
            request it when it is needed. Without effect with an explicit session, which may only be used for one
            operation at a time, and on cursors that are tailable or of the type EXHAUST.
    """

    cursor_type: int | None
    max_await_time_ms: float | None
    timeoutMode: TimeoutMode | None
    prefetch: int | None


# The options that a filter with "$query" may have, as in the protocol of old servers.
_MODIFIERS: Final = {
    "$orderby": "sort",
    "$hint": "hint",
    "$comment": "comment",
    "$maxScan": "max_scan",
    "$maxTimeMS": "max_time_ms",
    "$max": "max",
    "$min": "min",
    "$returnKey": "return_key",
    "$showRecordId": "show_record_id",
    "$showDiskLoc": "show_record_id",
}


def unwrapped(filter: Mapping[str, Any], options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the filter and the options of a query from a filter with "$query". Options of the call count more.

    Raises:
        ValueError: There is another modifier.
    """
    found: dict[str, Any] = {}
    for name, value in filter.items():
        if name in _MODIFIERS:
            found[_MODIFIERS[name]] = value
        elif name == "$explain":
            raise ValueError("a filter with $query cannot have $explain: write find(...).explain()")
        elif name not in ("$query", "$readPreference"):  # the latter is for mongos, and that of the collection counts
            raise ValueError(arguments.wrong("filter", filter, f"one with {', '.join(_MODIFIERS)} beside $query"))
    return arguments.converted("$query", filter["$query"], arguments.mapping), {**found, **options}


def sort_document(value: Any) -> dict[str, Any]:
    """Return a sort in the command's form. A single field name sorts in ascending order."""
    return arguments.index_document([value] if isinstance(value, str) else value)


def find_sort(value: Any) -> dict[str, Any]:
    """Return a sort for `find`, which may be empty as in PyMongo (object mappers pass ``[]``)."""
    return sort_document(value) if value else {}


def cursor_type(value: Any) -> int:
    """Check a CursorType."""
    if value not in _CURSOR_TYPES:
        raise WrongValue("CursorType.NON_TAILABLE, TAILABLE, TAILABLE_AWAIT or EXHAUST")
    return int(value)


# `session`, `timeoutMode` and `comment` are checked where they are used.
FIND_CHECKS: Final[arguments.Checks] = {
    **dict.fromkeys(FindOptions.__optional_keys__, arguments.anything),
    **dict.fromkeys(("allow_disk_use", "allow_partial_results", "no_cursor_timeout"), arguments.boolean),
    **dict.fromkeys(("oplog_replay", "return_key", "show_record_id"), arguments.boolean),
    **dict.fromkeys(("batch_size", "max_scan", "skip"), arguments.count),
    **dict.fromkeys(("max", "min"), arguments.bounds_document),
    **dict.fromkeys(("max_await_time_ms", "max_time_ms"), arguments.server_milliseconds),
    "collation": arguments.collation_document,
    "cursor_type": cursor_type,
    "hint": arguments.hint_value,
    "let": arguments.mapping,
    "limit": arguments.integer,
    "prefetch": arguments.zero_or_one,
    "sort": find_sort,
    "timeoutMS": arguments.milliseconds,
}
FIND_ONE_CHECKS: Final[arguments.Checks] = {name: FIND_CHECKS[name] for name in FindOneOptions.__optional_keys__}


def find_arguments(settings: Settings, query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of Find and FindOne, from checked options, excluding the cursor's.

    Raises:
        InvalidOperation: There are bounds of an index, but no hint says which one.
    """
    if ("min" in query or "max" in query) and "hint" not in query:
        raise InvalidOperation("min and max need a hint: the index that they are bounds of")
    return {
        "selector": settings.read_preference,
        "read_preference": settings.read_preference,
        "read_concern": settings.read_concern,
        "codec_options": settings.codec_options,
        **query,
    }
