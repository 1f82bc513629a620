"""Shell: the seeds of a ``mongodb+srv://`` connection string (initial DNS seedlist discovery specification).

Nothing is looked up before the first operation, since a constructor cannot wait. Until the answer is there,
`SRVDiscovery` stands where the topology will: selecting a server waits for the look-up, which all operations share.
When it fails, those that wait raise its error, and the next operation begins another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite import srv as records
from motorlite._net.runtime import WaitTimeout
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError, ServerSelectionTimeoutError
from motorlite.options import with_srv_records

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Host, Runtime, Waiter
    from motorlite._topology.selection import Selector
    from motorlite._topology.server import Server
    from motorlite._topology.topology import Topology
    from motorlite._topology.topology_description import TopologyDescription
    from motorlite.deadline import Deadline
    from motorlite.options import SRV, ClientOptions
    from motorlite.values import Address


class SRVDiscovery:
    """Stands for the topology of a client until its SRV records are known."""

    def __init__(
        self,
        srv: SRV,
        options: ClientOptions,
        description: TopologyDescription,
        *,
        timeout: float,
        runtime: Runtime,
        host: Host,
        resolver: Resolver,
        below: Callable[[int], int],
        found: Callable[[ClientOptions, float], Topology],
    ) -> None:
        # What is known before the look-up: no servers.
        self.description = description
        self.servers: Collection[Server] = ()
        self._srv = srv
        self._options = options
        # How long both queries together may take, seconds.
        self._timeout = timeout
        self._runtime = runtime
        self._host = host
        self._resolver = resolver
        # A random whole number below its argument.
        self._below = below
        # Makes the topology, of the complete options and the time that the SRV records may be kept (seconds).
        self._found = found
        # What was made; from then on the client has this in place of the discovery.
        self._topology: Topology | None = None
        self._is_looking_up = False
        self._is_closed = False
        self._waiters: set[Waiter] = set()

    def select_now(self, _selector: Selector, _deprioritized: Collection[Address] = ()) -> Server | None:
        """None: no server is known yet."""
        return None

    async def select(
        self,
        selector: Selector,
        deadline: Deadline,
        deprioritized: Collection[Address],
        until: float,
        on_wait: Callable[[float], None] | None = None,
    ) -> Server:
        """A suitable server, after the look-up, before the loop time `until` and the deadline.

        `on_wait` is told, once, how many seconds are left when the look-up begins, or is under way.

        Raises:
            ConfigurationError: the look-up failed, or its answer must not be followed.
            ServerSelectionTimeoutError: there was no answer, or then no server, in time.
            InvalidOperation: the client was closed.
        """
        topology = self._topology
        if topology is None:
            limit = min(until, deadline.expires_at)
            if on_wait is not None:
                on_wait(limit - self._runtime.now())
                on_wait = None
            topology = await self._wait(limit)
        return await topology.select(selector, deadline, deprioritized, until, on_wait)

    async def _wait(self, limit: float) -> Topology:
        if not (self._is_looking_up or self._is_closed):
            self._is_looking_up = True
            # In the background: whoever begins it may be cancelled, while others wait as well.
            self._host.spawn(self._look_up)
        failure: Exception | None = None
        if not self._is_closed:
            waiter = self._runtime.waiter()
            self._waiters.add(waiter)
            try:
                failure = await waiter.wait(limit)
            except WaitTimeout:
                raise self._too_late() from None
            finally:
                self._waiters.discard(waiter)
        if failure is not None:
            raise _own(failure) from failure
        if self._topology is None:
            raise InvalidOperation("the client is closed")
        return self._topology

    def _too_late(self) -> ServerSelectionTimeoutError:
        name = self._srv.host_name
        error = ServerSelectionTimeoutError(f"{name}: its SRV and TXT records have not been looked up in time")
        error.phase = "selection"
        return error

    async def _look_up(self) -> None:
        failure: Exception | None = None
        try:
            options, time_to_live = await self._ask()
            if not self._is_closed:
                self._topology = self._found(options, time_to_live)
        except Exception as error:
            # Of whatever kind: those that wait are to hear of it.
            failure = error
        self._is_looking_up = False
        for waiter in self._waiters:
            waiter.offer(failure)
        del failure  # its traceback has this frame

    async def _ask(self) -> tuple[ClientOptions, float]:
        srv, resolver = self._srv, self._resolver
        until = self._runtime.now() + self._timeout
        found = await resolver.srv(records.query_name(srv), until)
        seeds = records.initial_seeds(srv, found, self._below)
        text = records.txt_record(srv, await resolver.txt(records.txt_name(srv), until))
        return with_srv_records(self._options, seeds, text), found.time_to_live

    @property
    def is_busy(self) -> bool:
        """False: no operation is in flight before there are servers."""
        return False

    def stop(self) -> None:
        """End all waiting."""
        self.close()

    def close(self, *, now: bool = False) -> None:
        """End all waiting; there are no connections that `now` could be about."""
        self._is_closed = True
        for waiter in self._waiters:
            waiter.offer(None)


def _own(error: Exception) -> PyMongoError:
    """An error for each of those that wait: they share its cause, but not what retrying adds to it."""
    if isinstance(error, ConfigurationError):
        return type(error)(str(error))
    return ConfigurationError(f"the SRV and TXT records cannot be used: {error!r}")
