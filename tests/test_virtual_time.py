"""The clock that all other tests rely on: exact, and never waiting for what will not happen."""

from __future__ import annotations

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.support import virtual_time

pytest_plugins = ["pytester"]

SUITE = """
import anyio, pytest
pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

async def test_waits_for_nothing():
    await anyio.Event().wait()

async def test_waits_for_nothing_in_a_shield():
    with anyio.CancelScope(shield=True):
        await anyio.Event().wait()

async def test_waits_while_something_ticks():
    async def tick():
        while True:
            await anyio.sleep(3600)
    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await anyio.Event().wait()

async def test_goes_on_afterwards():
    await anyio.sleep(5)
"""


@pytest.mark.anyio
@pytest.mark.virtual_time
async def test_time_passes_exactly() -> None:
    assert anyio.current_time() == virtual_time.START
    seen: list[float] = []

    async def sleeper(delay: float) -> None:
        await anyio.sleep(delay)
        seen.append(anyio.current_time())

    async with anyio.create_task_group() as group:
        for delay in (0.3, 0.1, 1.6):
            group.start_soon(sleeper, delay)
    assert seen == [1000.1, 1000.3, 1001.6]
    with anyio.move_on_after(3600) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert anyio.current_time() == 1001.6 + 3600


@pytest.mark.anyio
async def test_outside_of_the_virtual_folders_time_is_real() -> None:
    before = anyio.current_time()
    await checkpoint()
    assert anyio.current_time() > before


def test_a_deadlock_fails_and_says_so(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOTORLITE_TEST_BACKENDS", raising=False)
    pytester.makeconftest((request.path.parent / "conftest.py").read_text())
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--timeout=30", "-o", f"pythonpath={request.path.parents[1]}"
    )
    result.assert_outcomes(failed=6, passed=2)
    assert result.stdout.str().count("DeadlockError: deadlock:") >= 6
