from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from benchmarks.loops import ANYIO, ASYNCIO, TRIO, UVLOOP, Loop


@pytest.mark.parametrize("loop", [ASYNCIO, UVLOOP, TRIO, ANYIO], ids=lambda loop: loop.name)
def test_functions_run_together_and_in_threads(loop: Loop) -> None:
    seen: list[threading.Thread] = []
    # Opens when both are there.
    gate = threading.Barrier(2)

    def meet() -> threading.Thread:
        gate.wait(10)
        return threading.current_thread()

    async def work() -> None:
        seen.append(await loop.in_thread(meet))

    async def main() -> None:
        await loop.all_of([work, work])

    loop.run(main)
    assert len(set(seen)) == 2
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
