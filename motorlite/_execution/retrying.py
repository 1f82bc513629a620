"""Shell: performs what `Retry` decides after a failed attempt: asks the strategy, backs off, waits for the deadline."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from motorlite._base.values import Progress
from motorlite._retry.consultation import consult
from motorlite._retry.decision import Again, Ask, ExpireAfter, Retry
from motorlite.errors import InvalidOperation
from motorlite.retry import RetryReason, RetryRefusal, RetryRule
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._base.values import Address
    from motorlite._execution.acquiring import Deployment
    from motorlite._execution.reports import Reports
    from motorlite._execution.run import Attempt, Run
    from motorlite._retry.decision import Raise, RetrySettings
    from motorlite._retry.failure import Failure

T = TypeVar("T")

_ALWAYS, _SPECIFICATION, _STRATEGY = RetryRule.ALWAYS, RetryRule.SPECIFICATION, RetryRule.STRATEGY


class RetrySteps:
    """The steps between two attempts of the operations of one client."""

    __slots__ = ("_now", "_reports", "_selection_timeout", "_settings", "_sleep", "deployment", "is_stopped", "pausing")

    def __init__(
        self,
        deployment: Deployment,
        settings: RetrySettings,
        reports: Reports,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]],
        server_selection_timeout: float,
    ) -> None:

        self.deployment: Deployment = deployment
        # The client is closing.
        self.is_stopped: bool = False
        # The number of operations between two attempts, and of those whose further attempt waits for a server or a
        # connection. Each has its session.
        self.pausing: int = 0
        self._settings = settings
        self._reports = reports
        self._now = now
        self._sleep = sleep
        self._selection_timeout = server_selection_timeout

    async def follow(self, run: Run, attempt: Attempt, failure: Failure) -> Failure | None:
        """Return the failure that ends the operation; None after the delay of a retry.

        Raises:
            InvalidOperation: The client was closed during a delay.
        """
        decision = None
        if run.followed is not None:
            run.followed.attempt_failed(self._now())
        self.pausing += 1
        try:
            decision = self._decide(run, attempt, failure)
            if isinstance(decision, Ask):
                decision = await self._consult(run, decision)
            if isinstance(decision, Again):
                # A refused attempt may not have yielded, and a strategy that repeats it at once must not starve others.
                if decision.delay or (decision.rule is _STRATEGY and attempt.progress is Progress.NOT_SENT):
                    await self._back_off(run, attempt, decision)
                run.is_retry = True
                return None
            if isinstance(decision, ExpireAfter):
                deadline = run.call.deadline
                await self.deployment.pause(deadline.earliest())
                self._check_open(run)
                if deadline.scope_expires_at < deadline.expires_at:
                    await self._sleep(0.001)  # the cancellation is due now
            return decision.failure
        finally:
            self.pausing -= 1
            # An error may be raised through this frame, which must not reference it then.
            del decision, failure

    async def while_pausing(self, wait: Awaitable[T]) -> T:
        """Return the result of `wait`, in which a further attempt waits for a server or a connection."""
        self.pausing += 1
        try:
            return await wait
        finally:
            self.pausing -= 1

    def check_open(self) -> None:
        """Raise InvalidOperation if the client is closing."""
        if self.is_stopped:
            raise InvalidOperation("the client is closed")

    def _decide(self, run: Run, attempt: Attempt, failure: Failure) -> Again | Raise | Ask:
        retry, now = run.retry, self._now()
        if retry is None:
            call = run.call
            retry = run.retry = Retry(
                self._settings, run.operation, call.deadline, call.options, attempt.started_at(now)
            )
        is_sharded = self.deployment.description.topology_type is TopologyType.Sharded
        decision = retry.after(failure, now, is_sharded=is_sharded, is_closing=self.is_stopped)
        return decision if isinstance(decision, Ask) else self._decided(run, retry, decision)

    async def _consult(self, run: Run, ask: Ask) -> Again | Raise:
        retry = run.retry
        assert retry is not None
        with run.call.options.apart():
            answer = await consult(ask, min(run.call.deadline.expires_at, self._now() + self._selection_timeout))
        return self._decided(run, retry, retry.conclude(answer, self._now(), is_closing=self.is_stopped))

    def _decided(self, run: Run, retry: Retry, decision: Again | Raise) -> Again | Raise:
        self._reports.decided(run, retry, decision)
        if run.part is not None:
            run.part.decided(retry.newest, decision)
        address = retry.newest.address
        bucket = self._settings.bucket
        if bucket is not None and address is not None and not self._has(address):
            bucket.forget(address)  # the operation ended after its server had left
        if decision.deprioritize and address is not None and address not in run.deprioritized:
            run.deprioritized = (*run.deprioritized, address)
        return decision

    def _has(self, address: Address) -> bool:
        return address in self.deployment.description.server_descriptions()

    async def _back_off(self, run: Run, attempt: Attempt, decision: Again) -> None:
        retry, until = run.retry, self._now() + decision.delay
        assert retry is not None
        if decision.rule is _ALWAYS:  # also while the client is closing
            await self._sleep(decision.delay)
            return
        # The attempt got no connection, or an error other than overload. If the server is dead or has stepped down, use
        # its successor at once.
        ends_early = decision.rule is _SPECIFICATION and decision.reason is not RetryReason.OVERLOAD
        if attempt.connection is None:
            ends_early = decision.rule is not _STRATEGY
        try:
            if attempt.server is None or not ends_early:
                await self.deployment.pause(until)
            else:
                await self.deployment.back_off(run.operation.selector, attempt.server.address, until)
        except BaseException:
            retry.gave_up()
            raise
        if self.is_stopped:
            retry.gave_up(RetryRefusal.CLOSED)
            self._check_open(run)

    def _check_open(self, run: Run) -> None:
        if self.is_stopped:
            assert run.retry is not None
            message = "the client was closed while the operation waited for its next attempt"
            raise run.describe(InvalidOperation(message)) from run.retry.newest.annotate()
