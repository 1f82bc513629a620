"""What an error permits, for every kind of operation, and which of several errors is raised."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._base.error_documents import RETRYABLE_READ_CODES, RETRYABLE_WRITE_CODES
from motorlite._retry import classification
from motorlite.errors import (
    AutoReconnect,
    CertificateError,
    ConfigurationError,
    NameResolutionError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    ProtocolError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.retry import OverloadRetry, RetryRule
from tests.support.operations import failed, network_error, other, read, server_error, unsent, write
from tests.support.specification_codes import READ_CODES, WRITE_CODES

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation

DEFAULT = OverloadRetry()
LATER = OverloadRetry.revision_2026_07()
LABEL, ORDINARY = RetryRule.OVERLOAD_POLICY, RetryRule.SPECIFICATION

KINDS = {"read": read, "write": write, "other": other}
POLICIES = {"default": DEFAULT, "later": LATER}
OVERLOADED, RETRYABLE, RETRYABLE_WRITE = "SystemOverloadedError", "RetryableError", "RetryableWriteError"

# Which rules the labels leave, the preferred one first. "ordinary": what the ordinary specifications say.
BY_LABELS: dict[tuple[str, frozenset[str]], tuple[RetryRule | str, ...]] = {
    ("default", frozenset()): ("ordinary",),
    ("default", frozenset({OVERLOADED})): (),
    ("default", frozenset({RETRYABLE})): (LABEL, "ordinary"),
    # An overload error is retried for a token and after a backoff or not at all.
    ("default", frozenset({OVERLOADED, RETRYABLE})): (LABEL,),
    ("later", frozenset()): ("ordinary",),
    ("later", frozenset({OVERLOADED})): ("ordinary",),
    ("later", frozenset({RETRYABLE})): ("ordinary",),
    ("later", frozenset({OVERLOADED, RETRYABLE})): (LABEL,),
}


def test_the_codes_are_those_of_the_specifications() -> None:
    assert WRITE_CODES.keys() == RETRYABLE_WRITE_CODES
    assert READ_CODES.keys() == RETRYABLE_READ_CODES


def ordinary_rules(kind: str, *, code: int, is_labelled: bool, applies: bool) -> tuple[RetryRule, ...]:
    if applies and kind == "read" and code in RETRYABLE_READ_CODES:
        return (ORDINARY,)
    if applies and kind == "write" and is_labelled:
        return (ORDINARY,)
    return ()


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_combination(policy: str, kind: str) -> None:
    cases = product((False, True), (False, True), (False, True), (2, 6, 462), (False, True))
    for is_overloaded, is_retryable, is_labelled, code, applies in cases:
        labels = {OVERLOADED} if is_overloaded else set()
        labels |= {RETRYABLE} if is_retryable else set()
        ordinary = ordinary_rules(kind, code=code, is_labelled=is_labelled, applies=applies)
        expected: list[RetryRule | str] = []
        for rule in BY_LABELS[policy, frozenset(labels)]:
            expected += ordinary if rule == "ordinary" else [rule]
        error = server_error(code, *labels, *([RETRYABLE_WRITE] if is_labelled else []))
        rules = classification.rules(failed(error, is_ordinary=applies), KINDS[kind](), POLICIES[policy])
        assert rules == tuple(expected), (labels, is_labelled, code, applies)


@pytest.mark.parametrize("kind", KINDS)
def test_network_errors_obey_the_labels_first(kind: str) -> None:
    operation = KINDS[kind]()
    assert classification.rules(failed(network_error(OVERLOADED, RETRYABLE)), operation, DEFAULT) == (LABEL,)
    assert classification.rules(failed(network_error(OVERLOADED)), operation, DEFAULT) == ()
    assert classification.rules(failed(network_error(RETRYABLE), is_ordinary=False), operation, DEFAULT) == (LABEL,)


ERRORS: list[tuple[PyMongoError, bool]] = [
    (AutoReconnect("x"), True),
    (NetworkTimeout("x"), True),
    (PoolClearedError("x"), True),
    (NameResolutionError("x"), True),
    (CertificateError("x"), True),
    (NotPrimaryError("x", {"code": 10107}), False),
    (ServerSelectionTimeoutError("x"), False),
    (WaitQueueTimeoutError("x"), False),
    (ProtocolError("x"), False),
    (ConfigurationError("x"), False),
    (OperationFailure("x", 6), False),
    (PyMongoError("x"), False),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=[type(row[0]).__name__ for row in ERRORS])
def test_network_errors(error: PyMongoError, expected: bool) -> None:
    assert classification.is_retryable_network_error(error) is expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (server_error(2), False),
        (server_error(26), False),
        (server_error(462), False),
        (PyMongoError("x"), False),
        (ProtocolError("x"), False),
        (ConfigurationError("x"), False),
        (ServerSelectionTimeoutError("x"), False),
        (server_error(6), True),
        (server_error(2, OVERLOADED), True),
        (server_error(2, RETRYABLE), True),
        (server_error(2, RETRYABLE_WRITE), True),
        (server_error(2, "NoWritesPerformed"), False),
        (AutoReconnect("x"), True),
        (PoolClearedError("x"), True),
    ],
)
def test_which_errors_rules_about_retries_are_about(error: PyMongoError, expected: bool) -> None:
    assert classification.is_candidate(failed(error)) is expected


def test_retryable_read_errors() -> None:
    for code in range(20_000):
        assert classification.is_retryable_read_error(server_error(code)) is (code in RETRYABLE_READ_CODES)
    for error, expected in ERRORS:
        has_code = isinstance(error, NotPrimaryError) or (isinstance(error, OperationFailure) and error.code == 6)
        assert classification.is_retryable_read_error(error) is (expected or has_code)
    assert classification.is_retryable_read_error(NotPrimaryError("x", {"code": 13436}))
    # By the code alone, as the specification says.
    assert not classification.is_retryable_read_error(NotPrimaryError("not master", {}))


@pytest.mark.parametrize(
    ("operation", "with_number", "without"),
    [(read(), True, True), (write(), True, False), (other(), False, False)],
    ids=["read", "write", "other"],
)
def test_which_operations_the_ordinary_specifications_are_about(
    operation: Operation[Any], with_number: bool, without: bool
) -> None:
    assert classification.is_ordinary(operation, is_numbered=True) is with_number
    assert classification.is_ordinary(operation, is_numbered=False) is without


@pytest.mark.parametrize("wire_version", [0, 8, 9, 17])
def test_the_driver_labels_write_errors_of_old_servers_and_networks(wire_version: int) -> None:
    for code in [*RETRYABLE_WRITE_CODES, 2, 134, 462]:
        failure = failed(server_error(code), wire_version=wire_version)
        expected = code in RETRYABLE_WRITE_CODES and wire_version < 9
        assert classification.with_write_label(failure).has_label(RETRYABLE_WRITE) is expected, code
    for network, expected in ERRORS:
        error_class = type(network)
        if error_class is NotPrimaryError:
            continue  # below
        failure = classification.with_write_label(failed(network, wire_version=wire_version))
        assert failure.has_label(RETRYABLE_WRITE) is expected, error_class


@pytest.mark.parametrize("reached", [False, True])
def test_a_state_change_is_labelled_by_its_code(reached: bool) -> None:
    error = NotPrimaryError("x", {"code": 91})
    error.reached_server = reached
    assert classification.with_write_label(failed(error, wire_version=8)).has_label(RETRYABLE_WRITE) is reached
    labelled = failed(NotPrimaryError("x", {"code": 91, "errorLabels": [RETRYABLE_WRITE]}), wire_version=17)
    assert classification.with_write_label(labelled).has_label(RETRYABLE_WRITE)


def test_an_error_of_the_driver_itself_is_not_labelled() -> None:
    error = OperationFailure("no time left", 6)  # no reply: nothing was sent
    assert not classification.with_write_label(failed(error, wire_version=8)).labels


def concern(code: int | None, *labels: str) -> dict[str, Any]:
    reply: dict[str, Any] = {"ok": 1, "writeConcernError": {"errmsg": "x"}}
    if code is not None:
        reply["writeConcernError"]["code"] = code
    if labels:
        reply["errorLabels"] = list(labels)
    return reply


@pytest.mark.parametrize(
    ("reply", "wire_version", "is_mongos", "expected"),
    [
        (concern(91, RETRYABLE_WRITE), 9, False, True),
        (concern(91, RETRYABLE), 9, False, True),
        (concern(64, RETRYABLE_WRITE), 17, False, True),
        (concern(91, RETRYABLE_WRITE), 17, True, True),
        (concern(91), 9, False, False),
        (concern(91, OVERLOADED), 9, False, False),
        (concern(91), 8, False, True),
        (concern(64), 8, False, False),
        (concern(None), 8, False, False),
        ({"ok": 1, "writeConcernError": {"code": [91]}}, 8, False, False),
        (concern(91), 8, True, False),
        # Labels have no meaning before 4.4.
        (concern(64, RETRYABLE_WRITE), 8, False, False),
    ],
)
def test_write_concern_errors(reply: dict[str, Any], wire_version: int, is_mongos: bool, expected: bool) -> None:
    assert classification.is_retryable_concern_error(reply, wire_version, is_mongos=is_mongos) is expected


NOTHING = "NoWritesPerformed"


@pytest.mark.parametrize(
    ("errors", "read_raises", "write_raises"),
    [
        # Which of the errors, oldest first, is raised by a read, and by a write or a command.
        ([server_error()], 0, 0),
        ([unsent()], 0, 0),
        ([server_error(2, NOTHING)], 0, 0),
        ([server_error(), server_error()], 1, 1),
        ([server_error(), network_error()], 1, 1),
        ([server_error(), unsent()], 0, 0),
        ([unsent(), server_error()], 1, 1),
        ([unsent(), unsent()], 0, 0),
        ([server_error(), server_error(2, NOTHING)], 1, 0),
        ([server_error(2, NOTHING), server_error()], 1, 1),
        ([server_error(2, NOTHING), server_error(2, NOTHING)], 1, 0),
        ([server_error(), server_error(), server_error(2, NOTHING), unsent()], 2, 1),
        ([server_error(2, NOTHING), unsent()], 0, 0),
        ([unsent(), server_error(2, NOTHING), unsent()], 1, 0),
        ([network_error(), server_error(2, NOTHING), server_error(2, NOTHING)], 2, 0),
    ],
)
def test_which_error_is_raised(errors: list[PyMongoError], read_raises: int, write_raises: int) -> None:
    failures = [failed(error) for error in errors]
    assert classification.to_raise(failures, read()) is failures[read_raises]
    assert classification.to_raise(failures, write()) is failures[write_raises]
    assert classification.to_raise(failures, other()) is failures[write_raises]
