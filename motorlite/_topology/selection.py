"""Pure: selects the server for an operation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from motorlite._base import wire_versions
from motorlite._base.values import Address, ByFields, cut, format_address
from motorlite._topology.server_description import (
    MAX_SHOWN,
    NO_MAX_STALENESS,
    ONE_SERVER_TYPES,
    Preference,
    ServerDescription,
    check_max_staleness,
    servers_for_read,
    servers_for_write,
)
from motorlite.errors import ConfigurationError, OperationFailure, PyMongoError
from motorlite.read_preferences import MODES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from motorlite._base.deadline import Deadline
    from motorlite._topology.topology_description import TopologyDescription

    ServerSelector: TypeAlias = Callable[[list[ServerDescription]], list[ServerDescription]]


class _Writable(Enum):
    WRITABLE = "a write"


WRITABLE: Final = _Writable.WRITABLE
"""Selects a server that accepts writes."""

# Maximum number of a server's tags that an error shows.
_MAX_TAGS: Final = 20
# The first version whose secondaries accept pipelines that write.
_FORWARDS_WRITES: Final = wire_versions.V5_0


@dataclass(slots=True, eq=False, repr=False)
class WritesByPreference(ByFields):
    """Selects for a pipeline with $out or $merge: by the preference if all servers are 5.0 or newer, else writable.

    CRUD specification, "Aggregation Pipelines with Write Stages". The decision is made when the server is selected,
    because the deployment is unknown before a client's first operation.
    """

    preference: Preference

    def decided(self, servers: Iterable[ServerDescription]) -> _Writable | Preference:
        """Return the effective selector for a deployment of these servers."""
        versions = [server.max_wire_version for server in servers if server.is_readable]
        return self.preference if versions and min(versions) >= _FORWARDS_WRITES else WRITABLE


Selector: TypeAlias = _Writable | Address | Preference | WritesByPreference
"""The requirement of an operation: `WRITABLE`, one server by its address, or a read preference. Hashable."""


def suitable_servers(
    topology: TopologyDescription,
    selector: Selector,
    *,
    deprioritized: Collection[Address] = frozenset(),
    local_threshold: float,
    heartbeat_frequency: float,
    server_selector: ServerSelector | None = None,
) -> list[ServerDescription]:
    """Return the servers that `selector` permits and that are within the latency window; may be empty.

    Server selection specification, "Server Selection Algorithm", steps 2 to 5.

    Args:
        topology: The deployment.
        selector: The requirement of the operation.
        deprioritized: Servers to use only if no other is suitable, in deployments of every type.
        local_threshold: Width of the latency window in seconds.
        heartbeat_frequency: Seconds between checks, part of the staleness estimate.
        server_selector: The application's own filter, applied before the latency window where there is a choice.

    Raises:
        ConfigurationError: The deployment is incompatible with the driver, `max_staleness` is too small, or
            `server_selector` failed or did not return a list of servers.
    """
    if topology.compatibility_error is not None:
        raise ConfigurationError(topology.compatibility_error)
    everyone = list(topology.server_descriptions().values())

    # Not where there is no choice: a cursor or a pinned transaction is on that server, whatever the filter says by now.
    if isinstance(selector, tuple) or topology.topology_type in ONE_SERVER_TYPES:
        server_selector = None

    def find(candidates: list[ServerDescription]) -> list[ServerDescription]:
        found = _find(topology, selector, candidates, everyone, heartbeat_frequency)
        # Applied in both rounds, unlike in the specification's order of steps: if the application's filter leaves only
        # a deprioritised server, using it is better than having no server.
        return _filtered(server_selector, found) if server_selector is not None and found else found

    suitable: list[ServerDescription] = []
    if deprioritized:
        suitable = find([server for server in everyone if server.address not in deprioritized])
    return _in_latency_window(suitable or find(everyone), local_threshold)


def _filtered(server_selector: ServerSelector, servers: list[ServerDescription]) -> list[ServerDescription]:
    """Apply the application's own filter.

    The filter also runs for the driver's own commands, some of them in the background, so its failures are raised as
    errors of the driver.
    """
    try:
        chosen: Any = server_selector(servers)
    except PyMongoError:
        raise
    except Exception as error:
        raise ConfigurationError(f"the server_selector raised {type(error).__name__}: {error}") from error
    if isinstance(chosen, list | tuple) and all(isinstance(server, ServerDescription) for server in chosen):
        return list(chosen)
    what = f"a {type(chosen).__name__}" if not isinstance(chosen, list | tuple) else "a list with other items"
    raise ConfigurationError(f"the server_selector must return a list of server descriptions, but returned {what}")


class Loaded(Protocol):
    """An object that counts its running operations."""

    @property
    def operation_count(self) -> int: ...


S = TypeVar("S", bound=Loaded)


def choose(candidates: Sequence[S], first: int, second: int) -> S:
    """Return the less busy of two servers picked at random ("Server Selection Algorithm", steps 6 and 7).

    Args:
        candidates: At least two servers.
        first: A random number below ``len(candidates)``.
        second: An independent random number below ``len(candidates) - 1``; it indexes the remaining candidates.
    """
    one, other = candidates[first], candidates[second + (second >= first)]
    return one if one.operation_count <= other.operation_count else other


def describe_selector(selector: Selector) -> str:
    """Describe `selector` for errors and log messages."""
    if isinstance(selector, WritesByPreference):
        selector = selector.preference
    if isinstance(selector, _Writable):
        return selector.value
    if isinstance(selector, tuple):
        return f"the server {format_address(selector)}"
    text = f"read preference {MODES[selector.mode]}"
    if any(selector.tag_sets):
        text += f", tag sets {[dict(tags) for tags in selector.tag_sets]}"
    if selector.max_staleness != NO_MAX_STALENESS:
        text += f", maxStalenessSeconds {selector.max_staleness}"
    return text


def describe_limit(deadline: Deadline, until: float | None, now: float, timeout: float) -> str:
    """Describe the time that a selection has until the loop time `until`, which `timeout` set, or until the deadline.

    Empty if it does not wait (None), and the deadline has not passed either.
    """
    if until is None and now < deadline.expires_at:
        return ""
    if until is not None and until <= deadline.expires_at:
        return f"within {timeout:.3g} s (serverSelectionTimeoutMS)"
    return f"within {deadline.timeout:.3g} s (timeoutMS or motorlite.timeout())"


def describe_failure(topology: TopologyDescription, selector: Selector, limit: str = "") -> str:
    """Describe why selection failed, with the state and the last error of each server, in one paragraph.

    `limit` is the time that it had, if any: ``"within 30 s (serverSelectionTimeoutMS)"``.
    """
    wanted = f"{describe_selector(selector)} {limit}".rstrip()
    servers = topology.server_descriptions()
    kind = topology.topology_type_name
    if topology.replica_set_name is not None:
        kind += f" {cut(topology.replica_set_name, MAX_SHOWN)!r}"
    if not servers:
        rejected = "" if topology.rejected is None else f" {_describe_rejected(topology.rejected)}."
        return (
            f"No server for {wanted}: no server is left in the deployment ({kind}).{rejected} "
            "None of the hosts matches the options; check the hosts, replicaSet and directConnection."
        )
    if not topology.has_known_servers:
        reason = "no server of the deployment can be reached"
    else:
        reason = "none of the known servers is suitable"
    return f"No server for {wanted}: {reason} ({kind}). " + "; ".join(map(_describe_server, servers.values()))


def _find(
    topology: TopologyDescription,
    selector: Selector,
    candidates: Sequence[ServerDescription],
    everyone: Sequence[ServerDescription],
    heartbeat_frequency: float,
) -> list[ServerDescription]:
    kind = topology.topology_type
    if isinstance(selector, WritesByPreference):
        selector = selector.decided(everyone)
    if isinstance(selector, _Writable):
        return servers_for_write(kind, candidates)
    if isinstance(selector, tuple):
        return [server for server in candidates if server.address == selector and server.is_server_type_known]
    check_max_staleness(kind, selector, heartbeat_frequency)
    return servers_for_read(kind, candidates, everyone, selector, heartbeat_frequency)


def _in_latency_window(servers: list[ServerDescription], local_threshold: float) -> list[ServerDescription]:
    if len(servers) < 2:
        return servers
    farthest = min(map(_latency, servers)) + local_threshold
    return [server for server in servers if _latency(server) <= farthest]


def _latency(server: ServerDescription) -> float:
    return server.round_trip_time or 0.0


def _describe_server(server: ServerDescription) -> str:
    name = format_address(server.address)
    if server.error is not None:
        return f"{name} is {server.server_type_name}: {type(server.error).__name__}: {_in_brief(server.error, name)}"
    if not server.is_server_type_known:
        return f"{name} is Unknown: it has not answered yet"
    tags = f" with tags {cut(repr(dict(islice(server.tags.items(), _MAX_TAGS))), MAX_SHOWN)}" if server.tags else ""
    return f"{name} is {server.server_type_name}{tags}"


def _describe_rejected(server: ServerDescription) -> str:
    name = server.replica_set_name
    found = f"a member of the replica set {cut(name, MAX_SHOWN)!r}" if name else f"a {server.server_type_name}"
    return f"{format_address(server.address)} is {found}"


def _in_brief(error: PyMongoError, server: str) -> str:
    """Shorten an error behind the name of its server.

    There may be a hundred servers, and each may reject a handshake with a megabyte of text.
    """
    if isinstance(error, OperationFailure):
        # Not `str(error)`, which contains the whole reply.
        code = "" if error.code is None else f" (code {error.code})"
        return cut(str(error.args[0]), MAX_SHOWN) + code
    return cut(str(error).removeprefix(f"{server}: ").removesuffix(f" (server {server})"), MAX_SHOWN)
