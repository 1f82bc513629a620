"""Shell: what holds for a live client at every step of its event loop, and after its end.

`Invariants` reads the internals of one client, and the bytes between the client and its network, which no bug of the
driver can change. `watching` lets it see operations, sessions and tokens come and go. Rules that hold between any two
steps are checked in `step`; those that hold once everything that was ready has run are checked in `quiet`.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from unittest import mock

from motorlite._execution.executor import Executor
from motorlite._pool.state import PoolState
from motorlite._sessions.session import SessionPool
from motorlite.retry import RetryBudget, SpecificationRetry
from tests.simulation.rules import Pools, Sessions, Times, Tokens
from tests.simulation.running import ALWAYS, LABEL, ORDINARY, OVERLOAD, Running, Try, permit
from tests.simulation.wire import Link, Wire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence

    from motorlite._admission.pool_queue import Request as Waiting
    from motorlite._base.values import Address, Document
    from motorlite._client.core import Core
    from motorlite._execution.run import Attempt, Run
    from motorlite._sessions.session import ServerSession
    from tests.simulation.wire import Request

    _Attempt: TypeAlias = Callable[[Executor, Run, Attempt], Awaitable[Document | None]]

# Seconds by which an operation may outlive its deadline: the driver's margin for timers.
_LATE: Final = 0.1
# Owners are checked after each moment in which the client did something, and after each so many others: a timer of the
# driver is nothing that its caller or its network sees.
_STILL: Final = 64


class Violation(AssertionError):
    """An invariant does not hold.

    Attributes:
        invariant: Its name.
        time: The loop time at which that was noticed.
    """

    def __init__(self, invariant: str, message: str, time: float) -> None:
        super().__init__(f"{invariant} at {time:.6f}: {message}")
        self.invariant = invariant
        self.time = time


class Invariants:
    """The invariants of one client. Make it before the client's first operation.

    Args:
        core: The client's machinery.
        now: Returns the loop time.

    Attributes:
        core: As given.
        wire: What the client's network saw.
        violations: Those noticed and not raised yet.
        checks: How often `step` has looked.
    """

    def __init__(self, core: Core, *, now: Callable[[], float]) -> None:
        self.core = core
        self.wire = Wire()
        self.violations: list[Violation] = []
        self.checks = 0
        self._now = now
        self._is_over = False
        # Whether the client has done something since the owners of everything were last checked, and the moments.
        self.has_moved = False
        self._moments = 0
        self._by_task: dict[asyncio.Task[Any] | None, Running] = {}
        self._limits: dict[asyncio.Task[Any] | None, float] = {}
        self.pools = Pools(self)
        self.sessions = Sessions(self)
        self.tokens = Tokens(self)
        self._times = Times(self)

    def report(self, invariant: str, message: str) -> None:
        """Note a violation. `step` raises the first one: inside of the driver, it might be handled as an error."""
        self.violations.append(Violation(invariant, message, self._now()))

    @property
    def running(self) -> list[Running]:
        """The operations that run."""
        return list(self._by_task.values())

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Promise that what the current task does in this block has so many seconds, as its timeoutMS says."""
        task = asyncio.current_task()
        self._limits[task] = min(self._limits.get(task, inf), self._now() + seconds)
        try:
            yield
        finally:
            del self._limits[task]

    # --- the event loop ---

    def step(self) -> None:
        """Check what holds after every step of the event loop.

        Raises:
            Violation: An invariant does not hold, or did not at some moment of the step. Raised once.
        """
        if self._is_over:
            return
        self.checks += 1
        if self._is_bound:
            self.pools.step()
            self.sessions.step()
            self.tokens.step()
        self._raise()

    def quiet(self) -> None:
        """Check what holds when nothing is ready to run, before time advances.

        Raises:
            Violation: As `step`.
        """
        if self._is_over or not self._is_bound:
            return
        self._moments += 1
        if self.has_moved or self._moments % _STILL == 0:
            self.has_moved = False
            self._times.settle()
            self.pools.settle()
            self.sessions.settle()
            self.tokens.settle()
        now = self._now()
        for operation in self._by_task.values():
            # One that begins too late, such as the abort of an upload whose time is over, fails at once.
            expires_at = max(operation.run.call.deadline.expires_at, operation.began_at)
            if now > expires_at + _LATE:
                name = operation.run.operation.name
                self.report("deadline", f"{name} runs {now - expires_at:.3f} s after its deadline")
        self._raise()

    def closed(self, *, is_alone: bool = True) -> None:
        """Check that nothing is left, after the client has closed and the loop was quiet.

        Args:
            is_alone: Whether no other client of the driver lives on this event loop.

        Raises:
            Violation: As `step`.
        """
        if self._is_over:
            return
        for link in self.wire.open_links():
            self.report("nothing left", f"a connection to {link.address} is open after the end")
        if self._by_task:
            self.report("nothing left", f"{len(self._by_task)} operations run after the end")
        if self._is_bound:
            self.pools.closed()
        if is_alone:
            for what in _left_on_loop():
                self.report("nothing left", what)
        self._raise()

    @property
    def _is_bound(self) -> bool:
        return self.core._runtime is not None

    def _raise(self) -> None:
        if self.violations:
            self._is_over = True
            raise self.violations[0]

    # --- the network ---

    def opened(self, key: Hashable, address: Address) -> None:
        """Note a new connection, which the network knows by `key`."""
        self.has_moved = True
        self.wire.links[key] = Link(address)

    def sent(self, key: Hashable, data: bytes) -> None:
        """Take the bytes that the client has written. Call it in the task that has written them."""
        self.has_moved = True
        link = self.wire.links.get(key)
        for request in () if link is None else link.write(data, self._now()):
            assert link is not None
            task = asyncio.current_task()
            operation = self._by_task.get(task)
            if operation is None or (current := operation.current) is None:
                self.report("one path", f"{request.name} was sent outside of an operation")
                continue
            self._sent(link, request, operation, current)
            limit = self._limits.get(task, inf)
            self._times.sent(request, operation, limit)

    def _sent(self, link: Link, request: Request, operation: Running, current: Try) -> None:
        if not link.is_open:
            self.report("connections", f"{request.name} was sent on a connection that the client has closed")
        if link.owed:
            owed = next(iter(link.owed.values())).name
            self.report("connections", f"{request.name} was sent on a connection that owes the reply to {owed}")
        if link.is_spoiled:
            self.report("replies", f"{request.name} was sent on a connection that has got the reply to no request")
        self.sessions.sent(request, operation)
        current.requests.append(request)
        if request.is_acknowledged:
            link.owed[request.id] = request

    def received(self, key: Hashable, data: bytes) -> None:
        """Take the bytes that reach the client now."""
        self.has_moved = True
        link = self.wire.links.get(key)
        if link is not None and link.is_open and not link.is_cut:
            for request in link.deliver(data):
                self._times.replied(request)

    def ended(self, key: Hashable, *, by_client: bool) -> None:
        """Note that the client has closed its end, or that the end of the other side has reached the client."""
        self.has_moved = True
        link = self.wire.links.get(key)
        if link is not None:
            for request in link.end(by_client=by_client):
                self.sessions.lost(request)

    # --- operations ---

    def begun(self, run: Run) -> Running:
        """Note an operation, which runs in the current task. An earlier one there has failed: this is its fallback."""
        self.has_moved = True
        earlier = self.operation()
        if earlier is not None:
            self.finished(earlier)
        operation = self._by_task[asyncio.current_task()] = Running(run, self._now())
        self.tokens.begun(operation)
        return operation

    def finished(self, operation: Running) -> None:
        """Note the end of an operation in the current task."""
        self.has_moved = True
        self._by_task.pop(asyncio.current_task(), None)
        self.sessions.finished(operation)
        self.tokens.finished(operation, operation.reply, has_succeeded=operation.has_succeeded)

    def tries(self, operation: Running, attempt: Attempt) -> Try:
        """Note the beginning of an attempt. It must be the first, or have a reason."""
        self.has_moved = True
        one = Try(attempt)
        if operation.tries:
            judge_retry(self, operation, operation.tries[-1])
        operation.tries.append(one)
        return one

    def answered(self, one: Try, reply: Document | None) -> None:
        """Note the end of a successful attempt, with the reply that the driver took for its own."""
        request = one.request
        if request is None or reply is None:
            return
        if request.reply is None:
            self.report("replies", f"{request.name} has got a reply, but none to its request has arrived")
        elif _outline(request.reply) != _outline(reply):
            self.report("replies", f"{request.name} has got another reply than the one to its request")

    def operation(self) -> Running | None:
        """Return the operation that runs in the current task."""
        return self._by_task.get(_current_task())


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # outside of the event loop
        return None


def _outline(reply: Document) -> tuple[Any, ...]:
    """Return what tells replies apart and no codec options change."""
    cursor = reply.get("cursor")
    cursor_id = cursor.get("id") if isinstance(cursor, dict) else None
    return (reply.get("ok"), reply.get("n"), reply.get("nModified"), reply.get("operationTime"), cursor_id)


def _left_on_loop() -> list[str]:
    """Return the tasks and timers of the driver on the running event loop."""
    loop = asyncio.get_running_loop()
    found = [f"the task {task.get_name()!r}" for task in asyncio.all_tasks() if task.get_name().startswith("motorlite")]
    timers: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009  # not in the stubs
    for timer in timers:
        callback = None if timer.cancelled() else getattr(timer, "_callback", None)
        if getattr(callback, "__module__", "").startswith("motorlite._"):
            found.append(f"a timer for {callback!r}")
    return found


def judge_retry(watch: Invariants, operation: Running, failed: Try) -> None:
    """Check that another attempt after `failed` has a reason, is within the limits, and has paid its price."""
    call, name, core = operation.run.call, operation.run.operation.name, watch.core
    if not isinstance(call.options.retry_strategy, SpecificationRetry):
        return  # the application decides
    reason = permit(operation, failed)
    if reason is None:
        watch.report("retries", f"{name} is tried again, which nothing permits after {_shown(failed)}")
        return
    operation.permits.append(reason)
    permits, policy = operation.permits, core.policy
    adaptive, ordinary = len(permits) - permits.count(ALWAYS), permits.count(ORDINARY)
    if reason is not ALWAYS and operation.run.operation.ends is None:
        kind = operation.run.operation.kind.value
        options = core.options
        allowed = {"read": options.retry_reads, "write": options.retry_writes}
        if not allowed.get(kind, options.retry_reads and options.retry_writes):
            watch.report("retries", f"{name} is tried again, although its retries are turned off")
    if OVERLOAD in permits and adaptive > policy.max_retries:
        watch.report("retries", f"retry {adaptive} of {name}, of at most {policy.max_retries}, after {permits}")
    if OVERLOAD not in permits and not call.deadline.is_set:
        by_label = permits.count(LABEL)
        if ordinary > 1 or adaptive > max(policy.max_retries, 0) + 1 or (by_label > policy.max_retries + 1):
            watch.report("retries", f"retry {adaptive} of {name} without timeoutMS, after {permits}")
    if core._bucket is None or reason is LABEL:
        return
    must_pay = (reason is OVERLOAD and policy.is_budgeted) or (reason is ORDINARY and ordinary > 1)
    if reason is ORDINARY and LABEL in permits:
        return  # which of the two rules permitted an earlier retry cannot be seen from outside
    if failed.takes != must_pay:
        watch.report("tokens", f"a retry of {name} because of {reason} took {failed.takes} tokens, after {permits}")


def _shown(failed: Try) -> str:
    request = failed.request
    if request is None:
        return f"{failed.error!r}, with nothing sent"
    if request.reply is None:
        return f"{failed.error!r}, without a reply"
    shown = {key: request.reply[key] for key in ("ok", "code", "errorLabels") if key in request.reply}
    return f"the reply {shown}"


# What the rules have to see, where the driver keeps no record.


@contextmanager
def watching(clients: Sequence[Invariants]) -> Iterator[None]:
    """Let clients see their operations, sessions and tokens, in this block. Apply planted bugs before.

    Args:
        clients: Those of this run. May grow.
    """
    with ExitStack() as stack:
        for owner, name, make in (
            (Executor, "_attempt", _watched_attempt),
            (Executor, "_retry", _watched_retry),
            (Executor, "_end", _watched_end),
            (PoolState, "enqueue", _watched_enqueue),
            (SessionPool, "acquire", _watched_acquire),
            (SessionPool, "release", _watched_release),
            (RetryBudget, "take", _watched_take),
        ):
            stack.enter_context(mock.patch.object(owner, name, make(getattr(owner, name), clients)))
        for name, why, tenths in (
            ("first_attempt_succeeded", "first attempt succeeded", 1),
            ("retry_succeeded", "retry succeeded", 11),
            ("retry_failed_otherwise", "failed otherwise", 10),
            ("retry_not_made", "not made", 10),
        ):
            deposit = _watched_deposit(getattr(RetryBudget, name), clients, why, tenths)
            stack.enter_context(mock.patch.object(RetryBudget, name, deposit))
        yield


def _watched_attempt(original: _Attempt, clients: Sequence[Invariants]) -> Any:
    async def attempt_(executor: Executor, run: Run, attempt: Attempt) -> Document | None:
        watch = _watching(executor, clients)
        if watch is None:
            return await original(executor, run, attempt)
        operation = watch.operation()
        if operation is None or operation.run is not run:
            operation = watch.begun(run)
        one = watch.tries(operation, attempt)
        try:
            reply = await original(executor, run, attempt)
            watch.answered(one, reply)
            operation.obtained(reply)
            return reply
        except BaseException as error:
            one.error = error
            raise
        finally:
            one.is_over = watch.has_moved = True

    return attempt_


def _watched_retry(original: _Attempt, clients: Sequence[Invariants]) -> Any:
    async def retry(executor: Executor, run: Run, attempt: Attempt) -> Document | None:
        reply = await original(executor, run, attempt)
        watch = _watching(executor, clients)
        operation = None if watch is None else watch.operation()
        if operation is not None:
            operation.obtained(reply)
        return reply

    return retry


def _watched_end(original: Any, clients: Sequence[Invariants]) -> Any:
    def end(executor: Executor, run: Run) -> None:
        watch = _watching(executor, clients)
        operation = None if watch is None else watch.operation()
        if watch is not None and operation is not None and operation.run is run:
            watch.finished(operation)
        original(executor, run)

    return end


def _watching(executor: Executor, clients: Sequence[Invariants]) -> Invariants | None:
    return next((one for one in clients if one.core._runtime and one.core.executor is executor), None)


def _watched_enqueue(original: Any, clients: Sequence[Invariants]) -> Any:
    def enqueue(state: PoolState, request: Waiting, now: float) -> None:
        for watch in clients:
            if watch.core._runtime and any(server.pool.state is state for server in watch.core.topology.servers):
                watch.pools.waiting[request] = state
        original(state, request, now)

    return enqueue


def _watched_acquire(original: Any, clients: Sequence[Invariants]) -> Any:
    def acquire(pool: SessionPool, now: float, timeout_minutes: int | None) -> ServerSession:
        session: ServerSession = original(pool, now, timeout_minutes)
        for watch in clients:
            if watch.core.sessions is pool:
                watch.sessions.acquired(session)
        return session

    return acquire


def _watched_release(original: Any, clients: Sequence[Invariants]) -> Any:
    def release(pool: SessionPool, session: ServerSession, now: float, timeout_minutes: int | None) -> None:
        original(pool, session, now, timeout_minutes)
        for watch in clients:
            if watch.core.sessions is pool:
                watch.sessions.released(session, is_free=session in pool._free)

    return release


def _watched_take(original: Any, clients: Sequence[Invariants]) -> Any:
    def take(bucket: RetryBudget, address: Address | None = None) -> bool:
        has_taken: bool = original(bucket, address)
        for watch in clients:
            if has_taken and watch.core._bucket is bucket:
                watch.tokens.changed(bucket, -10)
                watch.tokens.taken(watch.operation())
        return has_taken

    return take


def _watched_deposit(original: Any, clients: Sequence[Invariants], why: str, tenths: int) -> Any:
    def deposit(bucket: RetryBudget, address: Address | None = None) -> None:
        original(bucket, address)
        for watch in clients:
            if watch.core._bucket is bucket:
                watch.tokens.changed(bucket, tenths)
                watch.tokens.given(watch.operation(), why)

    return deposit
