"""Pure: what is known of one server, from its newest hello or from the error that came instead."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId

from motorlite._pool.handshake import hello_number
from motorlite._pool.server_type import ServerType as ServerType
from motorlite._pool.server_type import server_type as read_server_type
from motorlite.errors import ProtocolError, PyMongoError, detached, error_from_reply
from motorlite.hosts import parse_host
from motorlite.values import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.values import Address

T = TypeVar("T")

# A replica set has at most 50 members; twice as many leave room for one that is being moved. Of a server that names
# more, or of several that together do, nothing is believed: each host costs sockets, tasks and memory.
MAX_MEMBERS: Final = 100
# Characters of a server's error that an error or a log record repeats of each server.
MAX_SHOWN: Final = 1000
DEFAULT_MAX_BSON_OBJECT_SIZE: Final = 16 * 1024 * 1024
DEFAULT_MAX_MESSAGE_SIZE: Final = 48_000_000
DEFAULT_MAX_WRITE_BATCH_SIZE: Final = 100_000


WRITABLE_TYPES: Final = frozenset(
    {ServerType.RSPrimary, ServerType.Standalone, ServerType.Mongos, ServerType.LoadBalancer}
)
DATA_BEARING_TYPES: Final = WRITABLE_TYPES | {ServerType.RSSecondary}

# Fields marked (=) in the specification: events are published only when one of these changes.
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


class ServerDescription:
    """The driver's view of one server. Immutable by convention: a new one replaces it. All times are seconds.

    Equality compares the fields that the specification marks for it ("Server Description Equality"), so two
    checks of an unchanged server are equal although their round-trip times differ.

    Attributes:
        address: Where the driver connects to.
        server_type: What the server is; `server_type_name` is the same as text.
        error: Why the server is Unknown, or None.
        hosts, passives, arbiters: The members of the replica set in this server's opinion; `all_hosts` has
            all three.
        me: The address the server itself is configured with, or None.
        primary: Who is the primary in this server's opinion, or None.
        replica_set_name, set_version, election_id, tags: From hello, None or empty when absent.
        min_wire_version, max_wire_version: The server's protocol range; only for compatibility.
        max_bson_object_size, max_message_size: Limits in bytes.
        max_write_batch_size: How many writes one command may have.
        cluster_time: The server's `$clusterTime`, or None.
        topology_version: Freshness of this description (`processId` and `counter`), or None.
        logical_session_timeout_minutes: None when the server does not support sessions.
        last_write_date: When the newest write of the replica set was recorded, by the primary's wall clock,
            in seconds since 1970; None when absent.
        last_update_time: When this was learned, by the driver's monotonic clock; minus infinity for never.
        round_trip_time: Moving average of hello, or None.
        min_round_trip_time: Minimum of the last ten samples, or 0.0.
        is_cryptd: Whether the server is a mongocryptd, or None.
        is_writable: Whether writes may be sent to a server of this type.
        is_readable: Whether reads may be sent to a server of this type ("data-bearing").
        is_server_type_known: Whether the server is available.
        retryable_writes_supported: Retryable writes specification, "Supported Server Versions".
    """

    __slots__ = (
        "address",
        "all_hosts",
        "arbiters",
        "cluster_time",
        "election_id",
        "error",
        "hosts",
        "is_cryptd",
        "is_readable",
        "is_server_type_known",
        "is_writable",
        "last_update_time",
        "last_write_date",
        "logical_session_timeout_minutes",
        "max_bson_object_size",
        "max_message_size",
        "max_wire_version",
        "max_write_batch_size",
        "me",
        "min_round_trip_time",
        "min_wire_version",
        "passives",
        "primary",
        "replica_set_name",
        "retryable_writes_supported",
        "round_trip_time",
        "server_type",
        "server_type_name",
        "set_version",
        "tags",
        "topology_version",
    )

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
        self.address = address
        self.server_type = server_type
        self.server_type_name: str = server_type.value
        # A copy: descriptions are kept, by listeners too, and the error came through frames of an operation.
        self.error = None if error is None else detached(error)
        self.topology_version = topology_version
        self.round_trip_time = round_trip_time
        self.min_round_trip_time = min_round_trip_time
        self.last_update_time = last_update_time
        self._read_membership(reply)
        self._read_limits(reply)
        self.cluster_time: Mapping[str, Any] | None = reply.get("$clusterTime")
        self.last_write_date = _last_write_date(reply)
        self.is_cryptd: bool | None = reply.get("iscryptd")
        self.is_writable = server_type in WRITABLE_TYPES
        self.is_readable = server_type in DATA_BEARING_TYPES
        self.is_server_type_known = server_type is not ServerType.Unknown
        self.retryable_writes_supported = server_type is ServerType.LoadBalancer or (
            self.logical_session_timeout_minutes is not None
            and server_type in (ServerType.Mongos, ServerType.RSPrimary)
        )

    def _read_membership(self, reply: Mapping[str, Any]) -> None:
        self.replica_set_name = _typed(reply, "setName", str)
        self.set_version = hello_number(reply, "setVersion", None, least=0)
        self.election_id = _typed(reply, "electionId", ObjectId)
        self.tags: Mapping[str, Any] = _typed(reply, "tags", dict) or {}
        self.hosts = _addresses(reply, "hosts")
        self.passives = _addresses(reply, "passives")
        self.arbiters = _addresses(reply, "arbiters")
        self.all_hosts = self.hosts | self.passives | self.arbiters
        if len(self.all_hosts) > MAX_MEMBERS:
            raise too_many_members(len(self.all_hosts))
        me, primary = _typed(reply, "me", str), _typed(reply, "primary", str)
        self.me = parse_address(me) if me else None
        self.primary = parse_address(primary) if primary else None

    def _read_limits(self, reply: Mapping[str, Any]) -> None:
        self.min_wire_version = hello_number(reply, "minWireVersion", 0, least=0)
        self.max_wire_version = hello_number(reply, "maxWireVersion", 0, least=0)
        self.max_bson_object_size = hello_number(reply, "maxBsonObjectSize", DEFAULT_MAX_BSON_OBJECT_SIZE)
        self.max_message_size = hello_number(reply, "maxMessageSizeBytes", DEFAULT_MAX_MESSAGE_SIZE)
        self.max_write_batch_size = hello_number(reply, "maxWriteBatchSize", DEFAULT_MAX_WRITE_BATCH_SIZE)
        self.logical_session_timeout_minutes = hello_number(reply, "logicalSessionTimeoutMinutes", None, least=0)

    @classmethod
    def unknown(
        cls,
        address: Address,
        *,
        error: PyMongoError | None = None,
        topology_version: Mapping[str, Any] | None = None,
        last_update_time: float = -math.inf,
    ) -> ServerDescription:
        """The default description: nothing is known, except perhaps why."""
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
        """The one server of a load-balanced deployment, which is never checked."""
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
        """The description that a reply to hello (or legacy hello) stands for.

        Args:
            address: The server that answered.
            reply: What it answered; ``ok: 0`` gives an Unknown server with that error.
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
    """-1 when `news` is (or must be taken for) newer than `known`, 0 when it is the same, 1 when it is older.

    Server discovery and monitoring specification, "topologyVersion Comparison".
    """
    if known is None or news is None or known.get("processId") != news.get("processId"):
        return -1
    known_counter, news_counter = known.get("counter"), news.get("counter")
    if not (isinstance(known_counter, int) and isinstance(news_counter, int)):
        return -1
    return (known_counter > news_counter) - (known_counter < news_counter)


def parse_address(text: str) -> Address:
    """The address that a hello reply spells as ``host:port``, in lower case; as strict as a connection string."""
    try:
        return parse_host(text)
    except ValueError as error:
        raise ProtocolError(f"the server's hello names a member that cannot be: {error}") from None


def _typed(reply: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = reply.get(name)
    if value is None or isinstance(value, kind):
        return value
    # Never the value: it may have a megabyte, and there are errors that name the last one of every server.
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
    """Why the hello of a server is not believed that names so many members, alone or together with others."""
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
        raise ProtocolError(f"field 'lastWriteDate' of the server's hello is of type {kind}, no date") from None
    return int(milliseconds) / 1000.0


def _error_key(error: PyMongoError | None) -> tuple[type[PyMongoError], str] | None:
    return None if error is None else (type(error), str(error))
