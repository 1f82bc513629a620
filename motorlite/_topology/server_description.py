"""Pure: the description of one server, from its newest hello or from the error of the check; and what it may serve."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId

from motorlite import topology_description
from motorlite._base.hosts import parse_host
from motorlite._base.values import cut
from motorlite._connection.handshake import hello_number
from motorlite._connection.handshake import server_type as read_server_type
from motorlite._wire.replies import error_from_reply
from motorlite.errors import ConfigurationError, ProtocolError, PyMongoError, detached
from motorlite.topology_description import ServerType, TopologyType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._base.values import Address

T = TypeVar("T")

# A replica set has at most 50 members; twice as many leave room for a set that is being moved. A server that names
# more, or several that do so together, are not trusted at all: each host costs sockets, tasks and memory.
MAX_MEMBERS: Final = 100
# Maximum number of characters of each server's error that an error or a log record repeats.
MAX_SHOWN: Final = 1000
DEFAULT_MAX_BSON_OBJECT_SIZE: Final = 16 * 1024 * 1024
DEFAULT_MAX_MESSAGE_SIZE: Final = 48_000_000
DEFAULT_MAX_WRITE_BATCH_SIZE: Final = 100_000


WRITABLE_TYPES: Final = frozenset(
    {ServerType.RSPrimary, ServerType.Standalone, ServerType.Mongos, ServerType.LoadBalancer}
)
DATA_BEARING_TYPES: Final = WRITABLE_TYPES | {ServerType.RSSecondary}

# Fields marked (=) in the specification: events are published only if one of these changes.
_EQUALITY_FIELDS: Final = (
    "address",
    "server_type",
    "min_wire_version",
    "max_wire_version",
    "me",
    "hosts",
    "passives",
    "arbiters",
    "tags",
    "replica_set_name",
    "set_version",
    "election_id",
    "primary",
    "logical_session_timeout_minutes",
    "topology_version",
    "is_cryptd",
)


class ServerDescription(topology_description.ServerDescription):
    """The description of a server, parsed from a reply to hello."""

    # One for each public attribute.
    __slots__ = tuple(topology_description.ServerDescription.__annotations__)

    def __init__(
        self,
        address: Address,
        server_type: ServerType,
        reply: Mapping[str, Any],
        *,
        error: PyMongoError | None = None,
        topology_version: Mapping[str, Any] | None = None,
        round_trip_time: float | None = None,
        min_round_trip_time: float = 0.0,
        last_update_time: float = -math.inf,
    ) -> None:
        self.address: Address = address
        self.server_type: ServerType = server_type
        self.server_type_name: str = server_type.value
        # A copy: descriptions are kept, also by listeners, and the original error references frames of an operation.
        self.error: PyMongoError | None = None if error is None else detached(error)
        if self.error is not None and self.error.address is None:
            self.error.address = address
        self.topology_version: Mapping[str, Any] | None = topology_version
        self.round_trip_time: float | None = round_trip_time
        self.min_round_trip_time: float = min_round_trip_time
        self.last_update_time: float = last_update_time
        self._read_membership(reply)
        self._read_limits(reply)
        self.cluster_time: Mapping[str, Any] | None = reply.get("$clusterTime")
        self.last_write_date: float | None = _last_write_date(reply)
        self.is_cryptd: bool | None = reply.get("iscryptd")
        self.is_writable: bool = server_type in WRITABLE_TYPES
        self.is_readable: bool = server_type in DATA_BEARING_TYPES
        self.is_server_type_known: bool = server_type is not ServerType.Unknown
        self.retryable_writes_supported: bool = server_type is ServerType.LoadBalancer or (
            self.logical_session_timeout_minutes is not None
            and server_type in (ServerType.Mongos, ServerType.RSPrimary)
        )

    def _read_membership(self, reply: Mapping[str, Any]) -> None:
        self.replica_set_name: str | None = _typed(reply, "setName", str)
        self.set_version: int | None = hello_number(reply, "setVersion", None, least=0)
        self.election_id: ObjectId | None = _typed(reply, "electionId", ObjectId)
        self.tags: Mapping[str, Any] = _typed(reply, "tags", dict) or {}
        self.hosts: frozenset[Address] = _addresses(reply, "hosts")
        self.passives: frozenset[Address] = _addresses(reply, "passives")
        self.arbiters: frozenset[Address] = _addresses(reply, "arbiters")
        self.all_hosts: frozenset[Address] = self.hosts | self.passives | self.arbiters
        if len(self.all_hosts) > MAX_MEMBERS:
            raise too_many_members(len(self.all_hosts))
        me, primary = _typed(reply, "me", str), _typed(reply, "primary", str)
        self.me: Address | None = parse_address(me) if me else None
        self.primary: Address | None = parse_address(primary) if primary else None

    def _read_limits(self, reply: Mapping[str, Any]) -> None:
        self.min_wire_version: int = hello_number(reply, "minWireVersion", 0, least=0)
        self.max_wire_version: int = hello_number(reply, "maxWireVersion", 0, least=0)
        self.max_bson_object_size: int = hello_number(reply, "maxBsonObjectSize", DEFAULT_MAX_BSON_OBJECT_SIZE)
        self.max_message_size: int = hello_number(reply, "maxMessageSizeBytes", DEFAULT_MAX_MESSAGE_SIZE)
        self.max_write_batch_size: int = hello_number(reply, "maxWriteBatchSize", DEFAULT_MAX_WRITE_BATCH_SIZE)
        self.logical_session_timeout_minutes: int | None = hello_number(
            reply, "logicalSessionTimeoutMinutes", None, least=0
        )

    @classmethod
    def unknown(
        cls,
        address: Address,
        *,
        error: PyMongoError | None = None,
        topology_version: Mapping[str, Any] | None = None,
        last_update_time: float = -math.inf,
    ) -> ServerDescription:
        """Return the default description, of a server that is unknown, optionally with the reason."""
        return cls(
            address,
            ServerType.Unknown,
            {},
            error=error,
            topology_version=topology_version,
            last_update_time=last_update_time,
        )

    @classmethod
    def load_balancer(cls, address: Address) -> ServerDescription:
        """Return the description of the only server of a load-balanced deployment, which is never checked."""
        return cls(address, ServerType.LoadBalancer, {})

    @classmethod
    def from_hello(
        cls,
        address: Address,
        reply: Mapping[str, Any],
        *,
        round_trip_time: float | None,
        min_round_trip_time: float,
        now: float,
    ) -> ServerDescription:
        """Parse a reply to hello (or legacy hello).

        Args:
            address: The server that replied.
            reply: The server's reply; ``ok: 0`` results in an Unknown server with that error.
            round_trip_time: Moving average of hello in seconds.
            min_round_trip_time: Minimum of the last ten samples in seconds.
            now: The driver's monotonic clock in seconds.

        Raises:
            ProtocolError: A field has a type that hello never has.
        """
        if reply.get("ok") != 1:
            return cls.unknown(address, error=error_from_reply(reply), last_update_time=now)
        return cls(
            address,
            read_server_type(reply),
            reply,
            topology_version=_typed(reply, "topologyVersion", dict),
            round_trip_time=round_trip_time,
            min_round_trip_time=min_round_trip_time,
            last_update_time=now,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ServerDescription):
            return NotImplemented
        return _error_key(self.error) == _error_key(other.error) and all(
            getattr(self, name) == getattr(other, name) for name in _EQUALITY_FIELDS
        )

    def __repr__(self) -> str:
        error = "" if self.error is None else f", error={cut(repr(self.error), MAX_SHOWN)}"
        return (
            f"<{type(self).__name__} {self.address} server_type: {self.server_type_name}, "
            f"rtt: {self.round_trip_time}{error}>"
        )


def compare_topology_versions(known: Mapping[str, Any] | None, reported: Mapping[str, Any] | None) -> int:
    """Return -1 if `reported` is (or must be treated as) newer than `known`, 0 if it is the same, 1 if it is older.

    Server discovery and monitoring specification, "topologyVersion Comparison".
    """
    if known is None or reported is None or known.get("processId") != reported.get("processId"):
        return -1
    known_counter, reported_counter = known.get("counter"), reported.get("counter")
    if not (isinstance(known_counter, int) and isinstance(reported_counter, int)):
        return -1
    return (known_counter > reported_counter) - (known_counter < reported_counter)


def parse_address(text: str) -> Address:
    """Parse a ``host:port`` of a hello reply into a lower-case address, as strictly as in a connection string."""
    try:
        return parse_host(text)
    except ValueError as error:
        raise ProtocolError(f"the server's hello names an invalid member: {error}") from None


def _typed(reply: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = reply.get(name)
    if value is None or isinstance(value, kind):
        return value
    # Never shows the value: it may have a megabyte, and some errors repeat the last error of every server.
    raise ProtocolError(f"field {name!r} of the server's hello is of type {type(value).__name__}")


def _addresses(reply: Mapping[str, Any], name: str) -> frozenset[Address]:
    members: list[Any] = _typed(reply, name, list) or []
    if len(members) > MAX_MEMBERS:
        raise too_many_members(len(members))
    for member in members:
        if not isinstance(member, str):
            kind = type(member).__name__
            raise ProtocolError(f"field {name!r} of the server's hello names a member of type {kind}, not text")
    return frozenset(map(parse_address, members))


def too_many_members(count: int) -> ProtocolError:
    """Return the error for a server whose hello names too many members, alone or together with other servers."""
    return ProtocolError(
        f"with this server's hello the deployment would have {count} members; at most {MAX_MEMBERS} are followed"
    )


def _last_write_date(reply: Mapping[str, Any]) -> float | None:
    last_write: Mapping[str, Any] = _typed(reply, "lastWrite", dict) or {}
    date = last_write.get("lastWriteDate")
    if date is None:
        return None
    if not isinstance(date, int):  # DatetimeMS takes numbers, too
        with suppress(TypeError):
            return int(date if isinstance(date, DatetimeMS) else DatetimeMS(date)) / 1000.0
    raise ProtocolError(f"field 'lastWriteDate' of the server's hello is of type {type(date).__name__}, not a date")


def _error_key(error: PyMongoError | None) -> tuple[type[PyMongoError], str] | None:
    return None if error is None else (type(error), str(error))


# Which servers of a deployment may serve a read or a write, before the latency window is applied.

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
