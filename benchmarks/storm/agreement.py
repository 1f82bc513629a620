"""Pure: one scenario on sockets and in the simulation, side by side: `python -m benchmarks storm --agreement`.

The figures must agree within the bands below. They are wider than the differences between seeds, and narrower than
those between the policies that are compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.storm.session import Group
    from benchmarks.storm.summary import Estimate

SCENARIO: Final = "sustained"
ARMS: Final = ("no-retry", "immediate", "default", "small-budget")
HEAD: Final = ("arm", "figure", "sockets", "simulation", "difference", "allowed", "verdict")


class Band(NamedTuple):
    """How far a figure of the simulation may be from the sockets', in its own units or as a share."""

    figure: str
    title: str
    width: float
    is_relative: bool

    def distance(self, sockets: float, twin: float) -> float:
        """The difference; infinity if it cannot be calculated."""
        if not (math.isfinite(sockets) and math.isfinite(twin)):
            return 0.0 if sockets == twin else math.inf
        difference = abs(twin - sockets)
        return difference / abs(sockets) if self.is_relative and sockets else difference

    def text(self, distance: float, digits: int = 1) -> str:
        return f"{100 * distance:.{digits}f} {'%' if self.is_relative else 'points'}"


BANDS: Final = (
    Band("share", "goodput", 0.05, is_relative=False),
    Band("amplification", "attempts per request", 0.10, is_relative=True),
    Band("errors", "failed requests", 0.05, is_relative=False),
)


def row(arm: str, band: Band, sockets: Estimate, twin: Estimate) -> tuple[str, ...]:
    """One figure of one arm on both backends, in the cells that `HEAD` names."""
    distance = band.distance(sockets.mean, twin.mean)
    verdict = "agrees" if distance <= band.width else "DIFFERS"
    return arm, band.title, _cell(sockets), _cell(twin), band.text(distance), band.text(band.width, 0), verdict


def rows(sockets: Sequence[Group], twin: Sequence[Group]) -> Iterator[tuple[str, ...]]:
    """The figures of all arms that have valid runs on both backends."""
    simulated = {group.arm: group for group in twin}
    for group in sockets:
        other = simulated.get(group.arm)
        if other is not None and group.records and other.records:
            for band in BANDS:
                yield row(group.arm, band, group.estimates[band.figure], other.estimates[band.figure])


def _cell(estimate: Estimate) -> str:
    spread = "" if math.isnan(estimate.high) else f" ({estimate.low:.3f} to {estimate.high:.3f})"
    return f"{estimate.mean:.3f}{spread}"
