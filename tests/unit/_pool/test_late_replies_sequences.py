"""Late replies that a pool waits for in the background, beside a list of connections, whatever arrives and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from motorlite._pool.late_replies import LateReplies
from motorlite._pool.state import Drain
from motorlite.errors import AutoReconnect
from tests.support.machine_bugs import cases, find
from tests.support.pool_state import ADDRESS
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Mapping

    from tests.support.planting import Bug


class Stop(BaseException):
    """The cancellation of a task."""


class Owing:
    """A connection that owes a reply."""

    def __init__(self, number: int) -> None:
        self.id = self.owed = number
        self.is_closed = False
        self.outcome: Any = None
        self.task: Task | None = None

    def close(self) -> None:
        self.is_closed = True

    def __await__(self) -> Generator[None, None, Any]:
        while self.outcome is None:
            yield
        if isinstance(self.outcome, Exception):
            raise self.outcome
        outcome, self.outcome = self.outcome, None
        return None if outcome == "overdue" else outcome

    async def receive_owed(self, until: float | None = None) -> Any:
        return await self


class Task:
    """A background task. A cancellation takes effect at its next step, as in an event loop."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.coroutine = coroutine
        self.is_cancelled = self.is_over = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def step(self) -> None:
        try:
            if self.is_cancelled:
                self.coroutine.throw(Stop())
            else:
                self.coroutine.send(None)
        except (StopIteration, Stop):
            self.is_over = True


class Replies(Machine):
    """The machine is the pool's state, the host and the clock of `LateReplies` at once."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        machine: Any = self
        self.learned: list[int] = []
        self.is_worth_keeping = True
        self.late = LateReplies(ADDRESS, machine, machine, machine, self.learn, lambda: None, None)
        # Every connection so far, those whose reply is awaited, and what the state heard of the others.
        self.number = 0
        self.pending: list[Owing] = []
        self.tasks: list[Task] = []
        self.heard: dict[int, list[str]] = {}
        # The next overdue reply is given up at once, for a waiting request.
        self.gives_up_overdue = False
        self.drained_number = self.given_up_number = 0

    # --- what surrounds it ---

    def now(self) -> float:
        return self.time

    def spawn(self, function: Callable[..., Coroutine[Any, Any, None]], *args: Any, name: str = "") -> Task:
        task = Task(function(*args))
        self.tasks.append(task)
        args[0].task = task
        return task

    def learn(self, address: Any, reply: Mapping[str, Any]) -> bool:
        self.learned.append(reply["number"])
        return self.is_worth_keeping

    def overdue(self, connection: Owing, now: float) -> None:
        self.heard[connection.id].append("overdue")
        if self.gives_up_overdue:
            self.give_up_one(connection)

    def drained(self, connection: Owing, now: float) -> None:
        self.heard[connection.id].append("drained")

    def drain_failed(self, connection: Owing, now: float) -> None:
        self.heard[connection.id].append("failed")

    # --- what happens ---

    @rule()
    def abandon(self) -> None:
        """A caller leaves its reply behind."""
        self.number += 1
        connection = Owing(self.number)
        self.heard[connection.id] = []
        self.pending.append(connection)
        self.late.start(Drain(cast("Any", connection), 1.0))

    def settle(self, connection: Owing, outcome: Any) -> None:
        """The task begins to wait, if it did not yet, and then gets the outcome."""
        assert connection.task is not None
        connection.task.step()
        if not connection.task.is_over:
            connection.outcome = outcome
            connection.task.step()

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), is_worth_keeping=st.booleans())
    def arrive(self, data: st.DataObject, is_worth_keeping: bool) -> None:
        connection = data.draw(st.sampled_from(self.pending))
        self.pending.remove(connection)
        self.is_worth_keeping = is_worth_keeping
        self.settle(connection, {"number": connection.id})
        self.drained_number += 1
        assert self.heard[connection.id][-1] == "drained"
        assert self.learned[-1] == connection.id
        assert connection.is_closed is not is_worth_keeping

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def break_down(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from(self.pending))
        self.pending.remove(connection)
        self.settle(connection, AutoReconnect("gone"))
        self.given_up_number += 1
        assert self.heard[connection.id][-1] == "failed"

    @precondition(lambda self: any(not self.heard[connection.id] for connection in self.pending))
    @rule(data=st.data(), gives_up=st.booleans())
    def become_overdue(self, data: st.DataObject, gives_up: bool) -> None:
        fresh = [connection for connection in self.pending if not self.heard[connection.id]]
        connection = data.draw(st.sampled_from(fresh))
        self.gives_up_overdue = gives_up
        self.settle(connection, "overdue")
        assert self.heard[connection.id] == ["overdue"]

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), then=st.sampled_from(["stops", "reply", "error", "overdue"]))
    def give_up(self, data: st.DataObject, then: str) -> None:
        """The pool closes the connection at the moment in which its reply arrives, or its task fails."""
        connection = data.draw(st.sampled_from(self.pending))
        assert connection.task is not None
        connection.task.step()
        heard = list(self.heard[connection.id])
        self.give_up_one(connection)
        if then != "stops" and not connection.task.is_over:
            # The outcome was there before the cancellation.
            connection.task.is_cancelled = False
            outcomes: dict[str, Any] = {"reply": {"number": -1}, "error": AutoReconnect("closed"), "overdue": "overdue"}
            connection.outcome = outcomes["reply" if then == "overdue" and heard else then]
        connection.task.step()
        assert connection.task.is_over
        assert self.heard[connection.id] == heard, "the state has forgotten the connection"

    def give_up_one(self, connection: Owing) -> None:
        self.pending.remove(connection)
        self.given_up_number += 1
        self.late.give_up(cast("Any", connection))
        self.late.give_up(cast("Any", connection))  # closed twice, it counts once

    @invariant()
    def same(self) -> None:
        assert (self.late.drained, self.late.given_up) == (self.drained_number, self.given_up_number)
        assert cast("list[Owing]", list(self.late._tasks)) == self.pending
        assert -1 not in self.learned, "a reply of a connection that was given up"

    def teardown(self) -> None:
        for task in self.tasks:
            task.coroutine.close()


def test_each_late_reply_has_one_outcome() -> None:
    run(Replies)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Replies))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
