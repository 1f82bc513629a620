"""Shell: child processes: the arms of the benchmarks, what they answer, and what they cost."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent


class ChildFailedError(Exception):
    """A process reported an error, ended, or did not answer in time."""


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
            ChildFailedError: The process failed; contains its error message, if it sent one.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(limit, self._process.kill)
        watchdog.start()
        try:
            with suppress(BrokenPipeError):  # its last line says why
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise ChildFailedError(f"ended without an answer (limit {limit:.0f} s)")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise ChildFailedError(str(reply["error"]))
        return reply

    def close(self) -> None:
        """End the process and wait for it."""
        end(self._process)


def end(process: subprocess.Popen[Any], reader: threading.Thread | None = None) -> None:
    """End a process that ends with its standard input, killed after five seconds, and the thread that reads from it."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):  # it has already ended
            process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if reader is not None:
        reader.join()
    if process.stdout is not None:
        process.stdout.close()


def ask(module: str, *arguments: str, limit: float = 300.0) -> Any:
    """Run `python -m module arguments` in a fresh process, and return the value that it prints as JSON.

    Raises:
        ChildFailedError: It failed, or took longer than `limit` seconds.
    """
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise ChildFailedError(f"took longer than {limit:g} s") from None
    if done.returncode:
        raise ChildFailedError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout)


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[int]:
    """A server in a process of its own, which prints its port and ends with its standard input; yields the port."""
    server = subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert server.stdout is not None
    try:
        yield int(server.stdout.readline())
    finally:
        end(server)


def say(line: str) -> None:
    """Print progress to standard error; standard output holds only the result."""
    print(line, file=sys.stderr, flush=True)


# --- in the child ---


def answer(value: dict[str, Any]) -> None:
    """Send one line to the parent."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def describe(error: BaseException) -> str:
    """The first error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
