"""Shell: whether an attempt may be made: the client's rate limits, and the gates of its servers.

A client without limits has no `AdmissionSteps`, and the executor tests for that once per attempt.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from motorlite._admission.circuit_breaker import Outcome
from motorlite._admission.rate_limiter import Waiting
from motorlite._base.error_documents import MAX_TIME_MS_EXPIRED, SYSTEM_OVERLOADED
from motorlite._base.values import Progress, format_address
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import (
    AutoReconnect,
    CircuitBreakerOpenError,
    InvalidOperation,
    NotPrimaryError,
    PoolClearedError,
    ProtocolError,
    PyMongoError,
    RateLimitError,
    ServerSelectionTimeoutError,
    error_code,
)
from motorlite.overload.breaker import BreakerState

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from motorlite._admission.circuit_breaker import Visit
    from motorlite._admission.gate import Gates
    from motorlite._admission.rate_limiter import RateBucket, RateLimiter
    from motorlite._execution.run import Attempt, Run
    from motorlite._net.runtime import Waiter
    from motorlite._topology.topology import Server
    from motorlite.errors import AdmissionError


# What an attempt says about its server.

# Failures of a socket that other errors already stand for: the pool was cleared because another operation failed, and
# one lost server would count once for each operation that waited. State changes are the topology's business.
_NEUTRAL = (NotPrimaryError, PoolClearedError, ServerSelectionTimeoutError)


def outcome_of(error: BaseException, progress: Progress) -> Outcome:
    """Return what a failed attempt says about its server.

    Failures: network errors, timeouts (of the client and of the server) and overload errors. Any other reply is a
    success. Errors of the client itself (a document that cannot be encoded, a cancellation) say nothing.
    """
    if not isinstance(error, PyMongoError):
        return Outcome.NEUTRAL
    if error.has_error_label(SYSTEM_OVERLOADED):
        return Outcome.FAILURE
    if isinstance(error, _NEUTRAL):
        return Outcome.NEUTRAL
    if isinstance(error, AutoReconnect | ProtocolError):
        return Outcome.FAILURE
    if progress is not Progress.ANSWERED:
        return Outcome.NEUTRAL
    return Outcome.FAILURE if error_code(error) == MAX_TIME_MS_EXPIRED else Outcome.SUCCESS


class AdmissionSteps:
    """The limits of one client."""

    __slots__ = ("_gates", "_is_stopped", "_new_waiter", "_now", "_rates", "_waiting", "_wake")

    def __init__(
        self,
        rates: RateLimiter,
        gates: Gates,
        *,
        now: Callable[[], float],
        new_waiter: Callable[[], Waiter],
        wake: Callable[[Collection[Waiter], Callable[[Waiter], object]], None],
    ) -> None:
        self._rates = rates
        self._gates = gates
        self._now = now
        self._new_waiter = new_waiter
        # Wakes many waiters, as `Waking` does.
        self._wake = wake
        # Operations that wait for a token, or for the time of their token.
        self._waiting: dict[Waiter, None] = {}
        # The client is closing.
        self._is_stopped = False

    def stop(self) -> None:
        """End the wait of all operations, because the client is closing."""
        self._is_stopped = True
        waiting, self._waiting = self._waiting, {}
        if waiting:
            self._wake(waiting, lambda turn: turn.offer(True))

    # --- before the server is selected ---

    async def admit(self, run: Run, attempt: Attempt) -> None:
        """Take the operation's tokens, and have it avoid servers with an open breaker.

        Raises:
            RateLimitError: There is no token, or none in time.
        """
        # A retry takes no token, unless the operation had none. `run.retry` is in no variable, because it keeps the
        # refusals that are raised through this frame.
        if run.retry is None:
            is_due = not run.call.options.has_tokens
        else:
            is_due = isinstance(run.retry.newest.error, RateLimitError)
        if self._rates.buckets and is_due and not run.operation.is_housekeeping:
            await self._take_tokens(run, attempt)
        if self._gates.broken:
            avoided = self._gates.avoided(self._now())
            run.deprioritized += tuple(address for address in avoided if address not in run.deprioritized)

    async def _take_tokens(self, run: Run, attempt: Attempt) -> None:
        operation = run.operation
        buckets = self._rates.concerning(operation.database, operation.collection_name)
        if operation.is_continuation:
            for bucket in buckets:
                bucket.charge(self._now())
            return
        taken: list[RateBucket] = []
        try:
            for bucket in buckets:
                await self._take_token(bucket, run, attempt)
                taken.append(bucket)
        except BaseException:
            for bucket in taken:
                bucket.give_back(self._now())
            raise

    async def _take_token(self, bucket: RateBucket, run: Run, attempt: Attempt) -> None:
        now, options = self._now(), run.call.options
        if not bucket.wait(now):
            bucket.take(now)
            return
        deadline = run.call.deadline
        until = min(now + float(bucket.options.timeout), deadline.earliest())
        priority = bucket.priority_of(options.priority, options.assigned_priority)
        turn = self._new_waiter()
        waiting = Waiting(now, turn, priority, bucket.size_of(run.operation.size_hint))
        error = bucket.join(waiting, until, now)
        if error is None:
            attempt.waits(now)
            error = await self._wait_for_token(bucket, waiting, turn, until)
            attempt.admitted_at = self._now()
        if error is not None:
            if self._now() >= deadline.expires_at:
                error.phase = "rate limit"
            try:
                raise error
            finally:
                del error, waiting  # its traceback references this frame

    async def _wait_for_token(
        self, bucket: RateBucket, waiting: Waiting, turn: Waiter, until: float
    ) -> AdmissionError | None:
        """Wait for the operation's token until the loop time `until`. Returns its error if it does not get one."""
        try:
            while True:
                await self._wait(turn, bucket.wakes_at(waiting, until))
                now = self._now()
                # The next wait needs a turn of its own, which `serve` may already use.
                waiting.turn = turn = self._new_waiter()
                bucket.serve(now)
                if waiting.has_token or waiting.error is not None:
                    return waiting.error
                # Later than expected if getMores took tokens meanwhile, or other operations overtook it.
                if now >= until or (bucket.due_at() > until):
                    return bucket.too_late(bucket.count - 1, now, now - waiting.since)
        except BaseException:
            if waiting.has_token:
                bucket.give_back(self._now())
            raise
        finally:
            bucket.quit(waiting)

    async def _wait(self, turn: Waiter, until: float) -> None:
        self._waiting[turn] = None
        try:
            with suppress(WaitTimeout):
                await turn.wait(until)
        finally:
            self._waiting.pop(turn, None)
        if self._is_stopped:
            raise InvalidOperation("the client was closed while the operation waited for its rate limit")

    # --- at the selected server ---

    def enter(self, run: Run, server: Server) -> Visit | None:
        """Ask the server's breaker for an attempt. `replied` or `failed` ends the visit.

        Raises:
            CircuitBreakerOpenError: The breaker is open, or enough probes are under way.
        """
        gate = server.gate
        if gate is None:
            return None
        if gate.limit is not None and run.operation.is_await_data:
            gate.limit.awaits_data(run)
        if gate.breaker is None or run.operation.is_housekeeping:
            return None
        breaker, now = gate.breaker, self._now()
        visit = gate.enter(breaker, now, is_retry=run.is_retry, is_admitted=run.operation.is_admitted)
        if visit is None:
            where = format_address(server.address)
            why = "too many operations failed there"
            if breaker.state is BreakerState.HALF_OPEN:
                why = "probes are under way"
            error = CircuitBreakerOpenError(f"the circuit breaker of {where} is {breaker.state}: {why}")
            error.retry_after = breaker.retry_after(now)
            try:
                raise error
            finally:
                del error  # its traceback references this frame
        return visit

    def replied(self, visit: Visit | None, run: Run, attempt: Attempt) -> None:
        """Learn that the server replied. Call this before the connection is checked in, for the sake of waiters."""
        server = attempt.server
        assert server is not None
        gate = server.gate
        if gate is None:
            return
        now, operation = self._now(), run.operation
        if gate.limit is not None and operation.is_await_data:
            gate.limit.awaits_no_longer(run)
        elif gate.limit is not None and operation.is_acknowledged and not operation.is_exhaust:
            # The server sends the batches of an exhaust cursor ahead, so their times measure their reader. Encryption,
            # before the command was sent and after the reply, does not count either.
            assert attempt.sent_at is not None
            replied_at = now if attempt.replied_at is None else attempt.replied_at
            gate.limit.succeeded(replied_at - attempt.sent_at, server.pool.state.running, now)
        if visit is not None:
            gate.leave(visit, Outcome.SUCCESS if operation.is_acknowledged else Outcome.NEUTRAL, now)

    def failed(self, visit: Visit | None, run: Run, attempt: Attempt, error: BaseException) -> None:
        """Learn that the attempt failed with `error`, which may be a cancellation; as `replied`, before check-in."""
        server = attempt.server
        assert server is not None
        gate = server.gate
        if gate is None:
            return
        now, outcome = self._now(), outcome_of(error, attempt.progress)
        if gate.limit is not None and run.operation.is_await_data:
            gate.limit.awaits_no_longer(run)
        elif gate.limit is not None and attempt.sent_at is not None:
            ended_at = now if attempt.replied_at is None else attempt.replied_at
            seconds = ended_at - attempt.sent_at  # an exhaust cursor may have held its connection for longer
            if outcome is Outcome.FAILURE:
                gate.limit.failed(seconds, now)
            elif outcome is Outcome.SUCCESS and not run.operation.is_exhaust:
                gate.limit.succeeded(seconds, server.pool.state.running, now)
        if visit is not None:
            gate.leave(visit, outcome, now)
