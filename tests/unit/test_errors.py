"""Errors from whatever a server says, and their copies in other processes and tasks."""

from __future__ import annotations

import asyncio
import copy
import importlib
import multiprocessing
import pickle
import ssl
import traceback
from concurrent.futures import ProcessPoolExecutor
from types import NoneType
from typing import TYPE_CHECKING, Any

import bson
import bson.errors
import pytest
from bson.code import Code
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.regex import Regex
from bson.son import SON
from bson.timestamp import Timestamp

import motorlite
from motorlite import errors
from motorlite._wire.replies import error_from_reply, write_concern_error, write_error
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    CursorNotFound,
    DuplicateKeyError,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WTimeoutError,
    detached,
)
from tests.unit.error_samples import DETAILS, all_classes, facts, make

if TYPE_CHECKING:
    from collections.abc import Callable


COPIES: list[Callable[[Any], Any]] = [
    copy.copy,
    copy.deepcopy,
    *[lambda error, protocol=protocol: pickle.loads(pickle.dumps(error, protocol)) for protocol in range(2, 6)],
]


def is_bare(error: BaseException) -> bool:
    """Whether it leads to no frame and to no other error."""
    return (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


def raised(error: BaseException) -> BaseException:
    """`error` as it is after it was raised, with everything that Python hangs on it."""
    try:
        try:
            raise KeyError("context")
        except KeyError as cause:
            raise error from cause
    except BaseException as caught:
        return caught


@pytest.mark.parametrize("kind", all_classes(), ids=lambda kind: kind.__name__)
def test_copies(kind: type[PyMongoError]) -> None:
    error = make(kind)
    for made in (*COPIES, detached):
        twin = made(error)
        assert type(twin) is kind
        assert facts(twin) == facts(error)
        twin._add_error_label("of the copy")
        assert not error.has_error_label("of the copy"), "a copy has labels of its own"
        if made is detached:
            # What is kept leads to no frame.
            assert is_bare(detached(raised(error)))
            continue
        cause = twin.__cause__
        assert isinstance(cause, AutoReconnect)
        assert str(cause) == "lost"
        assert cause.has_error_label("of the cause")
        assert isinstance(cause.__cause__, OSError)
        assert cause.__cause__.errno == 104


@pytest.mark.parametrize(
    ("operation", "may_have_written"),
    [
        ({"q": {}, "u": {}, "multi": True, "upsert": False}, True),
        ({"q": {}, "u": {}, "multi": False, "upsert": False}, False),
        ({"q": {}, "limit": 0}, True),
        ({"q": {}, "limit": 1}, False),
        ({"delete": "a.b", "filter": {}, "multi": True}, True),
        ({"insert": "a.b", "document": {"_id": 1, "multi": True}}, False),
        # Documents to insert, with fields of the same names.
        ({"_id": 1, "multi": True}, False),
        ({"_id": 1, "q": "words", "limit": 0}, False),
        (SON([("limit", 0), ("_id", 1)]), False),
        # It cannot be decoded.
        (RawBSONDocument(bson.encode({"_id": 1, "s": "abc"}).replace(b"abc", b"a\xffc")), False),
    ],
)
@pytest.mark.parametrize("kind", [BulkWriteError, ClientBulkWriteException])
def test_a_failed_write_of_many_documents_may_have_changed_some(
    kind: Any, operation: Any, may_have_written: bool
) -> None:
    details = {"writeErrors": [{"index": 0, "idx": 0, "code": 11000, "errmsg": "", "op": operation}]}
    error = kind(details, False) if kind is ClientBulkWriteException else kind(details)
    assert error.may_have_been_executed is may_have_written


class Picky(Exception):
    """Can be pickled, but not unpickled or copied, as many exceptions."""

    def __init__(self, one: int, *, other: int) -> None:
        super().__init__(f"{one} and {other}")


class Private(BaseException):
    """As trio's cancellation before trio 0.31: only trio makes one."""

    def __init__(self) -> None:
        raise TypeError


LEFT = Private.__new__(Private, "why")


@pytest.mark.parametrize("error", [KeyError("x"), OSError(2, "no such file"), asyncio.CancelledError("why"), LEFT])
def test_copies_of_foreign_errors(error: BaseException) -> None:
    copied = detached(raised(error))
    assert (type(copied), copied.args) == (type(error), error.args)
    assert is_bare(copied)
    replaced = detached(raised(Picky(1, other=2)))
    assert (type(replaced), str(replaced)) == (PyMongoError, "Picky: 1 and 2")
    assert is_bare(replaced)


@pytest.mark.parametrize("kind", [PyMongoError, OperationFailure, DuplicateKeyError, AutoReconnect])
def test_errors_of_the_application(kind: type[PyMongoError]) -> None:
    """Object mappers derive them without calling our constructor, and log what they raise."""

    class Mine(kind):  # type: ignore[misc, valid-type]  # a class from a variable
        def __init__(self, message: str) -> None:
            self.message = message

    error = Mine("taken")
    assert str(error) == "taken"
    assert error.has_error_label("any") is False
    assert error.error_labels == frozenset()
    assert (str(copy.copy(error)), copy.copy(error).message) == ("taken", "taken")


class OfTheApplication(OperationFailure):
    """An application's own error, with a constructor of its own."""

    def __init__(self, one: int, *, other: int) -> None:
        super().__init__(f"{one} and {other}")
        self.one = one


def test_copies_of_errors_without_anything() -> None:
    for made in COPIES:
        twin = made(PyMongoError())
        assert (str(twin), twin.__cause__, twin.error_labels) == ("", None, frozenset())
        twin = made(OfTheApplication(1, other=2))
        assert (type(twin), str(twin), twin.one) == (OfTheApplication, "1 and 2", 1)


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


@pytest.mark.parametrize(
    "cause", [Picky(1, other=2), type("Local", (Exception,), {})("1 and 2")], ids=["picky", "local"]
)
def test_a_cause_that_cannot_be_pickled(cause: Exception) -> None:
    error = AutoReconnect("lost")
    error.__cause__ = cause
    twin = pickle.loads(pickle.dumps(error))
    assert str(twin) == "lost"
    assert str(twin.__cause__).endswith(f"{type(cause).__qualname__}: 1 and 2")
    assert copy.copy(error).__cause__ is copy.deepcopy(error).__cause__ is cause
    # Those of other packages often can.
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
    *(5, 2.5, True, None, "x", [1], [[1]], {"a": 1}, {"code": 1}, b"x", Code("f"), Regex("a")),
    ObjectId("65a000000000000000000001"),
]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("field", ["code", "errmsg", "$err", "errInfo", "errorLabels", "codeName"])
def test_odd_error_documents(field: str, odd: Any) -> None:
    for document in ({"ok": 0, field: odd}, {"code": 10107, field: odd}, {"code": 11000, field: odd}):
        made: list[Any] = [error_from_reply(document), write_error(document), write_concern_error(document, [odd])]
        for error in made:
            assert type(error.code) in (int, NoneType)
            assert str(error)
            assert all(type(label) is str for label in error.error_labels)
            assert isinstance(error.timeout, bool)
            # A write concern error gets the labels of its reply.
            labels = {"errorLabels": [str.__str__(odd)]} if isinstance(odd, str) else {}
            assert error.details is document or error.details == document | labels


def test_a_write_concern_error_that_is_a_timeout() -> None:
    assert isinstance(write_concern_error({"errInfo": {"wtimeout": True}}), WTimeoutError)
    assert not isinstance(write_concern_error({"errInfo": [1]}), WTimeoutError)
    assert NotPrimaryError("no", {"code": [1]}).code is None


def test_the_text() -> None:
    times = {"$clusterTime": {"clusterTime": Timestamp(5, 1)}, "operationTime": Timestamp(5, 1)}
    details: dict[str, Any] = {"ok": 0, "code": 2, **times}
    error = OperationFailure("no", 2, details)
    # What every reply has is left out.
    assert str(error) == "no, full error: {'ok': 0, 'code': 2}"
    # What a list of results shows.
    assert repr(error) == """OperationFailure("no, full error: {'ok': 0, 'code': 2}")"""
    assert error.details is details
    error = OperationFailure("no")
    # As a connection string has it.
    error.address = ("::1", 27017)
    assert str(error) == "no (server [::1]:27017)"
    for _ in range(100_000):
        details = {"a": details}
    assert "nested too deeply" in str(OperationFailure("no", 2, details))


def test_documents_that_bson_refuses() -> None:
    assert errors.InvalidDocument is bson.errors.InvalidDocument
    assert not issubclass(errors.InvalidDocument, errors.PyMongoError)
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
