"""Pure: the round-trip times of one server, their moving average and their minimum."""

from __future__ import annotations

from collections import deque
from typing import Final

# Server selection specification, "Calculation of Average Round Trip Times".
ALPHA: Final = 0.2
# Server monitoring specification, "Measuring RTT": the minimum of the last ten, 0 until there are two.
MINIMUM_OF_LAST: Final = 10
MINIMUM_NEEDS: Final = 2


class RoundTripTimes:
    """The monitor's measurements of one server, in seconds.

    Attributes:
        average: Exponentially weighted moving average, or None without samples.
        minimum: Smallest of the newest ten samples, 0.0 until there are two. It errs on the low side, because an
            operation fails without being sent if less than this is left of its deadline.
    """

    __slots__ = ("_newest", "average", "minimum")

    def __init__(self) -> None:
        self.average: float | None = None
        self.minimum: float = 0.0
        self._newest: deque[float] = deque(maxlen=MINIMUM_OF_LAST)

    def add(self, sample: float) -> None:
        """Add one measured duration of hello.

        Raises:
            ValueError: `sample` is negative, so the clock is not monotonic.
        """
        if sample < 0.0:
            raise ValueError(f"a round-trip time cannot be negative: {sample!r}")
        self.average = sample if self.average is None else ALPHA * sample + (1.0 - ALPHA) * self.average
        self._newest.append(sample)
        if len(self._newest) >= MINIMUM_NEEDS:
            self.minimum = min(self._newest)

    def reset(self) -> None:
        """Discard all samples, because the server became unavailable."""
        self.average = None
        self.minimum = 0.0
        self._newest.clear()
