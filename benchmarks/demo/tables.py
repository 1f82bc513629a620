"""Shell: the demo's counts, and its tables: redrawn in a terminal, and as lines of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rich.live import Live
from rich.table import Table

from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.demo.scenario import Policy


@dataclass(slots=True)
class Counts:
    """Counts of a period; latencies are those of all finished requests, failed ones included, in seconds."""

    served: int = 0
    failed: int = 0
    attempts: int = 0
    retries: int = 0
    latencies: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return self.served + self.failed

    def latency(self, share: float) -> str:
        """A percentile in milliseconds, with one decimal below 10; a dash if no request was finished."""
        value = percentile(sorted(self.latencies), share) * 1e3
        return "-" if math.isnan(value) else f"{value:.1f}" if value < 10 else f"{value:,.0f}"

    def add(self, other: Counts) -> None:
        self.served += other.served
        self.failed += other.failed
        self.attempts += other.attempts
        self.retries += other.retries
        self.latencies += other.latencies


@dataclass(slots=True)
class Tally:
    """Counts of the current second, the total of all finished seconds, and that of those in an overload."""

    now: Counts = field(default_factory=Counts)
    total: Counts = field(default_factory=Counts)
    overloaded: Counts = field(default_factory=Counts)
    # The most attempts in one second.
    peak_attempts: int = 0
    # Errors other than overload rejections; the demo fails if there are any.
    surprises: list[str] = field(default_factory=list)

    def end_second(self, *, is_overloaded: bool = False) -> Counts:
        """Finish the current second and return its counts."""
        ended, self.now = self.now, Counts()
        self.total.add(ended)
        if is_overloaded:
            self.overloaded.add(ended)
        self.peak_attempts = max(self.peak_attempts, ended.attempts)
        return ended


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns with fixed widths, so that lines written one by one are aligned."""

    head: tuple[str, ...]
    widths: tuple[int, ...]
    left: int  # the left-aligned column

    def line(self, cells: Sequence[str]) -> str:
        return " ".join(
            cell.ljust(width) if column == self.left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, self.widths, strict=True))
        ).rstrip()

    def table(self, rows: Sequence[Row]) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold underline")
        for column, (name, width) in enumerate(zip(self.head, self.widths, strict=True)):
            table.add_column(name, justify="left" if column == self.left else "right", min_width=width, no_wrap=True)
        for row in rows:
            table.add_row(*row.cells, style=row.style)
        return table


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one line and its optional colour."""

    cells: tuple[str, ...]
    style: str = ""


SECONDS = Layout(
    head=("second", "server", "goodput", "attempts", "retries", "errors", "tokens", "p50 ms", "p99 ms"),
    widths=(6, 12, 7, 8, 7, 6, 6, 7, 7),
    left=1,
)
POLICIES = Layout(
    head=("policy", "goodput/s", "errors", "attempts", "per request", "peak/s", "p50 ms", "p99 ms"),
    widths=(19, 9, 6, 8, 11, 6, 6, 6),
    left=0,
)


def second_row(second: str, server: str, counts: Counts, tokens: str) -> Row:
    """The row for one second of the first part, or for the sum of several."""
    numbers = (counts.served, counts.attempts, counts.retries, counts.failed)
    cells = (second, server, *map(str, numbers), tokens, counts.latency(0.50), counts.latency(0.99))
    return Row(cells, "red" if counts.failed else "yellow" if counts.retries else "green")


def policy_row(policy: Policy, tally: Tally, seconds: float) -> Row:
    """The row for a policy's result after `seconds` seconds."""
    total, requests = tally.total, max(1, tally.total.requests)
    cells = (
        policy.name,
        f"{total.served / seconds:,.0f}",
        f"{total.failed / requests:.1%}",
        f"{total.attempts:,}",
        f"{total.attempts / requests:.2f}",
        f"{tally.peak_attempts:,}",
        total.latency(0.50),
        total.latency(0.99),
    )
    return Row(cells)


class Display:
    """Shows finished rows and, in a terminal, the current row."""

    def __init__(self, console: Console, layout: Layout) -> None:
        self._console = console
        self._layout = layout
        self._rows: list[Row] = []
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is None:
            self._print(self._layout.head)
        else:
            self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def running(self, row: Row) -> None:
        if self._live is not None:
            self._live.update(self._layout.table([*self._rows, row]), refresh=True)

    def finished(self, row: Row) -> None:
        self._rows.append(row)
        if self._live is None:
            self._print(row.cells)
        else:
            self._live.update(self._layout.table(self._rows), refresh=True)

    def _print(self, cells: tuple[str, ...]) -> None:
        self._console.print(self._layout.line(cells), markup=False)
        self._console.file.flush()
