"""Copies of errors that are kept: they say the same, and lead to no frame."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from motorlite import errors
from motorlite.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    DuplicateKeyError,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    detached,
)

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PyMongoError) and not issubclass(kind, errors._BulkFailure)
]
REPLY = {"ok": 0, "code": 91, "errmsg": "going down", "errorLabels": ["One"]}


def raised(error: BaseException) -> BaseException:
    """`error` as it is after it was raised, with everything that Python hangs on it."""
    try:
        try:
            raise KeyError("context")
        except KeyError as cause:
            raise error from cause
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    "error",
    [
        *(kind("text") for kind in KINDS),
        OperationFailure("text", 91, REPLY, 17),
        NotPrimaryError("text", REPLY),
        BulkWriteError({"writeErrors": [{"index": 0, "code": 50}], "writeConcernErrors": [{"errorLabels": ["Two"]}]}),
        ClientBulkWriteException({"error": OperationFailure("text"), "writeErrors": []}, True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_driver_s_own(error: Any) -> None:
    error.address, error.attempts, error.phase = ("a", 1), 3, "reply"
    original = raised(error)
    assert isinstance(original, PyMongoError)
    copied = detached(original)
    assert copied is not original
    assert type(copied) is type(original)
    assert (str(copied), copied.args, copied.error_labels) == (str(original), original.args, original.error_labels)
    assert vars(copied) == vars(original)
    assert (copied.__traceback__, copied.__cause__, copied.__context__) == (None, None, None)
    copied._add_error_label("Three")
    assert not original.has_error_label("Three")


class Odd(Exception):
    """Its constructor wants something else than its arguments."""

    def __init__(self, *, number: int) -> None:
        super().__init__(f"number {number}")


@pytest.mark.parametrize("error", [KeyError("x"), OSError(2, "no such file"), asyncio.CancelledError("why")])
def test_foreign_ones(error: BaseException) -> None:
    copied = detached(raised(error))
    assert (type(copied), copied.args) == (type(error), error.args)
    assert (copied.__traceback__, copied.__cause__, copied.__context__) == (None, None, None)


def test_one_that_cannot_be_copied() -> None:
    copied = detached(raised(Odd(number=5)))
    assert (type(copied), str(copied)) == (PyMongoError, "Odd: number 5")
    assert copied.__traceback__ is None


@pytest.mark.parametrize("kind", [PyMongoError, OperationFailure, DuplicateKeyError, AutoReconnect])
def test_a_program_may_derive_an_error_without_our_constructor(kind: type[PyMongoError]) -> None:
    """Object mappers do so, and log what they raise."""

    class Mine(kind):  # type: ignore[misc, valid-type]  # a class from a variable
        def __init__(self, message: str) -> None:
            self.message = message

    error = Mine("taken")
    assert str(error) == "taken"
    assert error.has_error_label("any") is False
    assert error.error_labels == frozenset()
    assert (str(copy.copy(error)), copy.copy(error).message) == ("taken", "taken")
