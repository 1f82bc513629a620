"""Shell: calls the OIDC callback of a client, for whoever needs a token: one call at a time, with a pause in between.

A call runs in the background, and everybody who needs a token meanwhile waits for it. So an operation whose time is up,
or that is cancelled, does not take the login page away from a person who is typing a password into it.
"""

from __future__ import annotations

import inspect
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from motorlite._net.runtime import WaitTimeout
from motorlite._pool.auth.conversation import violation
from motorlite._pool.auth.oidc import (
    CALL_INTERVAL,
    CALLBACK_VERSION,
    HUMAN_TIMEOUT,
    MACHINE_TIMEOUT,
    MONGODB_OIDC,
    check_result,
)
from motorlite.auth_oidc import OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import ExecutionTimeout, InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from motorlite._net.runtime import BackgroundTask, Host, Runtime, Waiter
    from motorlite._pool.auth.conversation import NeedToken
    from motorlite._pool.auth.oidc import TokenCache
    from motorlite.auth_oidc import OIDCCallback


class Limits:
    """How long the authentication of one connection may take; loop times."""

    __slots__ = ("is_operation", "operation_until", "until")

    def __init__(self, until: float, operation_until: float | None = None, *, is_operation: bool = False) -> None:
        # For the messages; later by what a callback takes that is not subject to it.
        self.until = until
        # When the operation's timeoutMS is used up; None: none was set.
        self.operation_until = operation_until
        # The authentication happens inside of the operation (it reauthenticates), not in the background.
        self.is_operation = is_operation


class _Call:
    """One call of the callback."""

    __slots__ = ("ended", "task", "until", "waiters")

    task: BackgroundTask

    def __init__(self, until: float, ended: Waiter) -> None:
        # Nobody waits for it any longer than this.
        self.until = until
        # Where the next call waits, should this one be cancelled.
        self.ended = ended
        self.waiters: list[Waiter] = []


class _Own(NamedTuple):
    """An error that the driver made, not the application."""

    error: PyMongoError


_Outcome: TypeAlias = OIDCCallbackResult | BaseException | _Own


class TokenSource:
    """The callback of one client."""

    def __init__(
        self,
        runtime: Runtime,
        host: Host,
        cache: TokenCache,
        callback: OIDCCallback,
        username: str | None,
        *,
        is_human: bool,
        is_built_in: bool = False,
    ) -> None:
        self._runtime = runtime
        self._host = host
        self._cache = cache
        self._callback = callback
        self._username = username or ""
        self._timeout = HUMAN_TIMEOUT if is_human else MACHINE_TIMEOUT
        self._is_human = is_human
        # The callback is the driver's own, so what it raises is no secret of the application's.
        self._is_built_in = is_built_in
        # The one that is going on.
        self._call: _Call | None = None
        # The newest that was cancelled; the next one begins when it has ended.
        self._cancelled: _Call | None = None

    async def get(self, request: NeedToken, limits: Limits) -> tuple[str, bool]:
        """An access token, and whether the client had it already (or somebody else was getting it).

        Raises:
            OperationFailure: the callback failed, or returned something else than a token.
            ConfigurationError: the driver's own callback lacks a setting.
            ExecutionTimeout: it took too long.
            InvalidOperation: the client is closed.
        """
        cache, now = self._cache, self._runtime.now()
        if cache.access_token is not None:
            return cache.access_token, True
        call, is_cached = self._call, True
        if call is None or now >= call.until:
            if self._host.is_closed:
                raise InvalidOperation("the client is closed")
            call, is_cached = self._begin(request, limits), False
        result = await self._wait(call, limits)
        if not self._is_limited(limits):
            # The callback has time of its own.
            limits.until += self._runtime.now() - now
        if isinstance(result, _Own):
            # A new exception for each who waits; the reason is the driver's own, so it is no secret.
            raise type(result.error)(str(result.error)) from result.error
        if isinstance(result, BaseException):
            raise violation(MONGODB_OIDC, f"the callback raised {type(result).__name__}") from result
        return result.access_token, is_cached

    def _is_limited(self, limits: Limits) -> bool:
        """Whether `limits.until` bounds the wait; the human callback is not subject to timeoutMS, its operation is."""
        return limits.operation_until is not None and (limits.is_operation or not self._is_human)

    async def _wait(self, call: _Call, limits: Limits) -> _Outcome:
        until = call.until
        if self._is_limited(limits):
            until = min(until, limits.until)
        waiter = self._runtime.waiter()
        call.waiters.append(waiter)
        try:
            outcome: _Outcome = await waiter.wait(until)
        except WaitTimeout:
            if until == call.until and call is self._call:
                self._end(call)
            raise ExecutionTimeout(f"{MONGODB_OIDC}: the callback returned no token in time") from None
        return outcome

    def _begin(self, request: NeedToken, limits: Limits) -> _Call:
        if self._call is not None:
            self._end(self._call)
        now, last = self._runtime.now(), self._cache.last_call
        starts = now if last is None else max(now, last + CALL_INTERVAL)
        call = self._call = _Call(starts + self._timeout, self._runtime.waiter())
        self._cache.last_call = starts
        context = OIDCCallbackContext(
            self._seconds(starts, limits), self._username, CALLBACK_VERSION, request.refresh_token, request.idp_info
        )
        call.task = self._host.spawn(self._run, call, context, starts)
        return call

    def _seconds(self, starts: float, limits: Limits) -> float:
        """Machine callbacks are told min(remaining connectTimeoutMS, remaining timeoutMS) where timeoutMS is set."""
        if self._is_human or limits.operation_until is None:
            return self._timeout
        remaining = min(limits.until, limits.operation_until) - starts
        return self._timeout if remaining == inf else max(remaining, 0.0)

    def _end(self, call: _Call) -> None:
        self._call, self._cancelled = None, call
        call.task.cancel()

    async def _run(self, call: _Call, context: OIDCCallbackContext, starts: float) -> None:
        outcome: _Outcome
        previous, self._cancelled = self._cancelled, None
        try:
            if previous is not None:
                await previous.ended.wait(call.until)
            if starts > self._runtime.now():
                await self._runtime.sleep(starts - self._runtime.now())
            outcome = await self._result(context)
            if call is self._call and not isinstance(outcome, _Own):
                # Not of one that heard of its cancellation and returned all the same.
                self._cache.store(outcome, context.idp_info)
        except Exception as error:
            # Whatever the application raises is told to those who wait.
            outcome = _Own(error) if self._is_built_in and isinstance(error, PyMongoError) else error
        except BaseException as error:
            # A cancellation: of ours, or one that the callback raises by itself.
            closed = violation(MONGODB_OIDC, "the client was closed before the callback returned")
            outcome = _Own(closed) if self._host.is_closed else error
            raise
        finally:
            if call is self._call:
                self._call = None
            for waiter in (*call.waiters, call.ended):
                waiter.offer(outcome)
            del outcome  # what the callback raised has this frame in its traceback

    async def _result(self, context: OIDCCallbackContext) -> OIDCCallbackResult | _Own:
        result = await self._fetch(context)
        try:
            return check_result(result)
        except PyMongoError as error:
            return _Own(error)

    async def _fetch(self, context: OIDCCallbackContext) -> object:
        fetch: Any = self._callback.fetch
        if inspect.iscoroutinefunction(fetch):
            return await fetch(context)
        # It may block.
        result = await self._runtime.run_in_thread(partial(fetch, context))
        return await result if inspect.isawaitable(result) else result
