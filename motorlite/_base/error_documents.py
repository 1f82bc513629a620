"""Pure: reads servers' error documents leniently: the error itself matters more than its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.error_codes import MAX_TIME_MS_EXPIRED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# The counts of changes that a bulk write has made.
_CHANGES: Final = ("nInserted", "nUpserted", "nModified", "nRemoved", "nDeleted")


def texts(labels: Any) -> Iterable[str]:
    """Return error labels as plain strings (`bson.Code` is an unhashable str)."""
    given = labels if isinstance(labels, list | tuple | set | frozenset) else ()
    return (str.__str__(label) for label in given if isinstance(label, str))


def code(error: Mapping[str, Any]) -> int | None:
    """The code of an error document, or None."""
    found = error.get("code")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def message(error: Mapping[str, Any]) -> str:
    """The message of an error document."""
    found = error.get("errmsg") or error.get("$err")
    return str.__str__(found) if isinstance(found, str) else "the server sent an error without a message"


def is_wtimeout(error: Mapping[str, Any]) -> bool:
    """Whether a write concern was not satisfied within `wtimeout`."""
    info: Any = error.get("errInfo")
    return hasattr(info, "get") and bool(info.get("wtimeout"))


def concern_labels(details: Mapping[str, Any]) -> Iterable[str]:
    """The labels of a bulk write's write concern errors."""
    for error in details.get("writeConcernErrors") or ():
        yield from texts(error.get("errorLabels"))


def is_timeout(details: Mapping[str, Any]) -> bool:
    """Whether a time limit ended a bulk write, or passed according to a write error or the newest concern error."""
    newest = (details.get("writeConcernErrors") or ())[-1:]
    is_ended = bool(getattr(details.get("error"), "timeout", False))
    return is_ended or any(map(is_wtimeout, newest)) or is_expired(details)


def is_expired(details: Mapping[str, Any]) -> bool:
    """Whether a bulk write's details have error 50 as a write error, or as the newest write concern error.

    Client-side operations timeout, "Error Transformations".
    """
    errors = (*(details.get("writeErrors") or ()), *(details.get("writeConcernErrors") or ())[-1:])
    return any(code(error) == MAX_TIME_MS_EXPIRED for error in errors)


def has_written(details: Mapping[str, Any]) -> bool:
    """Whether a bulk write's details show changes, or cannot rule them out.

    A write of many documents that fails in the middle has changed those before. The server does not count them.
    """
    if any(details.get(name) for name in _CHANGES):
        return True
    operations: Iterable[Any] = (error.get("op") for error in details.get("writeErrors") or ())
    return any(hasattr(one, "get") and (one.get("multi") or one.get("limit") == 0) for one in operations)
