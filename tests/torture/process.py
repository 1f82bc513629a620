"""Net: the process of the load, as the run sees it: started, given orders, killed and started again."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.torture.plan import client_options

if TYPE_CHECKING:
    from typing import IO

REPOSITORY: Final = Path(__file__).resolve().parents[2]
# Seconds until a process has started, on a busy machine.
START: Final = 120.0


class LoadProcess:
    """The load's process, and those that came before it.

    Args:
        uri: The deployment.
        folder: For the journal and for what the processes write to standard error.
        seed: Of what the tasks do, and of the client's options.
        backend: One of ``BACKENDS`` of `tests.torture.load`.
        tasks: How many there are.
        bug: The bug to plant in the driver; see `tests.simulation.bugs`.

    Attributes:
        journal: The journal of all processes.
        starts: How many processes there were.
        problems: Processes that ended without being told to.
    """

    def __init__(self, uri: str, folder: Path, *, seed: int, backend: str, tasks: int, bug: str | None = None) -> None:
        self.journal: Path = folder / "journal.jsonl"
        self.starts: int = 0
        self.problems: list[str] = []
        self._stderr = folder / "load.err"
        self._command = [sys.executable, "-m", "tests.torture.load", uri, str(self.journal)]
        options = json.dumps(client_options(seed))
        self._options = ["--backend", backend, "--tasks", str(tasks), "--options", options]
        if bug is not None:
            self._options += ["--bug", bug]
        self._seed = seed
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()

    def start(self) -> None:
        """Start a process; does not wait until it is ready."""
        self.starts += 1
        name = f"{self._seed}-{self.starts}"
        with self._stderr.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._command, name, *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=REPOSITORY,
                text=True,
            )
        self._answers = queue.Queue()
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()

    def order(self, **order: Any) -> None:
        """Send an order, unless the process was killed."""
        if self._process is not None:
            assert self._process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it has ended by itself, which `check` notes
                self._process.stdin.write(json.dumps(order) + "\n")
                self._process.stdin.flush()

    def wait_for(self, answer: str, seconds: float = START) -> dict[str, Any]:
        """Wait for an answer of this process, and return its details.

        Raises:
            RuntimeError: it ended, or it did not answer in time.
        """
        try:
            while (found := self._answers.get(timeout=seconds))["answer"] != answer:
                if found["answer"] == "ended":
                    raise RuntimeError(f"the load ended by itself: {self.errors()}")
        except queue.Empty:
            raise RuntimeError(f"the load did not say {answer!r} within {seconds:g} s: {self.errors()}") from None
        return found

    def check(self) -> None:
        """Note it if the process has ended by itself, and start another one."""
        if self._process is not None and self._process.poll() is not None:
            self.problems.append(f"the load ended by itself with status {self._process.returncode}: {self.errors()}")
            self.kill()
            self.start()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # an order was not written yet
                process.stdin.close()

    def errors(self) -> str:
        """What all processes wrote to standard error."""
        return self._stderr.read_text(errors="replace").strip()


def _read(lines: IO[str], answers: queue.Queue[dict[str, Any]]) -> None:
    with lines:
        for line in lines:
            answers.put(json.loads(line))
    answers.put({"answer": "ended"})
