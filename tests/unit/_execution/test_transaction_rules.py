"""Where operations of a transaction read, and the labels of their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite._base.values import Progress
from motorlite._execution.transactions import added_labels, in_transaction
from motorlite._operations.commands import RunCommand
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import ExhaustFind, Find
from motorlite._operations.reads import AggregateWrite
from motorlite._operations.sessions import AbortTransaction, CommitTransaction
from motorlite._operations.single_writes import Insert
from motorlite._topology.selection import WRITABLE
from motorlite.errors import (
    AutoReconnect,
    InvalidOperation,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    PoolFullError,
    PyMongoError,
    RateLimitError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
)
from motorlite.read_preferences import Nearest, PrimaryPreferred, ReadPreference, Secondary
from tests.support.servers import V8_0

if TYPE_CHECKING:
    from motorlite._operations.contract import Operation
    from motorlite.read_preferences import ServerMode

PRIMARY = ReadPreference.PRIMARY
A = ("a", 1)
TRANSIENT, UNKNOWN = {"TransientTransactionError"}, {"UnknownTransactionCommitResult"}


def find(preference: ServerMode = PRIMARY) -> Find:
    return Find("db", "coll", selector=preference, read_preference=preference)


def command(preference: ServerMode, *, is_own: bool = False) -> RunCommand:
    made = RunCommand("db", {"ping": 1}, selector=preference, read_preference=preference)
    made.has_own_preference = is_own
    return made


def test_the_transaction_decides_where_to_read() -> None:
    operation = find(Secondary())
    twin = in_transaction(operation, PRIMARY)
    assert (twin.selector, twin.read_preference) == (PRIMARY, None)
    assert type(twin) is Find
    assert operation.selector == operation.read_preference == Secondary()


def test_a_pipeline_that_writes_sends_no_preference_either() -> None:
    # Outside of transactions, its command says to which servers the preference is sent.
    operation = AggregateWrite("db", "coll", [{"$out": "x"}], selector=Secondary(), read_preference=Secondary())
    twin = in_transaction(operation, PRIMARY)
    twin.command(V8_0)
    assert (twin.selector, twin.read_preference) == (PRIMARY, None)


@pytest.mark.parametrize("preference", [Secondary(), PrimaryPreferred(), Nearest()])
@pytest.mark.parametrize(
    "operation", [find(), command(PRIMARY), GetMore("db", "c", 7, address=A, read_preference=PRIMARY)]
)
def test_it_must_be_the_primary(preference: ServerMode, operation: Operation[Any]) -> None:
    with pytest.raises(InvalidOperation, match="read preference in a transaction must be primary, not"):
        in_transaction(operation, preference)


def test_a_preference_of_the_call_itself_stays() -> None:
    assert in_transaction(command(PRIMARY, is_own=True), Secondary()).selector == PRIMARY
    with pytest.raises(InvalidOperation, match="must be primary"):
        in_transaction(command(Secondary(), is_own=True), PRIMARY)


def test_a_cursor_stays_with_its_server() -> None:
    operation = GetMore("db", "coll", 7, address=A, read_preference=Secondary())
    assert in_transaction(operation, PRIMARY).selector == A


def test_no_exhaust_cursors() -> None:
    with pytest.raises(InvalidOperation, match="exhaust cursor"):
        in_transaction(ExhaustFind("db", "coll"), PRIMARY)


def test_writes_have_no_preference() -> None:
    operation = Insert("db", "coll", {})
    assert in_transaction(operation, Secondary()) is operation
    assert operation.selector is WRITABLE


def failed(code: int, *labels: str) -> OperationFailure:
    return OperationFailure("no", code, {"ok": 0, "code": code, "errorLabels": list(labels)})


@pytest.mark.parametrize(
    ("error", "is_transient", "is_unknown"),
    [
        (AutoReconnect("closed"), True, True),
        (NetworkTimeout("late"), True, True),
        (PoolClearedError("cleared"), True, True),
        (ServerSelectionTimeoutError("none"), True, True),
        (WaitQueueTimeoutError("late"), True, True),
        # No commit is refused; if one were, its result would be as unknown as before it.
        (PoolFullError("too many"), True, True),
        (RateLimitError("too many"), True, True),
        (NotPrimaryError("no", {"code": 10107}), False, True),
        (failed(11600), False, True),
        (failed(91), False, True),
        (failed(50), False, True),
        (failed(462, "RetryableWriteError"), False, True),
        (failed(462, "SystemOverloadedError", "RetryableError"), False, False),
        (failed(251, "TransientTransactionError"), False, False),
        (failed(11000), False, False),
        (InvalidOperation("closed"), False, False),
    ],
)
def test_labels(error: PyMongoError, is_transient: bool, is_unknown: bool) -> None:
    for operation in (find(), Insert("db", "coll", {}), AbortTransaction()):
        assert added_labels(operation, error, Progress.ANSWERED) == (TRANSIENT if is_transient else set())
    assert added_labels(CommitTransaction(), error, Progress.ANSWERED) == (UNKNOWN if is_unknown else set())


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (NotPrimaryError("no", {"code": 91}), True),
        (failed(6), True),
        (failed(18), False),
        (failed(462, "SystemOverloadedError", "RetryableError"), False),
    ],
)
def test_labels_of_what_a_server_answers_before_it_gets_the_command(error: PyMongoError, *, is_transient: bool) -> None:
    assert added_labels(find(), error, Progress.NOT_SENT) == (TRANSIENT if is_transient else set())
