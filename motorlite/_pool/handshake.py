"""Pure: the hello commands of connections and monitors, and what a connection learns from the reply."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, overload

from bson.objectid import ObjectId

from motorlite._pool.server_type import ServerType, server_type
from motorlite._replies import whole
from motorlite.errors import ConfigurationError, ProtocolError, error_from_reply
from motorlite.values import ServerFacts, format_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.errors import PyMongoError
    from motorlite.server_api import ServerApi
    from motorlite.values import Address, Document

MIN_WIRE_VERSION: Final = 8
# The newest wire version that this driver was written for. A server announces the range that it speaks, and
# every server so far begins at 0, so this only guards against one that has dropped today's protocol.
MAX_WIRE_VERSION: Final = 29

# Wire version feature list; since 5.1 the number grows by one with every release of the server.
_MONGODB_VERSIONS: Final = {
    0: "2.4",
    1: "2.6",
    2: "2.6",
    3: "3.0",
    4: "3.2",
    5: "3.4",
    6: "3.6",
    7: "4.0",
    8: "4.2",
    9: "4.4",
    13: "5.0",
    14: "5.1",
    15: "5.2",
    16: "5.3",
    17: "6.0",
    18: "6.1",
    19: "6.2",
    20: "6.3",
    21: "7.0",
    22: "7.1",
    23: "7.2",
    24: "7.3",
    25: "8.0",
}

# Bytes of a message up to the end of authentication, and of a monitor's: of a server that has not proved who it is, a
# reply is not believed to be longer. The hello of the largest replica set has a hundredth of it.
MAX_HELLO_SIZE: Final = 1024 * 1024
# The header of a message has 32 bits for its length.
_MAX_LIMIT: Final = 2**31 - 1

# The words are the load balancer specification's.
_NOT_LOAD_BALANCED: Final = (
    "Driver attempted to initialize in load balancing mode, but the server does not support this mode."
)


class Handshake:
    """What the first reply on a connection said."""

    __slots__ = (
        "compression",
        "facts",
        "hello_ok",
        "is_arbiter",
        "reply",
        "sasl_supported_mechs",
        "server_connection_id",
        "service_id",
        "speculative_reply",
        "topology_version",
    )

    def __init__(self, facts: ServerFacts, reply: Mapping[str, Any]) -> None:
        self.facts = facts
        # The server understands the command `hello`; monitors must then use it.
        self.hello_ok: bool = reply.get("helloOk") is True
        # By the rules of discovery: a server that takes operations and calls itself an arbiter as well is none.
        self.is_arbiter: bool = server_type(reply) is ServerType.RSArbiter
        # The server's own number of this connection, for events and logs.
        self.server_connection_id: int | None = hello_number(reply, "connectionId", None, least=0)
        # Which mongos behind a load balancer answered; generations are counted for each.
        self.service_id: ObjectId | None = _service_id(reply) if facts.is_load_balanced else None
        self.topology_version: Mapping[str, Any] | None = _document(reply, "topologyVersion")
        # Never validated: unknown mechanisms are not an error (handshake specification).
        self.sasl_supported_mechs: tuple[Any, ...] | None = _items(reply, "saslSupportedMechs")
        # The server's answer to our first authentication message, or None when it did not take part.
        self.speculative_reply: Mapping[str, Any] | None = _document(reply, "speculativeAuthenticate")
        # Compressors that both sides know; the client uses the first of its own list that is among them.
        self.compression: tuple[Any, ...] = _items(reply, "compression") or ()
        self.reply = reply

    def __repr__(self) -> str:
        # Not the reply: it may hold an authentication payload.
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
    """The first command on every connection, monitors included, for the database `admin`.

    With a server API version or behind a load balancer it is `hello`, otherwise the legacy command, unless
    `legacy` is false. The credentials' parts come from `Authentication`; monitors give none.
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
    """A monitor's later check; with `topology_version` and `max_await_time_ms` the server awaits a change."""
    command = _hello_command(legacy=not hello_ok and server_api is None)
    if topology_version is not None and max_await_time_ms is not None:
        command["topologyVersion"] = topology_version
        command["maxAwaitTimeMS"] = max_await_time_ms
    command.update(server_api_fields(server_api))
    return command


def _hello_command(*, legacy: bool) -> Document:
    # Asked every time, so that every reply of a server that knows hello says so (server monitoring).
    return {"isMaster" if legacy else "hello": 1, "helloOk": True}


def server_api_fields(server_api: ServerApi | None) -> Document:
    """What every command carries when an API version is declared (versioned API specification)."""
    fields: Document = {}
    if server_api is not None:
        fields["apiVersion"] = server_api.version
        if server_api.strict is not None:
            fields["apiStrict"] = server_api.strict
        if server_api.deprecation_errors is not None:
            fields["apiDeprecationErrors"] = server_api.deprecation_errors
    return fields


def parse_hello(
    address: Address, reply: Mapping[str, Any], load_balanced: bool, *, check_versions: bool = True
) -> Handshake:
    """Read the reply to `hello_document`.

    Args:
        address: The server that answered.
        reply: What it answered.
        load_balanced: Whether it is behind a load balancer.
        check_versions: Refuse a server that is too old or too new. A monitor does not: the topology has to learn of
            such a server, and then refuses every operation.

    Raises:
        OperationFailure: The server refused the handshake.
        ConfigurationError: The server is too old or too new, or not behind a load balancer as was promised.
        ProtocolError: A field does not have its type.
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
    """Why this driver cannot talk to a server with these wire versions, or None."""
    server = format_address(address)
    if max_wire_version < MIN_WIRE_VERSION:
        return (
            f"Server at {server} reports wire version {max_wire_version} "
            f"(MongoDB {_MONGODB_VERSIONS.get(max_wire_version, '?')}), but this version of motorlite requires "
            f"at least {MIN_WIRE_VERSION} (MongoDB {_MONGODB_VERSIONS[MIN_WIRE_VERSION]})."
        )
    if min_wire_version > MAX_WIRE_VERSION:
        return (
            f"Server at {server} requires wire version {min_wire_version}, but this version of motorlite "
            f"only supports up to {MAX_WIRE_VERSION}."
        )
    return None


@overload
def hello_number(reply: Mapping[str, Any], field: str, default: int, *, least: int = 1) -> int: ...
@overload
def hello_number(reply: Mapping[str, Any], field: str, default: None, *, least: int = 1) -> int | None: ...
def hello_number(reply: Mapping[str, Any], field: str, default: int | None, *, least: int = 1) -> int | None:
    """A whole number of a reply to hello.

    Raises:
        ProtocolError: It is none, or less than `least`.
    """
    value = reply.get(field)
    if value is None:
        return default
    found = whole(value)
    if found is None or found < least:
        # A number as it is; anything else may be huge.
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
