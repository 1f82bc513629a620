"""Errors from whatever a server says, and their copies in other processes and tasks."""

from __future__ import annotations

import copy
import importlib
import multiprocessing
import pickle
import pkgutil
import ssl
import traceback
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import bson.errors
import pytest
from bson.code import Code
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.timestamp import Timestamp

import motorlite
from motorlite import errors
from motorlite._wire.replies import error_from_reply, write_concern_error, write_error
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    CursorNotFound,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
)
from motorlite.results import BulkWriteResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *[lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol)) for protocol in range(2, 6)],
]


def facts(error: PyMongoError) -> dict[str, Any]:
    """All that an error says."""
    names = [name for name in dir(error) if not name.startswith("_") and not callable(getattr(error, name))]
    found = {name: getattr(error, name) for name in names}
    found["partial_result"] = repr(error.partial_result)
    return {**found, "args": error.args, "str": str(error), "repr": repr(error), "notes": error.__notes__}


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_copies(kind: type[PyMongoError]) -> None:
    error = make(kind)
    for made in COPIES:
        twin = made(error)
        assert type(twin) is kind
        assert facts(twin) == facts(error)
        cause = twin.__cause__
        assert isinstance(cause, AutoReconnect)
        assert str(cause) == "lost"
        assert cause.has_error_label("of the cause")
        assert isinstance(cause.__cause__, OSError)
        assert cause.__cause__.errno == 104
        twin._add_error_label("of the copy")
        assert not error.has_error_label("of the copy"), "a copy has labels of its own"


def test_tracebacks_name_public_classes() -> None:
    """All that an application can meet, as `raise` or as a cause, can be imported from the module that it names."""
    for kind in all_classes():
        if kind.__name__.startswith("_"):  # a base class alone
            continue
        assert kind.__module__ in ("motorlite.errors", "motorlite.gridfs.errors"), kind
        module = importlib.import_module(kind.__module__)
        assert getattr(module, kind.__qualname__) is kind
        assert kind.__name__ in module.__all__


def test_a_wrong_option_is_an_error_of_both_kinds() -> None:
    for value, public, builtin in (
        ("2s", errors.InvalidOptionValue, ValueError),
        ([], errors.InvalidOptionType, TypeError),
    ):
        with pytest.raises(errors.ConfigurationError) as caught:
            motorlite.AsyncMongoClient(timeoutMS=value)  # type: ignore[arg-type]
        error = caught.value
        assert isinstance(error, builtin)
        assert traceback.format_exception_only(error)[0].startswith(
            f"motorlite.errors.{public.__name__}: timeoutMS must"
        )
        for made in COPIES:
            assert type(made(error)) is public


def test_a_deep_copy_shares_no_details() -> None:
    error = make(CursorNotFound)
    assert copy.copy(error).details is error.details
    twin = copy.deepcopy(error)
    assert twin.details is not None
    twin.details["op"]["new"] = 1
    assert "new" not in DETAILS["op"]
    both = copy.deepcopy([error, error])
    assert both[0] is both[1]


def test_errors_without_anything() -> None:
    for made in COPIES:
        twin = made(PyMongoError())
        assert (str(twin), twin.__cause__, twin.error_labels) == ("", None, frozenset())


class Picky(Exception):
    """Can be pickled, but not unpickled, as many exceptions."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


class OfTheApplication(OperationFailure):
    """An application's own error, with a constructor of its own."""

    def __init__(self, one: int, *, other: int) -> None:
        super().__init__(f"{one} and {other}")
        self.one = one


def test_an_error_of_the_application() -> None:
    for made in COPIES:
        twin = made(OfTheApplication(1, other=2))
        assert (type(twin), str(twin), twin.one) == (OfTheApplication, "1 and 2", 1)


@pytest.mark.parametrize("cause", [Picky(1, 2), type("Local", (Exception,), {})("1 and 2")], ids=["picky", "local"])
def test_a_cause_that_cannot_be_pickled(cause: Exception) -> None:
    error = AutoReconnect("lost")
    error.__cause__ = cause
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == "lost"
    assert str(twin.__cause__).endswith(f"{type(cause).__qualname__}: 1 and 2")
    assert copy.copy(error).__cause__ is copy.deepcopy(error).__cause__ is cause


def test_causes_of_other_packages() -> None:
    error = AutoReconnect("lost")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    assert isinstance(pickle.loads(pickle.dumps(error)).__cause__, ssl.SSLCertVerificationError)


def fail() -> None:
    """What a worker process does."""
    raise make(BulkWriteError)


def test_an_error_of_a_worker_process() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        raised = [pool.submit(fail).exception() for _ in range(2)]
    for error in raised:
        assert isinstance(error, BulkWriteError), "the pool is broken"
        assert error.details == DETAILS
        assert error.has_error_label("from the driver")


# --- what servers say ---

ODD: list[Any] = [
    5,
    2.5,
    True,
    None,
    "x",
    [1],
    [[1]],
    {"a": 1},
    {"code": 1},
    b"x",
    Code("f"),
    Regex("a"),
    ObjectId("65a000000000000000000001"),
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["code", "errmsg", "$err", "errInfo", "errorLabels", "codeName"])
def test_odd_error_documents(field: str, odd: Any) -> None:
    for document in ({"ok": 0, field: odd}, {"code": 10107, field: odd}, {"code": 11000, field: odd}):
        for error in (error_from_reply(document), write_error(document), write_concern_error(document, [odd])):
            assert error_code_is_sound(error)
            assert str(error)
            assert all(type(label) is str for label in error.error_labels)
            assert isinstance(error.timeout, bool)
            assert error.details is document  # type: ignore[attr-defined]  # all of them have it


def error_code_is_sound(error: Any) -> bool:
    return error.code is None or (isinstance(error.code, int) and type(error.code) is not bool)


def test_a_write_concern_error_that_is_a_timeout() -> None:
    assert isinstance(write_concern_error({"errInfo": {"wtimeout": True}}), WTimeoutError)
    assert not isinstance(write_concern_error({"errInfo": [1]}), WTimeoutError)


def test_the_text_writes_an_address_as_a_connection_string_does() -> None:
    error = OperationFailure("no")
    error.address = ("::1", 27017)
    assert str(error) == "no (server [::1]:27017)"


def test_the_text_leaves_out_what_every_reply_has() -> None:
    details = {"ok": 0, "code": 2, "$clusterTime": {"clusterTime": Timestamp(5, 1)}, "operationTime": Timestamp(5, 1)}
    error = OperationFailure("no", 2, details)
    assert str(error) == "no, full error: {'ok': 0, 'code': 2}"
    assert error.details is details


def test_details_that_are_nested_deeply() -> None:
    details: dict[str, Any] = {}
    for _ in range(100_000):
        details = {"a": details}
    assert "nested too deeply" in str(OperationFailure("no", 2, details))


def test_the_code_of_a_server_that_is_no_primary() -> None:
    assert NotPrimaryError("no", {"code": [1]}).code is None


def test_documents_that_bson_refuses_raise_an_error_that_can_be_imported_from_here() -> None:
    assert errors.InvalidDocument is bson.errors.InvalidDocument
    assert not issubclass(errors.InvalidDocument, errors.PyMongoError)


def test_a_document_that_is_too_large_is_also_bsons_error() -> None:
    error = errors.DocumentTooLarge("the insert has 17 bytes")
    assert isinstance(error, bson.errors.InvalidDocument)
    assert isinstance(error, errors.PyMongoError)
    assert error.document is None
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert not error.timeout


def test_the_former_name_of_an_error() -> None:
    with pytest.warns(DeprecationWarning, match="ConcurrencyLimitError is deprecated, use PoolFullError") as caught:
        assert errors.ConcurrencyLimitError is errors.PoolFullError
    assert caught[0].filename == __file__
    with pytest.raises(AttributeError, match=r"module 'motorlite.errors' has no attribute 'ConcurrencyError'"):
        errors.ConcurrencyError  # type: ignore[attr-defined]  # noqa: B018
