"""Many waiters are woken in slices: each one once, in order, and the event loop does other things in between."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

import anyio
import pytest

from motorlite._net.current import current_runtime
from motorlite._net.waking import AT_ONCE, Waking

if TYPE_CHECKING:
    from motorlite._net.runtime import Waiter

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Many:
    """Tasks that wait."""

    def __init__(self, group: anyio.abc.TaskGroup, number: int) -> None:
        self.waiters = [current_runtime().waiter() for _ in range(number)]
        # What was offered, in this order; and what was received.
        self.offered: list[int] = []
        self.received: dict[int, object] = {}
        self.scopes = [anyio.CancelScope() for _ in range(number)]
        for number, waiter in enumerate(self.waiters):
            group.start_soon(self._wait, number, waiter)

    async def _wait(self, number: int, waiter: Waiter) -> None:
        with self.scopes[number]:
            self.received[number] = await waiter.wait(inf)

    def wake(self, waking: Waking, start: int = 0, stop: int | None = None) -> None:
        waking.wake(range(start, len(self.waiters) if stop is None else stop), self._offer)

    def _offer(self, number: int) -> bool:
        self.offered.append(number)
        return self.waiters[number].offer(f"value {number}")


@pytest.mark.parametrize("number", [0, 1, 7, AT_ONCE - 1])
async def test_a_few_are_woken_at_once(number: int) -> None:
    async with anyio.create_task_group() as group:
        many = Many(group, number)
        await anyio.sleep(1)
        many.wake(Waking(current_runtime()))
        assert many.offered == list(range(number))
    assert many.received == {number: f"value {number}" for number in range(number)}


@pytest.mark.parametrize("number", [AT_ONCE, AT_ONCE + 1, 10 * AT_ONCE + 7])
async def test_many_are_woken_in_slices_and_in_order(number: int) -> None:
    async with anyio.create_task_group() as group:
        many = Many(group, number)
        await anyio.sleep(1)
        begun = anyio.current_time()
        many.wake(Waking(current_runtime()))
        sizes = [len(many.offered)]
        while len(many.received) < number:
            await anyio.lowlevel.checkpoint()
            sizes.append(len(many.offered))
        assert anyio.current_time() == begun, "nobody waits for a timer"
    # trio shuffles the tasks of a step, so this one may have been the first, and then the last.
    assert max(after - before for before, after in pairwise([0, *sizes])) <= 2 * AT_ONCE
    assert many.offered == list(range(number))
    assert many.received == {number: f"value {number}" for number in range(number)}


async def test_a_later_round_begins_when_the_earlier_one_is_over() -> None:
    async with anyio.create_task_group() as group:
        many = Many(group, 5 * AT_ONCE)
        await anyio.sleep(1)
        waking = Waking(current_runtime())
        many.wake(waking, 0, 3 * AT_ONCE)
        many.wake(waking, 0, 0)
        many.wake(waking, 3 * AT_ONCE, 3 * AT_ONCE + 3)
        many.wake(waking, 3 * AT_ONCE + 3)
        assert len(many.offered) == AT_ONCE
    assert many.offered == list(range(5 * AT_ONCE))
    assert len(many.received) == 5 * AT_ONCE

    # It is not exhausted by that.
    async with anyio.create_task_group() as group:
        more = Many(group, 2)
        await anyio.sleep(1)
        more.wake(waking)
        assert more.offered == [0, 1]


async def test_who_has_left_is_skipped() -> None:
    async with anyio.create_task_group() as group:
        many = Many(group, 4 * AT_ONCE)
        await anyio.sleep(1)
        for scope in many.scopes[::2]:
            scope.cancel()
        await anyio.sleep(1)
        many.wake(Waking(current_runtime()))
        # After the first slice, one that would be in the last.
        many.scopes[-1].cancel()
    assert sorted(many.received) == list(range(1, 4 * AT_ONCE - 1, 2))


async def test_an_interrupt_leaves_none_of_the_others_waiting() -> None:
    woken: list[int] = []

    def offer(number: int) -> None:
        woken.append(number)
        if number == 50:
            raise KeyboardInterrupt

    waking = Waking(current_runtime())
    with pytest.raises(KeyboardInterrupt):
        waking.wake(range(AT_ONCE + 10), offer)
    await anyio.sleep(1)
    waking.wake([1000], offer)
    await anyio.sleep(1)
    assert woken == [*range(AT_ONCE + 10), 1000]
