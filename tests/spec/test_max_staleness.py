"""Public tests of max staleness."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._topology.selection import suitable_servers
from motorlite.errors import ConfigurationError
from tests.spec.topology_data import Preference, addresses, cases, topology


@pytest.mark.parametrize("test", cases("max-staleness", "tests"))
def test_max_staleness(test: dict[str, Any]) -> None:
    description = topology(test["topology_description"])
    preference = Preference(test["read_preference"])
    heartbeat_frequency = test.get("heartbeatFrequencyMS", 10_000) / 1000
    for window, threshold in (("suitable_servers", float("inf")), ("in_latency_window", 0.015)):
        if test.get("error"):
            with pytest.raises(ConfigurationError, match=f"maxStalenessSeconds={preference.max_staleness}"):
                suitable_servers(
                    description,
                    preference,
                    local_threshold=threshold,
                    heartbeat_frequency=heartbeat_frequency,
                )
        else:
            found = suitable_servers(
                description, preference, local_threshold=threshold, heartbeat_frequency=heartbeat_frequency
            )
            assert sorted(server.address for server in found) == addresses(test[window]), window
