"""Pure: the names that the server has for the parameters of its limiters (MongoDB 8.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.storm.scenario import Server

FIELDS: Final = {
    "ingressRequestAdmissionRatePerSec": "admission_rate",
    "ingressRequestAdmissionBurstCapacitySecs": "admission_burst",
    "ingressConnectionEstablishmentRatePerSec": "connection_rate",
    "ingressConnectionEstablishmentBurstCapacitySecs": "connection_burst",
    "ingressConnectionEstablishmentMaxQueueDepth": "connection_queue",
}
"""The parameters, and the fields of `scenario.Server` that they set."""
REQUESTS_LIMITED: Final = "ingressRequestRateLimiterEnabled"
CONNECTIONS_LIMITED: Final = "ingressConnectionEstablishmentRateLimiterEnabled"
NAMES: Final = (*FIELDS, REQUESTS_LIMITED, CONNECTIONS_LIMITED)


def with_parameters(server: Server, parameters: Mapping[str, Any]) -> Server:
    """Return `server` with other parameters.

    Raises:
        ValueError: The server has no such parameter, or the value is wrong.
    """
    changes: dict[str, Any] = {}
    for name, value in parameters.items():
        if name == REQUESTS_LIMITED:
            changes["mode"] = "shed" if _switch(name, value) else "queue"
        elif name == CONNECTIONS_LIMITED:
            if not _switch(name, value):
                changes["connection_rate"] = None
        elif name not in FIELDS:
            raise ValueError(f"there is no parameter {name}; there are {', '.join(NAMES)}")
        else:
            changes[FIELDS[name]] = _number(name, value)
    return replace(server, **changes)


def _switch(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false", "0", "1"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text in ("true", "1")


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError(f"{name} must be a number of at least 0, not {value!r}")
    return int(number) if name.endswith("Depth") else number
