"""A failed attempt, and what its error tells when it leaves the executor."""

from __future__ import annotations

import pytest

from motorlite._base.values import Progress
from motorlite._retry.failure import Failure
from motorlite.errors import OperationFailure, PyMongoError
from tests.support.operations import server_error

A, B = ("a", 1), ("b", 1)


def test_a_failure_before_a_server_was_selected() -> None:
    failure = Failure(error=PyMongoError("no"))
    assert (failure.progress, failure.reached_server) == (Progress.NOT_SENT, False)
    assert (failure.address, failure.wire_version, failure.is_ordinary) == (None, 0, False)
    assert (failure.phase, failure.labels, failure.reply) == (None, frozenset(), None)


@pytest.mark.parametrize("progress", Progress)
def test_only_what_was_sent_may_have_reached_a_server(progress: Progress) -> None:
    failure = Failure(error=PyMongoError("no"), progress=progress)
    assert failure.reached_server is (progress is not Progress.NOT_SENT)


def test_the_error_tells_what_the_driver_knows() -> None:
    error = server_error(2, "Own")
    failure = Failure(error=error, progress=Progress.ANSWERED, address=A, phase="reply", labels=frozenset({"Added"}))
    assert failure.annotate() is error
    assert (error.address, error.phase, error.reached_server) == (A, "reply", True)
    assert error.error_labels == {"Own", "Added"}


def test_a_replacement_tells_it_instead() -> None:
    error, replacement = server_error(), OperationFailure("copy")
    replacement.address = B
    assert Failure(error=error, address=A, phase="queue").annotate(replacement) is replacement
    assert (replacement.address, replacement.phase) == (B, "queue"), "the address that it knows stays"
    assert (error.address, error.phase) == (None, None)


def test_another_phase() -> None:
    failure = Failure(error=PyMongoError("no"), phase="reply", address=A)
    assert (failure.in_phase("backoff").phase, failure.in_phase(None).phase) == ("backoff", None)
    assert failure.in_phase("backoff").address == A
