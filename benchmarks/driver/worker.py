"""Shell: the process of one arm: `python -m benchmarks.driver.worker ARM URI DATA OUTPUT SCALE`.

Each line of standard input names a task; the answer has the seconds that one iteration took.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.driver.adapters import ARMS, Adapter
from benchmarks.driver.data import Data
from benchmarks.driver.performing import Performer
from benchmarks.driver.tasks import Scale
from benchmarks.processes import Stopwatch, serve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.arms import Arm, Driver


def responder(
    driver: Driver, arm: Arm, data: Data, output: Path, scale: Scale
) -> Callable[..., Awaitable[dict[str, float]]]:
    """What answers a request with the times of one iteration; with nothing if the driver does not have the task."""
    performer = Performer(Adapter(driver, arm), arm.loop, data, scale, output)

    async def respond(task: str) -> dict[str, float]:
        do = performer.prepare(task)
        if do is None:
            return {}
        watch = Stopwatch()
        await do()
        return watch.figures()

    return respond


def main() -> None:
    name, uri, data, output, scale = sys.argv[1:]
    arm = ARMS[name]
    make = partial(responder, arm=arm, data=Data(Path(data)), output=Path(output), scale=Scale(**json.loads(scale)))
    arm.loop.run(partial(serve, arm, uri, make))


if __name__ == "__main__":
    main()
