"""Errors of every class with everything that they may have."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any, TypeVar

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.timestamp import Timestamp

import motorlite
from motorlite import errors
from motorlite.errors import AutoReconnect, ClientBulkWriteException, OperationFailure, PyMongoError
from motorlite.results import BulkWriteResult

if TYPE_CHECKING:
    from collections.abc import Iterator

ErrorT = TypeVar("ErrorT", bound=PyMongoError)
DETAILS: dict[str, Any] = {
    "ok": 0,
    "code": 43,
    "errmsg": "no",
    "errorLabels": ["from the server"],
    "$clusterTime": {"clusterTime": Timestamp(5, 1)},
    "op": {"_id": ObjectId(b"\1" * 12), "pattern": Regex("a", "i"), "raw": RawBSONDocument(b"\x05\0\0\0\0")},
    "writeErrors": [{"index": 0, "code": 11000}],
    "writeConcernErrors": [{"code": 64, "errInfo": {"wtimeout": True}}],
}


def all_classes() -> list[type[PyMongoError]]:
    """Every error class of motorlite, the private ones included: an application may meet them as well."""
    for module in pkgutil.walk_packages(motorlite.__path__, "motorlite."):
        importlib.import_module(module.name)

    def below(kind: type[PyMongoError]) -> Iterator[type[PyMongoError]]:
        yield kind
        for inner in kind.__subclasses__():
            yield from below(inner)

    found = {kind: None for kind in below(PyMongoError) if kind.__module__.startswith("motorlite")}
    public = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PyMongoError)}
    assert public <= set(found)
    assert len(public) > 25
    return list(found)


def make(kind: type[ErrorT]) -> ErrorT:
    """An error of this class with everything that it may have."""
    error: Any
    if issubclass(kind, errors._BulkFailure):
        error = kind(DETAILS, *([True] if issubclass(kind, ClientBulkWriteException) else []))
    elif issubclass(kind, OperationFailure):
        error = kind("message", 43, DETAILS, 17)
    elif issubclass(kind, errors.EncryptedCollectionError):
        error = kind(OSError("message"), {"fields": []})
        error._add_error_label("from the server")
    elif issubclass(kind, errors.EncryptionError):
        error = kind(OSError("message"))
        error._add_error_label("from the server")
    elif issubclass(kind, AutoReconnect):
        error = kind("message", DETAILS)
    else:
        error = kind("message", ["from the server"])
    error._add_error_label("from the driver")
    error.address = ("a", 1)
    error.attempts = 3
    error.retry_reasons = ("overload", "overload")
    error.retry_refusal = "attempts"
    error.phase = "reply"
    error.reached_server = True
    error.partial_result = BulkWriteResult({"nInserted": 2}, acknowledged=True)
    error.add_note("a note")
    error.__cause__ = AutoReconnect("lost")
    error.__cause__._add_error_label("of the cause")
    error.__cause__.__cause__ = OSError(104, "connection reset")
    assert isinstance(error, kind)
    return error


def facts(error: PyMongoError) -> dict[str, Any]:
    """All that an error says."""
    names = [name for name in dir(error) if not name.startswith("_") and not callable(getattr(error, name))]
    found = {name: getattr(error, name) for name in names}
    found["partial_result"] = repr(error.partial_result)
    found.pop("cause", None)  # that of Python: another object after pickling, and none once detached
    return {**found, "args": error.args, "str": str(error), "repr": repr(error), "notes": error.__notes__}
