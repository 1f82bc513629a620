"""Pure: what a simulated run yields, counted while it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.storm.results import SERIES, STEP, Request

if TYPE_CHECKING:
    from collections.abc import Mapping


class Recorder:
    """The series and the requests of one run."""

    __slots__ = ("_due", "_ended", "_outcomes", "_steps", "attempts", "goodput", "offered", "series", "step")

    def __init__(self, seconds: float) -> None:
        self._steps = round(seconds / STEP)
        # The number of the current step. After the end of the run, one more step, which is left out of the result.
        self.step: int = 0
        self.series: dict[str, list[float]] = {name: [0.0] * (self._steps + 1) for name in SERIES}
        # Those that every request touches.
        self.offered = self.series["offered"]
        self.attempts = self.series["attempts"]
        self.goodput = self.series["goodput"]
        self._due: list[float] = []
        self._ended: list[float] = []
        self._outcomes: list[str] = []

    def begin(self, step: int) -> None:
        """Count for another step from now on."""
        self.step = min(step, self._steps)

    def count(self, name: str) -> None:
        """Count one in a series."""
        self.series[name][self.step] += 1

    def note(self, means: Mapping[str, float]) -> None:
        """Set values of the current step."""
        for name, value in means.items():
            self.series[name][self.step] = value

    def values(self, step: int) -> dict[str, float]:
        """Return all values of one step."""
        return {name: values[step] for name, values in self.series.items()}

    def ended(self, due: float, now: float, outcome: str) -> None:
        """Record what became of a request."""
        self._due.append(due)
        self._ended.append(now)
        self._outcomes.append(outcome)
        if outcome == "ok":
            self.goodput[self.step] += 1
        elif outcome == "rejected":
            self.series["failed"][self.step] += 1
        else:
            self.series[outcome][self.step] += 1

    def requests(self) -> list[Request]:
        """Return all requests in the order in which they were due."""
        found = [Request(*each) for each in zip(self._due, self._ended, self._outcomes, strict=True)]
        found.sort(key=lambda request: request.due)
        return found

    def result(self) -> dict[str, list[float]]:
        """Return the series, without what came after the end of the run."""
        return {name: values[: self._steps] for name, values in self.series.items()}
