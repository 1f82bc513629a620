"""Max staleness: which servers are too far behind ("max-staleness")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._topology.selection import suitable_servers
from motorlite.errors import ConfigurationError
from tests.spec.formats.base import Format, refused
from tests.spec.formats.server_selection import WINDOWS, check_window
from tests.spec.formats.topology_data import Preference, topology
from tests.spec.unified.outcomes import Failed

if TYPE_CHECKING:
    from collections.abc import Mapping


def check(test: Mapping[str, Any]) -> None:
    """Compare the suitable servers, and those of them in the latency window; or the error."""
    description = topology(test["topology_description"])
    preference = Preference(test["read_preference"])
    heartbeat_frequency = test.get("heartbeatFrequencyMS", 10_000) / 1000
    if not test.get("error"):
        for window in WINDOWS:
            check_window(test, window, description, preference, heartbeat_frequency=heartbeat_frequency)
        return
    for threshold in WINDOWS.values():
        error = refused(
            ConfigurationError,
            suitable_servers,
            description,
            preference,
            local_threshold=threshold,
            heartbeat_frequency=heartbeat_frequency,
        )
        if f"maxStalenessSeconds={preference.max_staleness}" not in str(error):
            raise Failed(f"the error does not name maxStalenessSeconds: {error}")


MAX_STALENESS: Final = Format(
    "max-staleness",
    check,
    lambda content: "topology_description" in content and "read_preference" in content and "operation" not in content,
    is_extended=True,
)
