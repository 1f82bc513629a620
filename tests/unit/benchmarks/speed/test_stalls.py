from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys

import pytest

from benchmarks.speed import stalls
from benchmarks.speed.stalls import Stall, Watch, render, verdict


def test_the_longest_step_and_the_sum_are_kept() -> None:
    assert Stall().and_(1, 2).and_(3, 1) == Stall(3, 3, 2, 4)
    assert Stall().and_(1, 2).and_(3, 1, 2.5) == Stall(3, 1, 2, 4)


def test_of_several_rounds_the_least_counts() -> None:
    assert Stall(1, 9, 3, 0.5).least(Stall(2, 5, 2, 1)) == Stall(1, 5, 2, 0.5)


def test_every_callback_of_asyncio_is_timed() -> None:
    program = (
        "import asyncio, time\n"
        "from benchmarks.speed.stalls import Watch\n"
        "async def main():\n"
        "    watch = Watch()\n"
        "    watch.watch_asyncio()\n"
        "    await asyncio.sleep(0)\n"
        "    end = time.thread_time() + 0.05\n"
        "    while time.thread_time() < end: pass\n"
        "    await asyncio.sleep(0)\n"
        "    await asyncio.sleep(0)\n"
        "    assert 0.05 <= watch.stall.longest_cpu <= watch.stall.total_cpu < 0.1, watch.stall\n"
        "asyncio.run(main())"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_collections_count_apart() -> None:
    program = (
        "import gc\n"
        "from benchmarks.speed.stalls import Watch\n"
        "kept = [[number] for number in range(300_000)]\n"
        "watch = Watch()\n"
        "watch.before_task_step()\n"
        "gc.collect()\n"
        "watch.after_task_step()\n"
        "assert 0 <= watch.stall.longest_without_collector < watch.stall.longest_cpu / 2, watch.stall\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_watch_that_begins_within_a_step_counts_from_then() -> None:
    async def main() -> None:
        watch = Watch()
        watch.after_task_step()
        assert watch.stall.longest < 60

    asyncio.run(main())


def test_the_table_and_the_verdict_are_in_milliseconds() -> None:
    found = {("find", "motorlite"): Stall(0.0499, 0.02, 0.1, 0.2), ("insert_many", "motorlite"): Stall(0.06, 0.1, 0.2)}
    assert render(found).splitlines()[1].split()[-4:] == ["50", "20", "100", "200"]
    assert [is_met for _, is_met in verdict(found)] == [True, False]
    assert verdict({("find", "pymongo"): Stall()}) == []


@pytest.mark.parametrize("arm", ["bare", "motorlite-uvloop", "other"])
def test_what_cannot_be_watched_is_rejected(arm: str) -> None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    stalls.add_arguments(parser)
    with pytest.raises(argparse.ArgumentError, match="unknown arms"):
        parser.parse_args(["--arms", arm])
