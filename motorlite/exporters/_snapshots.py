"""Pure: what `live` says of a program: a line of JSON for each moment.

Counters begin with the client, but for what is below ``"watched"``, which begins with the first of the readers.
Readers take rates from the differences of two snapshots. A later version of the driver may add fields; `VERSION`
changes when one changes its meaning or vanishes.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from motorlite.exporters._readings import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite.stats import ClientStats

VERSION: Final = 1


def client_snapshot(number: int, name: str, stats: ClientStats, watched: Mapping[str, Any]) -> dict[str, Any]:
    """Return the snapshot of one client; `number` is its own within the program, and `watched` what a watch says."""
    return {
        "id": number,
        "name": name,
        "watched": watched,
        "servers": {label_of(address): asdict(server) for address, server in stats.servers.items()},
        "tokens": stats.tokens,
        "token_capacity": stats.token_capacity,
        "retries": {str(reason): count for reason, count in stats.retries.items()},
        "refusals": {str(refusal): count for refusal, count in stats.refusals.items()},
        "sessions": stats.sessions,
        "failures": stats.failures,
        "degraded": stats.degraded,
        "rate_limits": {namespace: asdict(limit) for namespace, limit in stats.rate_limits.items()},
    }


def program_snapshot(facts: Mapping[str, Any], time: float, clients: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the line of a whole program. `time` is that of a clock that never goes back, in seconds."""
    snapshot = {"version": VERSION, **facts, "time": time, "clients": clients}
    return json.dumps(_plain(snapshot), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    """Return the same value, as JSON has it: null for infinity, and strings as keys."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
