from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial

import pytest

from benchmarks.loops import ANYIO, ASYNCIO, TRIO, UVLOOP, Loop


@pytest.mark.parametrize("loop", [ASYNCIO, UVLOOP, TRIO, ANYIO], ids=lambda loop: loop.name)
def test_functions_run_together_and_in_threads(loop: Loop) -> None:
    seen: list[object] = []

    async def work(number: int) -> None:
        seen.append(number)
        seen.append(await loop.in_thread(threading.current_thread))

    async def main() -> None:
        await loop.all_of([partial(work, 1), partial(work, 2)])

    loop.run(main)
    assert seen[:2] in ([1, 2], [2, 1])
    assert threading.main_thread() not in seen


def test_only_the_loop_of_anyio_loads_its_backend() -> None:
    program = (
        "import sys; from benchmarks import arms, loops; from benchmarks.speed import worker\n"
        "async def main(): pass\n"
        "loops.{}.run(main); print('anyio._backends._asyncio' in sys.modules)"
    )
    for name, expected in (("ASYNCIO", "False"), ("ANYIO", "True")):
        done = subprocess.run([sys.executable, "-c", program.format(name)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected
