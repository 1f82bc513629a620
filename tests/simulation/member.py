"""Shell: a server of a simulation: its process, its queue of commands, and what it says on its connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from motorlite._wire import op_msg
from motorlite._wire.frames import FrameReader
from tests.simulation.commands import Commands, Request
from tests.simulation.frozen import EPOCH
from tests.simulation.network import Connection
from tests.simulation.replication import Disk, Replica
from tests.simulation.transactions import Transactions
from tests.support.mongos.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from motorlite._base.values import Address
    from tests.simulation.commands import Steps
    from tests.simulation.documents import Document
    from tests.simulation.network import Network

SET_NAME: Final = "simulated"
_HELLOS: Final = frozenset({"hello", "isMaster", "ismaster"})
OVERLOADED: Final = 462
# What a server says while it steps down, shuts down or recovers, and that it cannot reach another one.
_FAILURES: Final = (6, 91, 189, 11600, 11602, 13436)
# Errors of a getMore after which a change stream can go on elsewhere; other cursors do not look at the label.
_RESUMABLE: Final = frozenset(
    {6, 7, 63, 89, 91, 133, 150, 189, 234, 262, 9001, 10107, 11600, 11602, 13388, 13435, 13436}
)
LABELS: Final = ("SystemOverloadedError", "RetryableError")
_UNASKED: Final[dict[str, Any]] = {
    "ok": 1.0,
    "n": 1,
    "nModified": 1,
    "value": None,
    "cursor": {"id": Int64(0), "ns": "nobody.asked", "firstBatch": [], "nextBatch": []},
}
"""A reply to no request, which fits many commands."""
# Seconds of work for a command, and for each document or operation in it.
_COST: Final = 0.0002
_STATEMENTS: Final = ("documents", "updates", "deletes", "ops")
_COST_EACH: Final = 0.0001
_WORKERS: Final = 4
# Commands that are executed however much there is to do.
_CHEAP: Final = frozenset({"ping", "endSessions", "killSessions", "killCursors", "abortTransaction"})


class Station:
    """A queue with workers: when a command is executed, and whether it is refused."""

    def __init__(self) -> None:
        self.slowness: float = 1.0
        # Seconds that a command may wait before it is refused.
        self.patience: float = inf
        self._free_at = [0.0] * _WORKERS

    def admit(self, now: float, work: float) -> float | None:
        """The seconds until a command is done; None: it is refused."""
        worker = min(range(_WORKERS), key=self._free_at.__getitem__)
        begins = max(now, self._free_at[worker])
        if begins - now > self.patience:
            return None
        self._free_at[worker] = ends = begins + work * self.slowness
        return ends - now


class Forwarder(Protocol):
    """What a command comes from that was passed on by a router."""

    @property
    def state(self) -> Any: ...

    def reset(self) -> None: ...

    def send_reply(self, reply: Document) -> None: ...


Asker: TypeAlias = "Connection | Forwarder"


@dataclass(slots=True, eq=False)
class _Awaited:
    """A hello that is answered when something changes, or when its time is up."""

    connection: Connection
    request_id: int
    seconds: float
    streams: bool
    hello: bool


@dataclass(slots=True, eq=False)
class _Link:
    """What a server knows of a connection."""

    number: int
    framer: FrameReader = field(default_factory=FrameReader)
    is_closed: bool = False


@dataclass(slots=True, eq=False)
class _Job:
    """A command that is being executed."""

    request: Request
    connection: Asker
    request_id: int
    is_answered: bool
    steps: Steps
    condition: Callable[[], bool] | None = None


class Node:
    """The process of a server: it is started, killed and frozen, and it answers on connections."""

    def __init__(self, address: Address, network: Network, chance: Random) -> None:
        self.address = address
        self.name: str = address[0]
        self.network = network
        self.chance = chance
        self.is_up = False
        self.is_frozen = False
        # Seconds by which its wall clock is wrong.
        self.clock_error: float = 0.0
        # Seconds that are added before each reply.
        self.slow_replies: float = 0.0
        # The share of commands that are refused, and of replies before which the connection breaks: of all commands,
        # and of commits.
        self.failures: float = 0.0
        self.lost_replies: float = 0.0
        self.lost_commits: float = 0.0
        # The share of commands that are refused as overload, with only one of its two labels.
        self.half_labels: float = 0.0
        # The share of replies that are sent twice, and of those before which the reply to no request is sent.
        self.repetitions: float = 0.0
        self.strays: float = 0.0
        self.station = Station()
        self.process: int = 0
        self.process_id = ObjectId(chance.randbytes(12))
        self.counter: int = 0
        self._deferred: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._awaited: list[_Awaited] = []
        self._accepted = 0
        network.servers[self.name] = self

    # --- its process ---

    def start(self) -> None:
        """Start the process."""
        self.process += 1
        self.process_id = ObjectId(self.chance.randbytes(12))
        self.counter = 0
        self.is_up = True
        self.is_frozen = False
        self._deferred = []
        self._awaited = []
        self.station = Station()
        self.boot()

    def boot(self) -> None:
        """Create what lives as long as the process."""

    def kill(self, *, silently: bool = False) -> None:
        """End the process: at once, and with its host if `silently`, so that no connection is reset."""
        self.is_up = self.is_frozen = False
        self.process += 1
        self.network.drop_connections(self.name, silently=silently)

    def freeze(self) -> None:
        """Stop the process for a while."""
        self.is_frozen = True

    def unfreeze(self) -> None:
        """Let the process go on."""
        self.is_frozen = False
        deferred, self._deferred = self._deferred, []
        for function, arguments in deferred:
            function(*arguments)
        self.network.flush()

    def step_down(self, seconds: float) -> None:
        """Stop being the primary for some time."""

    def forget_cursors(self) -> None:
        """Close all cursors."""

    def forget_transactions(self) -> None:
        """Abort all transactions."""

    def invalidate_streams(self) -> None:
        """End all change streams, as if what they watch had been dropped."""

    def later(self, seconds: float, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function later, unless the process ends before."""
        self.network.call_at(self.network.now() + seconds, self._call, self.process, function, arguments)

    def _call(self, process: int, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if process != self.process:
            return
        if self.is_frozen:
            self._deferred.append((function, arguments))
        else:
            function(*arguments)

    def wall(self) -> float:
        """What its clock says, in seconds since 1970."""
        return EPOCH + self.network.now() + self.clock_error

    # --- connections ---

    def accept(self, connection: Connection) -> None:
        self._accepted += 1
        connection.state = _Link(self._accepted)

    def closed(self, connection: Connection) -> None:
        connection.state.is_closed = True
        self._awaited = [awaited for awaited in self._awaited if awaited.connection is not connection]

    def received(self, connection: Connection, data: bytes) -> None:
        for frame in connection.state.framer.feed(data):
            message = op_msg.parse(frame)
            document = bson.decode(message.body)
            for name, items in (message.sequences or {}).items():
                document[name] = [bson.decode(item) for item in items]
            flags = int.from_bytes(frame[16:20], "little")
            if next(iter(document)) in _HELLOS:
                self._greet(connection, message.request_id, document, streams=flags & op_msg.EXHAUST_ALLOWED != 0)
            else:
                self.receive(connection, message.request_id, document, is_answered=not message.more_to_come)

    def receive(self, connection: Asker, request_id: int, document: Document, *, is_answered: bool) -> None:
        """A command has arrived."""
        raise NotImplementedError

    def answer(self, connection: Asker, request_id: int, reply: Document, flags: int = 0) -> None:
        """Send a reply."""
        if not isinstance(connection, Connection):
            connection.send_reply(reply)
            return
        if self.strays and self.chance.random() < self.strays:
            self.network.unasked += 1
            connection.send(_message(request_id, self.chance.randrange(2**20, 2**30), _UNASKED))
        data = _message(request_id, request_id, reply, flags)
        connection.send(data)
        if self.repetitions and self.chance.random() < self.repetitions:
            self.network.unasked += 1
            self.later(self.chance.choice((0.0, 0.001, 0.05)), connection.send, data)

    def loses_reply(self, name: str) -> bool:
        """Whether the connection breaks instead of carrying the reply to a command, by the faults of this server."""
        share = self.lost_replies
        if name == "commitTransaction":
            share = max(share, self.lost_commits)
        return bool(share) and self.chance.random() < share

    def refusal(self) -> CommandError | None:
        """An error instead of executing a command, by the faults of this server."""
        if self.half_labels and self.chance.random() < self.half_labels:
            return CommandError(OVERLOADED, "the server has too much to do", [self.chance.choice(LABELS)])
        return None

    # --- hello ---

    def hello(self) -> Document:
        """What is particular to its hello."""
        raise NotImplementedError

    def announce(self) -> None:
        """Something has changed that hello says."""
        self.counter += 1
        awaited, self._awaited = self._awaited, []
        for each in awaited:
            self._answer_hello(each)

    def _version(self) -> Document:
        return {"processId": self.process_id, "counter": Int64(self.counter)}

    def _greet(self, connection: Connection, request_id: int, command: Document, *, streams: bool) -> None:
        awaited = _Awaited(connection, request_id, 0.0, streams, "hello" in command)
        if command.get("topologyVersion") == self._version():
            awaited.seconds = command["maxAwaitTimeMS"] / 1000
            self._await(awaited)
        else:
            awaited.streams = streams and "topologyVersion" in command
            awaited.seconds = command.get("maxAwaitTimeMS", 0) / 1000
            self.later(self.slow_replies, self._answer_hello, awaited)

    def _await(self, awaited: _Awaited) -> None:
        self._awaited.append(awaited)
        self.later(awaited.seconds, self._expire_hello, awaited)

    def _expire_hello(self, awaited: _Awaited) -> None:
        if awaited in self._awaited:
            self._awaited.remove(awaited)
            self._answer_hello(awaited)

    def _answer_hello(self, awaited: _Awaited) -> None:
        if awaited.connection.state.is_closed:
            return
        reply = {
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": awaited.connection.state.number,
            "minWireVersion": 0,
            "maxWireVersion": 25,
            "readOnly": False,
            "helloOk": True,
            "topologyVersion": self._version(),
            **self.hello(),
            "ok": 1.0,
        }
        if not awaited.hello:
            reply["ismaster"] = reply.pop("isWritablePrimary")
        flags = op_msg.MORE_TO_COME if awaited.streams else 0
        # A streamed reply responds to the previous one.
        awaited.connection.send(_message(awaited.request_id + 1, awaited.request_id, reply, flags))
        if awaited.streams:
            self._await(_Awaited(awaited.connection, awaited.request_id + 1, awaited.seconds, True, awaited.hello))


def _message(number: int, response_to: int, reply: Document, flags: int = 0) -> bytes:
    data = bytearray(op_msg.encode(number, bson.encode(reply), flags=flags))
    data[8:12] = response_to.to_bytes(4, "little", signed=True)
    return bytes(data)


class Member(Node):
    """A member of the replica set.

    Args:
        address: Its address; its host is its name.
        addresses: Those of all members.
        network: The network.
        chance: What its randomness comes from.
        rules: Rules of servers that it breaks on purpose.
    """

    def __init__(
        self,
        address: Address,
        addresses: Sequence[Address],
        network: Network,
        chance: Random,
        rules: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(address, network, chance)
        self.addresses = addresses
        self.disk = Disk()
        self.rules = rules
        self.replica: Replica
        self.commands: Commands
        self.transactions: Transactions
        self._jobs: list[_Job] = []
        self._is_poked = False
        self._was_primary = False

    def boot(self) -> None:
        self._jobs = []
        self._is_poked = self._was_primary = False
        self.replica = Replica(
            self.name,
            [address[0] for address in self.addresses if address != self.address],
            self.disk,
            send=self._send_packet,
            later=self.later,
            now=self.network.now,
            wall=self.wall,
            chance=self.chance,
            on_change=self._changed,
        )
        self.transactions = Transactions(self.disk.storage)
        self.commands = Commands(self.replica, self.transactions, self.network.now, self.chance, self.rules)
        self.later(1.0, self._clean)

    def step_down(self, seconds: float) -> None:
        self.replica.step_down(seconds)

    def forget_cursors(self) -> None:
        self.commands.cursors.clear()

    def forget_transactions(self) -> None:
        self.transactions.abort()
        self.poke()

    def invalidate_streams(self) -> None:
        self.commands.invalidate_streams()
        self.poke()

    def _clean(self) -> None:
        if self.transactions.expire(self.network.now()):
            self.poke()
        self.later(1.0, self._clean)

    # --- the replica set ---

    def _send_packet(self, peer: str, method: str, *arguments: Any) -> None:
        self.network.packet(self.name, peer, self._deliver, peer, method, arguments)

    def _deliver(self, peer: str, method: str, arguments: tuple[Any, ...]) -> None:
        target = self.network.servers[peer]
        if isinstance(target, Member) and target.is_up and not target.is_frozen:
            getattr(target.replica, method)(*arguments)

    def _changed(self, why: str) -> None:
        is_primary = self.replica.is_primary
        if is_primary != self._was_primary:
            self._was_primary = is_primary
            self.network.record("role", self.name, f"{self.replica.role.value} {self.replica.term} {why}")
            self.transactions.clear()
            self.announce()
        if why == "rolled back":
            # As a server does, whose cursors may have returned what is no longer there.
            self.network.record("rollback", self.name, str(self.replica.storage.last))
            self.commands.cursors.clear()
            self.network.drop_connections(self.name)
        self.poke()

    def hello(self) -> Document:
        replica = self.replica
        hosts = [f"{host}:{port}" for host, port in self.addresses]
        me = f"{self.name}:{self.address[1]}"
        found: Document = {
            "isWritablePrimary": replica.is_primary,
            "secondary": not replica.is_primary,
            "setName": SET_NAME,
            "setVersion": 1,
            "hosts": hosts,
            "me": me,
        }
        if replica.is_primary:
            found["electionId"] = ObjectId(bytes([0x7F, 0xFF, 0xFF, 0xFF]) + replica.term.to_bytes(8, "big"))
        if replica.leader is not None:
            found["primary"] = next(host for host in hosts if host.partition(":")[0] == replica.leader)
        return {**found, **self._gossip()}

    def _gossip(self) -> Document:
        replica = self.replica
        last = replica.storage.log[-1].time if replica.storage.log else Timestamp(1, 0)
        signature = {"hash": Binary(bytes(20)), "keyId": Int64(0)}
        return {"operationTime": last, "$clusterTime": {"clusterTime": replica.time, "signature": signature}}

    # --- commands ---

    def receive(self, connection: Asker, request_id: int, document: Document, *, is_answered: bool) -> None:
        if "$clusterTime" in document:
            self.replica.learn_time(document["$clusterTime"]["clusterTime"])
        name = next(iter(document))
        now = self.network.now()
        until = now + document["maxTimeMS"] / 1000 if document.get("maxTimeMS") and name != "getMore" else inf
        request = Request(document, until, connection)
        items = next((len(document[each]) for each in _STATEMENTS if each in document), 0)
        delay: float | None = 0.0
        if name not in _CHEAP:
            delay = self.station.admit(now, _COST + items * _COST_EACH)
        job = _Job(request, connection, request_id, is_answered, self.commands.run(request))
        if self.failures and self.chance.random() < self.failures:
            error = CommandError(self.chance.choice(_FAILURES), "the server has failed the command")
            self.later(0.0001, self._finish, job, error.reply(document))
        elif (refusal := self.refusal()) is not None:
            self.later(0.0001, self._finish, job, refusal.reply(document))
        elif delay is None:
            error = CommandError(OVERLOADED, "the server has too much to do", LABELS)
            self.later(0.0001, self._finish, job, error.reply(document))
        elif delay > until - now:
            error = CommandError(50, "operation exceeded time limit")
            self.later(until - now, self._finish, job, error.reply(document))
        else:
            self.later(delay, self._begin, job)

    def _begin(self, job: _Job) -> None:
        if job.connection.state.is_closed and job.request.name in ("find", "getMore", "aggregate"):
            return  # servers end what nobody reads
        self._go_on(job, None)

    def _go_on(self, job: _Job, value: bool | None) -> None:
        try:
            while True:
                condition, until = job.steps.send(value)  # type: ignore[arg-type]  # None starts it
                value = True
                if condition():
                    continue
                job.condition = condition
                self._jobs.append(job)
                if until != inf:
                    self.later(max(0.0, until - self.network.now()), self._expire, job, condition)
                return
        except StopIteration as done:
            reply = done.value
        except CommandError as error:
            reply = error.reply(job.request.document)
        self._finish(job, reply)
        self.poke()

    def _expire(self, job: _Job, condition: Callable[[], bool]) -> None:
        if job.condition is condition:
            job.condition = None
            self._jobs.remove(job)
            self._go_on(job, condition())

    def _finish(self, job: _Job, reply: Document) -> None:
        if not job.is_answered or job.connection.state.is_closed:
            return
        if job.request.name == "getMore" and reply.get("code") in _RESUMABLE:
            reply = {**reply, "errorLabels": [*reply.get("errorLabels", ()), "ResumableChangeStreamError"]}
        if self.loses_reply(job.request.name):
            job.connection.reset()
            return
        reply = {**reply, **self._gossip()}
        if self.slow_replies:
            self.later(self.slow_replies, self.answer, job.connection, job.request_id, reply)
        else:
            self.answer(job.connection, job.request_id, reply)

    def poke(self) -> None:
        """Look soon whether a waiting command can go on."""
        if not self._is_poked and self._jobs:
            self._is_poked = True
            self.later(0.0, self._look)

    def _look(self) -> None:
        self._is_poked = False
        for job in list(self._jobs):
            condition = job.condition
            if condition is not None and condition():
                job.condition = None
                self._jobs.remove(job)
                self._go_on(job, True)
