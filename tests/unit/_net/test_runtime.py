"""What the shells need of an event loop, on asyncio and on trio: waiters, background work, sleep and threads."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import weakref
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trio
import uvloop
from anyio.lowlevel import checkpoint

from motorlite._net.current import current_runtime
from motorlite._net.on_asyncio.runtime import AsyncioWaiter
from motorlite._net.runtime import WaitTimeout
from tests.support.cancellation import InterruptedFuture
from tests.support.virtual_time import START

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from motorlite._net.runtime import Host, Waiter

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


# --- waiters ---


async def waiting(waiter: Waiter, until: float = inf) -> Any:
    try:
        return await waiter.wait(until)
    except WaitTimeout:
        return "timeout"


async def test_a_value_that_comes_later() -> None:
    waiter = current_runtime().waiter()
    received: list[Any] = []
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            received.append(await waiter.wait(START + 60))

        group.start_soon(wait)
        await anyio.sleep(1)
        assert waiter.offer("value")
        assert not waiter.offer("another")
    assert received == ["value"]
    assert anyio.current_time() == START + 1


@pytest.mark.parametrize("until", [inf, START + 5, START - 5])
async def test_a_value_that_was_there_before(until: float) -> None:
    waiter = current_runtime().waiter()
    assert waiter.offer("value")
    assert not waiter.offer("another")
    assert await waiter.wait(until) == "value"
    assert anyio.current_time() == START


@pytest.mark.parametrize(("until", "ends"), [(START + 5, START + 5), (START - 1, START)])
async def test_no_value_in_time(until: float, ends: float) -> None:
    waiter = current_runtime().waiter()
    with pytest.raises(WaitTimeout):
        await waiter.wait(until)
    assert anyio.current_time() == ends
    assert not waiter.offer("late")
    assert waiter.take_back() is None


async def test_a_waiter_that_gave_up_takes_nothing() -> None:
    waiter = current_runtime().waiter()
    with anyio.move_on_after(5) as scope:
        await waiter.wait(inf)
    assert scope.cancelled_caught
    assert not waiter.offer("late")
    assert waiter.take_back() is None


def test_a_waiter_that_is_cancelled_as_it_takes_a_value() -> None:
    """On Ctrl-C, by the signal handler of asyncio.run. Whoever made the offer must learn that nobody took it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.create_future = lambda: InterruptedFuture(loop=loop)  # type: ignore[method-assign]
        waiter = AsyncioWaiter(loop)
        del loop.create_future
        assert not waiter.offer("value")
        assert waiter.take_back() is None

    asyncio.run(main())


async def test_a_waiter_that_was_cancelled_before_it_waited() -> None:
    waiter = current_runtime().waiter()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await checkpoint()
        await waiter.wait(inf)
    assert waiter.take_back() is None
    assert waiter.offer("value")
    assert waiter.take_back() == "value"


@pytest.mark.parametrize("order", ["offer first", "cancel first"])
async def test_cancelled_in_the_moment_of_the_offer(order: str) -> None:
    """What was accepted is received or can be taken back; what was refused is neither."""
    waiter = current_runtime().waiter()
    received: list[Any] = []
    scope = anyio.CancelScope()
    tasks: list[asyncio.Task[Any]] = []

    async def wait() -> None:
        if current_runtime().name != "trio":
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
        with scope:
            received.append(await waiter.wait(START + 60))

    def cancel() -> None:
        # anyio's own cancellation spares a task that is about to wake.
        if tasks:
            tasks[0].cancel()
        else:
            scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(1)
        if order == "offer first":
            accepted = waiter.offer("value")
            cancel()
        else:
            cancel()
            accepted = waiter.offer("value")
    assert accepted is (order == "offer first")
    assert [*received, waiter.take_back()].count("value") >= accepted
    if not accepted:
        assert received == []
        assert waiter.take_back() is None


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("event", ["offer", "cancellation"])
def test_the_moment_of_the_timeout_on_asyncio(event: str, before: bool) -> None:
    """A task that is cancelled in the turn of its timeout never sees it; the loop must not complain."""
    complaints: list[dict[str, Any]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        until = loop.time() + 0.02
        waiter = current_runtime().waiter()
        task = asyncio.ensure_future(waiter.wait(until))
        await asyncio.sleep(0)
        accepted = []

        def act() -> None:
            if event == "offer":
                accepted.append(waiter.offer("value"))
            else:
                task.cancel()

        loop.call_at(until - 1e-6 if before else until + 1e-6, act)
        while loop.time() < until + 0.001:  # so that both timers fire in one turn
            pass
        await asyncio.wait([task])
        if event == "cancellation":
            assert task.cancelled()
        elif before:
            assert (task.result(), accepted) == ("value", [True])
        else:
            assert isinstance(task.exception(), WaitTimeout)
            assert accepted == [False]

    with asyncio.Runner() as runner:
        runner.run(main())
        gc.collect()
    assert complaints == []


# --- background work ---


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")


class Background:
    """Functions to spawn, and what became of them."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.ended = 0

    def on_end(self) -> None:
        self.ended += 1

    async def note(self, *args: Any) -> None:
        self.log.append((*args, variable.get()))

    async def fail(self) -> None:
        await anyio.sleep(1)
        raise LookupError("in the background")

    async def forever(self, name: str = "forever") -> None:
        try:
            self.log.append(f"{name} began")
            await anyio.sleep_forever()
        finally:
            self.log.append(f"{name} ended")

    async def slowly(self, name: str) -> None:
        try:
            await self.forever(name)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(3)
            self.log.append("really")

    async def spawn_at_the_end(self, host: Host) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            host.spawn(anyio.sleep, 3600)


def hosted() -> tuple[Background, Host]:
    background = Background()
    return background, current_runtime().host("test", background.on_end)


async def test_background_work_knows_nothing_of_its_caller() -> None:
    background = Background()
    token = variable.set("the caller's")
    try:
        host = current_runtime().host("test", background.on_end)
        host.spawn(background.note, "early", 1)
        await anyio.sleep(1)
        host.spawn(background.note, "late")
        await anyio.sleep(1)
    finally:
        variable.reset(token)
    assert background.log == [("early", 1, "nothing"), ("late", "nothing")]
    assert background.ended == 0
    await host.close()
    assert background.ended == 1


async def test_background_work_keeps_nothing_of_its_caller() -> None:
    class Request:
        pass

    held: contextvars.ContextVar[Request] = contextvars.ContextVar("held")
    background, host = hosted()
    await anyio.sleep(1)
    requests: list[weakref.ref[Request]] = []

    async def call() -> None:
        request = Request()
        requests.append(weakref.ref(request))
        held.set(request)
        host.spawn(background.forever)
        await anyio.sleep(1)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
    await anyio.sleep(1)
    gc.collect()
    assert background.log == ["forever began"]
    assert requests[0]() is None
    await host.close()


async def test_the_host_outlives_its_maker() -> None:
    background = Background()
    hosts = []

    async def make() -> None:
        hosts.append(current_runtime().host("test", background.on_end))
        hosts[0].spawn(background.forever)
        await anyio.sleep(1)

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(make)
        scope.cancel()
        await checkpoint()
    await anyio.sleep(1)
    assert background.log == ["forever began"]
    await hosts[0].close()
    assert background.log == ["forever began", "forever ended"]


async def test_close_cancels_and_waits() -> None:
    background, host = hosted()
    host.spawn(background.slowly, "one")
    await anyio.sleep(1)
    host.spawn(background.slowly, "two")
    await anyio.sleep(1)
    await host.close()
    assert anyio.current_time() == START + 5
    assert sorted(background.log) == ["one began", "one ended", "really", "really", "two began", "two ended"]
    assert background.ended == 1
    await host.close()
    assert background.ended == 1
    host.spawn(background.note, "after the end").cancel()
    host.spawn(background.note, "after the end")
    await anyio.sleep(1)
    assert len(background.log) == 6


async def test_close_at_once() -> None:
    background, host = hosted()
    host.spawn(anyio.sleep, 60)
    await host.close()
    assert anyio.current_time() == START
    assert background.ended == 1


async def test_a_close_that_is_cancelled_goes_on() -> None:
    background, host = hosted()
    host.spawn(background.slowly, "one")
    await anyio.sleep(1)
    assert not host.is_closed
    with anyio.CancelScope() as scope:
        scope.cancel()
        await host.close()
    assert host.is_closed, "as soon as its end has begun"
    assert background.ended == 0
    await anyio.sleep(4)
    assert background.ended == 1
    assert background.log == ["one began", "one ended", "really"]


async def test_failures_are_logged_and_go_no_further(caplog: pytest.LogCaptureFixture) -> None:
    background, host = hosted()
    host.spawn(background.fail)
    host.spawn(background.forever)
    with caplog.at_level(logging.ERROR, "motorlite.client"):
        await anyio.sleep(2)
        host.spawn(background.fail)
        await anyio.sleep(2)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError] * 2
    assert all("Background.fail" in record.getMessage() for record in caplog.records)
    assert background.log == ["forever began"]
    await host.close()
    assert background.ended == 1


async def test_one_task_is_cancelled() -> None:
    background, host = hosted()
    never = host.spawn(background.forever, "never")
    never.cancel()
    one = host.spawn(background.forever, "one")
    host.spawn(background.forever, "two")
    await anyio.sleep(1)
    one.cancel()
    one.cancel()
    await anyio.sleep(1)
    assert sorted(background.log) == ["one began", "one ended", "two began"]
    await host.close()
    assert background.log[3:] == ["two ended"]


async def test_work_that_is_spawned_while_the_host_closes_is_not_waited_for() -> None:
    background, host = hosted()
    host.spawn(background.spawn_at_the_end, host)
    await anyio.sleep(1)
    await host.close()
    assert anyio.current_time() == START + 1
    assert background.ended == 1


# --- the end of the event loop ---


def run_on_uvloop(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.fixture(params=[lambda main: asyncio.run(main()), run_on_uvloop, trio.run], ids=["asyncio", "uvloop", "trio"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    function: Callable[[Callable[[], Awaitable[None]]], None] = request.param
    return function


def test_a_loop_that_ends_takes_the_host_along(run: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
    background = Background()

    async def main() -> None:
        host = current_runtime().host("test", background.on_end)
        host.spawn(background.forever, "one")
        await anyio.sleep(0.01)
        host.spawn(background.forever, "two")
        await anyio.sleep(0.01)

    run(main)
    assert sorted(background.log) == ["one began", "one ended", "two began", "two ended"]
    assert background.ended == 1
    gc.collect()


class Thing:
    """What each loop shall have one of."""


def test_clients_share_what_is_made_for_their_loop(run: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
    made: list[weakref.ref[Thing]] = []

    async def main() -> None:
        thing = current_runtime().shared(Thing)
        assert current_runtime().shared(Thing) is thing
        assert isinstance(current_runtime().shared(dict), dict)
        assert not any(other() is thing for other in made)
        made.append(weakref.ref(thing))

    run(main)
    run(main)
    gc.collect()
    assert [one() for one in made] == [None, None], "it ends with its loop"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_loop_without_weak_references_shares_nothing() -> None:
    runtime: Any = current_runtime()
    runtime._loop = object()
    assert runtime.shared(Thing) is not runtime.shared(Thing)


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_loop_ends_although_there_is_work(
    run: Callable[[Callable[[], Awaitable[None]]], None], has_begun: bool
) -> None:
    """Neither work that was spawned before the host began keeps it from ending, nor what is spawned at the end."""
    background = Background()

    async def main() -> None:
        host = current_runtime().host("test", background.on_end)
        host.spawn(background.spawn_at_the_end, host)
        if has_begun:
            await anyio.sleep(0.01)

    run(main)
    assert background.ended == 1
    gc.collect()


def test_a_loop_that_ends_after_the_close(run: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
    background = Background()

    async def main() -> None:
        host = current_runtime().host("test", background.on_end)
        host.spawn(background.forever)
        await anyio.sleep(0.01)
        await host.close()

    run(main)
    assert background.ended == 1


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_background_work_leaves_the_loop_once(
    make_loop: Callable[[], asyncio.AbstractEventLoop], interrupt: type[BaseException]
) -> None:
    """Else it would also end what the program runs to clean up. On trio, background work is not interrupted."""
    background = Background()
    hosts: list[Host] = []

    async def fail() -> None:
        raise interrupt

    async def main() -> None:
        hosts.append(current_runtime().host("test", background.on_end))
        hosts[0].spawn(background.forever)
        hosts[0].spawn(fail)
        await asyncio.sleep(60)

    with asyncio.Runner(loop_factory=make_loop) as runner:
        with pytest.raises(interrupt):
            runner.run(main())
        hosts[0].spawn(background.forever)
        runner.run(hosts[0].close())
        assert background.log == ["forever began", "forever ended"]
        assert background.ended == 1
    gc.collect()


# --- the rest ---


async def test_sleep() -> None:
    runtime = current_runtime()
    assert runtime.now() == START
    await runtime.sleep(1.5)
    assert runtime.now() == START + 1.5
    await runtime.sleep(0)
    assert runtime.now() == START + 1.5


@pytest.mark.real_time
async def test_threads() -> None:
    runtime = current_runtime()
    here = threading.get_ident()
    assert await runtime.run_in_thread(threading.get_ident) != here

    def fail() -> None:
        raise LookupError("in the thread")

    with pytest.raises(LookupError, match="in the thread"):
        await runtime.run_in_thread(fail)


@pytest.mark.real_time
async def test_a_stop_iteration_in_a_thread_reaches_the_caller() -> None:
    runtime = current_runtime()
    with pytest.raises(RuntimeError, match="raised StopIteration") as failure:
        await runtime.run_in_thread(lambda: next(iter(())), runtime.now() + 60)
    assert isinstance(failure.value.__cause__, StopIteration)


@pytest.mark.real_time
async def test_a_thread_that_takes_too_long_is_not_waited_for() -> None:
    runtime = current_runtime()
    may_go_on = threading.Event()
    begin = runtime.now()
    try:
        with pytest.raises(WaitTimeout):
            await runtime.run_in_thread(partial(may_go_on.wait, 10), begin + 0.05)
        assert runtime.now() - begin < 5
    finally:
        may_go_on.set()

    def fail() -> None:
        raise TimeoutError("of its own")

    assert await runtime.run_in_thread(threading.get_ident, runtime.now() + 60)
    with pytest.raises(TimeoutError, match="of its own"):
        await runtime.run_in_thread(fail, runtime.now() + 60)


@pytest.mark.real_time
async def test_a_call_from_another_thread() -> None:
    runtime = current_runtime()
    called: list[Any] = []
    waiter = runtime.waiter()

    def call(what: str) -> None:
        called.append((what, threading.get_ident(), variable.get()))
        waiter.offer(True)

    token = variable.set("the caller's")
    try:
        await runtime.run_in_thread(lambda: runtime.run_soon(call, "there"))
        await waiter.wait(runtime.now() + 10)
        waiter = runtime.waiter()
        runtime.run_soon(call, "here")
        assert len(called) == 1, "not at once"
        await waiter.wait(runtime.now() + 10)
    finally:
        variable.reset(token)
    assert called == [(where, threading.get_ident(), "nothing") for where in ("there", "here")]


@pytest.mark.real_time
async def test_a_call_that_fails_ends_nothing_else() -> None:
    runtime = current_runtime()
    if runtime.name != "trio":  # asyncio has a handler of its own for it, which the tests take for a failure
        asyncio.get_running_loop().set_exception_handler(lambda _, context: None)
    waiter = runtime.waiter()

    def fail() -> None:
        raise LookupError("on the event loop")

    runtime.run_soon(fail)
    runtime.run_soon(lambda: waiter.offer(True))
    assert await waiter.wait(runtime.now() + 10)


def test_a_call_after_the_end_of_the_loop(run: Callable[[Callable[[], Awaitable[None]]], None]) -> None:
    runtimes = []
    called: list[str] = []

    async def main() -> None:
        runtimes.append(current_runtime())

    run(main)
    runtimes[0].run_soon(called.append, "too late")
    assert called == []


def test_background_work_never_begins_before_spawn_returns() -> None:
    """Not even with an eager task factory (`asyncio.eager_task_factory`), which takes the first step at once."""
    order: list[str] = []

    class EagerTask(asyncio.Task[Any]):
        def __init__(self, coro: Any, **arguments: Any) -> None:
            first: Any = coro.send(None)

            async def rest() -> Any:
                await asyncio.sleep(0)
                assert first is None, "the first step gave way"
                try:
                    while True:
                        coro.send(None)
                        await asyncio.sleep(0)
                except StopIteration as end:
                    return end.value

            super().__init__(rest(), **arguments)

    async def work() -> None:
        order.append("work")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        host = current_runtime().host("test", lambda: None)
        await asyncio.sleep(0.01)
        loop.set_task_factory(lambda loop, coro, **arguments: EagerTask(coro, loop=loop, **arguments))
        host.spawn(work)
        order.append("spawn returned")
        loop.set_task_factory(None)
        await asyncio.sleep(0.01)
        await host.close()

    asyncio.run(main())
    assert order == ["spawn returned", "work"]
