"""Whether processes had to wait for a processor, from the kernel's pressure stall information."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

PRESSURE: Final = Path("/proc/pressure/cpu")
# Share of the time in which any process waited, above which times of a few milliseconds mean nothing.
BUSY: Final = 0.1


class Contention:
    """Watches the machine from its creation on."""

    def __init__(self, pressure: Path = PRESSURE) -> None:
        self._pressure = pressure
        self._started = time.monotonic()
        self._stalled = self._total()

    def _total(self) -> int | None:
        """Microseconds since the start of the machine in which some process waited; None where the kernel hides it."""
        try:
            (some, *_) = self._pressure.read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            return None
        return int(some.rpartition("total=")[2])

    @property
    def was_busy(self) -> bool:
        """Whether the machine had too much to do until now; also where this cannot be known."""
        before, after = self._stalled, self._total()
        if before is None or after is None:
            return True
        return after - before > BUSY * 1_000_000 * (time.monotonic() - self._started)
