"""Shell: the parent's interface to the arms' processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent


class ArmFailedError(Exception):
    """An arm's process reported an error, ended, or did not answer in time."""


class Worker:
    """One arm in a separate process; `root` is the checkout whose motorlite it runs; `more` are further arguments."""

    def __init__(
        self,
        arm: str,
        uri: str,
        root: Path = ROOT,
        *,
        module: str = "benchmarks.speed.worker",
        more: Sequence[str] = (),
    ) -> None:
        self.arm = arm
        checkout = [] if root == ROOT else [str(root)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, arm, uri, *more, *checkout],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def run(self, *, limit: float, **request: Any) -> dict[str, Any]:
        """Run one round; `limit` is in seconds.

        Raises:
            ArmFailedError: The process failed; contains its error message, if it sent one.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(limit, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise ArmFailedError(f"ended without an answer (limit {limit:.0f} s)")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ArmFailedError(str(reply["error"]))
        return reply

    def close(self) -> None:
        """End the process and wait for it."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue  # the process has already ended
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
