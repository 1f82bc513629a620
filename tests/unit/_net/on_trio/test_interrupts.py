"""Ctrl-C during background work on trio: it ends the program, without an internal error of trio's."""

from __future__ import annotations

import signal
from math import inf
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from motorlite._net.on_trio.runtime import TrioRuntime
from motorlite._wire.frames import FrameReader
from motorlite.errors import AutoReconnect

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def handles_interrupts() -> Iterator[None]:
    """Also where this process runs in the background of a shell, which ignores Ctrl-C then."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("has_sibling", [False, True])
def test_an_interrupt_of_a_task_that_background_work_has_started(has_sibling: bool) -> None:
    async def fail() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("cancelled")

    async def work() -> None:
        async with trio.open_nursery() as nursery:
            if has_sibling:
                nursery.start_soon(fail)
                await trio.sleep(1)
            nursery.start_soon(interrupted)

    async def main() -> None:
        host = TrioRuntime().host("test", lambda: None)
        host.spawn(work)
        try:
            await trio.sleep(60)
        finally:
            await host.close()

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_an_interrupt_while_connecting_goes_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[str] = []

    async def open_tcp_stream(_host: str, _port: int) -> None:
        """As trio's own: its tasks are not protected from Ctrl-C, even if the caller is."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(interrupted)

    async def connect() -> None:
        with pytest.raises(AutoReconnect) as caught:
            await TrioRuntime().connect(("a", 1), FrameReader(), inf, None)
        errors.append(str(caught.value))

    async def main() -> None:
        host = TrioRuntime().host("test", lambda: None)
        host.spawn(connect)
        try:
            await trio.sleep(60)
        finally:
            await host.close()

    monkeypatch.setattr(trio, "open_tcp_stream", open_tcp_stream)
    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert errors == ["a:1: connecting was interrupted"]


@pytest.mark.parametrize("until", [inf, 60])
def test_a_waiter_that_was_interrupted_before_it_waits(monkeypatch: pytest.MonkeyPatch, until: float) -> None:
    """An offer that comes later must not wake the task out of another wait."""
    wait_task_rescheduled = trio.lowlevel.wait_task_rescheduled

    def interrupted_once(_: object) -> None:
        monkeypatch.setattr(trio.lowlevel, "wait_task_rescheduled", wait_task_rescheduled)
        raise KeyboardInterrupt

    async def main() -> None:
        waiter = TrioRuntime().waiter()
        monkeypatch.setattr(trio.lowlevel, "wait_task_rescheduled", interrupted_once)
        with pytest.raises(KeyboardInterrupt):
            await waiter.wait(until)
        trio.lowlevel.current_trio_token().run_sync_soon(waiter.offer, "value")
        await trio.sleep(1)
        assert trio.current_time() == 1
        assert waiter.take_back() is None

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
