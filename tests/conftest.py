"""Every test marked `anyio` runs on asyncio and on trio, in virtual time unless sockets are real."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, settings

from motorlite.testing.server.certificates import Certificates, make_certificates
from tests.support import virtual_time

if TYPE_CHECKING:
    from collections.abc import Generator

# How fast inputs are generated is a word about the machine.
settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("any machine")

# Programs that `motorlite.port` changes, with tests of their own.
collect_ignore = ["port_projects"]

TESTS: Final = Path(__file__).parent
# Elsewhere, or against these rules, the markers `virtual_time` and `real_time` decide.
VIRTUAL: Final = ("unit", "sim")
REAL: Final = ("unit/net", "unit/_net", "unit/testing")


def runs_in_virtual_time(node: pytest.Item) -> bool:
    """What the node's own marker says, or else the folder that it is in."""
    if node.get_closest_marker("real_time"):
        return False
    if node.get_closest_marker("virtual_time"):
        return True
    folder = node.path.parent.relative_to(TESTS)
    return any(folder.is_relative_to(name) for name in VIRTUAL) and not any(
        folder.is_relative_to(name) for name in REAL
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give slow tests more time: on a busy machine they may need ten times as long."""
    for item in items:
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


def pytest_collection() -> None:
    """Collect tests without the garbage collector: it would go through thousands of them, again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt what lives until the end, thousands of tests among it, from garbage collections.

    Some tests run the collector, which would go through all of it each time.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(params=virtual_time.BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """The backend of a test, with a clock of its own."""
    name: str = request.param
    return virtual_time.backend(name) if runs_in_virtual_time(request.node) else (name, {})


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made once: it takes long."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Say "deadlock" where trio would only say that the test was cancelled."""
    try:
        result = yield
    except BaseException as error:
        if _is_deadlocked(pyfuncitem):
            raise virtual_time.DeadlockError from error
        raise
    if _is_deadlocked(pyfuncitem):
        raise virtual_time.DeadlockError
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure no coverage where it adds nothing.

    In virtual time trio runs the same lines as asyncio, and what belongs to trio alone is covered in real time. Slow
    tests repeat what others cover, with many inputs.
    """
    measured = sys.modules.get("coverage")
    adds_nothing = item.get_closest_marker("slow") or ("trio" in item.name and runs_in_virtual_time(item))
    running = measured.Coverage.current() if measured and adds_nothing else None
    if running is None:
        return (yield)
    running.stop()
    try:
        return (yield)
    finally:
        running.start()


def _is_deadlocked(pyfuncitem: pytest.Function) -> bool:
    backend = pyfuncitem.funcargs.get("anyio_backend")
    return isinstance(backend, tuple) and virtual_time.is_deadlocked(backend[1].get("clock"))
