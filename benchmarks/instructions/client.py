"""Shell: the process under callgrind: tasks that repeat one operation, with a mark after every so many.

Run as a script, so that `--root` decides which checkout's motorlite it imports; its other modules are always those
beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parents[2]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", required=True)
    parser.add_argument("--arm", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--tasks", type=int, required=True)
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--warm-up", type=int, required=True)
    parser.add_argument("--each", type=int, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--parts", action="store_true")
    arguments = parser.parse_args()
    sys.path[0] = arguments.root
    import motorlite

    if not Path(motorlite.__file__).is_relative_to(Path(arguments.root).resolve()):
        raise SystemExit(f"imported {motorlite.__file__}, which is not in {arguments.root}")
    sys.path[0] = str(HERE)
    from benchmarks.instructions.marks import TARGETS, Recorder
    from benchmarks.instructions.workloads import ARMS, operations, uri

    arm = ARMS[arguments.arm]
    recorder = Recorder()
    missing = recorder.install(TARGETS) if arguments.parts else []
    run = Run(arguments, recorder, lambda driver: operations(driver, arguments.documents)[arguments.operation])
    arm.loop.run(partial(run.perform, arm, uri(arguments.port)))
    if arguments.parts:
        recorder.probe()
    print(json.dumps({"marks": recorder.marks[run.before :], "missing": missing}), flush=True)
    os._exit(0)  # nothing of the interpreter's end is of interest


class Run:
    """The tasks that share the operations."""

    def __init__(self, arguments: argparse.Namespace, recorder: Any, operation: Callable[[Any], Any]) -> None:
        self._arguments = arguments
        self._recorder = recorder
        self._operation = operation
        self._done = 0
        first = arguments.warm_up + max(arguments.tasks, arguments.each // 4)
        self._go = arguments.warm_up
        self._marks = {first + number * arguments.each for number in range(arguments.samples + 1)}
        self._last = max(self._marks)
        # The number of marks before counting began.
        self.before = 0

    async def perform(self, arm: Any, uri: str) -> None:
        """Open the driver and repeat the operation."""
        async with arm.open(uri) as driver:
            operation = self._operation(driver)
            await operation()
            await arm.loop.all_of([partial(self._repeat, operation)] * self._arguments.tasks)

    async def _repeat(self, operation: Any) -> None:
        while self._done < self._last:
            await operation()
            self._done += 1
            if self._done == self._go:
                self._wait_for_callgrind()
            elif self._done in self._marks:
                self._recorder.sample()

    def _wait_for_callgrind(self) -> None:
        """Stop everything until the parent has turned counting on. callgrind cannot hear it in a blocking call."""
        self.before = len(self._recorder.marks)
        print("warm", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            pass
        sys.stdin.readline()


if __name__ == "__main__":
    main()
