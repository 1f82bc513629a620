"""Pure: the options of a query: their types, their checks, and the arguments of the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

from motorlite import arguments
from motorlite._api import validation
from motorlite._api.constants import CursorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite.deadline import Deadline

_CURSOR_TYPES = (CursorType.NON_TAILABLE, CursorType.TAILABLE, CursorType.TAILABLE_AWAIT)


class QueryOptions(TypedDict, total=False):
    """What `find` and `find_one` take.

    Keys:
        batch_size: How many documents in a batch; 0 leaves it to the server.
        sort: The order, as (field, direction) pairs or a mapping; a single field name sorts upwards.
        hint: The index to use, by name or by keys.
        collation: A Collation or its document.
        max_time_ms: Time for the server, milliseconds; ignored when a timeout is set.
        min, max: Inclusive lower and exclusive upper bound of the index in `hint`.
        comment: Shown in the server's log and profile.
        let: Variables for aggregation expressions.
        allow_disk_use: Whether a sort may use temporary files (MongoDB 4.4 and later).
        allow_partial_results: Whether unavailable shards are passed over.
        return_key: Return only the keys of the index.
        show_record_id: Add the record's number as `$recordId`.
        session: The session to use.
        timeoutMS: The limit of the whole operation; 0 for no limit.
    """

    batch_size: int | None
    no_cursor_timeout: bool | None
    sort: arguments.Hint | None
    allow_partial_results: bool | None
    oplog_replay: bool | None
    collation: Any
    hint: arguments.Hint | None
    max_scan: int | None
    max_time_ms: float | None
    max: arguments.IndexKeys | None
    min: arguments.IndexKeys | None
    return_key: bool | None
    show_record_id: bool | None
    comment: Any
    session: AsyncClientSession | None
    allow_disk_use: bool | None
    let: Mapping[str, Any] | None
    timeoutMS: float | None


class FindOneOptions(QueryOptions, total=False):
    """What `find_one` takes besides filter and projection: `QueryOptions`, and the following.

    Keys:
        skip: How many matches to pass over.
        limit: Has no effect.
    """

    skip: int | None
    limit: int | None


class FindOptions(QueryOptions, total=False):
    """What `find` takes besides its named arguments: `QueryOptions`, and the following.

    Keys:
        no_cursor_timeout: Keep the cursor when it was not used for ten minutes.
        cursor_type: A `CursorType`.
        max_await_time_ms: How long the server waits for new documents (`CursorType.TAILABLE_AWAIT`).
        timeoutMode: Whether the timeout limits the ``"cursorLifetime"`` or each ``"iteration"``.
    """

    cursor_type: int | None
    max_await_time_ms: float | None
    timeoutMode: TimeoutMode | None


def sort_document(value: Any) -> dict[str, Any]:
    """A sort as the command takes it; one field name sorts upwards."""
    return arguments.index_document([value] if isinstance(value, str) else value)


def find_sort(value: Any) -> dict[str, Any]:
    """A sort as an argument of `find`, which may be empty there, as PyMongo's (object mappers pass ``[]``)."""
    return sort_document(value) if value else {}


def hint_value(value: Any) -> Any:
    """An index by name or by keys."""
    return arguments.hint_value(value)


def cursor_type(value: Any) -> int:
    """A CursorType."""
    if value not in _CURSOR_TYPES:
        raise ValueError("allowed is CursorType.NON_TAILABLE, TAILABLE or TAILABLE_AWAIT")
    return int(value)


# `session` and `timeoutMS` have checks of their own, where they are used.
FIND_ONE_CHECKS: validation.Checks = {
    "skip": validation.count,
    "limit": validation.integer,
    "batch_size": validation.count,
    "no_cursor_timeout": validation.boolean,
    "sort": find_sort,
    "allow_partial_results": validation.boolean,
    "oplog_replay": validation.boolean,
    "collation": arguments.collation_document,
    "hint": hint_value,
    "max_scan": validation.count,
    "max_time_ms": validation.server_milliseconds,
    "max": arguments.index_document,
    "min": arguments.index_document,
    "return_key": validation.boolean,
    "show_record_id": validation.boolean,
    "comment": validation.anything,
    "session": validation.anything,
    "allow_disk_use": validation.boolean,
    "let": validation.mapping,
    "timeoutMS": validation.milliseconds,
}

FIND_CHECKS: validation.Checks = {
    **FIND_ONE_CHECKS,
    "cursor_type": cursor_type,
    "max_await_time_ms": validation.server_milliseconds,
    "timeoutMode": validation.anything,
}


def find_arguments(settings: Settings, query: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
    """The keyword arguments of Find and FindOne, from checked options without those of the cursor."""
    found = {
        "selector": settings.read_preference,
        "read_preference": settings.read_preference,
        "read_concern": settings.read_concern,
        "codec_options": settings.codec_options,
        **query,
    }
    # A timeout replaces the user's maxTimeMS (client-side operations timeout, "Validation and Overrides").
    if deadline.is_set:
        found.pop("max_time_ms", None)
    return found
