"""Pure: the effect of an error on the description, pool and monitor of its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from motorlite._base.error_documents import NOT_PRIMARY_CODES, SHUTDOWN_CODES, SYSTEM_OVERLOADED
from motorlite._topology.server_description import ServerDescription, compare_topology_versions
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PoolClearedError,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteError,
    error_code,
)
from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from bson.objectid import ObjectId


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ErrorFacts:
    """An error on an application's connection, and its circumstances."""

    error: PyMongoError
    # Between opening the socket and the reply to hello.
    during_handshake: bool = False
    # Between the reply to hello and the connection's first operation.
    during_authentication: bool = False
    # The connection (or the attempt to establish it) is older than the newest clear of its pool.
    is_stale_generation: bool = False
    # From the reply that is or contains the error; taken from the error itself if it contains the whole reply.
    topology_version: Mapping[str, Any] | None = None
    # The mongos behind a load balancer that the connection leads to, once hello has reported it.
    service_id: ObjectId | None = None


class ErrorEffect(NamedTuple):
    """The actions of the topology, performed in this order without a pause in between."""

    # Replaces the server's description; None keeps it.
    description: ServerDescription | None = None
    # Behind a load balancer, clears only the connections of the error's service.
    clear_pool: bool = False
    # Together with `clear_pool`: also interrupts connections in use.
    interrupt_in_use: bool = False
    # Wake the server's monitor for a check as soon as possible.
    request_check: bool = False
    # Abort the monitor's running check and close its connection.
    cancel_check: bool = False


NO_EFFECT = ErrorEffect()


def on_error(known: ServerDescription, facts: ErrorFacts) -> ErrorEffect:
    """Return the effect of an error of an operation, or of establishing a connection for one, on its server.

    Server discovery and monitoring specification, "Application errors"; load balancer specification, "Error
    Handling".
    """
    error = facts.error
    is_load_balancer = known.server_type is ServerType.LoadBalancer
    topology_version = _topology_version(facts)
    if facts.is_stale_generation or compare_topology_versions(known.topology_version, topology_version) >= 0:
        return NO_EFFECT
    if is_load_balancer and facts.service_id is None:
        # For errors up to and including hello, the mongos is unknown.
        return NO_EFFECT
    if known.server_type is ServerType.RSArbiter and isinstance(error, ConfigurationError):
        # The client itself refuses to authenticate to an arbiter, and the server is already known as one.
        return NO_EFFECT
    is_establishing = facts.during_handshake or facts.during_authentication
    if is_state_change_error(error):
        return ErrorEffect(
            description=None
            if is_load_balancer
            else ServerDescription.unknown(known.address, error=error, topology_version=topology_version),
            # "MongoDB Handshake errors": a failure to establish a connection always clears the pool.
            clear_pool=is_establishing or error_code(error) in SHUTDOWN_CODES,
            request_check=not is_load_balancer,
        )
    if is_establishing:
        if error.has_error_label(SYSTEM_OVERLOADED):
            # The server is up and only lacks capacity: the pool's other connections are usable.
            return NO_EFFECT
    elif not is_socket_error(error) or isinstance(error, NetworkTimeout):
        # A reply, or a slow operation: neither means that the server is gone.
        return NO_EFFECT
    return ErrorEffect(
        description=None if is_load_balancer else ServerDescription.unknown(known.address, error=error),
        clear_pool=True,
        cancel_check=not is_load_balancer,
    )


def on_check_error(known: ServerDescription, error: PyMongoError, *, now: float) -> ErrorEffect:
    """Return the effect of a monitor's failed check on its server.

    Server monitoring specification, "Error handling". Here `request_check` means to start the next check without
    sleeping, because one lost connection to a server that was available a moment ago proves little.
    """
    return ErrorEffect(
        description=ServerDescription.unknown(known.address, error=error, last_update_time=now),
        clear_pool=True,
        interrupt_in_use=isinstance(error, NetworkTimeout),
        request_check=known.is_server_type_known and is_socket_error(error),
    )


def is_socket_error(error: PyMongoError) -> bool:
    """Whether reading from or writing to a socket failed (timeouts included)."""
    return isinstance(error, AutoReconnect) and not isinstance(
        error, NotPrimaryError | PoolClearedError | ServerSelectionTimeoutError
    )


def is_state_change_error(error: PyMongoError) -> bool:
    """Whether the server reported that it is not primary, is recovering or is shutting down.

    The code alone decides if there is one, otherwise the message does. Write concern errors count, write errors do not.
    """
    if isinstance(error, WriteError):
        return False
    code = error_code(error)
    if code is not None:
        return code in NOT_PRIMARY_CODES
    if isinstance(error, NotPrimaryError):
        return True
    message = str(error.args[0]) if error.args else ""
    return isinstance(error, OperationFailure) and ("not master" in message or "node is recovering" in message)


def _topology_version(facts: ErrorFacts) -> Mapping[str, Any] | None:
    version: Any = facts.topology_version
    if version is None:
        details = getattr(facts.error, "details", None)
        version = details.get("topologyVersion") if isinstance(details, Mapping) else None
    # The value comes from a server, so it may have any type.
    return version if isinstance(version, Mapping) else None
