"""Shell: the process of one arm: `python -m benchmarks.driver.worker ARM URI DATA OUTPUT SCALE`.

Each line of standard input names a task; the answer has the seconds that one iteration took.
"""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.driver.adapters import ARMS
from benchmarks.driver.data import Data
from benchmarks.driver.performing import Performer
from benchmarks.driver.tasks import Scale
from benchmarks.processes import answer, cpu_seconds, describe

if TYPE_CHECKING:
    from benchmarks.arms import Arm
    from benchmarks.driver.performing import Do


async def serve(arm: Arm, uri: str, data: Data, output: Path, scale: Scale) -> None:
    """Answer requests until standard input ends."""
    try:
        async with arm.open(uri) as adapter:
            performer = Performer(adapter, arm.loop, data, scale, output)
            while line := await arm.loop.in_thread(sys.stdin.readline):
                clear(output)
                do = performer.prepare(json.loads(line)["task"])
                answer({} if do is None else await timed(do))
    except Exception as error:  # the parent decides what a failed arm means
        answer({"error": describe(error)})


def clear(folder: Path) -> None:
    """Make the folder empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()


async def timed(do: Do) -> dict[str, float]:
    """Run one iteration."""
    cpu, start = cpu_seconds(), perf_counter()
    await do()
    return {"seconds": perf_counter() - start, "cpu_seconds": cpu_seconds() - cpu}


def main() -> None:
    name, uri, data, output, scale = sys.argv[1:]
    arm = ARMS[name]
    arm.loop.run(partial(serve, arm, uri, Data(Path(data)), Path(output), Scale(**json.loads(scale))))


if __name__ == "__main__":
    main()
