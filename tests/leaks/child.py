"""One scenario, run in one way: ``python -m tests.leaks.child SCENARIO WAY REPETITIONS URI`` prints its figures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tracemalloc
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import anyio

from benchmarks.processes import ROOT
from tests.leaks.figures import Figures
from tests.leaks.scenarios import SCENARIOS


class Way(NamedTuple):
    """How a scenario is run: options of Python, the event loop, and whether its tasks start eagerly."""

    options: tuple[str, ...] = ()
    backend: str = "asyncio"
    backend_options: dict[str, Any] = {}  # noqa: RUF012  # never changed
    is_eager: bool = False


_STRICT: Final = ("-X", "dev", "-W", "error")
WAYS: Final[dict[str, Way]] = {
    "asyncio": Way(),
    "uvloop": Way(backend_options={"use_uvloop": True}),
    "trio": Way(backend="trio"),
    "asyncio, dev": Way(_STRICT),
    "trio, dev": Way(_STRICT, "trio"),
    # Python 3.12 and later.
    **({"eager": Way(is_eager=True)} if sys.version_info >= (3, 12) else {}),
}


def measured(scenario: str, way: str, number: int, uri: str, limit: float) -> tuple[Figures, Figures]:
    """The figures before and after.

    Raises:
        subprocess.SubprocessError: The scenario failed, or took longer than `limit` seconds.
    """
    command = [sys.executable, *WAYS[way].options, "-m", "tests.leaks.child", scenario, way, str(number), uri]
    output = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, timeout=limit, check=True).stdout
    found = json.loads(output)
    return Figures(**found["before"]), Figures(**found["after"])


def run(scenario: str, way: Way, number: int, uri: str) -> dict[str, Any]:
    """The figures before and after."""

    async def main() -> Any:
        if sys.version_info >= (3, 12) and way.is_eager:
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        return await SCENARIOS[scenario][0](uri, number)

    tracemalloc.start()
    before, after = anyio.run(main, backend=way.backend, backend_options=way.backend_options)
    return {"before": asdict(before), "after": asdict(after)}


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], WAYS[sys.argv[2]], int(sys.argv[3]), sys.argv[4])))
