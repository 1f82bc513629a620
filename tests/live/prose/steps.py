"""What prose tests about retries share: the policies that they are run with, and failpoints in two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite import OverloadRetry
from motorlite.monitoring import CommandFailedEvent, CommandSucceededEvent
from tests.support.events import Recorder

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

# A server that answers with error 91 is unknown until its next check. The one that is being awaited would end only
# with heartbeatFrequencyMS, for the failpoint changes nothing in the server; a polling monitor is asked at once.
POLLING: Final[dict[str, Any]] = {"serverMonitoringMode": "poll"}

BOTH: Final = ("RetryableError", "SystemOverloadedError")
SHUTDOWN_IN_PROGRESS: Final = 91

# The numbers of the prose are those of the newest revision; the driver's defaults are those of the token bucket one.
REVISION: Final[dict[str, Any]] = {"overload_policy": OverloadRetry.revision_2026_07()}
DEFAULTS: Final[dict[str, Any]] = {}
POLICIES: Final = pytest.mark.parametrize(
    ("options", "max_retries"), [(REVISION, 2), (DEFAULTS, 5)], ids=["newest revision", "defaults"]
)
# One overload retry and one ordinary retry are two as well: only a higher maximum shows that it holds for all retries.
MAXIMA: Final = pytest.mark.parametrize(
    ("options", "max_retries"),
    [(REVISION, 2), (REVISION | {"maxAdaptiveRetries": 4}, 4), (DEFAULTS, 5)],
    ids=["newest revision", "newest revision with 4 retries", "defaults"],
)


class TwoSteps(Recorder):
    """Sets a second failpoint after the first error 91 (of a command or of its write concern), before the retry."""

    def __init__(self, server: LocalServer, second: dict[str, Any]) -> None:
        super().__init__()
        self._server = server
        self._second = second
        self.is_second_set = False

    def publish(self, event: Any) -> None:
        super().publish(event)
        if isinstance(event, CommandSucceededEvent):
            self._advance(event.reply.get("writeConcernError", {}))
        elif isinstance(event, CommandFailedEvent):
            self._advance(event.failure)

    def _advance(self, error: Any) -> None:
        if not self.is_second_set and error.get("code") == SHUTDOWN_IN_PROGRESS:
            self._server.command(self._second)
            self.is_second_set = True
