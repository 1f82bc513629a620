"""Two mongos in front of a replica set, and load balancers in front of them. All of it is a facade: nothing is sharded.

What a driver can tell from a connection is as with real ones: each mongos has cursors, transactions, fail points and a
topology version of its own, knows nothing of the other's, and applies the read preferences that it gets. What depends
on shards is missing: shard keys, chunks and their migration, transactions on several shards. Elections are passed on as
errors, where a mongos would wait.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from itertools import cycle
from threading import Thread
from typing import TYPE_CHECKING, Any, Self

from bson.objectid import ObjectId

from motorlite._base.values import format_address
from motorlite.testing.server.local_commands import Access, run_command
from tests.support.mongos.connection import ClientConnection
from tests.support.mongos.server import Mongos

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from motorlite._base.values import Address
    from motorlite.testing import LocalServer


class Cluster:
    """Listens until `close`, in a thread of its own.

    Attributes:
        addresses: Those of the two mongos.
        balancers: The addresses of load balancers, one in front of the first mongos, one in front of both.
        failures: What went wrong in the facade itself.
    """

    def __init__(self, server: LocalServer, *, has_bulk_writes: bool = False) -> None:
        self.failures: list[Exception] = []
        hello = server.command({"hello": 1, "helloOk": True})
        self._mongos = [Mongos(server.addresses, hello, has_bulk_writes=has_bulk_writes) for _ in range(2)]
        self._services = [(mongos, ObjectId()) for mongos in self._mongos]
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        # A daemon, so that a test that forgets to close it does not block the exit of the interpreter.
        self._thread = Thread(target=self._loop.run_forever, name="mongos", daemon=True)
        self._thread.start()
        self.addresses: list[Address] = [self._listen(cycle([(mongos, None)])) for mongos in self._mongos]
        self.balancers: list[Address] = [self._listen(cycle(self._services[:count])) for count in (1, 2)]

    @property
    def uri(self) -> str:
        """The connection string with both mongos."""
        return f"mongodb://{','.join(map(format_address, self.addresses))}/"

    @property
    def uri_of_one(self) -> str:
        """The connection string with the first mongos only."""
        return f"mongodb://{format_address(self.addresses[0])}/"

    @property
    def connections(self) -> int:
        """How many connections clients have."""
        return len(self._tasks)

    def command(self, mongos: int, document: Mapping[str, Any], database: str = "admin") -> Mapping[str, Any]:
        """Run one command on the first (0) or the second mongos (1), beside the driver.

        Raises:
            PyMongoError: the reply is an error.
            OSError: there was no reply.
        """
        return run_command(self.addresses[mongos], document, database, Access())

    def turn_fail_points_off(self) -> None:
        """On both mongos."""

        async def turn_off() -> None:
            for mongos in self._mongos:
                mongos.fail_command.configure({"mode": "off"})

        self._do(turn_off())

    def close(self) -> None:
        """Close everything; a second call does nothing."""
        if self._loop.is_closed():
            return
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _listen(self, turns: Iterator[tuple[Mongos, ObjectId | None]]) -> Address:
        """Listen at a port; each connection leads to the next mongos."""
        serve = self._serve(turns)

        async def listen() -> Address:
            server = await self._loop.create_server(lambda: _ClientProtocol(self._loop, serve), "127.0.0.1")
            self._listeners.append(server)
            host, port = server.sockets[0].getsockname()
            return host, port

        found: Address = self._do(listen())
        return found

    # --- on its own loop ---

    def _serve(self, turns: Iterator[tuple[Mongos, ObjectId | None]]) -> Callable[[_ClientProtocol], None]:
        def serve(protocol: _ClientProtocol) -> None:
            mongos, service_id = next(turns)
            protocol.connection = ClientConnection(mongos, protocol.reader, protocol.writer, service_id)
            task = self._loop.create_task(protocol.connection.serve())
            self._tasks.add(task)
            task.add_done_callback(partial(self._served, protocol))

        return serve

    def _served(self, protocol: _ClientProtocol, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        protocol.writer.close()  # a task that is cancelled before its first step closes nothing
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.failures.append(error)

    async def _close(self) -> None:
        for listener in self._listeners:
            for each in listener.sockets:
                self._loop.remove_reader(each.fileno())
        # What asyncio has accepted, but not given a transport yet, would stay open when the listener closes.
        await asyncio.sleep(0)
        for listener in self._listeners:
            listener.close()
        # Also the loop's own tasks, with which it accepts connections.
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others)
        await asyncio.sleep(0)  # transports close their sockets in the next turn


class _ClientProtocol(asyncio.StreamReaderProtocol):
    """Streams that say at once when the client has gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serve: Callable[[_ClientProtocol], None]) -> None:
        self.reader = asyncio.StreamReader(loop=loop)
        super().__init__(self.reader, loop=loop)
        self._serve_it = serve
        self._event_loop = loop
        self.connection: ClientConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.writer = asyncio.StreamWriter(transport, self, self.reader, self._event_loop)
        self._serve_it(self)

    def eof_received(self) -> bool | None:
        super().eof_received()
        if self.connection is not None:
            self.connection.lose_client()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.connection is not None:
            self.connection.lose_client()
