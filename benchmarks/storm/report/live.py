"""Shell: a session while it goes on: drawn anew in a terminal, a line for each finished arm elsewhere."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from rich.console import Group as Stack
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from benchmarks.storm.report import wording
from benchmarks.storm.results import STEP
from benchmarks.storm.summary import over_seeds, summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console, RenderableType

    from benchmarks.storm.results import Run
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.summary import Summary

WIDTH: Final = 80
SECONDS: Final = 6
"""Lines of the running arm."""
ARMS: Final = 15
"""Lines of finished arms."""
DRAWN_EVERY: Final = 0.5
"""Seconds: drawing takes time from the load on the same machine."""
SAID_EVERY: Final = 10.0
# The name of a series, the head of its column, and whether its values are counts.
LIVE: Final = (
    ("offered", "offered", True),
    ("attempts", "attempts", True),
    ("goodput", "goodput", True),
    ("rejected", "rejected", True),
    ("timed_out", "timed out", True),
    ("tokens", "tokens", False),
    ("server_queue", "queue", False),
)
SHOWN: Final = (
    wording.SHARE,
    wording.AMPLIFICATION,
    wording.PER_SUCCESS,
    wording.ERRORS,
    wording.OUTCOME,
    wording.RECOVERY,
)
HEADS: Final = ("goodput", "per req.", "per ok", "failed", "p99", "recovery")
WIDTHS: Final = (9, 8, 7, 8, 7, 8)
NAME: Final = 18

Step = tuple["Scenario", str, int, str]
"""A scenario, the name of an arm, a seed, and a backend."""


class View:
    """Shows progress, the last seconds of the running arm, and the finished arms.

    Args:
        console: Where. No line is longer than it is wide, or than 80 characters.
        plan: All runs that will be done, in any order.
        clock: Seconds, for the remaining time.
    """

    def __init__(self, console: Console, plan: Sequence[Step], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._work = {(scenario.name, arm, seed, backend): scenario.seconds for scenario, arm, seed, backend in plan}
        self._seeds: dict[tuple[str, str, str], int] = {}
        for scenario, arm, _, backend in plan:
            key = (scenario.name, arm, backend)
            self._seeds[key] = self._seeds.get(key, 0) + 1
        self._total = sum(self._work.values())
        self._done = 0.0
        self._runs = 0
        self._finished: dict[tuple[str, str, str], list[Summary]] = {}
        self._invalid: dict[tuple[str, str, str], str] = {}
        self._running: tuple[Scenario, str, int] | None = None
        self._elapsed = 0.0
        self._lines: deque[tuple[str, ...]] = deque(maxlen=SECONDS)
        self._second: dict[str, list[float]] = {}
        self._started = self._drawn = clock()
        self._said = ""
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        self._started = self._clock()
        if self._live is not None:
            self._live.start()
            self._draw()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._running = None
        if self._live is not None:
            self._draw()
            self._live.stop()

    def begin(self, scenario: Scenario, arm: str, seed: int) -> None:
        """A run begins."""
        self._running = (scenario, arm, seed)
        self._elapsed = 0.0
        self._lines.clear()
        self._second = {}
        self._draw()

    def step(self, elapsed: float, values: Mapping[str, float]) -> None:
        """100 ms of the running arm are over.

        Args:
            elapsed: Seconds since the run began.
            values: What is known of the series of these 100 ms.
        """
        for name, value in values.items():
            self._second.setdefault(name, []).append(value)
        before, self._elapsed = self._elapsed, elapsed
        if int(elapsed + STEP / 2) > int(before + STEP / 2):
            self._lines.append((f"{elapsed:.0f}", *(self._live_cell(name, counts) for name, _, counts in LIVE)))
            self._second = {}
        if self._live is not None and self._clock() - self._drawn >= DRAWN_EVERY:
            self._draw()

    def finish(self, run: Run, summary: Summary | None = None) -> None:
        """A run has ended; also one that was not begun here.

        Args:
            run: It.
            summary: Its figures, if they are known.
        """
        key = (run.scenario, run.arm, run.backend)
        if run.invalid:
            self._invalid[key] = run.invalid[0]
            self._finished.setdefault(key, [])
        else:
            self._finished.setdefault(key, []).append(summary or summarize(run))
        self._done += self._work.pop((run.scenario, run.arm, run.seed, run.backend), 0.0)
        self._runs += 1
        self._seeds[key] = self._seeds.get(key, 1) - 1
        self._running = None
        if self._live is not None:
            self._draw()
        elif self._seeds[key] <= 0:
            self._say(key)

    def _live_cell(self, name: str, counts: bool) -> str:
        values = self._second.get(name)
        if not values:
            return wording.NOTHING
        total = sum(values)
        return f"{total:,.0f}" if counts else f"{total / len(values):,.0f}"

    def _say(self, key: tuple[str, str, str]) -> None:
        """One finished arm as a line; before the first of a scenario its heading."""
        scenario, _, backend = key
        heading = _cut(f"{scenario} ({backend})", 40)
        if heading != self._said:
            self._said = heading
            self._print(f"\n{heading}")
            self._print(_line("arm", HEADS))
        self._print(_line(key[1], self._cells(key)))
        if key in self._invalid:
            self._print(_cut(f"    left out: {self._invalid[key]}", WIDTH))
        if self._clock() - self._drawn >= SAID_EVERY:
            self._drawn = self._clock()
            self._print(f"  {self._progress()}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()

    def _cells(self, key: tuple[str, str, str]) -> tuple[str, ...]:
        summaries = self._finished[key]
        if not summaries:
            return ("not valid",)
        estimates = over_seeds(summaries)
        return tuple(wording.value(column, estimates[column.figure].mean) for column in SHOWN)

    def _progress(self) -> str:
        done = self._done + (self._elapsed if self._running else 0.0)
        left = len(self._work)
        text = f"{self._runs} of {self._runs + left} runs"
        spent = self._clock() - self._started
        if not left:
            return f"{text}, {clock_time(spent)}"
        if done <= 0 or not self._total:
            return text
        # A planned second of a run has taken so long until now.
        return f"{text}, {clock_time(spent)}, about {clock_time(spent * (self._total - done) / done)} left"

    def _draw(self) -> None:
        if self._live is None:
            return
        self._drawn = self._clock()
        self._live.update(Stack(*self._parts()), refresh=True)

    def _parts(self) -> list[RenderableType]:
        parts: list[RenderableType] = [self._bar()]
        if self._running is not None:
            scenario, arm, seed = self._running
            text = f"{scenario.name}, {arm}, seed {seed}: {self._elapsed:.0f} of {scenario.seconds:g} s"
            start, end = scenario.overload
            parts += [Text(), Text(_cut(text, min(WIDTH, self._console.width)), style="bold")]
            if start <= self._elapsed < end:
                parts[-1] = Text(_cut(f"{text}, overloaded", min(WIDTH, self._console.width)), style="bold yellow")
            parts.append(self._seconds())
        if self._finished:
            parts += [Text(), self._rows()]
        for (name, invalid, _), reason in list(self._invalid.items())[-3:]:
            text = f"{_cut(name, 20)}, {_cut(invalid, NAME)} left out: {reason}"
            parts.append(Text(_cut(text, min(WIDTH, self._console.width)), style="red"))
        return parts

    def _bar(self) -> RenderableType:
        progress = Progress(BarColumn(bar_width=20), TextColumn("{task.description}"), console=self._console)
        done = self._done + (self._elapsed if self._running else 0.0)
        progress.add_task(
            self._progress(), total=1000, completed=round(1000 * done / self._total) if self._work else 1000
        )
        return progress

    def _seconds(self) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="underline")
        for name in ("second", *(head for _, head, _ in LIVE)):
            table.add_column(name, justify="right", min_width=8 if name != "second" else 6, no_wrap=True)
        for line in self._lines:
            table.add_row(*line)
        for _ in range(SECONDS - len(self._lines)):
            table.add_row("")
        return table

    def _rows(self) -> Table:
        """The last finished arms, under the names of their scenarios."""
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="underline")
        table.add_column("arm", min_width=NAME, max_width=NAME + 2, no_wrap=True)
        for head, width in zip(HEADS, WIDTHS, strict=True):
            table.add_column(head, justify="right", min_width=width - 1, no_wrap=True)
        shown = list(self._finished)[-self._room() :]
        said = ""
        for key in shown:
            scenario, arm, backend = key
            if f"{scenario} {backend}" != said:
                said = f"{scenario} {backend}"
                table.add_row(Text(_cut(scenario, NAME + 2), style="bold"), *[""] * len(HEADS))
            style = "red" if key in self._invalid else ""
            cells = self._cells(key)
            table.add_row(f"  {_cut(arm, NAME)}", *cells, *[""] * (len(HEADS) - len(cells)), style=style)
        return table

    def _room(self) -> int:
        """How many finished arms the terminal has room for, besides the running one and headings."""
        return max(1, min(ARMS, self._console.height - SECONDS - 12))


def clock_time(seconds: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


def _line(name: str, cells: Sequence[str]) -> str:
    padded = [cell.rjust(width) for cell, width in zip(cells, WIDTHS, strict=False)]
    return f"  {_cut(name, NAME):<{NAME}} {' '.join(padded)}".rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}\N{HORIZONTAL ELLIPSIS}"
