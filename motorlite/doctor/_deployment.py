"""Pure: judges what servers say: hello, authentication, round trips, limits, and the choice between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import format_address
from motorlite._connection.handshake import incompatibility, server_type
from motorlite._topology.selection import WRITABLE, describe_failure, describe_selector, suitable_servers
from motorlite.doctor._finding import Finding, Severity, Step, failed
from motorlite.doctor._reading import texts, whole
from motorlite.errors import ConfigurationError, ConnectionFailure, NetworkTimeout, OperationFailure, ProtocolError
from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from motorlite._base.values import Address, ServerFacts
    from motorlite._options.options import ClientOptions
    from motorlite._topology.topology_description import TopologyDescription
    from motorlite.errors import PyMongoError

_AUTHENTICATION_FAILED: Final = 18
# Seconds. Leases, tokens and certificates begin to fail when clocks differ by more.
_CLOCK_TOLERANCE: Final = 5.0
# Of each server, for its monitor.
_MONITOR_CONNECTIONS: Final = 2
# What a program needs besides the connections of its pools.
_OTHER_FILES: Final = 64


def no_hello(server: str, problem: PyMongoError, *, is_plain: bool) -> Finding:
    """The server accepted the connection, and did not say hello."""
    if isinstance(problem, NetworkTimeout):
        advice = "what listens there may be no MongoDB server, or a firewall, proxy or frozen server swallows the data"
    elif isinstance(problem, ProtocolError):
        advice = "what listens there is no MongoDB server: check the host and the port"
    elif isinstance(problem, ConfigurationError):
        advice = "correct the options of the connection string"
    elif is_plain and isinstance(problem, ConnectionFailure):
        advice = "a server that requires TLS closes connections without it: set tls=true; or it is no MongoDB server"
    else:
        advice = "the server's log says why it refuses"
    text = str(problem.args[0]) if isinstance(problem, OperationFailure) else str(problem)
    return Finding(Step.HELLO, Severity.ERROR, text, advice, server)


def judge_hello(
    address: Address,
    reply: Mapping[str, Any],
    facts: ServerFacts,
    options: ClientOptions,
    compressors: Sequence[str],
    version: str,
) -> Iterator[Finding]:
    """What the server says about itself. `compressors`: those that this installation has."""
    server = format_address(address)
    kind = server_type(reply)
    name = reply.get("setName")
    words = [f"MongoDB {version}" if version else f"wire version {facts.max_wire_version}", kind.value]
    if name:
        words.append(f"of the set {name!r}")
    offered = texts(reply.get("compression"))
    agreed = [each for each in compressors if each in offered]
    if compressors:
        words.append(f"compressor {agreed[0]}" if agreed else "no common compressor")
    found = {
        "type": kind.value,
        "set_name": name,
        "hosts": [*texts(reply.get("hosts")), *texts(reply.get("passives"))],
        "min_wire_version": facts.min_wire_version,
        "max_wire_version": facts.max_wire_version,
        "version": version or None,
        "compressor": agreed[0] if agreed else None,
    }
    yield Finding(Step.HELLO, Severity.OK, ", ".join(words), "", server, found)
    problem = incompatibility(address, facts.min_wire_version, facts.max_wire_version)
    if problem is not None:
        yield Finding(Step.HELLO, Severity.ERROR, problem, "upgrade the server, or the driver", server)
    if kind is ServerType.RSGhost:
        advice = "run rs.initiate(), or wait until the member has its configuration"
        yield Finding(Step.HELLO, Severity.ERROR, "the member's replica set is not initiated", advice, server)
    elif options.replica_set is not None and name != options.replica_set:
        is_called = f"the set is called {name!r}" if name else "the server is no member of a replica set"
        advice = f"set replicaSet={name}" if name else "remove replicaSet"
        text = f"{is_called}, and replicaSet is {options.replica_set!r}"
        yield Finding(Step.HELLO, Severity.ERROR, text, advice, server)
    if compressors and not agreed:
        text = f"the server has none of the compressors {', '.join(compressors)}"
        yield Finding(Step.HELLO, Severity.WARNING, text, "enable one in its net.compression.compressors", server)


def unlisted(server: str, members: Sequence[str]) -> Finding:
    """A seed is no member under this name, so clients leave it."""
    return Finding(
        Step.HELLO,
        Severity.WARNING,
        f"the set does not know the server by this name: its members are {', '.join(members)}",
        "clients use the members' names from then on: write these into the connection string",
        server,
    )


# --- authentication ---


def judge_authentication(
    server: str, mechanisms: Sequence[Any] | None, options: ClientOptions, problem: Exception | None, code: int | None
) -> Finding:
    """The outcome of authenticating. `mechanisms`: what the server offers the user; None if it did not say."""
    credentials = options.credentials
    assert credentials is not None
    offered = ", ".join(map(str, mechanisms)) if mechanisms else ""
    facts = {"mechanisms": list(map(str, mechanisms or ())), "code": code}
    who = repr(credentials.username) if credentials.username else "the client"
    if problem is None:
        said = f"; the server offers {offered}" if offered else ""
        text = f"authenticated {who}, authSource {credentials.source!r}{said}"
        return Finding(Step.AUTHENTICATION, Severity.OK, text, "", server, facts)
    text = f"refused: {problem.args[0] if code is not None else problem}"
    chosen = credentials.mechanism
    if isinstance(problem, ConfigurationError):
        advice = "correct the options of the authentication"
    elif offered and chosen is not None and chosen not in (mechanisms or ()):
        advice = f"the server offers this user {offered}, not {chosen}: change authMechanism"
    elif code == _AUTHENTICATION_FAILED and offered:
        advice = f"{who} exists in {credentials.source!r} (with {offered}): the password is wrong"
    elif code == _AUTHENTICATION_FAILED and credentials.username and chosen in (None, "SCRAM-SHA-1", "SCRAM-SHA-256"):
        advice = (
            f"the server knows no user {who} in {credentials.source!r}: set authSource to the database that the user "
            "was created in, usually admin, or check the name"
        )
    else:
        advice = "the server's log says why"
    return Finding(Step.AUTHENTICATION, Severity.ERROR, text, advice, server, facts)


# --- round trips, clock and limits ---


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed (nearest rank)."""
    rank = -int(-share * len(ordered) // 1)
    return ordered[max(rank, 1) - 1]


def judge_round_trips(server: str, seconds: Sequence[float], options: ClientOptions) -> Iterator[Finding]:
    """How long pings took."""
    ordered = sorted(seconds)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: round(percentile(ordered, share) * 1000, 3) for name, share in shares.items()}
    text = ", ".join(f"{name} {value:.2f} ms" for name, value in found.items())
    yield Finding(Step.LATENCY, Severity.OK, f"{len(ordered)} round trips: {text}", "", server, {"milliseconds": found})
    limit = options.timeout or options.socket_timeout
    if limit and percentile(ordered, 0.9) > limit / 2:
        name = "timeoutMS" if options.timeout else "socketTimeoutMS"
        text = f"a round trip takes more than half of {name} ({limit * 1000:.0f} ms)"
        yield Finding(
            Step.LATENCY, Severity.WARNING, text, f"set a longer {name}, or move closer to the server", server
        )


def judge_clock(server: str, difference: float, uncertainty: float) -> Finding:
    """The server's clock minus this machine's in seconds; `uncertainty`: half of the round trip."""
    text = f"the server's clock differs by {difference:+.3f} s (±{uncertainty:.3f} s)"
    facts = {"seconds": round(difference, 3)}
    if abs(difference) - uncertainty > _CLOCK_TOLERANCE:
        return Finding(Step.LATENCY, Severity.WARNING, text, "synchronize both clocks (NTP)", server, facts)
    return Finding(Step.LATENCY, Severity.OK, text, "", server, facts)


def judge_files(options: ClientOptions, servers: int, limit: int | None) -> Finding:
    """The connections of one client against the files that this process may open."""
    if options.max_pool_size == 0:
        text = "maxPoolSize=0: no number of open files is enough for sure"
        return Finding(Step.LIMITS, Severity.WARNING, text, "set maxPoolSize")
    needed = servers * (options.max_pool_size + _MONITOR_CONNECTIONS) + _OTHER_FILES
    shown = "no limit" if limit is None else f"{limit}"
    count = f"{servers} server{'s' * (servers != 1)}"
    text = f"ulimit -n is {shown}; one client with maxPoolSize={options.max_pool_size} and {count} may need {needed}"
    facts = {"open_files": limit, "needed": needed}
    if limit is not None and needed > limit:
        return Finding(Step.LIMITS, Severity.WARNING, text, "raise ulimit -n, or lower maxPoolSize", "", facts)
    return Finding(Step.LIMITS, Severity.OK, text, "", "", facts)


def judge_connections(server: str, connections: Mapping[str, Any] | None, options: ClientOptions) -> Finding:
    """The server's connections (`serverStatus`); None if the user may not see them."""
    if connections is None:
        text = "the server's connections are not known: serverStatus needs the role clusterMonitor"
        return Finding(Step.LIMITS, Severity.NOTE, text, "", server)
    current, available = whole(connections.get("current")), whole(connections.get("available"))
    facts = {"current": current, "available": available}
    text = f"the server has {current} connection{'s' * (current != 1)} and room for {available} more"
    if options.max_pool_size > available:
        advice = f"one client may open {options.max_pool_size}: lower maxPoolSize, or raise the server's limit"
        return Finding(Step.LIMITS, Severity.WARNING, text, advice, server, facts)
    return Finding(Step.LIMITS, Severity.OK, text, "", server, facts)


# --- selection ---


def judge_selection(topology: TopologyDescription, options: ClientOptions) -> Iterator[Finding]:
    """Whether a server is there for reads by the read preference, and for writes."""
    wanted = ((options.read_preference, "reads"), (WRITABLE, "writes"))
    if not topology.has_known_servers:
        names = ", ".join(map(format_address, topology.server_descriptions()))
        text = f"there is no server for reads and writes: {f'{names} did not say hello' if names else 'none is left'}"
        yield Finding(Step.SELECTION, Severity.ERROR, text, "see the steps above", facts={"reads": [], "writes": []})
        return
    for selector, what in wanted:
        try:
            found = suitable_servers(
                topology,
                selector,
                local_threshold=options.local_threshold,
                heartbeat_frequency=options.heartbeat_frequency,
                server_selector=options.server_selector,
            )
        except ConfigurationError as error:
            yield Finding(Step.SELECTION, Severity.ERROR, f"{what}: {error}", "correct the option")
            continue
        if found:
            servers = [format_address(server.address) for server in found]
            by = "" if selector is WRITABLE else f" ({describe_selector(selector)})"
            text = f"{what}{by} would go to {', '.join(servers)}"
            yield Finding(Step.SELECTION, Severity.OK, text, facts={what: servers})
        else:
            yield _none_selected(topology, options, selector, what)


def _none_selected(topology: TopologyDescription, options: ClientOptions, selector: Any, what: str) -> Finding:
    text = describe_failure(topology, selector)
    if selector is WRITABLE:
        # Reading from a single secondary is what some clients want.
        severity = Severity.NOTE if options.direct_connection else Severity.ERROR
        advice = "" if options.direct_connection else "the set has no primary: are most of its voting members up?"
        return Finding(Step.SELECTION, severity, text, advice, facts={what: []})
    has_tags = any(selector.tag_sets)
    advice = (
        "no server has these tags: change readPreferenceTags, or end the list with an empty set for any server"
        if has_tags
        else "choose another read preference, or start the missing members"
    )
    return Finding(Step.SELECTION, Severity.ERROR, text, advice, facts={what: []})


def weighed(problems: Iterable[Finding], selection: Sequence[Finding]) -> Iterator[Finding]:
    """Problems of single servers are only warnings if a client can do its work with the others."""
    chosen = {server for each in selection for servers in each.facts.values() for server in servers}
    works = not failed(selection)
    for each in problems:
        if works and each.server not in chosen:
            advice = f"clients do their work without this server; {each.advice}"
            yield replace(each, severity=Severity.WARNING, advice=advice)
        else:
            yield each
