"""Pure: the description of one server, from its newest hello or from the error of the check."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId

from motorlite import topology_description
from motorlite._base.hosts import parse_host
from motorlite._base.values import cut
from motorlite._connection.handshake import hello_number
from motorlite._connection.handshake import server_type as read_server_type
from motorlite._wire.replies import error_from_reply
from motorlite.errors import ProtocolError, PyMongoError, detached
from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def compare_topology_versions(known: Mapping[str, Any] | None, news: Mapping[str, Any] | None) -> int:
    """Return -1 if `news` is (or must be treated as) newer than `known`, 0 if it is the same, 1 if it is older.

    Server discovery and monitoring specification, "topologyVersion Comparison".
    """
    if known is None or news is None or known.get("processId") != news.get("processId"):
        return -1
    known_counter, news_counter = known.get("counter"), news.get("counter")
    if not (isinstance(known_counter, int) and isinstance(news_counter, int)):
        return -1
    return (known_counter > news_counter) - (known_counter < news_counter)


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
    try:
        milliseconds = date if isinstance(date, DatetimeMS) else DatetimeMS(date)
    except TypeError:
        kind = type(date).__name__
        raise ProtocolError(f"field 'lastWriteDate' of the server's hello is of type {kind}, not a date") from None
    return int(milliseconds) / 1000.0


def _error_key(error: PyMongoError | None) -> tuple[type[PyMongoError], str] | None:
    return None if error is None else (type(error), str(error))
