"""Net: a MongoDB deployment scripted in Python: no sockets, no processes, runs in virtual time.

A test scripts each server's answers per command, makes a client, and inspects the received commands::

    async with ScriptedDeployment(["a:1", "b:1"], replica_set="rs") as deployment:
        found = {"cursor": {"id": 0, "ns": "d.c", "firstBatch": [{"_id": 1}]}}
        deployment["a:1"].on("find", overloaded(), overloaded(), found)
        async with deployment.client() as client:
            assert await client.d.c.find_one() == {"_id": 1}
        assert len(deployment["a:1"].commands("find")) == 3

The answers to a command are consumed one by one; the last one repeats. Commands without a script get ``{"ok": 1}``, and
an empty cursor where one is expected. With ``streaming=True``, servers answer an awaited hello when
`ScriptedServer.announce` is called or its time is up, and then keep streaming as servers since 4.4 do. A getMore of an
exhaust cursor gets the answers of its script at once, up to one without an open cursor.

With ``services=2``, the single address is a load balancer in front of two services, which get connections in turn. Each
is scripted separately::

    deployment = ScriptedDeployment(["lb:1"], services=2)
    deployment.services[0].on("insert", failure(11600))
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Self, Unpack

import bson
from bson.objectid import ObjectId

from motorlite._base.arguments import wrong
from motorlite._base.hosts import parse_host
from motorlite._base.values import format_address
from motorlite._options.row import COMPRESSORS
from motorlite._wire import op_msg
from motorlite._wire.compression import compress, decompress, make_compressors
from motorlite._wire.frames import MAX_MESSAGE_SIZE, FrameReader
from motorlite.errors import AutoReconnect, NetworkTimeout
from motorlite.testing.answers import Answer, Close, Hang, Raw, Reply, default_reply, failure, overloaded, resolved
from motorlite.testing.memory_stream import MemoryStream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from motorlite import AsyncMongoClient
    from motorlite._base.values import Address, Document
    from motorlite._net.runtime import Connector, Framer, Host, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.keywords import ClientKeywords
    from motorlite._options.parts import ProxyOptions
    from motorlite._wire.compression import Compressor
    from motorlite.errors import PyMongoError

__all__ = [
    "Answer",
    "Close",
    "Hang",
    "Raw",
    "Received",
    "Reply",
    "ScriptedDeployment",
    "ScriptedServer",
    "failure",
    "overloaded",
]

# All installed compressors.
_COMPRESSORS = {compressor.id: compressor for compressor in make_compressors(COMPRESSORS)[0]}


@dataclass
class Received:
    """A received command, with its arrival (loop time) and connection number."""

    name: str
    document: Document
    at: float
    connection: int
    # The name of its compressor, or None.
    compressor: str | None = None


@dataclass
class _Connection:
    """The server's end of one connection."""

    server: ScriptedServer
    number: int
    framer: FrameReader = field(default_factory=FrameReader)

    def data_received(self, stream: MemoryStream, data: bytes) -> None:
        for raw in self.framer.feed(data):
            frame = decompress(raw, _COMPRESSORS, MAX_MESSAGE_SIZE)
            compressor = None if frame is raw else _COMPRESSORS[raw[24]]
            flags = int.from_bytes(frame[16:20], "little")
            exhaust = flags & op_msg.EXHAUST_ALLOWED != 0
            self.server._message(self, stream, op_msg.parse(frame), compressor, exhaust=exhaust)

    def client_closed(self, stream: MemoryStream) -> None:
        self.server._forget(stream)


@dataclass(eq=False)
class _AwaitedHello:
    """A hello that is answered on the next change or when its time is up."""

    stream: MemoryStream
    request_id: int
    max_await: float
    exhaust: bool


class ScriptedServer:
    """One server of a `ScriptedDeployment`."""

    def __init__(self, deployment: ScriptedDeployment, address: Address) -> None:
        self.address = address
        # Received commands; `hellos` has those of handshakes and monitoring, `received` all others.
        self.received: list[Received] = []
        self.hellos: list[Received] = []
        self.open_connections: set[MemoryStream] = set()
        self.connections_made = 0
        # Refuse new connections while set.
        self.is_down = False
        # Neither accept nor refuse connections while set.
        self.is_unreachable = False
        # Creates the error that connecting raises, or None.
        self.connect_error: Callable[[], PyMongoError] | None = None
        # Extra fields for the hello reply, for example {"maxWireVersion": 6}.
        self.hello: dict[str, Any] = {}
        # Delay of hello replies in seconds, except awaited ones.
        self.hello_delay: float = 0.0
        # Accepted compressors; replies use the compressor of their command.
        self.compressors: Sequence[str] = ()
        # Compresses every reply, including those to hello; None: only replies to compressed commands.
        self.reply_compressor: Compressor | None = None
        # Whether replies to an awaited hello have the moreToCome flag, if the client allows it.
        self.exhausts = True
        # Used with streaming. A restarted server process has another `process_id`.
        self.process_id: ObjectId = ObjectId()
        self.counter: int = 0
        self._awaited: list[_AwaitedHello] = []
        self._deployment = deployment
        self._script: dict[str, deque[Answer]] = defaultdict(deque)
        self._next_reply_id = 1

    def on(self, command: str, *answers: Answer) -> None:
        """Replace the script of `command`; the last answer repeats forever."""
        self._script[command] = deque(answers)

    def commands(self, name: str | None = None) -> list[Document]:
        """The documents of the received commands, optionally only those named `name`."""
        return [item.document for item in self.received if name is None or item.name == name]

    def times(self, name: str) -> list[float]:
        """The arrival times of the commands named `name`."""
        return [item.at for item in self.received if item.name == name]

    def drop_connections(self, *streams: MemoryStream) -> None:
        """Close these connections, or all of them without arguments, as a crash does."""
        for stream in streams or list(self.open_connections):
            self._forget(stream)
            stream.close()

    def announce(self) -> None:
        """Publish a change: answer every awaited hello."""
        self.counter += 1
        for awaited in list(self._awaited):
            self._answer_awaited(awaited)

    # --- the wire ---

    def _forget(self, stream: MemoryStream) -> None:
        self.open_connections.discard(stream)
        self._awaited = [awaited for awaited in self._awaited if awaited.stream is not stream]

    def _message(
        self,
        connection: _Connection,
        stream: MemoryStream,
        message: op_msg.Message,
        compressor: Compressor | None,
        *,
        exhaust: bool,
    ) -> None:
        document = bson.decode(message.body)
        for name, documents in (message.sequences or {}).items():
            document[name] = [bson.decode(item) for item in documents]
        name = next(iter(document))
        compressed_with = None if compressor is None else compressor.name
        received = Received(name, document, self._deployment.now(), connection.number, compressed_with)
        left = len(self._script.get(name, ())) - 1
        if name in ("hello", "isMaster", "ismaster"):
            self.hellos.append(received)
            scripted = self._answer(name)
            if scripted is None and document.get("topologyVersion") == self._topology_version():
                max_await = document["maxAwaitTimeMS"] / 1000
                self._await(_AwaitedHello(stream, message.request_id, max_await, exhaust))
                return
            answer: Answer = Reply(self._hello_reply(document), self.hello_delay) if scripted is None else scripted
        else:
            self.received.append(received)
            answer = self._answer_or_default(name)
        if message.more_to_come:  # unacknowledged: executed, but not answered
            resolved(answer, document)
            return
        if exhaust and name == "getMore":
            self._stream(stream, message.request_id, document, answer, left)
            return
        self._perform(stream, message.request_id, document, answer, self.reply_compressor or compressor)

    def _stream(self, stream: MemoryStream, request_id: int, document: Document, answer: Answer, left: int) -> None:
        """Stream the batches of an exhaust cursor: `answer` and `left` further ones, up to one without an open cursor.

        The last answer does not repeat: if it has an open cursor, it announces a successor, which never comes.
        """
        while True:
            answer = resolved(answer, document)
            if not isinstance(answer, dict):
                self._perform(stream, request_id, document, answer)
                return
            goes_on = bool(answer.get("cursor", {}).get("id"))
            self._next_reply_id += 1
            reply_id = self._next_reply_id
            stream.deliver(encode_reply(reply_id, request_id, answer, op_msg.MORE_TO_COME if goes_on else 0))
            if not goes_on or left < 1:
                return
            request_id, left = reply_id, left - 1
            answer = self._answer_or_default("getMore")

    def _topology_version(self) -> dict[str, Any]:
        return {"processId": self.process_id, "counter": self.counter} if self._deployment.streaming else {}

    def _hello_reply(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        reply = {**self._deployment._hello_reply(self), **self.hello}
        accepted = [name for name in (request or {}).get("compression", ()) if name in self.compressors]
        if accepted:
            reply["compression"] = accepted
        if self._deployment.streaming:
            reply["topologyVersion"] = self._topology_version()
        return reply

    def _await(self, awaited: _AwaitedHello) -> None:
        self._awaited.append(awaited)
        self._deployment._later(awaited.max_await, self._answer_awaited, awaited)

    def is_awaited(self, stream: MemoryStream) -> bool:
        """Whether this connection has an awaited hello."""
        return any(awaited.stream is stream for awaited in self._awaited)

    def _answer_awaited(self, awaited: _AwaitedHello) -> None:
        if awaited not in self._awaited:
            return
        self._awaited.remove(awaited)
        self._next_reply_id += 1
        goes_on = awaited.exhaust and self.exhausts
        flags = op_msg.MORE_TO_COME if goes_on else 0
        reply_id = self._next_reply_id
        if goes_on:
            self._await(_AwaitedHello(awaited.stream, reply_id, awaited.max_await, exhaust=True))
        awaited.stream.deliver(encode_reply(reply_id, awaited.request_id, self._hello_reply(), flags))

    def _answer(self, name: str) -> Answer | None:
        script = self._script.get(name)
        if not script:
            return None
        return script.popleft() if len(script) > 1 else script[0]

    def _answer_or_default(self, name: str) -> Answer:
        answer = self._answer(name)
        # An empty document is an answer, too: ``{"ok": 1}``.
        return default_reply(name) if answer is None else answer

    def _perform(
        self,
        stream: MemoryStream,
        request_id: int,
        document: Document,
        answer: Answer,
        compressor: Compressor | None = None,
    ) -> None:
        answer = resolved(answer, document)
        if isinstance(answer, Hang):
            return
        if isinstance(answer, Close):
            self._forget(stream)
            stream.close()
        elif isinstance(answer, Raw):
            stream.deliver(answer.data)
            if answer.close:
                stream.close()
            if stream.is_closed:
                self._forget(stream)
        elif isinstance(answer, Reply) and answer.delay:
            later = Reply(answer.document)
            self._deployment._later(answer.delay, self._perform, stream, request_id, document, later, compressor)
        else:
            reply = answer.document if isinstance(answer, Reply) else answer
            self._next_reply_id += 1
            message = encode_reply(self._next_reply_id, request_id, reply)
            stream.deliver(message if compressor is None else compress(message, compressor))


class ScriptedDeployment:
    """Scripted servers that take the place of the network."""

    def __init__(
        self,
        addresses: Iterable[str] = ("a:1",),
        *,
        replica_set: str | None = None,
        mongos: bool = False,
        primary: str | None = None,
        wire_version: int = 17,
        streaming: bool = False,
        services: int = 0,
    ) -> None:
        self.addresses: list[Address] = [parse_host(text) for text in addresses]
        self.servers: dict[Address, ScriptedServer] = {
            address: ScriptedServer(self, address) for address in self.addresses
        }
        self.replica_set = replica_set
        self.mongos = mongos
        self.primary: Address | None = parse_host(primary) if primary else self.addresses[0]
        self.wire_version = wire_version
        # Whether hello replies have a topologyVersion and hello can be awaited.
        self.streaming = streaming
        # The services behind the load balancer at the first address; each uses its `process_id` as serviceId.
        self.services: list[ScriptedServer] = [ScriptedServer(self, self.addresses[0]) for _ in range(services)]
        self._turns = cycle(self.services)
        self._runtime: Runtime | None = None
        self._host: Host | None = None

    def __getitem__(self, address: str) -> ScriptedServer:
        return self.servers[parse_host(address)]

    @property
    def uri(self) -> str:
        """The connection string of the deployment."""
        hosts = ",".join(map(format_address, self.addresses))
        if self.services:
            return f"mongodb://{hosts}/?loadBalanced=true"
        return f"mongodb://{hosts}/" + (f"?replicaSet={self.replica_set}" if self.replica_set else "")

    def client(
        self, uri: str | None = None, *, jitter: float | None = None, **options: Unpack[ClientKeywords]
    ) -> AsyncMongoClient[dict[str, Any]]:
        """Make a client of this deployment. Close it before the deployment; ``async with`` closes both.

        Args:
            uri: Its connection string; the deployment's by default. Hosts that the deployment does not have refuse
                connections.
            jitter: The factor of all its backoffs, from 0 to 1; random by default. With 0, retries do not wait.
            options: Those of `AsyncMongoClient`: see `ClientKeywords`.

        Raises:
            ValueError: `jitter` is out of range.
            InvalidURI, ConfigurationError: An option is unknown or wrong.
        """
        from motorlite import AsyncMongoClient
        from motorlite._client.core import Core
        from motorlite._client.dependencies import Dependencies
        from motorlite._options.options import client_options

        world = Dependencies(connector=self.connector)
        if jitter is not None:
            if not 0 <= jitter <= 1:
                raise ValueError(wrong("jitter", jitter, "a number from 0 to 1"))
            world = world._replace(jitter=lambda: jitter)
        chosen = client_options(uri or self.uri, **options)
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient.__new__(AsyncMongoClient)
        super(AsyncMongoClient, client).__init__(Core(chosen, world), chosen)
        return client

    def now(self) -> float:
        """The loop time."""
        assert self._runtime is not None
        return self._runtime.now()

    def connector(self, runtime: Runtime, _tls: TLSContext | None, _proxy: ProxyOptions | None = None) -> Connector:
        """A connector with the signature of `Dependencies.connector`."""
        if self._host is None or self._runtime is None or not self._runtime.is_current():
            self._runtime = runtime
            self._host = runtime.host("scripted deployment", lambda: None)

        async def connect(address: Address, framer: Framer, until: float) -> MemoryStream:
            server = self.servers.get(address)
            if server is None or server.is_down:
                raise AutoReconnect(f"{address[0]}:{address[1]}: connection refused (scripted)")
            if server.connect_error is not None:
                raise server.connect_error()
            if server.is_unreachable:
                await runtime.sleep(until - runtime.now())
                raise NetworkTimeout(f"{address[0]}:{address[1]}: no connection in time (scripted)")
            server.connections_made += 1
            if self.services:
                server = self._next_service()
                server.connections_made += 1
            stream = MemoryStream(runtime, address, framer, _Connection(server, server.connections_made))
            server.open_connections.add(stream)
            return stream

        return connect

    async def close(self) -> None:
        """Cancel delayed answers; call it after the clients have closed. ``async with`` does it."""
        host, self._host = self._host, None
        if host is not None:
            await host.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def step_down(self, new_primary: str | None) -> None:
        """Make another server, or none, the primary; monitors discover the change."""
        self.primary = parse_host(new_primary) if new_primary else None

    def add(self, address: str) -> ScriptedServer:
        """Add a server to the replica set; the client discovers it."""
        self.addresses.append(parse_host(address))
        server = self.servers[self.addresses[-1]] = ScriptedServer(self, self.addresses[-1])
        return server

    def remove(self, address: str) -> None:
        """Remove a server from the replica set but keep it running; the client discovers the change."""
        self.addresses.remove(parse_host(address))

    def _next_service(self) -> ScriptedServer:
        """The next service in turn that is up."""
        for _ in self.services:
            service = next(self._turns)
            if not service.is_down:
                return service
        raise AutoReconnect("no service is up (scripted)")

    def _later(self, delay: float, function: Callable[..., None], *args: Any) -> None:
        assert self._runtime is not None
        assert self._host is not None
        runtime = self._runtime

        async def run() -> None:
            await runtime.sleep(delay)
            function(*args)

        self._host.spawn(run, name="scripted server")

    def _hello_reply(self, server: ScriptedServer) -> dict[str, Any]:
        reply: dict[str, Any] = {
            "ok": 1,
            "helloOk": True,
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "minWireVersion": 0,
            "maxWireVersion": self.wire_version,
            "logicalSessionTimeoutMinutes": 30,
            "connectionId": 1,
        }
        is_primary = server.address == self.primary
        if self.services:
            return {**reply, "msg": "isdbgrid", "isWritablePrimary": True, "serviceId": server.process_id}
        if self.mongos:
            return {**reply, "msg": "isdbgrid", "isWritablePrimary": True, "ismaster": True}
        if self.replica_set is None:
            return {**reply, "isWritablePrimary": True, "ismaster": True}
        return {
            **reply,
            "setName": self.replica_set,
            "setVersion": 1,
            "hosts": [*map(format_address, self.addresses)],
            "me": format_address(server.address),
            "isWritablePrimary": is_primary,
            "ismaster": is_primary,
            "secondary": not is_primary,
        }


def encode_reply(request_id: int, response_to: int, document: Mapping[str, Any], flags: int = 0) -> bytes:
    """The bytes of a reply message."""
    body = bson.encode({**document, "ok": document.get("ok", 1)})
    message = bytearray(op_msg.encode(request_id, body, (), flags))
    message[8:12] = response_to.to_bytes(4, "little")
    return bytes(message)
