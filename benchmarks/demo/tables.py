"""Shell: the demo's counts, and its tables: redrawn in a terminal, and as lines of a file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from rich.live import Live
from rich.table import Table

from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from benchmarks.demo.scenario import Policy


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


def second_row(number: int, server: str, counts: Counts, tokens: float) -> Row:
    """The row for one second of the first part."""
    cells = (
        str(number),
        server,
        str(counts.served),
        str(counts.attempts),
        str(counts.retries),
        str(counts.failed),
        f"{tokens:.0f}",
        milliseconds(counts.latency(0.50)),
        milliseconds(counts.latency(0.99)),
    )
    return Row(cells, "red" if counts.failed else "yellow" if counts.retries else "green")


def policy_row(policy: Policy, tally: Tally, seconds: float) -> Row:
    """The row for a policy's result after `seconds` seconds."""
    total = tally.total
    return Row(
        (
            policy.name,
            f"{total.served / seconds:,.0f}",
            f"{total.error_share:.1%}",
            f"{total.attempts:,}",
            f"{total.amplification:.2f}",
            f"{tally.peak_attempts:,}",
            milliseconds(total.latency(0.50)),
            milliseconds(total.latency(0.99)),
        )
    )


def survival(total: Counts, overloaded: Counts) -> str:
    """What was measured in the first part: all of it, and the seconds of the overload."""
    attempts, requests = overloaded.attempts, overloaded.requests
    rejected = attempts - overloaded.served
    return (
        f"{total.served:,} of {total.requests:,} requests were served, with {total.attempts:,} attempts. Measured "
        f"during the overload: the server rejected {_share(rejected, attempts)} of {attempts:,} attempts (95% interval "
        f"{_range(rejected, attempts)}), and {_share(overloaded.failed, requests)} of {requests:,} requests failed "
        f"({_range(overloaded.failed, requests)})."
    )


def conclusion(default: Counts, without_retries: Counts) -> str:
    """The result of the comparison in one line, with 95 % intervals."""
    shares = [
        f"{_share(counts.failed, counts.requests)} ({_range(counts.failed, counts.requests)})"
        for counts in (without_retries, default)
    ]
    return f"Failed: {shares[0]} without retries, {shares[1]} with motorlite's."


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def _range(part: int, whole: int) -> str:
    if not whole:
        return "-"
    low, high = share_range(part, whole)
    return f"{low * 100:.1f}-{high:.1%}"


def milliseconds(seconds: float) -> str:
    """Milliseconds as text, with one decimal below 10; a dash for NaN, which means that there was no measurement."""
    if math.isnan(seconds):
        return "-"
    value = seconds * 1e3
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


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


# --- counts ---


# 95 % of a normal distribution are within so many standard deviations.
Z: Final = 1.96


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

    @property
    def error_share(self) -> float:
        return self.failed / self.requests if self.requests else 0.0

    @property
    def amplification(self) -> float:
        """Attempts that the server saw for each finished request."""
        return self.attempts / self.requests if self.requests else 0.0

    def latency(self, share: float) -> float:
        """The percentile `share` of the latencies; NaN if no request was finished."""
        return percentile(sorted(self.latencies), share)

    def add(self, other: Counts) -> None:
        self.served += other.served
        self.failed += other.failed
        self.attempts += other.attempts
        self.retries += other.retries
        self.latencies += other.latencies


def share_range(successes: int, trials: int) -> tuple[float, float]:
    """The 95 % interval of a share that was counted (Wilson's, which holds for few and for none)."""
    share, spread = successes / trials, Z * Z / trials
    middle = share + spread / 2
    width = Z * math.sqrt(share * (1 - share) / trials + spread / trials / 4)
    return max(0.0, (middle - width) / (1 + spread)), min(1.0, (middle + width) / (1 + spread))


class Tally:
    """Counts of the current second, the total of all finished seconds, and that of those in an overload."""

    __slots__ = ("now", "overloaded", "peak_attempts", "surprises", "total")

    def __init__(self) -> None:
        self.now = Counts()
        self.total = Counts()
        self.overloaded = Counts()
        # The most attempts in one second.
        self.peak_attempts = 0
        # Errors other than overload rejections; the demo fails if there are any.
        self.surprises: list[str] = []

    def end_second(self, *, is_overloaded: bool = False) -> Counts:
        """Finish the current second and return its counts."""
        ended, self.now = self.now, Counts()
        self.total.add(ended)
        if is_overloaded:
            self.overloaded.add(ended)
        self.peak_attempts = max(self.peak_attempts, ended.attempts)
        return ended
