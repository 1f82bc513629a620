"""Pure: the tables of `python -m benchmarks instructions`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import mean, stdev
from typing import TYPE_CHECKING

from benchmarks.figures import align
from benchmarks.instructions.parts import ORDER, without_marks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.instructions.parts import Part

BARE = "bare"


@dataclass(frozen=True, slots=True)
class Count:
    """What was counted for one arm of one version."""

    arm: str
    version: str
    samples: Sequence[float]  # instructions per operation
    parts: Mapping[str, Part]
    missing: Sequence[str]

    @property
    def total(self) -> float:
        """Instructions per operation: the mean of the samples, since each has its share of garbage collections."""
        return mean(self.samples)

    @property
    def error(self) -> float:
        """The standard error of the total, as a share of it."""
        return stdev(self.samples) / math.sqrt(len(self.samples)) / self.total


def render(counts: Sequence[Count]) -> str:
    """The totals, and below them the parts, side by side."""
    bare = next((count.total for count in counts if count.arm == BARE), None)
    rows = [("", "version", "total", "x bare", "error")]
    for count in counts:
        ratio = "-" if bare is None else f"{count.total / bare:.2f}"
        rows.append((count.arm, count.version or "-", f"{count.total / 1000:.2f}", ratio, f"{count.error * 100:.2f} %"))
    tables = [align(rows)]
    divided = [count for count in counts if count.parts]
    if divided:
        head = ("by part", *(f"{count.arm} {count.version}" for count in divided))
        shares = [without_marks(count.parts, count.total) for count in divided]
        body = [
            (part, *(f"{share.get(part, 0) / 1000:.1f}" for share in shares))
            for part in ORDER
            if any(part in share for share in shares)
        ]
        total = ("total", *(f"{count.total / 1000:.1f}" for count in divided))
        tables.append(align([head, *body, total]))
    for count in divided:
        tables += [f"{count.arm} {count.version} has no {path}: counted with its caller" for path in count.missing]
    return "\n\n".join(tables)
