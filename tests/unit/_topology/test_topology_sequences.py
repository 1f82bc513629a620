"""Discovery and selection beside the pseudocode of their specifications, in any sequence of hellos and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from motorlite._base.error_documents import SYSTEM_OVERLOADED
from motorlite._topology.error_handling import NO_EFFECT, ErrorEffect, ErrorFacts, on_error
from motorlite._topology.selection import WRITABLE, suitable_servers
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyChange, TopologyDescription
from motorlite._wire.replies import error_from_reply
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError
from motorlite.read_preferences import Nearest, Primary, PrimaryPreferred, Secondary, SecondaryPreferred
from tests.support.machine_bugs import cases, find
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from tests.support.planting import Bug

ADDRESSES: Final = [(name, 27017) for name in "abcd"]
NAMES: Final = {address: f"{address[0]}:{address[1]}" for address in ADDRESSES}
PROCESSES: Final = (ObjectId(b"process-one-"), ObjectId(b"process-two-"))
ELECTIONS: Final = tuple(ObjectId(bytes([number]) * 12) for number in range(3))
MEMBERS: Final = ("RSSecondary", "RSArbiter", "RSOther")
KINDS: Final[dict[str, dict[str, Any]]] = {
    "Unknown": {"ok": 0},
    "Standalone": {"isWritablePrimary": True},
    "Mongos": {"msg": "isdbgrid", "isWritablePrimary": True},
    "RSPrimary": {"isWritablePrimary": True},
    "RSSecondary": {"secondary": True},
    "RSArbiter": {"arbiterOnly": True},
    "RSOther": {"hidden": True, "secondary": True},
    "RSGhost": {"isreplicaset": True},
}
# Seconds.
HEARTBEAT: Final = 10.0
THRESHOLD: Final = 0.015
# The last but one is at the edge of the window of the first one.
RTTS: Final = (0.0, 0.01, THRESHOLD, 0.03)


@dataclass
class Server:
    """What the specification keeps of a hello."""

    type: str = "Unknown"
    set_name: str | None = None
    hosts: tuple[Any, ...] = ()
    me: Any = None
    # None orders before all others.
    set_version: int | None = None
    election: ObjectId | None = None
    wire_version: int = 0
    session_minutes: int | None = None
    version: tuple[ObjectId, int] | None = None
    tags: dict[str, str] = field(default_factory=dict)
    rtt: float = 0.0
    written: float | None = None
    updated: float = 0.0


def order(*values: Any) -> tuple[Any, ...]:
    """Sort None before all others."""
    return tuple((value is not None, value) for value in values)


class Model:
    """The pseudocode of "Updating the TopologyDescription"."""

    def __init__(self, kind: str, addresses: list[Any], set_name: str | None) -> None:
        self.kind = kind
        self.set_name = set_name
        self.servers = {address: Server() for address in addresses}
        self.has_one_seed = len(addresses) == 1
        self.max_set_version: int | None = None
        self.max_election: ObjectId | None = None

    def update(self, address: Any, server: Server) -> None:
        if address not in self.servers or self.is_older(self.servers[address].version, server.version):
            return
        self.servers[address] = server
        kind, is_rs = server.type, server.type in ("RSPrimary", *MEMBERS)
        if self.kind == "Single":
            if self.set_name is not None and kind != "Unknown" and server.set_name != self.set_name:
                self.servers[address] = Server()
        elif kind == "RSPrimary" and self.kind != "Sharded":
            self.update_from_primary(address, server)
        elif self.kind == "Unknown":
            if kind == "Standalone" and self.has_one_seed:
                self.kind = "Single"
            elif kind == "Standalone":
                del self.servers[address]
            elif kind == "Mongos":
                self.kind = "Sharded"
            elif kind in MEMBERS:
                self.kind = "ReplicaSetNoPrimary"
                self.update_without_primary(address, server)
        elif self.kind == "Sharded":
            if is_rs or kind in ("Standalone", "RSGhost"):
                del self.servers[address]
        elif kind in ("Standalone", "Mongos"):
            del self.servers[address]
            self.check_if_has_primary()
        elif kind in MEMBERS and self.kind == "ReplicaSetNoPrimary":
            self.update_without_primary(address, server)
        elif kind in MEMBERS:
            if server.set_name != self.set_name or server.me not in (None, address):
                del self.servers[address]
            self.check_if_has_primary()
        else:
            self.check_if_has_primary()

    @staticmethod
    def is_older(known: Any, new: Any) -> bool:
        return known is not None and new is not None and known[0] == new[0] and known[1] > new[1]

    def check_if_has_primary(self) -> None:
        has_primary = any(server.type == "RSPrimary" for server in self.servers.values())
        self.kind = "ReplicaSetWithPrimary" if has_primary else "ReplicaSetNoPrimary"

    def update_without_primary(self, address: Any, server: Server) -> None:
        if self.set_name is None:
            self.set_name = server.set_name
        elif self.set_name != server.set_name:
            del self.servers[address]
            return
        self.add(server)
        if server.me not in (None, address):
            del self.servers[address]

    def add(self, server: Server) -> None:
        for host in server.hosts:
            self.servers.setdefault(host, Server())

    def update_from_primary(self, address: Any, server: Server) -> None:
        if self.set_name is None:
            self.set_name = server.set_name
        elif self.set_name != server.set_name:
            del self.servers[address]
            self.check_if_has_primary()
            return
        if self.is_stale_primary(server):
            self.servers[address] = Server()
        else:
            for other in self.servers:
                if other != address and self.servers[other].type == "RSPrimary":
                    self.servers[other] = Server()
            self.add(server)
            self.servers = {each: known for each, known in self.servers.items() if each in server.hosts}
        self.check_if_has_primary()

    def is_stale_primary(self, server: Server) -> bool:
        """Whether its election is over; else remember the election."""
        version, election = server.set_version, server.election
        if server.wire_version >= 17:
            if order(election, version) < order(self.max_election, self.max_set_version):
                return True
            self.max_election, self.max_set_version = election, version
            return False
        if version is not None and election is not None:
            known = self.max_set_version, self.max_election
            if None not in known and (version, election) < known:
                return True
            self.max_election = election
        if version is not None and (self.max_set_version is None or version > self.max_set_version):
            self.max_set_version = version
        return False

    @property
    def session_minutes(self) -> int | None:
        bearing = ("Standalone", "Mongos", "RSPrimary", "RSSecondary")
        minutes = [server.session_minutes for server in self.servers.values() if server.type in bearing]
        return None if not minutes or None in minutes else min(each for each in minutes if each is not None)


ANY: Final = st.sampled_from([*KINDS, "RSPrimary", "RSPrimary", "RSSecondary", "RSSecondary"])
VERSIONS: Final = st.none() | st.tuples(st.sampled_from(PROCESSES), st.integers(0, 3))


WIRE_VERSIONS: Final = st.sampled_from([16, 17])
ROUND_TRIPS: Final = st.sampled_from(RTTS)
SESSION_MINUTES: Final = st.sampled_from([30, 30, 10, None])
SET_NAMES: Final = st.sampled_from(["rs", "rs", "rs", "rs", "other"])
HOSTS: Final = st.lists(st.sampled_from(ADDRESSES), min_size=1, unique=True)
OWN_NAMES: Final = st.none() | st.sampled_from(ADDRESSES)
TAGS: Final = st.sampled_from([{}, {"dc": "x"}, {"dc": "x", "rack": "1"}, {"dc": "y"}])
UPDATES: Final = st.sampled_from([200.0, 230.0])
LAST_WRITES: Final = st.sampled_from([0.0, 50.0, 115.0, 130.0, 200.0])
SET_VERSIONS: Final = st.sampled_from([None, 1, 2])
ELECTION_IDS: Final = st.sampled_from([None, *ELECTIONS])


@st.composite
def servers(draw: st.DrawFn, kinds: st.SearchStrategy[str] = ANY) -> Server:
    """What a server may answer."""
    kind = draw(kinds)
    if kind == "Unknown":
        return Server()
    found = Server(kind, wire_version=draw(WIRE_VERSIONS), rtt=draw(ROUND_TRIPS))
    found.version, found.session_minutes = draw(VERSIONS), draw(SESSION_MINUTES)
    if kind in ("RSPrimary", *MEMBERS):
        found.set_name = draw(SET_NAMES)
        found.hosts = tuple(draw(HOSTS))
        found.me = draw(OWN_NAMES)
        found.tags = draw(TAGS)
        found.updated = draw(UPDATES)
        found.written = draw(LAST_WRITES)
    if kind == "RSPrimary":
        found.set_version = draw(SET_VERSIONS)
        found.election = draw(ELECTION_IDS)
    return found


def described(address: Any, server: Server) -> ServerDescription:
    """The same as the driver reads it."""
    reply: dict[str, Any] = {
        "ok": 1,
        "hosts": [NAMES[host] for host in server.hosts],
        "tags": server.tags,
        "minWireVersion": 0,
        "maxWireVersion": server.wire_version,
        "setName": server.set_name,
        "me": server.me and NAMES[server.me],
        "setVersion": server.set_version,
        "electionId": server.election,
        "logicalSessionTimeoutMinutes": server.session_minutes,
        "topologyVersion": server.version and {"processId": server.version[0], "counter": server.version[1]},
        **KINDS[server.type],
    }
    if server.written is not None:
        reply["lastWrite"] = {"lastWriteDate": DatetimeMS(int(server.written * 1000))}
    reply = {name: value for name, value in reply.items() if value is not None}
    return ServerDescription.from_hello(
        address, reply, round_trip_time=server.rtt, min_round_trip_time=0.0, now=server.updated
    )


class Discovery(Machine):
    """A deployment, real or not, whose servers answer anything."""

    SEEDS: Any = st.lists(st.sampled_from(ADDRESSES), min_size=1, unique=True)

    @initialize(seeds=SEEDS, set_name=st.sampled_from([None, "rs"]), is_direct=st.sampled_from([False, False, True]))
    def make(self, seeds: list[Any], set_name: str | None, is_direct: bool) -> None:
        seeds = seeds[:1] if is_direct else seeds
        self.topology = TopologyDescription.initial(seeds, direct_connection=is_direct, replica_set=set_name)
        kind = "Single" if is_direct else "ReplicaSetNoPrimary" if set_name else "Unknown"
        self.model = Model(kind, seeds, set_name)

    @rule(address=st.sampled_from(ADDRESSES), server=servers())
    def hello(self, address: Any, server: Server) -> None:
        before = dict(self.model.servers)
        self.model.update(address, server)
        new = self.topology.apply(described(address, server))
        change = TopologyChange.between(self.topology, new, address)
        after = self.model.servers
        assert set(change.added) == set(after) - set(before)
        assert set(change.removed) == set(before) - set(after)
        primaries = {each for each, known in before.items() if known.type == "RSPrimary" and each != address}
        assert set(change.deposed) == {each for each in primaries & set(after) if after[each].type == "Unknown"}
        self.topology = new

    @rule(
        data=st.data(),
        kind=st.sampled_from(["reset", "timeout", "refused", "no login", 10107, 13436, 91, 11600, 11000]),
        version=VERSIONS,
        is_stale=st.sampled_from([False, False, True]),
    )
    def error(self, data: st.DataObject, kind: Any, version: Any, is_stale: bool) -> None:
        """An operation fails, or a connection for one ("Application errors")."""
        if not self.model.servers:
            return
        address = data.draw(st.sampled_from(sorted(self.model.servers)))
        facts, expected = self.failure(kind, version, is_stale)
        known = self.model.servers[address].version
        is_reply = isinstance(kind, int)
        if is_reply and known is not None and version is not None and known[0] == version[0] and known[1] >= version[1]:
            expected = NO_EFFECT  # from before the hello that the driver knows
        effect = on_error(self.topology.server_descriptions()[address], facts)
        assert (effect.clear_pool, effect.request_check, effect.cancel_check, effect.interrupt_in_use) == (
            expected.clear_pool,
            expected.request_check,
            expected.cancel_check,
            False,
        )
        assert (effect.description is None) is (expected.description is None)
        if effect.description is not None:
            self.model.update(address, Server(version=version if is_reply else None))
            self.topology = self.topology.apply(effect.description)

    @staticmethod
    def failure(kind: Any, version: Any, is_stale: bool) -> tuple[ErrorFacts, ErrorEffect]:
        """An error, and what it does to the server; any description means Unknown."""
        unknown = ServerDescription.unknown(ADDRESSES[0])
        lost = ErrorEffect(description=unknown, clear_pool=True, cancel_check=True)
        error: PyMongoError
        if isinstance(kind, int):
            counter = None if version is None else {"processId": version[0], "counter": version[1]}
            reply = {"ok": 0, "errmsg": "no", "code": kind, "topologyVersion": counter}
            error = error_from_reply({name: value for name, value in reply.items() if value is not None})
            step_down = ErrorEffect(description=unknown, clear_pool=kind in (91, 11600), request_check=True)
            expected = NO_EFFECT if kind == 11000 else step_down
        elif kind == "timeout":  # a slow operation
            error, expected = NetworkTimeout("slow"), NO_EFFECT
        else:
            error, expected = AutoReconnect(kind), lost
            if kind == "refused":  # perhaps only overloaded (client backpressure specification)
                error._add_error_label(SYSTEM_OVERLOADED)
                expected = NO_EFFECT
        facts = ErrorFacts(
            error=error,
            during_handshake=kind == "refused",
            during_authentication=kind == "no login",
            is_stale_generation=is_stale,
        )
        return facts, NO_EFFECT if is_stale else expected

    @invariant()
    def same(self) -> None:
        model, topology = self.model, self.topology
        found = {address: server.server_type_name for address, server in topology.server_descriptions().items()}
        assert found == {address: server.type for address, server in model.servers.items()}
        assert topology.topology_type_name == model.kind
        assert topology.replica_set_name == model.set_name
        assert (topology.max_set_version, topology.max_election_id) == (model.max_set_version, model.max_election)
        assert topology.logical_session_timeout_minutes == model.session_minutes
        assert list(found.values()).count("RSPrimary") <= 1, "two primaries"


MODES: Final[dict[str, Any]] = {
    "primary": Primary,
    "primaryPreferred": PrimaryPreferred,
    "secondary": Secondary,
    "secondaryPreferred": SecondaryPreferred,
    "nearest": Nearest,
}
TAG_SETS: Final[tuple[Any, ...]] = (
    None,
    [{}],
    [{"dc": "x"}],
    [{"dc": "y"}, {}],
    [{"dc": "z"}, {"rack": "1"}],
    [{"dc": "x", "rack": "1"}],
    [{"dc": "y", "rack": "1"}, {"dc": "x"}],
    [{"dc": "z"}],
)


class Selection(Discovery):
    """The same, with operations that select servers ("Server Selection Algorithm")."""

    @initialize(seeds=st.just(ADDRESSES[:2]), set_name=st.sampled_from([None, "rs"]), is_direct=st.just(False))
    def make(self, seeds: list[Any], set_name: str | None, is_direct: bool) -> None:
        super().make(seeds, set_name, is_direct)

    @rule(
        server=servers(kinds=st.sampled_from(["RSPrimary", "RSSecondary"])),
        address=st.sampled_from(ADDRESSES),
    )
    def good_hello(self, server: Server, address: Any) -> None:
        """A member of a set of four."""
        server.set_name, server.hosts, server.me, server.version = "rs", tuple(ADDRESSES), None, None
        server.wire_version, server.set_version, server.election = 17, 2, ELECTIONS[2]
        self.hello(address, server)

    @rule(
        mode=st.sampled_from(["write", *MODES]),
        tag_sets=st.sampled_from(TAG_SETS),
        max_staleness=st.sampled_from([-1, -1, 90, 140]),
        avoided=st.lists(st.sampled_from(ADDRESSES), unique=True),
    )
    def select(self, mode: str, tag_sets: Any, max_staleness: int, avoided: list[Any]) -> None:
        if mode in ("write", "primary"):
            tag_sets, max_staleness = None, -1
        selector: Any = WRITABLE
        if mode == "primary":
            selector = Primary()
        elif mode != "write":
            selector = MODES[mode](tag_sets=tag_sets, max_staleness=max_staleness)
        found = suitable_servers(
            self.topology,
            selector,
            deprioritized=avoided,
            local_threshold=THRESHOLD,
            heartbeat_frequency=HEARTBEAT,
        )
        everyone = self.model.servers
        others = {address: server for address, server in everyone.items() if address not in avoided}
        suitable = self.suitable(others, mode, tag_sets, max_staleness) or self.suitable(
            everyone, mode, tag_sets, max_staleness
        )
        nearest = min((everyone[address].rtt for address in suitable), default=0.0)
        window = {address for address in suitable if everyone[address].rtt <= nearest + THRESHOLD}
        assert {server.address for server in found} == window

    def suitable(self, servers: dict[Any, Server], mode: str, tag_sets: Any, max_staleness: int) -> list[Any]:
        kind = self.model.kind
        if kind in ("Single", "Sharded", "Unknown"):
            known = {"Single": tuple(KINDS)[1:], "Sharded": ("Mongos",), "Unknown": ()}[kind]
            return [address for address, server in servers.items() if server.type in known]
        primaries = [address for address, server in servers.items() if server.type == "RSPrimary"]
        secondaries = [address for address, server in servers.items() if server.type == "RSSecondary"]
        if mode in ("write", "primary") or (mode == "primaryPreferred" and primaries):
            return primaries
        eligible = [*(primaries if mode == "nearest" else []), *secondaries]
        if max_staleness != -1:
            eligible = [address for address in eligible if self.staleness(address) <= max_staleness]
        tagged = eligible
        for tags in tag_sets or [{}]:
            tagged = [each for each in eligible if all(servers[each].tags.get(key) == tags[key] for key in tags)]
            if tagged:
                break
        return primaries if mode == "secondaryPreferred" and not tagged else tagged

    def staleness(self, address: Any) -> float:
        """Max staleness specification, "Selecting servers based on staleness"."""
        server, everyone = self.model.servers[address], self.model.servers.values()
        if server.type == "RSPrimary":
            return 0.0
        assert server.written is not None
        primary = next((each for each in everyone if each.type == "RSPrimary"), None)
        if primary is not None:
            assert primary.written is not None
            return (server.updated - server.written) - (primary.updated - primary.written) + HEARTBEAT
        newest = max(each.written or 0.0 for each in everyone if each.type == "RSSecondary")
        return newest - server.written + HEARTBEAT


def test_discovery_is_that_of_the_specification() -> None:
    run(Discovery)


def test_selection_is_that_of_the_specification() -> None:
    run(Selection)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Discovery, Selection))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
