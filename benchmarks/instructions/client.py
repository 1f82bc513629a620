"""Shell: the process under callgrind: tasks that repeat one operation, with a mark after every so many.

Run as a script, with a JSON object whose `root` says which checkout's motorlite it imports; its other modules are
always those beside it.
"""

from __future__ import annotations

import json
import os
import select
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parents[2]


def main() -> None:
    order = SimpleNamespace(**json.loads(sys.argv[1]))
    sys.path[0] = order.root
    import motorlite

    if not Path(motorlite.__file__).is_relative_to(Path(order.root).resolve()):
        raise SystemExit(f"imported {motorlite.__file__}, which is not in {order.root}")
    sys.path[0] = str(HERE)
    from benchmarks.instructions.marks import TARGETS, Recorder
    from benchmarks.instructions.workloads import ARMS, operations, uri

    if order.listeners:
        from motorlite import monitoring

        for _ in range(order.listeners):
            monitoring.register(monitoring.CommandListener())
    arm = ARMS[order.arm]
    recorder = Recorder()
    missing = recorder.install(TARGETS) if order.parts else []
    run = Run(order, recorder, lambda driver: operations(driver, order.documents)[order.operation])
    arm.loop.run(partial(run.perform, arm, uri(order.port, order.members)))
    print(json.dumps({"marks": recorder.marks[run.before :], "missing": missing}), flush=True)
    os._exit(0)  # nothing of the interpreter's end is of interest


class Run:
    """The tasks that share the operations."""

    def __init__(self, order: SimpleNamespace, recorder: Any, operation: Callable[[Any], Any]) -> None:
        self._tasks = order.tasks
        self._recorder = recorder
        self._operation = operation
        self._done = 0
        first = order.warm_up + max(order.tasks, order.each // 4)
        self._go = order.warm_up
        self._marks = {first + number * order.each for number in range(order.samples + 1)}
        self._last = max(self._marks)
        # The number of marks before counting began.
        self.before = 0

    async def perform(self, arm: Any, uri: str) -> None:
        async with arm.open(uri) as driver:
            operation = self._operation(driver)
            await operation()
            await arm.loop.all_of([partial(self._repeat, operation)] * self._tasks)

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
