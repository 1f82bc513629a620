"""Pure: one scenario on sockets and in the simulation, side by side: `python -m benchmarks storm --agreement`.

The figures must agree within the bands below. They are wider than the differences between seeds, and narrower than
those between the policies that are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.storm.session import Group
    from benchmarks.storm.summary import Estimate

SCENARIO: Final = "sustained"
ARMS: Final = ("no-retry", "immediate", "default", "small-budget")


@dataclass(frozen=True, slots=True)
class Band:
    """How far the simulation may be from the sockets.

    Attributes:
        figure: The field of `Summary`.
        title: Its name in the table.
        width: The greatest difference.
        is_relative: The difference is a share of the figure on sockets.
    """

    figure: str
    title: str
    width: float
    is_relative: bool

    def distance(self, sockets: float, twin: float) -> float:
        """Return the difference; infinity if it cannot be calculated."""
        if not (math.isfinite(sockets) and math.isfinite(twin)):
            return 0.0 if sockets == twin else math.inf
        difference = abs(twin - sockets)
        return difference / abs(sockets) if self.is_relative and sockets else difference

    @property
    def text(self) -> str:
        """The band in words."""
        return f"{100 * self.width:.0f} {'%' if self.is_relative else 'points'}"


BANDS: Final = (
    Band("share", "goodput", 0.05, is_relative=False),
    Band("amplification", "attempts per request", 0.10, is_relative=True),
    Band("errors", "failed requests", 0.05, is_relative=False),
)
HEAD: Final = ("arm", "figure", "sockets", "simulation", "difference", "allowed", "verdict")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one arm on both backends."""

    arm: str
    band: Band
    sockets: Estimate
    twin: Estimate

    @property
    def agrees(self) -> bool:
        """Whether the difference is within the band."""
        return self.band.distance(self.sockets.mean, self.twin.mean) <= self.band.width

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the row, as `HEAD` names them."""
        distance = self.band.distance(self.sockets.mean, self.twin.mean)
        difference = f"{100 * distance:.1f} {'%' if self.band.is_relative else 'points'}"
        verdict = "agrees" if self.agrees else "DIFFERS"
        return (self.arm, self.band.title, _cell(self.sockets), _cell(self.twin), difference, self.band.text, verdict)


def rows(sockets: Sequence[Group], twin: Sequence[Group]) -> Iterator[Row]:
    """Yield the figures of all arms that have valid runs on both backends."""
    simulated = {group.arm: group for group in twin}
    for group in sockets:
        other = simulated.get(group.arm)
        if other is not None and group.records and other.records:
            for band in BANDS:
                yield Row(group.arm, band, group.estimates[band.figure], other.estimates[band.figure])


def _cell(estimate: Estimate) -> str:
    if math.isnan(estimate.high):
        return f"{estimate.mean:.3f}"
    return f"{estimate.mean:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"
