"""A fuzz target: a function of bytes that keeps its promises for every input, and the limits on its work and memory.

A target catches the errors that are documented for what it calls, and nothing else. Whatever it raises is a bug, and so
is an input that takes more steps or memory than its size permits.
"""

from __future__ import annotations

import signal
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import motorlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

# Seconds of the process's own time, whatever else the machine does.
CPU_LIMIT: Final = 5.0
# Bytes of an input.
MAX_INPUT: Final = 2048
# One input in so many is measured while a target is fuzzed: measuring takes twenty times as long.
MEASURED: Final = 1024

_DRIVER: Final = str(Path(motorlite.__file__).parent)


class HangError(BaseException):
    """An input took too long. Not an Exception, so that no `except Exception` of the driver swallows it."""


class LimitError(Exception):
    """An input took more steps or memory than the target's limits."""


class Form(Enum):
    """What an input consists of, behind its prefix; mutations keep that form."""

    BYTES = "bytes"
    # BSON documents, one after the other.
    DOCUMENTS = "documents"
    # Lines of a program.
    LINES = "lines"


class Limit(NamedTuple):
    """A limit that grows with the size of the input."""

    fixed: int
    per_byte: int

    def of(self, size: int) -> int:
        return self.fixed + self.per_byte * size


# Of most targets.
_STEPS: Final = Limit(4_000, 20)
_MEMORY: Final = Limit(256 * 1024, 100)


@dataclass(frozen=True, slots=True)
class Target:
    """A fuzz target.

    Attributes:
        name: Its name on the command line, and that of its corpus.
        run: The target itself.
        seeds: Valid inputs, with which fuzzing begins.
        modules: The modules of the driver that it is about, whose coverage guides atheris.
        weight: Its share of the inputs of a run of all targets: the cheaper, the larger.
        form: What its inputs consist of.
        prefix: Bytes before that, which choose options.
        steps: Lines of the driver that an input may execute.
        memory: Bytes that an input may allocate at once.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    modules: tuple[str, ...]
    weight: int
    form: Form = Form.BYTES
    prefix: int = 0
    steps: Limit = _STEPS
    memory: Limit = _MEMORY


class Work(NamedTuple):
    """What an input took: lines of the driver, and the largest number of bytes at once."""

    steps: int
    memory: int


@contextmanager
def _traced(step: Callable[[FrameType], None]) -> Iterator[None]:
    """Call `step` for each executed line of the driver."""

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            step(frame)
        return local

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(_DRIVER) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield
    finally:
        sys.settrace(before)


def steps_of(target: Target, data: bytes) -> tuple[int, frozenset[tuple[str, int, int]]]:
    """Return how many lines of the driver an input executes, and the steps from one line to another."""
    count = 0
    arcs: set[tuple[str, int, int]] = set()
    last: dict[str, int] = {}

    def step(frame: FrameType) -> None:
        nonlocal count
        count += 1
        name, line = frame.f_code.co_filename, frame.f_lineno
        arcs.add((name, last.get(name, 0), line))
        last[name] = line

    with _traced(step):
        target.run(data)
    return count, frozenset(arcs)


def memory_of(target: Target, data: bytes) -> int:
    """Return how many bytes an input allocates at once."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        target.run(data)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()


def measure(target: Target, data: bytes) -> Work:
    """Run a target, and check its limits.

    Raises:
        LimitError: The input exceeds one of them.
    """
    work = Work(steps_of(target, data)[0], memory_of(target, data))
    for what, found, limit in zip(("lines", "bytes"), work, (target.steps, target.memory), strict=True):
        if found > limit.of(len(data)):
            raise LimitError(f"{target.name}: {len(data)} bytes took {found} {what}, more than {limit.of(len(data))}")
    return work


class Checker:
    """Runs a target under a limit of CPU time, and measures some of the inputs."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.count = 0

    def __enter__(self) -> Checker:
        self._before = signal.signal(signal.SIGVTALRM, self._hang)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)

    def check(self, data: bytes) -> None:
        """Run the target.

        Raises:
            HangError: It takes too long.
            LimitError: It exceeds a limit.
            Exception: A bug.
        """
        self.count += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_LIMIT)
        if self.count % MEASURED:
            self._target.run(data)
        else:
            measure(self._target, data)

    @staticmethod
    def _hang(number: int, frame: FrameType | None) -> None:
        raise HangError(f"an input took more than {CPU_LIMIT} s of CPU time")
