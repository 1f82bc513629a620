"""The lines of the live view."""

from __future__ import annotations

import json
from dataclasses import fields
from math import inf
from typing import Any

from motorlite._execution.watching import Watch
from motorlite.exporters._snapshots import VERSION, client_snapshot, program_snapshot
from motorlite.stats import ClientStats, ServerStats
from tests.unit.exporters.snapshots import FULL


def line(stats: ClientStats) -> dict[str, Any]:
    client = client_snapshot(3, "shop", stats, Watch().report(0.0))
    text = program_snapshot({"pid": 7, "program": "shop.py"}, 12.5, [client])
    assert text.endswith(b"\n")
    assert text.count(b"\n") == 1
    found: dict[str, Any] = json.loads(text)
    return found


def test_everything_of_a_client_is_in_its_line() -> None:
    stats = FULL
    found = line(stats)
    assert (found["version"], found["pid"], found["program"], found["time"]) == (VERSION, 7, "shop.py", 12.5)
    (client,) = found["clients"]
    assert (client["id"], client["name"]) == (3, "shop")
    assert {each.name for each in fields(ClientStats)} <= client.keys()
    assert client["retries"] == stats.retries
    for server in client["servers"].values():
        assert {each.name for each in fields(ServerStats)} == server.keys()
    assert client["watched"]["operations"] == {}


def test_infinity_is_null() -> None:
    found = line(ClientStats({}, inf, inf, {}, {}, 0))
    assert found["clients"][0]["tokens"] is None
    assert found["clients"][0]["token_capacity"] is None
