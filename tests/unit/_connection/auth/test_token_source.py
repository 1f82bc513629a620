"""When the OIDC callback is called, with what arguments, and how long operations wait for it; in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._connection.auth.conversation import NeedToken
from motorlite._connection.auth.oidc import TokenCache
from motorlite._connection.auth.oidc_callbacks import Limits, TokenSource
from motorlite.auth_oidc import OIDCCallback, OIDCCallbackContext, OIDCCallbackResult
from motorlite.errors import ConfigurationError, ExecutionTimeout, InvalidOperation, OperationFailure
from tests.support.auth_servers import BlockingCallback, Callback, threadless

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from motorlite._net.runtime import Runtime

pytestmark = pytest.mark.anyio


class Client:
    def __init__(
        self, runtime: Runtime, callback: OIDCCallback, username: str | None, *, human: bool, built_in: bool
    ) -> None:
        self.runtime = runtime
        self.cache = TokenCache()
        self.host = runtime.host("test", lambda: None)
        self.source = TokenSource(
            runtime, self.host, self.cache, callback, username, is_human=human, is_built_in=built_in
        )

    @property
    def now(self) -> float:
        return self.runtime.now()

    def limits(self, seconds: float = 20.0, operation: float | None = None, *, is_operation: bool = False) -> Limits:
        until = None if operation is None else self.now + operation
        return Limits(self.now + seconds, until, is_operation=is_operation)

    async def get(self, limits: Limits | None = None, request: NeedToken | None = None) -> tuple[str, bool]:
        return await self.source.get(request or NeedToken(), limits or self.limits())


@asynccontextmanager
async def client(
    callback: OIDCCallback, username: str | None = None, *, human: bool = False, built_in: bool = False
) -> AsyncIterator[Client]:
    found = Client(threadless(), callback, username, human=human, built_in=built_in)
    try:
        yield found
    finally:
        await found.host.close()


async def test_one_call_for_all_who_need_a_token() -> None:
    callback = Callback("t", seconds=3)
    async with client(callback) as source:
        found = []

        async def get() -> None:
            found.append(await source.get())

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(get)
        assert await source.get() == ("t", True)
    assert sorted(found) == [("t", False)] + [("t", True)] * 4
    assert len(callback.contexts) == 1


async def test_calls_are_a_tenth_of_a_second_apart() -> None:
    callback = Callback("1", "2", "3")
    async with client(callback) as source:
        begin = source.now
        for _ in range(2):
            await source.get()
            source.cache.access_token = None
        await source.runtime.sleep(1)
        await source.get()
    assert [round(time - begin, 6) for time in callback.times] == [0.0, 0.1, 1.1]
    assert callback.most_running == 1


async def test_a_failure_is_told_to_all_who_wait_and_does_not_last() -> None:
    failure = RuntimeError("secret")
    callback = Callback(failure, "t", seconds=1)
    errors: list[BaseException] = []
    async with client(callback) as source:

        async def get() -> None:
            with pytest.raises(OperationFailure, match="the callback raised RuntimeError") as caught:
                await source.get()
            errors.append(caught.value)

        async with anyio.create_task_group() as group:
            group.start_soon(get)
            group.start_soon(get)
        assert await source.get() == ("t", False)
    assert errors[0] is not errors[1], "an exception belongs to one raiser"
    assert all(error.__cause__ is failure and "secret" not in str(error) for error in errors)
    assert len(callback.contexts) == 2


async def test_errors_of_ours_say_what_is_wrong() -> None:
    failure = ConfigurationError("no file")
    async with client(Callback(failure), built_in=True) as source:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="no file") as caught:
                await source.get()
            assert caught.value is not failure, "an exception belongs to one raiser"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ConfigurationError("secret"), "the callback raised ConfigurationError"),
        ({"access_token": "secret"}, "must return an OIDCCallbackResult, not dict"),
    ],
)
async def test_errors_of_the_application_are_its_own(result: object, text: str) -> None:
    async with client(Callback(result)) as source:
        with pytest.raises(OperationFailure, match=text) as caught:
            await source.get()
    assert "secret" not in str(caught.value)


async def test_a_client_that_is_closed_asks_nobody() -> None:
    callback = Callback("t")
    async with client(callback) as source:
        await source.host.close()
        begin = source.now
        with pytest.raises(InvalidOperation, match="the client is closed"):
            await source.get()
        assert source.now == begin
    assert not callback.contexts


def test_a_callback_that_cancels_itself() -> None:
    """On trio none can: there, only a scope around a task cancels it."""

    class Cancelled(OIDCCallback):
        async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            raise asyncio.CancelledError

    async def main() -> None:
        async with client(Cancelled()) as source:
            with pytest.raises(OperationFailure, match="the callback raised CancelledError"):
                await source.get()

    asyncio.run(main())


class _Odd(BaseException):
    """As `pytest.fail` raises."""


@pytest.mark.real_time
@pytest.mark.parametrize("kind", [ValueError, StopIteration, GeneratorExit, asyncio.CancelledError, _Odd])
async def test_whatever_a_callback_in_a_thread_raises_is_its_own(kind: type[BaseException]) -> None:
    failures = [kind("secret")]

    class Failing(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            if failures:
                raise failures.pop()
            return OIDCCallbackResult("t")

    async with client(Failing()) as source:
        with pytest.raises(OperationFailure, match=f"the callback raised {kind.__name__}$") as caught:
            await source.get()
        assert isinstance(caught.value.__cause__, kind)
        assert await source.get() == ("t", False)


@pytest.mark.parametrize("is_promise", [False, True])
async def test_whatever_a_callback_raises_is_its_own(is_promise: bool) -> None:
    failures = [_Odd("secret")]

    async def fetched() -> OIDCCallbackResult:
        if failures:
            raise failures.pop()
        return OIDCCallbackResult("t")

    class Failing(OIDCCallback):
        async def fetch(self, context: OIDCCallbackContext) -> OIDCCallbackResult:
            return await fetched()

    class Promising(OIDCCallback):
        def fetch(self, context: OIDCCallbackContext) -> Any:
            return fetched()

    async with client(Promising() if is_promise else Failing()) as source:
        with pytest.raises(OperationFailure, match=r"the callback raised _Odd$"):
            await source.get()
        assert await source.get() == ("t", False)


class PromisingCallback(OIDCCallback):
    """A synchronous callback that returns a promise."""

    def fetch(self, context: OIDCCallbackContext) -> Any:
        async def later() -> OIDCCallbackResult:
            return OIDCCallbackResult("token")

        return later()


@pytest.mark.parametrize("kind", [BlockingCallback, PromisingCallback])
async def test_a_synchronous_callback(kind: type[OIDCCallback]) -> None:
    async with client(kind()) as source:
        assert await source.get() == ("token", False)


@pytest.mark.parametrize(
    ("human", "connecting", "operation", "seconds"),
    [
        (False, 20.0, None, 60.0),
        # The smaller of what is left of connectTimeoutMS and of timeoutMS.
        (False, 20.0, 5.0, 5.0),
        (False, 20.0, 50.0, 20.0),
        (False, 20.0, inf, 20.0),
        (False, inf, inf, 60.0),
        (True, 20.0, None, 300.0),
        (True, 20.0, 5.0, 300.0),
    ],
)
async def test_the_time_that_it_is_told(
    human: bool, connecting: float, operation: float | None, seconds: float
) -> None:
    callback = Callback("t")
    async with client(callback, human=human) as source:
        await source.get(source.limits(connecting, operation))
    assert callback.contexts[0].timeout_seconds == pytest.approx(seconds)


# --- how long anybody waits ---


@pytest.mark.parametrize(("human", "seconds"), [(False, 60.0), (True, 300.0)])
async def test_a_callback_that_takes_too_long_is_cancelled(human: bool, seconds: float) -> None:
    callback = Callback("t", seconds=1000)
    async with client(callback, human=human) as source:
        begin = source.now
        with pytest.raises(ExecutionTimeout, match="no token in time") as caught:
            await source.get()
        assert source.now - begin == pytest.approx(seconds)
        assert caught.value.timeout
        await source.runtime.sleep(0)
        await source.runtime.sleep(0)
        assert callback.running == 0
        callback.seconds = 0
        assert await source.get() == ("t", False)


@pytest.mark.parametrize(("human", "operation"), [(False, None), (True, None), (True, 5.0)])
async def test_its_time_is_not_taken_from_the_connection(human: bool, operation: float | None) -> None:
    """People are not subject to the deadline either."""
    async with client(Callback("t", seconds=30), human=human) as source:
        limits = source.limits(20.0, operation)
        before = limits.until
        assert await source.get(limits) == ("t", False)
        assert limits.until == pytest.approx(before + 30)


@pytest.mark.parametrize(
    ("human", "connecting", "is_operation", "waited"), [(False, 20.0, False, 20.0), (True, 5.0, True, 5.0)]
)
async def test_under_a_deadline_it_is(human: bool, connecting: float, is_operation: bool, waited: float) -> None:
    """Of the operation that asked for a connection, or of the one that reauthenticates."""
    callback = Callback("t", seconds=30)
    async with client(callback, human=human) as source:
        begin = source.now
        with pytest.raises(ExecutionTimeout):
            await source.get(source.limits(connecting, 5.0, is_operation=is_operation))
        assert source.now - begin == pytest.approx(waited), "what is being made is of use to others"
        # The call goes on for the next operation that needs a token.
        assert await source.get() == ("t", True)
        assert source.now - begin == pytest.approx(30)
    assert len(callback.contexts) == 1


async def test_who_is_cancelled_does_not_end_the_call() -> None:
    callback = Callback("t", seconds=30)
    async with client(callback) as source:
        with anyio.move_on_after(5):
            await source.get()
        assert await source.get() == ("t", True)
    assert len(callback.contexts) == 1


async def test_a_call_whose_time_is_up_is_replaced() -> None:
    callback = Callback("t", seconds=100)
    async with client(callback) as source:
        with anyio.move_on_after(5):
            await source.get()
        # Nobody waits for it any more, so nobody has ended it.
        await source.runtime.sleep(60)
        assert callback.running == 1
        callback.seconds = 1
        assert await source.get() == ("t", False)
        assert len(callback.contexts) == 2
        assert callback.most_running == 1


async def test_the_next_call_waits_for_one_that_ends_slowly() -> None:
    class Slow(Callback):
        async def fetch(self, context: OIDCCallbackContext) -> Any:
            self.running += 1
            self.most_running = max(self.running, self.most_running)
            try:
                return await super().fetch(context)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(2)
                self.running -= 1

    callback = Slow("t", seconds=1000)
    async with client(callback) as source:
        with pytest.raises(ExecutionTimeout):
            await source.get()
        callback.seconds = 0
        begin = source.now
        assert await source.get() == ("t", False)
        assert source.now - begin == pytest.approx(4), "two seconds for the end of each"
        # Each counts itself twice.
        assert callback.most_running == 2


async def test_a_result_that_comes_after_the_cancellation_is_not_kept() -> None:
    class Stubborn(Callback):
        async def fetch(self, context: OIDCCallbackContext) -> Any:
            try:
                return await super().fetch(context)
            except BaseException:
                return OIDCCallbackResult("stale")

    callback = Stubborn("t", seconds=1000)
    async with client(callback) as source:
        with pytest.raises(ExecutionTimeout):
            await source.get()
        await source.runtime.sleep(1)
        assert source.cache.access_token is None
        callback.seconds = 0
        assert await source.get() == ("t", False)


async def test_the_end_of_the_client_ends_the_wait() -> None:
    callback = Callback("t", seconds=100)
    async with client(callback) as source, anyio.create_task_group() as group:

        async def get() -> None:
            with pytest.raises(OperationFailure, match="the client was closed before the callback returned"):
                await source.get()

        group.start_soon(get)
        await source.runtime.sleep(1)
        await source.host.close()
