"""Checks the error that an operation raised (Unified Test Format, "expectedError")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError

from motorlite.errors import (
    BulkWriteError,
    ClientBulkWriteException,
    ConnectionFailure,
    OperationFailure,
    PyMongoError,
)
from tests.spec.unified.outcomes import BadTest, Failed
from tests.spec.unified.results import bulk_error_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.spec.unified.matching import Matcher

# What the driver raises on purpose. Anything else is a bug of the driver or of the runner.
DRIVER_ERRORS: Final = (PyMongoError, BSONError, TypeError, ValueError, OverflowError)


def check_error(expected: Mapping[str, Any], error: Exception, matcher: Matcher) -> None:
    """Compare an error with what is expected.

    Raises:
        Failed: It does not match.
        BadTest: The expectation has a field that is not known.
    """
    for name, value in expected.items():
        if name == "expectResult":
            result = bulk_error_result(error)
            matcher.match(value, result, "the error's result", is_root=True)
        elif name == "errorResponse":
            matcher.match(value, _response(error) or {}, "the error's response", is_root=True)
        elif name in ("writeErrors", "writeConcernErrors"):
            _check_parts(name, value, error, matcher)
        elif name not in _CHECKS:
            raise BadTest(f"expectError.{name} is not known")
        elif not _CHECKS[name](error, value):
            raise Failed(f"expectError.{name}: expected {value!r}, found {describe(error)}") from error


def _check_parts(name: str, expected: Any, error: Exception, matcher: Matcher) -> None:
    """Compare the single errors of a client's bulk write."""
    if not isinstance(error, ClientBulkWriteException):
        raise Failed(f"expectError.{name}: found {describe(error)}") from error
    found: Any = [_part(each) for each in error.write_concern_errors]
    if name == "writeErrors":
        found = {str(each["idx"]): _part(each) for each in error.write_errors}
    if len(found) != len(expected):
        raise Failed(f"expectError.{name}: expected {expected!r}, found {found!r}") from error
    for key, value in expected.items() if isinstance(expected, dict) else enumerate(expected):
        part = found.get(key, {}) if isinstance(found, dict) else found[key]
        matcher.match(value, part, f"{name}.{key}", is_root=True)


def _part(error: Mapping[str, Any]) -> dict[str, Any]:
    return {**error, "message": error.get("errmsg")}


def _top_level(error: Exception) -> Exception:
    """Return what ended a client's bulk write, or the error itself."""
    if isinstance(error, ClientBulkWriteException) and error.error is not None:
        found: Exception = error.error
        return found
    return error


def describe(error: BaseException) -> str:
    """An error's type, message and labels."""
    labels = sorted(error.error_labels) if isinstance(error, PyMongoError) else []
    return f"{type(error).__name__}: {error}" + (f", labels {labels}" if labels else "")


def _response(error: Exception) -> Mapping[str, Any] | None:
    """The server's reply, or the part of it that the error stands for; None when no server raised it."""
    details = getattr(_top_level(error), "details", None)
    return details if isinstance(details, dict) and details else None


def _is_client_error(error: Exception) -> bool:
    if isinstance(_top_level(error), OperationFailure | ConnectionFailure):
        return _response(error) is None
    return True


def _is_timeout_error(error: Exception) -> bool:
    return isinstance(error, PyMongoError) and error.timeout


def _parts(error: Exception) -> Iterator[Mapping[str, Any]]:
    """The documents in which servers describe what went wrong."""
    details = _response(error)
    if details is None:
        return
    if isinstance(error, ClientBulkWriteException) and error.error is None:
        return
    if isinstance(error, BulkWriteError):
        yield from details.get("writeErrors", ())
        yield from details.get("writeConcernErrors", ())
    else:
        yield details


def _contains(error: Exception, text: str) -> bool:
    messages = [str(_top_level(error)), *(str(part.get("errmsg", "")) for part in _parts(error))]
    return any(text.lower() in message.lower() for message in messages)


def _has_code(error: Exception, code: int) -> bool:
    return any(part.get("code") == code for part in _parts(error))


def _has_code_name(error: Exception, name: str) -> bool:
    return any(str(part.get("codeName", "")).lower() == name.lower() for part in _parts(error))


def _has_labels(error: Exception, labels: list[str]) -> bool:
    return isinstance(error, PyMongoError) and all(error.has_error_label(label) for label in labels)


def _omits_labels(error: Exception, labels: list[str]) -> bool:
    return not (isinstance(error, PyMongoError) and any(error.has_error_label(label) for label in labels))


_CHECKS: Final[Mapping[str, Callable[[Exception, Any], bool]]] = {
    "isError": lambda error, value: bool(value),
    "isClientError": lambda error, value: _is_client_error(error) is value,
    "isTimeoutError": lambda error, value: _is_timeout_error(error) is value,
    "errorContains": _contains,
    "errorCode": _has_code,
    "errorCodeName": _has_code_name,
    "errorLabelsContain": _has_labels,
    "errorLabelsOmit": _omits_labels,
}
