"""Sessions, their transactions and the pool of server sessions beside models, in any sequence of calls."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from bson.binary import Binary
from bson.timestamp import Timestamp
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from motorlite._sessions.session import Concerns, ServerSession, Session, SessionPool, State
from motorlite.errors import InvalidOperation
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import Primary
from motorlite.write_concern import WriteConcern
from tests.support.machine_bugs import cases, find
from tests.support.pool_state import FakeWaiter
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from motorlite._net.runtime import Waiter
    from tests.support.planting import Bug

CONCERNS: Final = Concerns(ReadConcern(), WriteConcern(), Primary())
# "Transaction States": what each call does in each state: the next state, or the message of its error.
CALLS: Final[dict[str, dict[str, str]]] = {
    "start": {
        "none": "starting",
        "starting": "!already in progress",
        "in progress": "!already in progress",
        "committed": "starting",
        "aborted": "starting",
    },
    "operate": {
        "none": "none",
        "starting": "in progress",
        "in progress": "in progress",
        "committed": "none",
        "aborted": "none",
    },
    "commit": {
        "none": "!No transaction started",
        "starting": "committed",
        "in progress": "committed",
        "committed": "committed",
        "aborted": "!Cannot call commitTransaction after calling abortTransaction",
    },
    "abort": {
        "none": "!No transaction started",
        "starting": "aborted",
        "in progress": "aborted",
        "committed": "!Cannot call abortTransaction after calling commitTransaction",
        "aborted": "!Cannot call abortTransaction twice",
    },
}


class Held:
    """A connection that a transaction keeps."""

    def __init__(self) -> None:
        self.releases = 0

    def release(self) -> None:
        self.releases += 1


class Known:
    """What the model knows of a session."""

    def __init__(self) -> None:
        self.session = Session(is_implicit=False)
        self.state = "none"
        self.has_begun = False
        self.commits_sent = 0
        self.is_busy = False
        self.server: ServerSession | None = None
        # Transactions started since the last one with a number.
        self.started = 0
        self.number: int | None = None
        self.held: Held | None = None
        self.operation_time = self.cluster_time = 0

    @property
    def is_active(self) -> bool:
        return self.state in ("starting", "in progress")

    @property
    def must_abort(self) -> bool:
        is_open = self.is_active or (self.state == "committed" and not self.commits_sent)
        return is_open and self.has_begun and not self.is_busy


class Sessions(Machine):
    """A client with a few sessions."""

    @initialize(timeout=st.sampled_from([30, 30, None]))
    def make(self, timeout: int | None) -> None:
        self.timeout = timeout
        self.now = 0.0
        self.ids = count()
        self.pool = SessionPool(lambda: Binary(bytes([next(self.ids) % 256]) * 16, 4))
        self.sessions: list[Known] = []
        # Free server sessions, the last one first to be used; when each was used last; those in doubt.
        self.free: list[ServerSession] = []
        self.used: dict[ServerSession, float] = {}
        self.dirty: set[ServerSession] = set()
        # The newest number of each server session.
        self.numbers: dict[ServerSession, int] = {}
        # Held connections that must have been released.
        self.released: list[Held] = []

    def is_alive(self, server: ServerSession) -> bool:
        """Whether the server keeps the session for another minute."""
        return self.timeout is None or self.now - self.used[server] < (self.timeout - 1) * 60

    def any_session(self, data: st.DataObject) -> Known:
        return data.draw(st.sampled_from(self.sessions))

    # --- what sessions do ---

    @precondition(lambda self: len(self.sessions) < 4)
    @rule()
    def begin(self) -> None:
        self.sessions.append(Known())

    def acquire(self, known: Known) -> ServerSession:
        """Take a server session for the first command, as the executor does."""
        if known.server is None:
            found = self.pool.acquire(self.now, self.timeout)
            while self.free and not self.is_alive(self.free[-1]):
                self.free.pop()
            if self.free:
                assert found is self.free.pop()
            else:
                assert found not in self.used, "a session that another one uses, or that is in doubt"
                self.numbers[found] = 0
            known.server = known.session.server_session = found
        self.used[known.server] = known.server.last_use = self.now
        return known.server

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), call=st.sampled_from(["start", "commit", "abort"]), is_sent=st.booleans())
    def call(self, data: st.DataObject, call: str, is_sent: bool) -> None:
        known = self.any_session(data)
        session, outcome = known.session, CALLS[call][known.state]
        if outcome[0] == "!":
            with pytest.raises(InvalidOperation, match=outcome[1:]):
                self.perform(session, call)
        elif known.is_busy:
            with pytest.raises(InvalidOperation, match="still running"):
                self.perform(session, call)
        elif call == "start":
            held = cast("Held | None", session.start_transaction(CONCERNS))
            assert held is known.held
            self.let_go(known)
            known.state, known.number, known.has_begun, known.commits_sent = outcome, None, False, 0
            known.started += 1
        else:
            assert self.perform(session, call) is known.has_begun
            known.state = outcome
            if known.has_begun and is_sent:
                assert session.transaction is not None
                session.transaction.commits_sent = known.commits_sent = 1

    @staticmethod
    def perform(session: Session, call: str) -> Any:
        if call == "start":
            return session.start_transaction(CONCERNS)
        transaction = session.started_transaction()
        return transaction.commit() if call == "commit" else transaction.abort()

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), pins=st.booleans())
    def operate(self, data: st.DataObject, pins: bool) -> None:
        """An operation begins; in a transaction it ends with `finish`."""
        known = self.any_session(data)
        session, transaction = known.session, known.session.transaction
        if known.is_busy:
            assert transaction is not None
            with pytest.raises(InvalidOperation, match="still running"):
                transaction.check_idle()
            return
        server = self.acquire(known)
        if transaction is None or not transaction.is_active:
            assert session.forget_transaction() is known.held
            self.let_go(known)
            known.state = CALLS["operate"][known.state]
            server.transaction_number += 1  # a retryable write
            self.numbers[server] += 1
            return
        session.number(transaction, server)
        if known.number is None:
            self.numbers[server] += known.started
            known.number, known.started = self.numbers[server], 0
        transaction.state, transaction.has_begun, transaction.is_busy = State.IN_PROGRESS, True, True
        known.state, known.has_begun, known.is_busy = "in progress", True, True
        if pins and known.held is None:
            transaction.connection = known.held = Held()

    @precondition(lambda self: any(known.is_busy for known in self.sessions))
    @rule(data=st.data(), is_lost=st.sampled_from([False, False, True]))
    def finish(self, data: st.DataObject, is_lost: bool) -> None:
        known = data.draw(st.sampled_from([known for known in self.sessions if known.is_busy]))
        assert known.server is not None
        assert known.session.transaction is not None
        known.session.transaction.is_busy = known.is_busy = False
        if is_lost:
            known.server.is_dirty = True
            self.dirty.add(known.server)

    @precondition(lambda self: any(known.must_abort and known.is_active for known in self.sessions))
    @rule(data=st.data())
    def abandon(self, data: st.DataObject) -> None:
        """The program has lost its transaction, which is aborted in the background."""
        known = data.draw(st.sampled_from([each for each in self.sessions if each.must_abort and each.is_active]))
        assert known.server is not None
        moved = known.session.without_transaction()
        assert moved.server_session is known.server
        assert moved.transaction is not None
        assert (moved.transaction.number, moved.transaction.has_begun) == (known.number, True)
        assert moved.transaction.unpin() is known.held
        self.let_go(known)
        self.dirty.add(known.server)
        known.state, known.has_begun, known.number = "aborted", False, None

    def let_go(self, known: Known) -> None:
        """The caller of a method gets the held connection and releases it."""
        if known.held is not None:
            known.held.release()
            self.released.append(known.held)
            known.held = None

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        known = self.any_session(data)
        self.sessions.remove(known)
        held, server = known.session.end(), known.server
        assert held is (None if known.is_busy else known.held)
        if server is None:
            return
        if known.is_busy:
            self.dirty.add(server)  # an operation still uses it
        self.pool.release(server, self.now, self.timeout)
        self.free = [each for index, each in enumerate(self.free) if any(map(self.is_alive, self.free[: index + 1]))]
        if self.is_alive(server) and server not in self.dirty:
            self.free.append(server)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), operation=st.integers(0, 4), cluster=st.integers(0, 4))
    def reply(self, data: st.DataObject, operation: int, cluster: int) -> None:
        """Times go up only; 0: the reply has none."""
        known, reply = self.any_session(data), dict[str, Any]()
        if operation:
            reply["operationTime"] = Timestamp(operation, 1)
        if cluster:
            reply["$clusterTime"] = {"clusterTime": Timestamp(cluster, 1), "signature": {"hash": b"h" * 20, "keyId": 1}}
        known.session.advance(reply)
        known.operation_time = max(known.operation_time, operation)
        known.cluster_time = max(known.cluster_time, cluster)

    @rule(minutes=st.sampled_from([1, 10, 28, 29]))
    def wait(self, minutes: int) -> None:
        self.now += minutes * 60.0

    @rule(closes=st.sampled_from([False] * 9 + [True]))
    def drain(self, closes: bool) -> None:
        if closes:
            assert self.pool.drain() == [server.lsid for server in self.free]
            self.free = []

    # --- what holds afterwards ---

    @invariant()
    def same(self) -> None:
        assert len(self.pool) == len(self.free)
        held = [known.server for known in self.sessions if known.server is not None]
        assert len(set(held)) == len(held), "one session is used by two"
        assert not set(held) & set(self.free)
        for server, number in self.numbers.items():
            assert server.transaction_number == number
        for known in self.sessions:
            self.check(known)
        assert all(each.releases == 1 for each in self.released)

    @staticmethod
    def check(known: Known) -> None:
        session, transaction = known.session, known.session.transaction
        assert ("none" if transaction is None else transaction.state.value) == known.state
        assert session.in_transaction is known.is_active
        assert session.must_abort is known.must_abort
        assert session.is_idle is (known.state == "in progress" and not known.is_busy)
        assert transaction is None or known.state == "aborted" or transaction.number == known.number
        times = session.operation_time, session.cluster_time and session.cluster_time["clusterTime"]
        assert [time.time if time else 0 for time in times] == [known.operation_time, known.cluster_time]


class Turns(Machine):
    """Writes of one session take turns: a list of waiting ones."""

    def __init__(self) -> None:
        super().__init__()
        self.session = Session(is_implicit=False)
        self.is_taken = False
        self.waiting: list[FakeWaiter] = []

    @rule()
    def ask(self) -> None:
        has_turn = self.session.begin_turn()
        assert has_turn is not self.is_taken
        self.is_taken = True
        if not has_turn:
            waiter = FakeWaiter()
            self.session.join_queue(cast("Waiter", waiter))
            self.waiting.append(waiter)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), is_known=st.booleans())
    def cancel(self, data: st.DataObject, is_known: bool) -> None:
        """A caller gives up. Its turn may come before the session knows."""
        waiter = data.draw(st.sampled_from(self.waiting))
        waiter.waits = False
        if is_known:
            self.session.leave_queue(cast("Waiter", waiter))
            self.waiting.remove(waiter)

    @precondition(lambda self: self.is_taken)
    @rule()
    def end(self) -> None:
        following = next((each for each in self.waiting if each.waits), None)
        self.session.end_turn()
        self.is_taken = following is not None
        if following is None:
            self.waiting.clear()
        else:
            assert following.answer is True
            del self.waiting[: self.waiting.index(following) + 1]

    @invariant()
    def same(self) -> None:
        assert (self.session.waiting is not None) is self.is_taken
        assert list(self.session.waiting or ()) == self.waiting
        assert all(each.answer is None for each in self.waiting)


def test_sessions_and_transactions_are_those_of_the_specifications() -> None:
    run(Sessions)


def test_writes_of_a_session_take_turns() -> None:
    run(Turns)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Sessions, Turns))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
