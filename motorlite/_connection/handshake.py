"""Pure: the hello commands of connections and monitors, and the parsed reply."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, overload

from bson.objectid import ObjectId

from motorlite._base import wire_versions
from motorlite._base.values import ServerFacts, format_address
from motorlite._wire.replies import error_from_reply, whole
from motorlite.errors import ConfigurationError, ProtocolError
from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._base.values import Address, Document
    from motorlite.errors import PyMongoError
    from motorlite.server_api import ServerApi


# The type of a server, from its reply to hello (server discovery and monitoring specification, "type").


def server_type(reply: Mapping[str, Any]) -> ServerType:
    """Return the server type, by the table of section "type" of the specification; the order of the checks matters.

    Discovery and the handshake of every connection share this table. Otherwise a server could be writable for one and
    an arbiter, which authenticates no user, for the other.
    """
    if reply.get("isreplicaset"):
        return ServerType.RSGhost
    if reply.get("setName"):
        # Legacy hello uses the older name of the field.
        if reply.get("hidden"):
            return ServerType.RSOther
        if reply.get("isWritablePrimary", reply.get("ismaster")):
            return ServerType.RSPrimary
        if reply.get("secondary"):
            return ServerType.RSSecondary
        if reply.get("arbiterOnly"):
            return ServerType.RSArbiter
        return ServerType.RSOther
    return ServerType.Mongos if reply.get("msg") == "isdbgrid" else ServerType.Standalone


# Maximum size in bytes of a reply before authentication has completed, and of every reply to a monitor: the server has
# not proved its identity, so longer replies are rejected. The hello of the largest replica set is a hundredth of this.
MAX_HELLO_SIZE: Final = 1024 * 1024
# The message header stores the length in 32 bits.
_MAX_LIMIT: Final = 2**31 - 1
# How far a new connection has got, in the words of errors that add for how long.
CONNECTING: Final = "the server has not accepted a new connection within"
AWAITING_HELLO: Final = "the server accepted a new connection, but has not answered its handshake within"
AUTHENTICATING: Final = "the authentication of a new connection has not ended within"

# The wording is that of the load balancer specification.
_NOT_LOAD_BALANCED: Final = (
    "Driver attempted to initialize in load balancing mode, but the server does not support this mode."
)


class Handshake:
    """The parsed first reply on a connection."""

    def __init__(self, facts: ServerFacts, reply: Mapping[str, Any]) -> None:
        self.facts: ServerFacts = facts
        # The server supports the command `hello`; monitors must then use it.
        self.hello_ok: bool = reply.get("helloOk") is True
        # By the rules of discovery: a server that accepts operations is not an arbiter, even if it claims to be one.
        self.is_arbiter: bool = server_type(reply) is ServerType.RSArbiter
        # The server's own id for this connection, for events and logs.
        self.server_connection_id: int | None = hello_number(reply, "connectionId", None, least=0)
        # The mongos behind the load balancer that replied; each has its own generation.
        self.service_id: ObjectId | None = _service_id(reply) if facts.is_load_balanced else None
        self.topology_version: Mapping[str, Any] | None = _document(reply, "topologyVersion")
        # Never validated, because unknown mechanisms are not an error (handshake specification).
        self.sasl_supported_mechs: tuple[Any, ...] | None = _items(reply, "saslSupportedMechs")
        # The server's reply to our first authentication message; None if it did not take part.
        self.speculative_reply: Mapping[str, Any] | None = _document(reply, "speculativeAuthenticate")
        # Compressors that both sides support; the client uses the first one of its own list that is included.
        self.compression: tuple[Any, ...] = _items(reply, "compression") or ()
        self.reply: Mapping[str, Any] = reply

    def __repr__(self) -> str:
        # Does not show the reply, which may contain an authentication payload.
        return f"<Handshake {format_address(self.facts.address)} wire version {self.facts.max_wire_version}>"


def hello_document(
    *,
    metadata: Document,
    legacy: bool = True,
    load_balanced: bool = False,
    compressors: Sequence[str] = (),
    sasl_supported_mechs: str | None = None,
    speculative_authenticate: Document | None = None,
    backpressure: bool | str = True,
    server_api: ServerApi | None = None,
) -> Document:
    """Build the first command on every connection, monitors included, for the database `admin`.

    The command is `hello` with a server API version or behind a load balancer, or if `legacy` is false. Otherwise it is
    the legacy command. `Authentication` supplies the credential fields; monitors pass none.
    """
    command = _hello_command(legacy=legacy and not load_balanced and server_api is None)
    if backpressure:
        command["backpressure"] = backpressure
    command["client"] = metadata
    command["compression"] = list(compressors)
    if load_balanced:
        command["loadBalanced"] = True
    if sasl_supported_mechs is not None:
        command["saslSupportedMechs"] = sasl_supported_mechs
    if speculative_authenticate is not None:
        command["speculativeAuthenticate"] = speculative_authenticate
    command.update(server_api_fields(server_api))
    return command


def monitor_hello(
    hello_ok: bool,
    topology_version: Mapping[str, Any] | None = None,
    max_await_time_ms: int | None = None,
    *,
    server_api: ServerApi | None = None,
) -> Document:
    """Build a monitor's later check; with `topology_version` and `max_await_time_ms` the server awaits a change."""
    command = _hello_command(legacy=not hello_ok and server_api is None)
    if topology_version is not None and max_await_time_ms is not None:
        command["topologyVersion"] = topology_version
        command["maxAwaitTimeMS"] = max_await_time_ms
    command.update(server_api_fields(server_api))
    return command


def _hello_command(*, legacy: bool) -> Document:
    # Sent every time, so that every reply reports whether the server supports hello (server monitoring).
    return {"isMaster" if legacy else "hello": 1, "helloOk": True}


def server_api_fields(server_api: ServerApi | None) -> Document:
    """Return the fields that every command carries when an API version is declared (versioned API specification)."""
    if server_api is None:
        return {}
    fields = {
        "apiVersion": server_api.version,
        "apiStrict": server_api.strict,
        "apiDeprecationErrors": server_api.deprecation_errors,
    }
    return {name: value for name, value in fields.items() if value is not None}


def parse_hello(
    address: Address, reply: Mapping[str, Any], load_balanced: bool, *, check_versions: bool = True
) -> Handshake:
    """Read the reply to `hello_document`.

    Args:
        address: The server that replied.
        reply: The server's reply.
        load_balanced: Whether the server is behind a load balancer.
        check_versions: Reject a server that is too old or too new. Monitors accept such a server, because the topology
            must learn about it and then rejects every operation.

    Raises:
        OperationFailure: The server rejected the handshake.
        ConfigurationError: The server is too old or too new, or `load_balanced` is set and it is not behind a load
            balancer.
        ProtocolError: A field has the wrong type.
    """
    if reply.get("ok") != 1:
        raise _at(address, error_from_reply(reply))
    kind = server_type(reply)
    facts = ServerFacts(
        address,
        min_wire_version=hello_number(reply, "minWireVersion", 0, least=0),
        max_wire_version=hello_number(reply, "maxWireVersion", 0, least=0),
        max_bson_object_size=_limit(reply, "maxBsonObjectSize", 16 * 1024 * 1024),
        max_message_size=_limit(reply, "maxMessageSizeBytes", 48_000_000),
        max_write_batch_size=_limit(reply, "maxWriteBatchSize", 100_000),
        is_standalone=not load_balanced and kind is ServerType.Standalone,
        is_mongos=kind is ServerType.Mongos,
        is_load_balanced=load_balanced,
        is_cryptd=reply.get("iscryptd") is True,
        # Sessions behind a load balancer do not expire for the client (load balancer specification).
        session_timeout_minutes=None
        if load_balanced
        else hello_number(reply, "logicalSessionTimeoutMinutes", None, least=0),
    )
    problem = None
    if check_versions:
        problem = incompatibility(address, facts.min_wire_version, facts.max_wire_version)
    if problem is None and load_balanced and reply.get("serviceId") is None:
        problem = _NOT_LOAD_BALANCED
    if problem is not None:
        raise _at(address, ConfigurationError(problem))
    return Handshake(facts, reply)


def _at(address: Address, error: PyMongoError) -> PyMongoError:
    error.address = address
    return error


def incompatibility(address: Address, min_wire_version: int, max_wire_version: int) -> str | None:
    """Return why this driver cannot talk to a server with these wire versions, or None."""
    server = format_address(address)
    if max_wire_version < wire_versions.OLDEST:
        return (
            f"Server at {server} reports wire version {max_wire_version} "
            f"(MongoDB {wire_versions.release(max_wire_version)}), but this version of motorlite requires "
            f"at least {wire_versions.OLDEST} (MongoDB {wire_versions.release(wire_versions.OLDEST)})."
        )
    if min_wire_version > wire_versions.NEWEST:
        return (
            f"Server at {server} requires wire version {min_wire_version}, but this version of motorlite "
            f"only supports up to {wire_versions.NEWEST}."
        )
    return None


@overload
def hello_number(reply: Mapping[str, Any], field: str, default: int, *, least: int = 1) -> int: ...
@overload
def hello_number(reply: Mapping[str, Any], field: str, default: None, *, least: int = 1) -> int | None: ...
def hello_number(reply: Mapping[str, Any], field: str, default: int | None, *, least: int = 1) -> int | None:
    """Return a whole number from a reply to hello.

    Raises:
        ProtocolError: The value is not a whole number, or is less than `least`.
    """
    value = reply.get(field)
    if value is None:
        return default
    found = whole(value)
    if found is None or found < least:
        # Only numbers are shown; any other value may be huge.
        shown = value if isinstance(value, int | float) else type(value).__name__
        raise ProtocolError(f"hello: {field} must be a whole number of at least {least}, got {shown}")
    return found


def _limit(reply: Mapping[str, Any], field: str, default: int) -> int:
    return min(hello_number(reply, field, default), _MAX_LIMIT)


def _service_id(reply: Mapping[str, Any]) -> ObjectId | None:
    value = reply.get("serviceId")
    if value is not None and not isinstance(value, ObjectId):
        raise ProtocolError(f"hello: serviceId must be an ObjectId, got {type(value).__name__}")
    return value


def _items(reply: Mapping[str, Any], field: str) -> tuple[Any, ...] | None:
    value = reply.get(field)
    return tuple(value) if isinstance(value, list) else None


def _document(reply: Mapping[str, Any], field: str) -> Mapping[str, Any] | None:
    value = reply.get(field)
    if value is not None and not isinstance(value, Mapping):
        raise ProtocolError(f"hello: {field} must be a document, got {type(value).__name__}")
    return value


# The purposes that connections behind a load balancer are checked out for.


class Purpose(enum.Enum):
    """The purpose of a check-out (load balancer specification, "Connection Tracking")."""

    CURSOR = "cursor"
    TRANSACTION = "transaction"
    OTHER = "other"
