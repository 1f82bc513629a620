"""`timeoutMS` and `motorlite.timeout`: who wins, and what a deadline is made from."""

from __future__ import annotations

from itertools import product
from math import inf, nan
from typing import Any

import anyio
import pytest

import motorlite
from motorlite._api import time_limits
from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite.errors import InvalidOperation
from tests.support.fake_core import FakeCore


@pytest.fixture
def core() -> FakeCore:
    return FakeCore()


def parts(deadline: Deadline) -> tuple[float, float, float]:
    return deadline.expires_at, deadline.scope_expires_at, deadline.timeout


def test_nothing_set_allocates_nothing(core: FakeCore) -> None:
    assert time_limits.deadline(core, None) is NO_DEADLINE


def test_the_scope_alone_is_no_timeout(core: FakeCore) -> None:
    core.scope = 1003.0
    found = time_limits.deadline(core, None)
    assert parts(found) == (inf, 1003.0, inf)
    assert not found.is_set


def test_the_operation_wins_over_what_is_inherited(core: FakeCore) -> None:
    assert parts(time_limits.deadline(core, 5.0)) == (1005.0, inf, 5.0)
    assert parts(time_limits.deadline(core, 5.0, 2500)) == (1002.5, inf, 2.5)
    assert parts(time_limits.deadline(core, 5.0, 10_000)) == (1010.0, inf, 10.0)


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (nan, ValueError), ("1", TypeError), (True, TypeError)])
def test_wrong_values_name_option_value_and_what_is_allowed(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"timeoutMS must be .*, not .*"):
        time_limits.duration_from_ms(value)


def test_a_block_needs_an_event_loop() -> None:
    with pytest.raises(InvalidOperation, match="event loop"), motorlite.timeout(1):
        pass


class TestInALoop:
    pytestmark = pytest.mark.anyio

    async def test_a_block_wins_over_what_is_inherited(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        with motorlite.timeout(3):
            assert parts(time_limits.deadline(core, 1.0)) == (core.time + 3, inf, 3.0)
            assert time_limits.is_timeout_set(None, None)
        assert time_limits.deadline(core, None) is NO_DEADLINE
        assert not time_limits.is_timeout_set(None, None)

    async def test_a_block_bounds_the_operation(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        with motorlite.timeout(3):
            assert parts(time_limits.deadline(core, None, 9000)) == (core.time + 3, inf, 3.0)
            assert parts(time_limits.deadline(core, None, 1000)) == (core.time + 1, inf, 1.0)
            assert parts(time_limits.deadline(core, None, 0)) == (core.time + 3, inf, 3.0)

    async def test_the_end_of_a_block_is_that_of_its_beginning(self, core: FakeCore) -> None:
        start = core.time = anyio.current_time()
        with motorlite.timeout(3):
            await anyio.sleep(1)
            with motorlite.timeout(1):
                assert time_limits.deadline(core, None).expires_at == start + 2
            with motorlite.timeout(10):
                assert time_limits.deadline(core, None).expires_at == start + 3

    async def test_zero_is_no_limit_but_set(self, core: FakeCore) -> None:
        found = time_limits.deadline(core, 5.0, 0)
        assert (parts(found), found.is_set) == ((inf, inf, inf), True)
        with motorlite.timeout(0):
            found = time_limits.deadline(core, 5.0)
            assert (parts(found), found.is_set) == ((inf, inf, inf), True)
            # A cursor that was opened outside of the block.
            assert time_limits.continued(core, NO_DEADLINE).is_set

    async def test_blocks_nest_as_those_of_pymongo(self, core: FakeCore) -> None:
        """What PyMongo would apply to operations of clients with a limit of 4 s, with none and with 0."""
        start = core.time = anyio.current_time()

        def expected(blocks: tuple[float | None, ...], inherited: float | None) -> tuple[float, bool]:
            # The argument of the innermost block, or else the client's; its end, and those of all blocks around it.
            innermost = blocks[-1] if blocks[-1] is not None else inherited
            ends = [start + each for each in (*blocks, innermost) if each]
            return (min(ends) if innermost and innermost != inf else inf), innermost is not None

        values = (None, 0, 2, 3, 6)
        for first, second, third in product(values, values, values):
            with motorlite.timeout(first), motorlite.timeout(second), motorlite.timeout(third):
                for inherited in (None, 4.0, inf):
                    found = time_limits.deadline(core, inherited)
                    assert (found.expires_at, found.is_set) == expected((first, second, third), inherited)
                    assert time_limits.is_timeout_set(inherited, None) is found.is_set

    async def test_what_is_set_inside_of_a_lifted_block_ends_with_the_outer_one(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        lifetime = Deadline(core.time + 9, timeout=9)
        for lifted in (0, None):
            with motorlite.timeout(3), motorlite.timeout(lifted):
                assert time_limits.deadline(core, None).expires_at == inf
                assert time_limits.deadline(core, None, 9000).expires_at == core.time + 3
                assert time_limits.deadline(core, None, 1000).expires_at == core.time + 1
                assert time_limits.refreshed(core, 5.0).expires_at == core.time + 3
                assert time_limits.continued(core, lifetime).expires_at == lifetime.expires_at
                with time_limits.within(lifetime):
                    assert time_limits.deadline(core, None).expires_at == core.time + 3

    @pytest.mark.parametrize(("seconds", "error"), [(-1, ValueError), (nan, ValueError), ("1", TypeError)])
    async def test_a_wrong_limit_is_refused_at_once(self, seconds: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=rf"seconds must be .*, not {seconds!r}$"):
            motorlite.timeout(seconds)

    async def test_a_block_with_async(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        async with motorlite.timeout(3):
            assert parts(time_limits.deadline(core, 1.0)) == (core.time + 3, inf, 3.0)
            with pytest.raises(KeyError):  # it ends with an exception too
                async with motorlite.timeout(1):
                    raise KeyError
            assert time_limits.deadline(core, None).timeout == 3.0
        async with motorlite.timeout(None):
            assert time_limits.deadline(core, None) is NO_DEADLINE

    async def test_a_block_can_be_entered_again_after_its_end(self, core: FakeCore) -> None:
        block = motorlite.timeout(3)
        assert repr(block) == "motorlite.timeout(3)"
        with block:
            await anyio.sleep(1)
            with pytest.raises(InvalidOperation, match=r"motorlite\.timeout\(3\) has been entered already"), block:
                pass
            assert time_limits.deadline(core, None).timeout == 3.0
        with block:
            assert time_limits.deadline(core, None).expires_at == anyio.current_time() + 3
        assert time_limits.deadline(core, None) is NO_DEADLINE

    async def test_later_steps_keep_the_lifetime(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        lifetime = time_limits.deadline(core, 5.0)
        assert time_limits.continued(core, lifetime) is lifetime
        with motorlite.timeout(2):
            assert parts(time_limits.continued(core, lifetime)) == (core.time + 2, inf, 2.0)
        with motorlite.timeout(8):
            assert parts(time_limits.continued(core, lifetime)) == (core.time + 5, inf, 5.0)
        core.scope = core.time + 1
        assert parts(time_limits.continued(core, lifetime)) == (core.time + 5, core.time + 1, 5.0)

    async def test_operations_within_something_longer(self, core: FakeCore) -> None:
        start = core.time = anyio.current_time()
        lifetime = time_limits.deadline(core, 5.0)
        core.time = start + 1
        with time_limits.within(lifetime):
            found = time_limits.deadline(core, 100.0)
            assert (parts(found), found.is_set) == ((start + 5, inf, 5.0), True)
        for seconds, expected in ((2, (start + 2, inf, 2.0)), (9, (start + 5, inf, 5.0))):
            with motorlite.timeout(seconds), time_limits.within(lifetime):
                assert parts(time_limits.deadline(core, None)) == expected
            with time_limits.within(lifetime), motorlite.timeout(seconds):
                assert parts(time_limits.deadline(core, None)) == expected
        with time_limits.within(NO_DEADLINE):
            assert not time_limits.is_timeout_set(None, None)
        with time_limits.within(time_limits.deadline(core, 5.0, 0)):
            found = time_limits.deadline(core, 5.0)
            assert (parts(found), found.is_set) == ((inf, inf, inf), True)

    async def test_close_is_refreshed_after_the_end(self, core: FakeCore) -> None:
        with motorlite.timeout(2):
            await anyio.sleep(3)
            core.time = anyio.current_time()
            assert parts(time_limits.for_close(core, inf)) == (core.time + 2, inf, 2.0)
            assert parts(time_limits.for_close(core, 5.0)) == (core.time + 5, inf, 5.0)
            assert parts(time_limits.for_close(core, 5.0, 400)) == (core.time + 0.4, inf, 0.4)
        assert time_limits.for_close(core, inf) is NO_DEADLINE
        core.scope = core.time + 1
        assert parts(time_limits.for_close(core, inf)) == (inf, core.time + 1, inf)

    async def test_a_refreshed_step_is_bounded_by_the_block(self, core: FakeCore) -> None:
        core.time = anyio.current_time()
        assert parts(time_limits.refreshed(core, 5.0)) == (core.time + 5, inf, 5.0)
        with motorlite.timeout(2):
            assert parts(time_limits.refreshed(core, 5.0)) == (core.time + 2, inf, 2.0)
