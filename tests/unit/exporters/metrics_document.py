"""Generates the table of metrics in docs/metrics.md: ``python -m tests.unit.exporters.metrics_document``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from motorlite.exporters._readings import MEASURED, METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from motorlite.exporters._readings import Metric

FILE: Final = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
START, END = "<!-- table of metrics -->\n", "<!-- end of the table -->\n"
_TITLES: Final = (
    ("Read from `client.stats()` at each scrape:", METRICS),
    ("Measured by `Measurements`:", MEASURED),
)


def table(metrics: Iterable[Metric]) -> list[str]:
    """The rows of a table."""
    rows = ["| metric | kind | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.prometheus_name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return rows


def tables() -> str:
    """Both tables."""
    lines: list[str] = []
    for title, metrics in _TITLES:
        lines += ["", title, "", *table(metrics.values()), ""]
    return "\n".join(lines[1:])


def document() -> str:
    """The whole page."""
    before, _, rest = FILE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
