from __future__ import annotations

import asyncio
import subprocess
import sys
from math import inf
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import trio
import uvloop
from anyio.lowlevel import checkpoint

from motorlite._net.current import current_runtime
from motorlite._net.on_asyncio.runtime import AsyncioRuntime
from motorlite._net.on_trio.runtime import TrioRuntime
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from motorlite._net.runtime import Runtime


async def runtime_here() -> Runtime:
    return current_runtime()


def test_without_an_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidOperation, match="running asyncio or trio event loop"):
        current_runtime()
    monkeypatch.delitem(sys.modules, "trio")
    with pytest.raises(InvalidOperation, match="running asyncio or trio event loop"):
        current_runtime()


def test_each_event_loop_has_its_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = trio.run(runtime_here)
    assert isinstance(runtime, TrioRuntime)
    assert runtime.name == "trio"
    with asyncio.Runner() as runner:
        runtime = runner.run(runtime_here())
        assert isinstance(runtime, AsyncioRuntime)
        assert runtime.name == "asyncio"
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(runtime_here()).name == "uvloop"
    monkeypatch.delitem(sys.modules, "trio")
    with asyncio.Runner() as runner:
        assert isinstance(runner.run(runtime_here()), AsyncioRuntime)


def test_a_runtime_knows_its_loop() -> None:
    async def is_current(runtime: Runtime) -> bool:
        return runtime.is_current()

    on_trio = trio.run(runtime_here)
    with asyncio.Runner() as one, asyncio.Runner() as other:
        runtime = one.run(runtime_here())
        assert not runtime.is_current()
        assert one.run(is_current(runtime))
        assert not other.run(is_current(runtime))
        assert not one.run(is_current(on_trio))
        assert not trio.run(is_current, runtime)
    assert not trio.run(is_current, on_trio)
    assert not on_trio.is_current()


@pytest.mark.anyio
async def test_a_thread_is_elsewhere() -> None:
    runtime = current_runtime()
    assert runtime.is_current()
    assert not await anyio.to_thread.run_sync(runtime.is_current)
    assert runtime.now() == pytest.approx(anyio.current_time(), abs=1)


async def deadline_here() -> float:
    await checkpoint()
    return current_runtime().scope_deadline()


@pytest.mark.anyio
async def test_the_deadline_of_the_scopes_around() -> None:
    assert await deadline_here() == inf
    with anyio.fail_after(50), anyio.CancelScope() as inner:
        inner.deadline = anyio.current_time() + 100
        outer_deadline = await deadline_here()
        assert outer_deadline == pytest.approx(anyio.current_time() + 50, abs=5)
        inner.deadline = outer_deadline - 20
        assert await deadline_here() == outer_deadline - 20
        with anyio.CancelScope(shield=True):
            assert await deadline_here() == inf
        inner.cancel()
        assert current_runtime().scope_deadline() == -inf


def test_a_program_without_anyio_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of asyncio's own scopes cannot be seen."""

    async def main() -> None:
        async with asyncio.timeout(50):
            assert await deadline_here() == inf
            monkeypatch.delitem(sys.modules, "anyio._backends._asyncio", raising=False)
            assert current_runtime().scope_deadline() == inf

    with asyncio.Runner() as runner:
        runner.run(main())


def test_trio_as_the_guest_of_asyncio() -> None:
    """Both loops share a thread: each task gets the runtime of its own, and is refused that of the other."""
    seen: dict[str, Runtime] = {}

    async def guest() -> None:
        seen["trio"] = current_runtime()
        await trio.sleep(0.01)
        assert seen["trio"].is_current()
        assert not seen["asyncio"].is_current()

    async def host() -> None:
        loop = asyncio.get_running_loop()
        ended = loop.create_future()
        trio.lowlevel.start_guest_run(
            guest, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=ended.set_result
        )
        assert trio.lowlevel.in_trio_run(), "which says nothing about this task"
        seen["asyncio"] = current_runtime()
        while not ended.done():
            assert seen["asyncio"].is_current()
            assert "trio" not in seen or not seen["trio"].is_current()
            await asyncio.sleep(0.001)
        ended.result().unwrap()

    with asyncio.Runner() as runner:
        runner.run(host())
    assert isinstance(seen["asyncio"], AsyncioRuntime)
    assert isinstance(seen["trio"], TrioRuntime)


FORKING = """
import os, sys
from motorlite._net import current
before = current.fork_generation
child = os.fork()
if child == 0:
    sys.exit(10 + current.fork_generation - before)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), current.fork_generation - before)
"""


def test_a_fork_is_noticed_in_the_child_only() -> None:
    result = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=50, check=True)
    assert result.stdout.split() == ["11", "0"]


@pytest.mark.parametrize("has_backend_class", [True, False], ids=["anyio 4.11", "older anyio"])
def test_the_deadline_of_an_anyio_scope_that_is_opened_later(
    monkeypatch: pytest.MonkeyPatch, has_backend_class: bool
) -> None:
    """The runtime lives long, and remembers how anyio is asked, but not its answers."""
    if not has_backend_class:
        monkeypatch.setattr(anyio.lowlevel, "current_token", object)
    found: list[float] = []

    async def main() -> None:
        runtime = current_runtime()
        with monkeypatch.context() as patch:
            patch.delitem(sys.modules, "anyio._backends._asyncio", raising=False)
            found.append(runtime.scope_deadline())
        for _ in range(2):
            with anyio.fail_after(50):
                await checkpoint()
                found.append(runtime.scope_deadline() - anyio.current_time())
            found.append(runtime.scope_deadline())

    with asyncio.Runner() as runner:
        runner.run(main())
    assert found == [inf, *[pytest.approx(50, abs=5), inf] * 2]
