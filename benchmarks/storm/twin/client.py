"""Pure: one simulated client: the path of an operation, as `motorlite._execution.executor` takes it.

Retries are decided by the driver's own `Retry`, which an operation that succeeds at once does not create. Server
selection, pools, budgets, breakers and limits are the driver's own as well.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, cast

from benchmarks.storm.twin import errors
from benchmarks.storm.twin.call import DONE, State
from benchmarks.storm.twin.connection import Connection, Waiter
from benchmarks.storm.twin.link import Link
from motorlite._admission.circuit_breaker import Outcome
from motorlite._admission.gate import Gates
from motorlite._admission.tickets import Request, Ticket
from motorlite._base.values import Progress
from motorlite._execution.admission import outcome_of
from motorlite._execution.late_replies import worth_waiting_until
from motorlite._operations.contract import Kind, Operation
from motorlite._retry.backoff import server_base_backoff
from motorlite._retry.decision import Again, Ask, Retry, RetrySettings
from motorlite._topology.selection import choose
from motorlite.errors import CircuitBreakerOpenError, PyMongoError, ServerSelectionTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.storm.twin.call import Call
    from benchmarks.storm.twin.world import World
    from motorlite._options.options import ClientOptions
    from motorlite._pool.state import PoolOptions
    from motorlite._retry.failure import Failure
    from motorlite.retry import RetryBudget, RetryRule

NOT_SENT, IN_FLIGHT, ANSWERED = Progress
SELECTING, WAITING, FLYING, BACKOFF = State.SELECTING, State.WAITING, State.IN_FLIGHT, State.BACKOFF
_BREAKER_OPEN = CircuitBreakerOpenError("the circuit breaker is open")
_NO_SERVER = ServerSelectionTimeoutError("no suitable server in time")
_SELECTION_TIMEOUT = 30.0


class _Find(Operation[Any]):
    """A retryable read."""

    name = "find"
    kind = Kind.READ
    is_retryable = True
    is_idempotent = True


_FIND = _Find("storm")


class EagerRetry(Retry):
    """The retries of a peer: with a time limit, ordinary ones follow each other at once."""

    __slots__ = ()

    def _ordinary_delay(self, rule: RetryRule, jitter: Callable[[], float]) -> float:
        return 0.0


class Client:
    """One client."""

    __slots__ = (
        "_closes_at_once",
        "_gates",
        "_known",
        "_links",
        "_primary",
        "_retry",
        "_selecting",
        "_settings",
        "_world",
    )

    def __init__(self, world: World, options: ClientOptions, pools: PoolOptions, *, is_peer: bool) -> None:
        self._world = world
        # Whether the connection of an operation that is abandoned is closed, as other drivers do.
        self._closes_at_once = is_peer
        self._retry = EagerRetry if is_peer else Retry
        self._settings = RetrySettings(
            options.overload_policy, options.retry_budget, world.jitter, retry_reads=True, retry_writes=True
        )
        self._gates = Gates(options.circuit_breaker, options.concurrency_limit, lambda address, change: None)
        self._links = [
            Link(
                self,
                server,
                pools,
                self._gates.make(server.address),
                world.clock,
                world.recorder,
                world.rejections[index],
            )
            for index, server in enumerate(world.servers)
        ]
        for link in self._links:
            link.warm_up(min(world.scenario.load.warm, pools.max_size))
        # The servers that it knows, and the primary among them.
        self._known = frozenset(range(len(self._links)))
        self._primary: int | None = 0
        # Operations that wait for a server.
        self._selecting: dict[Call, None] = {}

    @property
    def budget(self) -> RetryBudget | None:
        """The budget of its retries, if it has one."""
        return self._settings.bucket

    # --- an attempt ---

    def start(self, call: Call) -> None:
        """Begin an operation, or its next attempt."""
        if call.state is DONE:
            return
        link = self._select(call)
        if link is None:
            self._wait_for_server(call)
            return
        world = self._world
        call.link = link
        link.operation_count += 1
        gate, now = link.gate, world.clock.now
        if gate is not None and gate.breaker is not None:
            call.visit = gate.enter(gate.breaker, now, is_retry=call.is_retry)
            if call.visit is None:
                self.failed(call, errors.failure(_BREAKER_OPEN, NOT_SENT, link.server.address))
                return
        connection = link.state.take(now)
        if link.state.effects:
            link.perform()
        if connection is None:
            self._wait_for_connection(call, link)
        else:
            self._use(call, link, cast("Connection", connection))

    def _use(self, call: Call, link: Link, connection: Connection) -> None:
        call.connection = connection
        call.state = FLYING
        link.send(call, connection)

    def _wait_for_connection(self, call: Call, link: Link) -> None:
        clock, deadline, state = self._world.clock, call.deadline, link.state
        now = clock.now
        request = call.request = Request(
            cast("Any", Waiter(call, clock)),
            now,
            until=deadline.earliest(),
            operation_until=deadline.expires_at if deadline.is_set else None,
        )
        call.state = WAITING
        self._world.waiting += 1
        if state.bounded is not None:
            call.entered = min(call.entered, now)
            state.bounded.fill_in(request, Ticket(call.entered), deadline.expires_at)
            if request.leaves_at < deadline.expires_at:
                clock.at(request.leaves_at, self._queue_timeout, (call, request))
        state.enqueue(request, now)
        link.perform()

    def served(self, call: Call, value: object) -> None:
        """Take the connection that a waiting operation gets, or its error."""
        link = call.link
        assert link is not None
        self._world.waiting -= 1
        if isinstance(value, Connection):
            call.request = None
            self._use(call, link, value)
        else:
            assert isinstance(value, PyMongoError)
            call.request = None
            self.failed(call, errors.failure(value, NOT_SENT, link.server.address))

    def _queue_timeout(self, wait: tuple[Call, Request]) -> None:
        call, request = wait
        if call.state is WAITING and call.request is request and not (request.establishment or request.has_passed):
            self._expire_in_queue(call)

    def _expire_in_queue(self, call: Call) -> None:
        link, request, now = call.link, call.request, self._world.clock.now
        assert link is not None
        assert request is not None
        cast("Waiter", request.waiter).is_waiting = False
        call.request = None
        self._world.waiting -= 1
        error = link.state.expire(request, now)
        link.state.serve(now)
        link.perform()
        self.failed(call, errors.failure(error, NOT_SENT, link.server.address, error.phase))

    # --- its outcome ---

    def replied(self, call: Call, connection: Connection) -> None:
        """The reply to an operation has arrived."""
        link = connection.link
        if connection.failure is not None:
            if link.state.bounded is not None:
                hint = server_base_backoff(connection.failure.error)
                if hint is not None:
                    link.state.bounded.admission.hinted(hint, self._world.clock.now)
            self.failed(call, connection.failure)
            return
        gate = link.gate
        if gate is not None:
            now = self._world.clock.now
            if gate.limit is not None:
                gate.limit.succeeded(now - connection.in_use_since, link.state.running, now)
            if call.visit is not None:
                gate.leave(call.visit, Outcome.SUCCESS, now)
                call.visit = None
        link.put(connection)
        link.operation_count -= 1
        retry, bucket = call.retry, self._settings.bucket
        if retry is not None:
            retry.succeeded(link.server.address)
        elif bucket is not None and not bucket.is_full:
            bucket.first_attempt_succeeded(link.server.address)
        self._end(call, "ok")

    def failed(self, call: Call, failure: Failure) -> None:
        """An attempt has failed: retry, or end the operation."""
        self._leave(call, failure.error, failure.progress)
        world, retry = self._world, call.retry
        now = world.clock.now
        if retry is None:
            if now >= call.deadline.expires_at:
                # No time is left for a retry, and no token was taken.
                self._end(call, errors.outcome(failure))
                return
            retry = call.retry = self._retry(self._settings, _FIND, call.deadline, started_at=now)
        decision = retry.after(failure, now)
        assert not isinstance(decision, Ask), "no arm has a strategy"
        if not isinstance(decision, Again):
            self._end(call, errors.outcome(decision.failure))
            return
        address = failure.address
        if decision.deprioritize and address is not None and address not in call.deprioritized:
            call.deprioritized = (*call.deprioritized, address)
        call.is_retry = True
        call.state = BACKOFF
        if decision.delay:
            world.clock.at(now + decision.delay, self.start, call)
        else:
            world.clock.soon(self.start, call)

    def _leave(self, call: Call, error: BaseException, progress: Progress) -> None:
        """Give back what a failed attempt holds."""
        link, connection = call.link, call.connection
        if link is None:
            return
        gate, now = link.gate, self._world.clock.now
        if gate is not None:
            outcome = outcome_of(error, progress)
            if gate.limit is not None and connection is not None:
                if outcome is Outcome.FAILURE:
                    gate.limit.failed(now - connection.in_use_since, now)
                elif outcome is Outcome.SUCCESS:
                    gate.limit.succeeded(now - connection.in_use_since, link.state.running, now)
            if call.visit is not None:
                gate.leave(call.visit, outcome, now)
                call.visit = None
        call.link = call.connection = None
        link.operation_count -= 1
        if connection is None:
            return
        call.entered = min(call.entered, connection.asked_for_at)
        if progress is not IN_FLIGHT or connection.is_closed:
            link.put(connection)
            return
        deadline = call.deadline
        limit = (deadline.expires_at - connection.sent_at) * 1000 if deadline.is_set else None
        if not isinstance(error, Exception) and deadline.earliest() == inf:
            link.state.caller_left(cast("Any", connection), now)
        until = worth_waiting_until(limit, connection.sent_at, now)
        link.abandon(connection, until, closes_at_once=self._closes_at_once)

    def _end(self, call: Call, outcome: str) -> None:
        call.state, call.link, call.connection = DONE, None, None
        self._world.ended(call, outcome)

    # --- the end of the application's patience ---

    def expire(self, call: Call) -> None:
        """The time of an operation is up."""
        if call.state is WAITING:
            self._expire_in_queue(call)
        elif call.state is FLYING:
            assert call.link is not None
            address = call.link.server.address
            self.failed(call, errors.failure(errors.NO_REPLY, IN_FLIGHT, address, "reply"))
        elif call.state is SELECTING:
            self._selecting.pop(call, None)
            self.failed(call, errors.failure(_NO_SERVER, NOT_SENT, None, "selection"))
        else:  # a delay that ends at this very moment
            self._end(call, "timed_out")

    def cancel(self, call: Call) -> None:
        """The application cancels an operation."""
        if call.state is DONE:
            return
        error, now = KeyboardInterrupt(), self._world.clock.now  # any that is no Exception, as a cancellation is
        if call.state is WAITING:
            link, request = call.link, call.request
            assert link is not None
            assert request is not None
            cast("Waiter", request.waiter).is_waiting = False
            self._world.waiting -= 1
            call.request = None
            if request.until == inf:
                link.state.pace.left(now - request.since, now)
            link.state.give_up(request, now)
            link.perform()
            self._leave(call, error, NOT_SENT)
        elif call.state is FLYING:
            self._leave(call, error, IN_FLIGHT)
        elif call.state is SELECTING:
            self._selecting.pop(call, None)
        elif call.state is BACKOFF and call.retry is not None:
            call.retry.gave_up()
        self._end(call, "cancelled")

    # --- the deployment ---

    def _select(self, call: Call) -> Link | None:
        links = self._links
        if len(links) == 1:
            return links[0] if self._known else None
        world = self._world
        if self._gates.broken:
            avoided = self._gates.avoided(world.clock.now)
            call.deprioritized += tuple(address for address in avoided if address not in call.deprioritized)
        candidates = world.deployment.suitable(self._known, self._primary, call.deprioritized)
        if len(candidates) < 2:
            return links[candidates[0]] if candidates else None
        dice = world.choices
        count = len(candidates)
        return choose([links[index] for index in candidates], dice.randrange(count), dice.randrange(count - 1))

    def _wait_for_server(self, call: Call) -> None:
        call.state = SELECTING
        self._selecting[call] = None
        until = self._world.clock.now + _SELECTION_TIMEOUT
        if until < call.deadline.expires_at:
            self._world.clock.at(until, self._selection_timeout, call)

    def _selection_timeout(self, call: Call) -> None:
        if call in self._selecting:
            del self._selecting[call]
            self.failed(call, errors.failure(_NO_SERVER, NOT_SENT, None, "selection"))

    def lost(self, index: int) -> None:
        """A server has closed all connections."""
        self._known -= {index}
        if self._primary == index:
            self._primary = None
        self._links[index].crash()

    def found(self, index: int) -> None:
        """A server can be reached again."""
        self._known |= {index}
        self._links[index].state.ready()
        self._look_again()

    def elected(self, index: int) -> None:
        """A member has become the primary."""
        self._primary = index
        self._look_again()

    def _look_again(self) -> None:
        waiting, self._selecting = self._selecting, {}
        for call in waiting:
            self.start(call)
