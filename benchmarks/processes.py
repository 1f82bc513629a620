"""Shell: child processes: the arms of the benchmarks, what they answer, and what they cost."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self

from benchmarks.figures import together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from benchmarks.arms import Arm, Driver

ROOT: Final = Path(__file__).resolve().parent.parent


class ChildFailedError(Exception):
    """A process reported an error, ended, or did not answer in time."""


class Child:
    """A process of `python -m arguments`, which ends with its standard input; a thread reads what it writes."""

    error: type[ChildFailedError] = ChildFailedError

    def __init__(self, name: str, *arguments: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input: BinaryIO = self._process.stdin  # type: ignore[assignment]  # opened in binary mode
        self._output = self._process.stdout
        self._messages: Queue[Any] = Queue()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for message in self.messages(self._output):
            self._messages.put(message)
        self._messages.put(None)

    def messages(self, pipe: Any) -> Iterator[Any]:
        """What the process says: a JSON value on each line, and an error as ``{"error": "..."}``."""
        return map(json.loads, pipe)

    def send(self, message: Any) -> None:
        """Send a message.

        Raises:
            ChildFailedError: The process has ended.
        """
        try:
            self._input.write(self.encode(message))
            self._input.flush()
        except BrokenPipeError:
            # It may have said why.
            self.receive(5.0)
            raise self.error(f"{self.name} has ended") from None

    def encode(self, message: Any) -> bytes:
        return json.dumps(message).encode() + b"\n"

    def receive(self, seconds: float) -> Any:
        """The next message.

        Raises:
            ChildFailedError: The process failed, ended, or said nothing in time.
        """
        try:
            message = self._messages.get(timeout=seconds)
        except Empty:
            raise self.error(f"{self.name} did not answer within {seconds:.0f} s") from None
        if message is None:
            raise self.error(f"{self.name} has ended")
        if isinstance(message, dict) and "error" in message:
            raise self.error(f"{self.name}: {message['error']}")
        return message

    def kill(self) -> None:
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End the process, and kill it if that takes longer than five seconds; a second call does nothing."""
        with suppress(BrokenPipeError):  # it has already ended
            self._input.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def ask(module: str, *arguments: str, limit: float = 300.0) -> Any:
    """The value that `python -m module arguments` prints as JSON in a fresh process.

    Raises:
        ChildFailedError: It failed, or took longer than `limit` seconds.
    """
    child = Child(f"{module} {arguments[0] if arguments else ''}".strip(), module, *arguments)
    try:
        return child.receive(limit)
    finally:
        child.kill()


@contextmanager
def serving(module: str, *arguments: str) -> Iterator[int]:
    """A server in a process of its own, which prints its port and ends with its standard input; yields the port."""
    with Child(module, module, *arguments) as server:
        yield server.receive(60.0)


class Arms:
    """A process for each arm, and what they have answered: an arm that fails is left out altogether.

    Where `copies` are given, an arm has so many processes, which may be asked together.
    """

    def __init__(self, arguments: Mapping[str, tuple[str, ...]], copies: int = 1) -> None:
        self._children = {arm: [Child(arm, *words) for _ in range(copies)] for arm, words in arguments.items()}
        # What the rounds have found; each has the name of its arm.
        self.results: list[Any] = []
        self.failures: dict[str, str] = {}

    def turns(self, number: int) -> list[str]:
        """The arms in the order of a round (a Williams design).

        Over the rounds, each arm comes as often in each place, and as often right after each other arm: what an arm
        leaves behind in the server and in the processor is then no advantage for the same one each time.
        """
        arms = list(self._children)
        steps = [-(step // 2) if step % 2 == 0 else step // 2 + 1 for step in range(len(arms))]
        order = [arms[(number + step) % len(arms)] for step in steps]
        is_mirrored = len(arms) % 2 == 1 and number // len(arms) % 2 == 1
        return order[::-1] if is_mirrored else order

    def ask(self, arm: str, limit: float, copies: int = 1, **request: Any) -> dict[str, Any]:
        """Run one round of at most `limit` seconds; empty if the arm failed, or does not have the operation."""
        children = self._children.get(arm, [])[:copies]
        try:
            for child in children:
                child.send(request)
            return together([child.receive(limit) for child in children])
        except ChildFailedError as error:
            self.leave_out(arm, str(error))
            return {}

    def leave_out(self, arm: str, why: str) -> None:
        """End an arm. The medians of one that failed midway are not comparable."""
        say(f"{why}; {arm} is left out")
        self.failures[arm] = why
        for child in self._children.pop(arm):
            child.kill()
        self.results = [one for one in self.results if one.arm != arm]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for children in self._children.values():
            for child in children:
                child.close()


def say(line: str) -> None:
    """Print progress to standard error; standard output holds only the result."""
    print(line, file=sys.stderr, flush=True)


# --- in the child ---


async def serve(arm: Arm, uri: str, make: Callable[[Driver], Callable[..., Awaitable[dict[str, Any]]]]) -> None:
    """Answer requests with what `make` makes of the driver, until standard input ends, as when the parent is killed."""
    try:
        async with arm.open(uri) as driver:
            respond = make(driver)
            # Read in a thread, so that the driver's monitors keep running while other arms are measured.
            while line := await arm.loop.in_thread(sys.stdin.readline):
                answer(await respond(**json.loads(line)))
    except Exception as error:  # the parent decides what a failed arm means
        answer({"error": describe(error)})


def answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


class Stopwatch:
    """Seconds, and processor seconds of all threads of this process, since it was made."""

    def __init__(self) -> None:
        self._cpu, self._at = cpu_seconds(), perf_counter()

    def figures(self) -> dict[str, float]:
        return {"seconds": perf_counter() - self._at, "cpu_seconds": cpu_seconds() - self._cpu}


def cpu_seconds() -> float:
    """User and system time of all threads of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def describe(error: BaseException) -> str:
    """The first error of a group, in one line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
