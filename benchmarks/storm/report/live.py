"""Shell: a session while it goes on: drawn anew in a terminal, a line for each finished arm elsewhere."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final, Self

from rich.console import Group as Stack
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from benchmarks.storm.report.figures import FIGURES, NOTHING, value
from benchmarks.storm.results import STEP
from benchmarks.storm.summary import over_seeds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console, RenderableType

    from benchmarks.storm.plan import Step
    from benchmarks.storm.results import Run
    from benchmarks.storm.summary import Summary

    Key = tuple[str, str, str]  # scenario, arm, backend

SECONDS: Final = 6
"""Lines of the running arm."""
ARMS: Final = 12
"""Lines of finished arms."""
DRAWN_EVERY: Final = 5
"""Steps: drawing takes time from the load on the same machine."""
SERIES: Final = ("offered", "attempts", "goodput", "rejected", "timed_out", "tokens", "server_queue")
MEANS: Final = ("tokens", "server_queue")
# The name of the figure, and the head of its column.
SHOWN: Final = {
    "share": "goodput",
    "amplification": "per req.",
    "per_success": "per ok",
    "errors": "failed",
    "outcome_p99": "p99",
    "recovery": "recovery",
}
NAME, CELL = 18, 9


class View:
    """Shows progress through the plan, the last seconds of the running arm, and the finished arms."""

    def __init__(self, console: Console, plan: Sequence[Step]) -> None:
        self._console = console
        self._left: Counter[Key] = Counter((step.scenario.name, step.arm.name, step.backend) for step in plan)
        self._finished: dict[Key, list[Summary]] = {}
        self._invalid: dict[Key, str] = {}
        self._second: dict[str, list[float]] = {}
        self._lines: deque[tuple[str, ...]] = deque(maxlen=SECONDS)
        columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task("", total=sum(step.scenario.seconds for step in plan))
        self._done = 0.0
        self._said = ("", "")
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._lines.clear()
        if self._live is not None:
            self._draw()
            self._live.stop()

    def begin(self, step: Step) -> None:
        self._lines.clear()
        self._second = {}
        self._progress.update(self._task, description=f"{step.scenario.name}, {step.arm.name}, seed {step.seed}")
        self._draw()

    def step(self, elapsed: float, values: Mapping[str, float]) -> None:
        """100 ms of the running arm are over; `values` are what is known of its series in them."""
        for name, number in values.items():
            self._second.setdefault(name, []).append(number)
        number = round(elapsed / STEP)
        if number % round(1 / STEP) == 0:
            self._lines.append((f"{elapsed:.0f}", *map(self._total, SERIES)))
            self._second = {}
        self._progress.update(self._task, completed=self._done + elapsed)
        if number % DRAWN_EVERY == 0:
            self._draw()

    def _total(self, name: str) -> str:
        values = self._second.get(name)
        return f"{sum(values) / (len(values) if name in MEANS else 1):,.0f}" if values else NOTHING

    def finish(self, run: Run, summary: Summary) -> None:
        """A run has ended, with these figures."""
        key = (run.scenario, run.arm, run.backend)
        found = self._finished.setdefault(key, [])
        if run.invalid:
            self._invalid[key] = run.invalid[0]
        else:
            found.append(summary)
        self._done += run.seconds
        self._left[key] -= 1
        self._progress.update(self._task, completed=self._done)
        self._draw()
        if self._live is None and not self._left[key]:
            self._say(key)

    def _cells(self, key: Key) -> tuple[str, ...]:
        if not self._finished[key]:
            return ("not valid",)
        estimates = over_seeds(self._finished[key])
        return tuple(value(FIGURES[name], estimates[name].mean) for name in SHOWN)

    def _say(self, key: Key) -> None:
        """One finished arm as a line; before the first of a scenario its heading."""
        scenario, arm, backend = key
        lines = [(arm, *self._cells(key))]
        if (scenario, backend) != self._said:
            self._said = (scenario, backend)
            lines = [(), (f"{scenario} ({backend})",), ("arm", *SHOWN.values()), *lines]
        if key in self._invalid:
            lines.append((f"left out: {self._invalid[key]}",))
        for name, *cells in (line or ("",) for line in lines):
            text = f"{name[:NAME]:<{NAME}} {' '.join(cell.rjust(CELL) for cell in cells)}" if cells else name
            self._console.print(text[:80].rstrip(), markup=False, highlight=False, soft_wrap=True)
        self._console.file.flush()

    def _draw(self) -> None:
        if self._live is None:
            return
        parts: list[RenderableType] = [self._progress]
        if self._lines:
            parts.append(_table(("second", *(name.replace("_", " ") for name in SERIES)), list(self._lines)))
        rows = [(f"{key[0]}, {key[1]}", *self._cells(key)) for key in list(self._finished)[-ARMS:]]
        if rows:
            parts.append(_table(("finished", *SHOWN.values()), rows))
        parts += [Text(f"left out: {key[0]}, {key[1]}: {why}") for key, why in list(self._invalid.items())[-3:]]
        self._live.update(Stack(*parts), refresh=True)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="underline")
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
