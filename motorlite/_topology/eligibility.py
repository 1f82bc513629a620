"""Pure: which servers of a deployment may serve a read or a write, before the latency window is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from motorlite.errors import ConfigurationError
from motorlite.topology_description import ServerType, TopologyType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._topology.server_description import ServerDescription


# Groups of topology types.

REPLICA_SET_TYPES: Final = frozenset({TopologyType.ReplicaSetNoPrimary, TopologyType.ReplicaSetWithPrimary})
# A single server, used as is: no discovery, and read preferences do not select.
ONE_SERVER_TYPES: Final = frozenset({TopologyType.Single, TopologyType.LoadBalanced})


PRIMARY: Final = 0
PRIMARY_PREFERRED: Final = 1
SECONDARY: Final = 2
SECONDARY_PREFERRED: Final = 3
NEAREST: Final = 4

NO_MAX_STALENESS: Final = -1
SMALLEST_MAX_STALENESS: Final = 90.0
# Seconds between the no-op writes of an idle primary (max staleness specification, "idleWritePeriodMS").
IDLE_WRITE_PERIOD: Final = 10.0


class Preference(Protocol):
    """The part of a read preference that server selection needs."""

    @property
    def mode(self) -> int: ...

    @property
    def tag_sets(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def max_staleness(self) -> int: ...


def servers_for_write(kind: TopologyType, candidates: Sequence[ServerDescription]) -> list[ServerDescription]:
    """Return all `candidates` that accept writes; a lone server qualifies regardless of its type."""
    if kind in ONE_SERVER_TYPES:
        return [server for server in candidates if server.is_server_type_known]
    # Empty for a deployment of unknown type or a replica set without a primary.
    wanted = _DATA_TYPES.get(kind)
    return [server for server in candidates if server.server_type is wanted]


def servers_for_read(
    kind: TopologyType,
    candidates: Sequence[ServerDescription],
    everyone: Sequence[ServerDescription],
    preference: Preference,
    heartbeat_frequency: float,
) -> list[ServerDescription]:
    """Return all `candidates` that `preference` permits.

    Args:
        kind: The deployment's type.
        candidates: The servers to choose from, without deprioritised ones.
        everyone: All servers of the deployment; staleness is relative to the best of them, candidate or not.
        preference: Mode, staleness and tags, applied in this order.
        heartbeat_frequency: Seconds between checks, part of the staleness estimate.
    """
    if kind not in REPLICA_SET_TYPES:
        # Drivers do not decide here: a mongos applies the preference, a single server ignores it.
        return servers_for_write(kind, candidates)
    mode = preference.mode
    primaries = [server for server in candidates if server.server_type is ServerType.RSPrimary]
    if mode == PRIMARY or (mode == PRIMARY_PREFERRED and primaries):
        return primaries
    eligible = [server for server in candidates if server.server_type is ServerType.RSSecondary]
    if mode == NEAREST:
        eligible = primaries + eligible
    eligible = _fresh_enough(eligible, everyone, preference.max_staleness, heartbeat_frequency)
    eligible = _with_tags(eligible, preference.tag_sets)
    return primaries if mode == SECONDARY_PREFERRED and not eligible else eligible


def check_max_staleness(kind: TopologyType, preference: Preference, heartbeat_frequency: float) -> None:
    """Reject a `max_staleness` that cannot work.

    Raises:
        ConfigurationError: It is combined with mode primary, or is smaller than a heartbeat can resolve
            (server selection specification, "maxStalenessSeconds").
    """
    max_staleness = preference.max_staleness
    if max_staleness == NO_MAX_STALENESS:
        return
    if preference.mode == PRIMARY:
        raise ConfigurationError(f"maxStalenessSeconds={max_staleness} cannot be used with read preference primary")
    heartbeat_ms, idle_write_ms = heartbeat_frequency * 1000, IDLE_WRITE_PERIOD * 1000
    smallest = max(SMALLEST_MAX_STALENESS, heartbeat_frequency + IDLE_WRITE_PERIOD)
    if kind in REPLICA_SET_TYPES and max_staleness < smallest:
        raise ConfigurationError(
            f"maxStalenessSeconds={max_staleness} is too small: it must be at least {smallest:g}, the larger "
            f"of {SMALLEST_MAX_STALENESS:g} and heartbeatFrequencyMS ({heartbeat_ms:g} ms) plus "
            f"the idle write period ({idle_write_ms:g} ms)"
        )


_DATA_TYPES: Final = {
    TopologyType.ReplicaSetWithPrimary: ServerType.RSPrimary,
    TopologyType.Sharded: ServerType.Mongos,
}


def _fresh_enough(
    servers: list[ServerDescription],
    everyone: Sequence[ServerDescription],
    max_staleness: float,
    heartbeat_frequency: float,
) -> list[ServerDescription]:
    if max_staleness == NO_MAX_STALENESS:
        return servers
    primary = next((server for server in everyone if server.server_type is ServerType.RSPrimary), None)
    secondaries = [server for server in everyone if server.server_type is ServerType.RSSecondary]
    newest_write = max((server.last_write_date or 0.0 for server in secondaries), default=0.0)

    def staleness(server: ServerDescription) -> float:
        if server.server_type is not ServerType.RSSecondary:
            return 0.0
        if server.last_write_date is None:
            return float("inf")
        if primary is not None and primary.last_write_date is not None:
            behind_driver = server.last_update_time - server.last_write_date
            primary_behind_driver = primary.last_update_time - primary.last_write_date
            return behind_driver - primary_behind_driver + heartbeat_frequency
        return newest_write - server.last_write_date + heartbeat_frequency

    # The server's dates have millisecond resolution; finer differences are floating-point errors.
    return [server for server in servers if round(staleness(server), 3) <= max_staleness]


def _with_tags(servers: list[ServerDescription], tag_sets: Sequence[Mapping[str, Any]]) -> list[ServerDescription]:
    """Return the servers that match the first tag set with any match."""
    for wanted in tag_sets:
        matching = [server for server in servers if wanted.items() <= server.tags.items()]
        if matching:
            return matching
    return [] if tag_sets else servers
