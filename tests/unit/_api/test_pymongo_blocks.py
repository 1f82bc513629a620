"""`pymongo.timeout`: read, combined with motorlite's own limits, and refused where it cannot be read."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from itertools import product
from math import inf
from types import ModuleType
from typing import TYPE_CHECKING, Any

import anyio
import pymongo
import pytest
from pymongo import _csot

import motorlite
from motorlite._api import time_limits
from motorlite._api.time_limits import PyMongoBlock, innermost
from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite.errors import InvalidOperation
from tests.support.fake_core import FakeCore, fake_client
from tests.support.pymongo_clock import pymongo_clock  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("pymongo_clock")]


@pytest.fixture
async def core() -> FakeCore:
    made = FakeCore()
    made.time = anyio.current_time()
    return made


def parts(deadline: Deadline) -> tuple[float, float]:
    return deadline.expires_at, deadline.timeout


async def test_no_block(core: FakeCore) -> None:
    assert time_limits.deadline(core, None) is NO_DEADLINE
    assert innermost(pymongo) is None


async def test_a_block_is_like_one_of_ours(core: FakeCore) -> None:
    with pymongo.timeout(3):
        await anyio.sleep(1)
        core.time = anyio.current_time()
        assert parts(time_limits.deadline(core, None)) == (core.time + 2, 3.0)
        # It wins over what is inherited, and bounds the operation's own.
        assert parts(time_limits.deadline(core, 1.0)) == (core.time + 2, 3.0)
        assert parts(time_limits.deadline(core, None, 9000)) == (core.time + 2, 3.0)
        assert parts(time_limits.deadline(core, None, 500)) == (core.time + 0.5, 0.5)
        assert time_limits.deadline(core, None).is_set
        assert time_limits.is_timeout_set(None, None)
    assert time_limits.deadline(core, None) is NO_DEADLINE
    assert not time_limits.is_timeout_set(None, None)


async def test_a_block_that_is_over(core: FakeCore) -> None:
    with pymongo.timeout(1):
        await anyio.sleep(3)
        core.time = anyio.current_time()
        assert time_limits.deadline(core, None).expires_at == core.time - 2


@pytest.mark.parametrize(("theirs", "ours", "expected"), [(1, 5, 1), (5, 1, 1), (3, 0, 3), (0, 3, 3), (0, 0, inf)])
async def test_the_nearer_end_wins(core: FakeCore, theirs: float, ours: float, expected: float) -> None:
    with pymongo.timeout(theirs), motorlite.timeout(ours):
        found = time_limits.deadline(core, 100.0)
    assert parts(found) == (core.time + expected, expected)
    with motorlite.timeout(ours), pymongo.timeout(theirs):
        assert parts(time_limits.deadline(core, 100.0)) == parts(found)


async def test_none_of_both_is_none(core: FakeCore) -> None:
    with pymongo.timeout(5), pymongo.timeout(None), motorlite.timeout(4), motorlite.timeout(None):
        assert time_limits.deadline(core, None) is NO_DEADLINE
        assert time_limits.deadline(core, 10.0).expires_at == core.time + 4


@pytest.mark.parametrize("zero_first", [False, True])
@pytest.mark.parametrize(("zero", "lifted"), [(motorlite, pymongo), (pymongo, motorlite)])
async def test_zero_beside_none_of_the_other_is_no_limit(
    core: FakeCore, zero: Any, lifted: Any, zero_first: bool
) -> None:
    """In PyMongo alone, neither order leaves a limit: not the block of 0, nor None, nor what both lift."""
    lifetime = Deadline(core.time + 9, timeout=9)
    with ExitStack() as blocks:
        if zero_first:
            blocks.enter_context(zero.timeout(0))
        blocks.enter_context(lifted.timeout(5))
        blocks.enter_context(lifted.timeout(None))
        if not zero_first:
            blocks.enter_context(zero.timeout(0))
        found = time_limits.deadline(core, 100.0)
        assert (found.expires_at, found.is_set) == (inf, True)
        assert time_limits.is_timeout_set(None, None)
        assert time_limits.continued(core, lifetime).expires_at == lifetime.expires_at
        # What is set inside still ends with the blocks around it.
        assert parts(time_limits.deadline(core, None, 9000)) == (core.time + 5, 9.0)
        assert time_limits.refreshed(core, 7.0).expires_at == core.time + 5
        assert time_limits.refreshed(core, 3.0).expires_at == core.time + 3


async def test_what_is_set_inside_of_zero_ends_with_the_blocks_around_it(core: FakeCore) -> None:
    for outer in (motorlite, pymongo):
        for inner in (motorlite, pymongo):
            with outer.timeout(5), outer.timeout(0), inner.timeout(0):
                assert time_limits.deadline(core, 100.0).expires_at == inf
                assert parts(time_limits.deadline(core, None, 9000)) == (core.time + 5, 9.0)
            with outer.timeout(5), outer.timeout(0), inner.timeout(10):
                assert time_limits.deadline(core, 100.0).expires_at == core.time + 5


async def test_none_in_a_block_lifts_it_but_caps_what_is_set_inside(core: FakeCore) -> None:
    with pymongo.timeout(5), pymongo.timeout(None):
        assert time_limits.deadline(core, None) is NO_DEADLINE
        assert not time_limits.is_timeout_set(None, None)
        assert parts(time_limits.deadline(core, 10.0)) == (core.time + 5, 10.0)
        assert parts(time_limits.deadline(core, 3.0)) == (core.time + 3, 3.0)
        assert parts(time_limits.deadline(core, None, 9000)) == (core.time + 5, 9.0)
        with motorlite.timeout(10):
            assert parts(time_limits.deadline(core, None)) == (core.time + 5, 10.0)
        lifetime = Deadline(core.time + 9, timeout=9)
        assert time_limits.continued(core, lifetime) is lifetime
        assert time_limits.for_close(core, inf) is NO_DEADLINE
        assert time_limits.refreshed(core, 7.0).expires_at == core.time + 5


async def test_it_does_as_pymongo_does(core: FakeCore) -> None:
    # What PyMongo itself would apply to an operation of a client with a limit of 4 s, and of one without.
    def remaining(inherited: float | None) -> float | None:
        if inherited is None or _csot.get_timeout() is not None:
            return _csot.remaining()
        with _csot._TimeoutContext(inherited):
            return _csot.remaining()

    for first, second, inherited in product((None, 0, 2, 6), (None, 0, 1, 3, 8), (None, 4.0, inf)):
        with pymongo.timeout(first), pymongo.timeout(second):
            left = remaining(0 if inherited == inf else inherited)
            expected = inf if left is None else core.time + left
            found = time_limits.deadline(core, inherited)
            assert found.expires_at == expected, (first, second, inherited)
            # Without a limit, the rules of client-side operations timeout may hold, as with timeoutMS=0.
            is_set = _csot.get_timeout() is not None or inherited is not None
            assert (found.is_set, time_limits.is_timeout_set(inherited, None)) == (is_set, is_set)


async def test_later_steps_and_close(core: FakeCore) -> None:
    lifetime = time_limits.deadline(core, 5.0)
    with pymongo.timeout(2):
        assert parts(time_limits.continued(core, lifetime)) == (core.time + 2, 2.0)
        assert time_limits.refreshed(core, 5.0).expires_at == core.time + 2
        await anyio.sleep(3)
        core.time = anyio.current_time()
        assert parts(time_limits.for_close(core, inf)) == (core.time + 2, 2.0)
    with pymongo.timeout(8):
        assert parts(time_limits.continued(core, lifetime)) == (lifetime.expires_at, 5.0)
    with pymongo.timeout(8), time_limits.within(lifetime):
        assert time_limits.deadline(core, None).expires_at == lifetime.expires_at


async def test_other_tasks_have_their_own(core: FakeCore) -> None:
    found: list[float] = []

    async def look() -> None:
        found.append(time_limits.deadline(core, None).expires_at)

    async with anyio.create_task_group() as tasks:
        with pymongo.timeout(3):
            tasks.start_soon(look)
        tasks.start_soon(look)
    assert sorted(found) == [core.time + 3, inf]


# --- PyMongo is not imported, or is another one ---


def test_nothing_of_pymongo_is_imported() -> None:
    code = (
        "import sys, motorlite, motorlite._api.time_limits as limits; print([*filter(lambda n: n.partition('.')[0] == "
    )
    code += "'pymongo', sys.modules)], limits.is_timeout_set(None, None))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


@contextmanager
def _elsewhere(seconds: float | None) -> Iterator[None]:
    token = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(token)


_limit: ContextVar[float | None] = ContextVar("limit of another PyMongo")


@contextmanager
def _invisible(seconds: float | None) -> Iterator[None]:
    yield


def _private(**changed: Any) -> Any:
    made = ModuleType("pymongo._csot")
    vars(made).update({name: getattr(_csot, name) for name in ("TIMEOUT", "DEADLINE", "remaining")}, **changed)
    return made


def _other(timeout: Callable[[float | None], Any] | None, private: Any = None, version: str = "9.1") -> ModuleType:
    made: Any = ModuleType("pymongo")
    made.version = version
    if timeout is not None:
        made.timeout = timeout
    if private is not None:
        made._csot = private
    return made  # type: ignore[no-any-return]


async def test_an_unknown_pymongo_is_refused_inside_of_its_blocks(
    core: FakeCore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymongo", _other(_elsewhere))
    assert time_limits.deadline(core, None) is NO_DEADLINE
    with _elsewhere(3):
        for call in (
            lambda: time_limits.deadline(core, None),
            lambda: time_limits.is_timeout_set(None, None),
            lambda: time_limits.for_close(core, inf),
            lambda: time_limits.refreshed(core, 1.0),
            lambda: time_limits.continued(core, NO_DEADLINE),
        ):
            with pytest.raises(InvalidOperation, match=r"pymongo\.timeout\(\) in PyMongo 9\.1.*use motorlite\.timeout"):
                call()
    assert not time_limits.is_timeout_set(None, None)


async def test_an_operation_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    client, core = fake_client()
    monkeypatch.setitem(sys.modules, "pymongo", _other(_elsewhere))
    with _elsewhere(3), pytest.raises(InvalidOperation, match="would have to ignore it"):
        await client.d.c.insert_one({})
    assert core.executor.sent == []


@pytest.mark.parametrize(
    "private",
    [
        pytest.param(_private(remaining=lambda: 60_000.0), id="another unit"),
        pytest.param(_private(remaining=lambda: None), id="no rest"),
        pytest.param(_private(TIMEOUT=ContextVar("other", default=None)), id="another variable"),
        pytest.param(_private(TIMEOUT=60.0), id="no variable"),
        pytest.param(_private(DEADLINE=ContextVar("other", default=inf)), id="another end"),
        pytest.param(ModuleType("pymongo._csot"), id="no names"),
    ],
)
async def test_names_that_mean_something_else(private: Any) -> None:
    other = _other(pymongo.timeout, private)
    assert innermost(other) is None
    with pymongo.timeout(3), pytest.raises(InvalidOperation, match="cannot read"):
        innermost(other)


@pytest.mark.parametrize("block", [_invisible, lambda _: None, lambda: None])
async def test_where_blocks_leave_no_trace_every_operation_is_refused(block: Any) -> None:
    with pytest.raises(InvalidOperation, match="cannot read"):
        innermost(_other(block))


async def test_a_pymongo_that_is_being_imported() -> None:
    other: Any = _other(None)
    assert innermost(other) is None
    other.timeout, other._csot = pymongo.timeout, _csot
    with pymongo.timeout(3):
        assert innermost(other) == PyMongoBlock(3.0, 3.0)
