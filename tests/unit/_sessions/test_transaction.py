"""The states of a session's transaction, what its commands carry, and what it is pinned to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from motorlite._sessions.session import Concerns, ServerSession, Session, State, Transaction
from motorlite.errors import InvalidOperation
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULTS = Concerns(ReadConcern(), WriteConcern(), ReadPreference.PRIMARY)
MONGOS = ("a", 1)


class Held:
    """A connection that counts its releases."""

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


def concerns(read: str | None = None, **write: Any) -> Concerns:
    return Concerns(ReadConcern(read), WriteConcern(**write), ReadPreference.PRIMARY)


def server_session(number: int = 0) -> ServerSession:
    session = ServerSession(Binary(b"0" * 16, 4), 0.0)
    session.transaction_number = number
    return session


def in_state(state: State, *, has_begun: bool = True) -> Transaction:
    transaction = Transaction(DEFAULTS)
    transaction.state, transaction.has_begun = state, has_begun
    return transaction


def session_with(transaction: Transaction | None) -> Session:
    session = Session(is_implicit=False)
    session.transaction = transaction
    session.server_session = server_session()
    return session


# --- states ---


def test_a_session_begins_without_a_transaction() -> None:
    session = Session(is_implicit=False)
    assert session.transaction is None
    assert not session.in_transaction
    assert not session.must_abort
    assert session.deadline is None
    with pytest.raises(InvalidOperation, match="No transaction started"):
        session.started_transaction()
    assert session.forget_transaction() is None
    assert session.end() is None


@pytest.mark.parametrize(("state", "is_active"), [(each, each.name in ("STARTING", "IN_PROGRESS")) for each in State])
def test_only_some_states_are_active(state: State, is_active: bool) -> None:
    session = session_with(in_state(state))
    assert session.in_transaction is is_active
    assert session.must_abort is (state is not State.ABORTED)
    session.started_transaction().commits_sent = 1
    assert session.must_abort is is_active
    session.started_transaction().commits_rejected = 1
    assert session.must_abort is (state is not State.ABORTED)
    session.started_transaction().has_begun = False
    assert not session.must_abort


@pytest.mark.parametrize("state", [State.STARTING, State.IN_PROGRESS])
def test_start_in_a_transaction(state: State) -> None:
    session = session_with(in_state(state))
    with pytest.raises(InvalidOperation, match="Transaction already in progress"):
        session.start_transaction(DEFAULTS)
    assert session.started_transaction().state is state


@pytest.mark.parametrize("state", [None, State.COMMITTED, State.ABORTED])
def test_start_after_another(state: State | None) -> None:
    session = session_with(None if state is None else in_state(state))
    before, held = session.transaction, Held()
    if before is not None:
        before.connection, before.recovery_token = held, {"a": 1}
    assert session.start_transaction(DEFAULTS) is (None if before is None else held)
    transaction = session.started_transaction()
    assert transaction is not before
    assert (transaction.state, transaction.has_begun, transaction.number) == (State.STARTING, False, None)
    assert (transaction.address, transaction.connection, transaction.recovery_token) == (None, None, None)
    assert not transaction.needs_majority


def test_no_transaction_in_a_snapshot_session() -> None:
    session = Session(is_implicit=False, is_snapshot=True)
    with pytest.raises(InvalidOperation, match="not supported in snapshot sessions"):
        session.start_transaction(DEFAULTS)


@pytest.mark.parametrize(
    ("end", "state", "message"),
    [
        (Transaction.commit, State.ABORTED, "Cannot call commitTransaction after calling abortTransaction"),
        (Transaction.abort, State.COMMITTED, "Cannot call abortTransaction after calling commitTransaction"),
        (Transaction.abort, State.ABORTED, "Cannot call abortTransaction twice"),
    ],
)
def test_wrong_ends(end: Callable[[Transaction], bool], state: State, message: str) -> None:
    transaction = in_state(state)
    with pytest.raises(InvalidOperation, match=message):
        end(transaction)
    assert transaction.state is state


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize(
    ("end", "state", "after"),
    [
        (Transaction.commit, State.STARTING, State.COMMITTED),
        (Transaction.commit, State.IN_PROGRESS, State.COMMITTED),
        (Transaction.commit, State.COMMITTED, State.COMMITTED),
        (Transaction.abort, State.STARTING, State.ABORTED),
        (Transaction.abort, State.IN_PROGRESS, State.ABORTED),
    ],
)
def test_ends(end: Callable[[Transaction], bool], state: State, after: State, has_begun: bool) -> None:
    transaction = in_state(state, has_begun=has_begun)
    transaction.is_busy = True
    with pytest.raises(InvalidOperation, match="must run one after another"):
        end(transaction)
    assert transaction.state is state
    session = session_with(transaction)
    assert not session.must_abort
    with pytest.raises(InvalidOperation, match="must run one after another"):
        session.forget_transaction()
    assert session.transaction is transaction
    transaction.is_busy = False
    assert end(transaction) is has_begun
    assert transaction.state is after


# --- fields ---


def test_numbers() -> None:
    session, of_server = Session(is_implicit=False), server_session(4)
    session.start_transaction(DEFAULTS)
    first = session.started_transaction()
    session.number(first, of_server)
    session.number(first, of_server)
    assert (first.number, of_server.transaction_number) == (5, 5)
    document: dict[str, Any] = {}
    first.join(document)
    assert document == {"txnNumber": 5, "autocommit": False}
    # The server accepts nothing shorter.
    assert type(document["txnNumber"]) is Int64


def test_an_empty_transaction_takes_a_number_too() -> None:
    session, of_server = Session(is_implicit=False), server_session()
    for _ in range(3):
        session.start_transaction(DEFAULTS)
        session.started_transaction().commit()
    session.start_transaction(DEFAULTS)
    last = session.started_transaction()
    session.number(last, of_server)
    assert (last.number, of_server.transaction_number, session.unnumbered) == (4, 4, 0)


@pytest.mark.parametrize(
    ("concern", "expected"),
    [(concerns(), None), (concerns("snapshot"), {"level": "snapshot"}), (concerns("local"), {"level": "local"})],
)
def test_the_first_command(concern: Concerns, expected: dict[str, Any] | None) -> None:
    document: dict[str, Any] = {}
    Transaction(concern).start(document)
    assert document.pop("startTransaction") is True
    assert document.get("readConcern") == expected
    if expected is not None:
        assert document["readConcern"] is not concern.read_concern.document


@pytest.mark.parametrize(
    ("concern", "state", "is_repeated", "expected"),
    [
        (concerns(), State.COMMITTED, False, None),
        (concerns(w=2), State.COMMITTED, False, {"w": 2}),
        (concerns(), State.COMMITTED, True, {"w": "majority", "wtimeout": 10_000}),
        (concerns(w=1, j=True), State.COMMITTED, True, {"w": "majority", "j": True, "wtimeout": 10_000}),
        (concerns(w=1, wtimeout=5), State.COMMITTED, True, {"w": "majority", "wtimeout": 5}),
        (concerns(), State.ABORTED, True, None),
        (concerns(w=2), State.ABORTED, True, {"w": 2}),
    ],
)
def test_the_last_command(concern: Concerns, state: State, is_repeated: bool, expected: dict[str, Any] | None) -> None:
    transaction = Transaction(concern)
    transaction.state, transaction.needs_majority = state, is_repeated
    document: dict[str, Any] = {}
    transaction.end(document)
    assert document == ({} if expected is None else {"writeConcern": expected})
    transaction.recovery_token = {"recoveryShardId": "a"}
    transaction.end(document)
    assert document["recoveryToken"] == {"recoveryShardId": "a"}


# --- pins, and the end of the session ---


def test_unpin() -> None:
    transaction, held = in_state(State.IN_PROGRESS), Held()
    transaction.address, transaction.connection = MONGOS, held
    assert transaction.unpin() is held
    pins: list[Any] = [transaction.address, transaction.connection]
    assert pins == [None, None]
    assert transaction.unpin() is None
    assert held.released == 0, "the caller releases it"


@pytest.mark.parametrize("has_server_session", [False, True])
@pytest.mark.parametrize("is_busy", [False, True])
def test_the_end_of_the_session(is_busy: bool, has_server_session: bool) -> None:
    """A running operation uses both the connection and the server session."""
    transaction, held = in_state(State.IN_PROGRESS if is_busy else State.COMMITTED), Held()
    transaction.connection, transaction.is_busy = held, is_busy
    session = session_with(transaction)
    if not has_server_session:
        session.server_session = None
    assert session.end() is (None if is_busy else held)
    assert session.transaction is None
    assert transaction.connection is (held if is_busy else None)
    assert session.server_session is None or session.server_session.is_dirty is is_busy


def test_moving_the_transaction_to_another_session() -> None:
    transaction = in_state(State.IN_PROGRESS)
    session = session_with(transaction)
    transaction.commit()
    other = session.without_transaction()
    assert other.transaction is transaction
    assert other.server_session is session.server_session
    assert other.server_session is not None
    assert other.server_session.is_dirty, "the abort and the next operation would use it at the same time"
    with pytest.raises(InvalidOperation, match="twice"):
        session.started_transaction().abort()
    session.start_transaction(DEFAULTS)
