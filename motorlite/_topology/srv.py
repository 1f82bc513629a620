"""Shell: the hosts of a ``mongodb+srv://`` connection string: discovery, and polling for sharded clusters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from motorlite._net.runtime import WaitTimeout
from motorlite._options import srv as records
from motorlite._options.options import with_srv_records
from motorlite._topology.selection import describe_limit
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError, ServerSelectionTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Host, Runtime, Waiter
    from motorlite._options.options import SRV, ClientOptions
    from motorlite._topology.selection import Selector
    from motorlite._topology.server import Server
    from motorlite._topology.topology import Topology
    from motorlite._topology.topology_description import TopologyDescription


# The seeds of a ``mongodb+srv://`` connection string (initial DNS seedlist discovery specification).
#
# Nothing is looked up before the first operation, because a constructor cannot wait. Until the look-up has completed,
# `SRVDiscovery` takes the place of the topology: selecting a server waits for the look-up, which all operations
# share. If it fails, all waiters raise its error, and the next operation starts another look-up.


class SRVDiscovery:
    """Takes the place of a client's topology until its SRV records are known."""

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
        # The description before the look-up, without servers.
        self.description = description
        self.servers: Collection[Server] = ()
        self._srv = srv
        self._options = options
        # Timeout in seconds for both queries together.
        self._timeout = timeout
        self._runtime = runtime
        self._host = host
        self._resolver = resolver
        # Returns a random whole number below its argument.
        self._below = below
        # Creates the topology from the complete options and the time to live of the SRV records (seconds).
        self._found = found
        # The created topology, which then replaces the discovery in the client.
        self._topology: Topology | None = None
        self._is_looking_up = False
        self._is_closed = False
        self._waiters: set[Waiter] = set()

    def select_now(self, _selector: Selector, _deprioritized: Collection[Address] = ()) -> Server | None:
        """Return None, because no server is known yet."""
        return None

    async def select(
        self,
        selector: Selector,
        deadline: Deadline,
        deprioritized: Collection[Address],
        until: float,
        on_wait: Callable[[float], None] | None = None,
    ) -> Server:
        """Wait for the look-up and then for a suitable server, until the loop time `until` and the deadline.

        If the look-up has not completed, `on_wait` is called once with the number of seconds left.

        Raises:
            ConfigurationError: the look-up failed, or its result must not be used.
            ServerSelectionTimeoutError: no result of the look-up, or no suitable server, in time.
            InvalidOperation: the client was closed.
        """
        topology = self._topology
        if topology is None:
            limit = min(until, deadline.expires_at)
            if on_wait is not None:
                on_wait(limit - self._runtime.now())
                on_wait = None
            topology = await self._wait(limit, describe_limit(deadline, until, self._runtime.now()))
        return await topology.select(selector, deadline, deprioritized, until, on_wait)

    async def _wait(self, limit: float, words: str) -> Topology:
        if not (self._is_looking_up or self._is_closed):
            self._is_looking_up = True
            # In the background, because the operation that starts it may be cancelled while others wait.
            self._host.spawn(self._look_up, name=f"SRV look-up {self._srv.host_name}")
        failure: Exception | None = None
        if not self._is_closed:
            waiter = self._runtime.waiter()
            self._waiters.add(waiter)
            try:
                failure = await waiter.wait(limit)
            except WaitTimeout:
                raise self._too_late(words) from None
            finally:
                self._waiters.discard(waiter)
        if failure is not None:
            raise _own(failure) from failure
        if self._topology is None:
            raise InvalidOperation("the client is closed")
        return self._topology

    def _too_late(self, words: str) -> ServerSelectionTimeoutError:
        name = self._srv.host_name
        error = ServerSelectionTimeoutError(f"{name}: its SRV and TXT records were not found {words}")
        error.phase = "selection"
        return error

    async def _look_up(self) -> None:
        failure: Exception | None = None
        try:
            options, time_to_live = await self._ask()
            if not self._is_closed:
                self._topology = self._found(options, time_to_live)
        except Exception as error:
            # Exceptions of every kind are passed to the waiters.
            failure = error
        self._is_looking_up = False
        for waiter in self._waiters:
            waiter.offer(failure)
        del failure  # its traceback references this frame

    async def _ask(self) -> tuple[ClientOptions, float]:
        srv, resolver = self._srv, self._resolver
        until = self._runtime.now() + self._timeout
        found = await resolver.srv(records.query_name(srv), until)
        seeds = records.initial_seeds(srv, found, self._below)
        text = records.txt_record(srv, await resolver.txt(records.txt_name(srv), until))
        return with_srv_records(self._options, seeds, text), found.time_to_live

    async def back_off(self, _selector: Selector, _failed: Address, until: float) -> None:
        """Wait like `pause`, because no server can become suitable."""
        await self.pause(until)

    async def pause(self, until: float) -> None:
        """Wait until the loop time `until`, or until the client is closed."""
        while not self._is_closed:
            # A waiter is usable once, and the look-up releases all of them.
            waiter = self._runtime.waiter()
            self._waiters.add(waiter)
            try:
                await waiter.wait(until)
            except WaitTimeout:
                return
            finally:
                self._waiters.discard(waiter)

    @property
    def is_busy(self) -> bool:
        """Always False, because no operation is in flight before servers are known."""
        return False

    @property
    def expects_cursors(self) -> bool:
        """Always False, for the same reason."""
        return False

    def stop(self) -> None:
        """Release all waiters."""
        self.close()

    def close(self, *, now: bool = False) -> None:
        """Release all waiters; `now` has no effect, because there are no connections."""
        self._is_closed = True
        for waiter in self._waiters:
            waiter.offer(None)


def _own(error: Exception) -> PyMongoError:
    """Return a new error for one waiter: waiters share the cause, but not what retrying adds to the error."""
    if isinstance(error, ConfigurationError):
        return type(error)(str(error))
    return ConfigurationError(f"the SRV and TXT records cannot be used: {error!r}")


# Follows the SRV records of a sharded cluster (polling SRV records for mongos discovery specification).

_logger = logging.getLogger("motorlite.topology")


class SRVPolling:
    """Polls the SRV records until the deployment turns out not to be a sharded cluster."""

    def __init__(
        self,
        srv: SRV,
        topology: Topology,
        *,
        time_to_live: float,
        heartbeat_frequency: float,
        timeout: float,
        runtime: Runtime,
        resolver: Resolver,
        below: Callable[[int], int],
    ) -> None:
        self._srv = srv
        self._topology = topology
        # Seconds until the next query.
        self._interval = records.rescan_interval(time_to_live)
        self._heartbeat_frequency = heartbeat_frequency
        # Timeout of a query in seconds.
        self._timeout = timeout
        self._runtime = runtime
        self._resolver = resolver
        # Returns a random whole number below its argument.
        self._below = below
        # What the last rescan complained of: a persistent failure is logged once.
        self._complaint: object = ""

    async def run(self) -> None:
        """Rescan while the topology follows SRV records; run this in the background."""
        while self._topology.follows_srv_records:
            await self._runtime.sleep(self._interval)
            if self._topology.follows_srv_records:
                try:
                    await self._rescan()
                except Exception as error:
                    # An unexpected response, or a bug. Polling continues.
                    self._failed(f"{records.query_name(self._srv)}: {error!r}", error)

    async def _rescan(self) -> None:
        name = records.query_name(self._srv)
        try:
            found = await self._resolver.srv(name, self._runtime.now() + self._timeout)
        except ConfigurationError as error:
            # Not by its text, which may say how long the name servers were asked.
            self._failed(str(error), kind=type(error.__cause__))
            return
        try:
            verified, refused = records.verify(self._srv, found.hosts)
            if not verified:
                self._failed(f"{name}: no SRV record points to a host in the domain")
                return
            records.check_count(self._srv, verified)
        except ConfigurationError as error:
            self._failed(str(error))
            return
        names = records.list_names(refused)
        self._complain(f"{name}: ignoring hosts that are not in the domain, or have port 0: {names}" if refused else "")
        self._interval = records.rescan_interval(found.time_to_live)
        self._topology.follow_srv_records(self._next(verified))

    def _next(self, verified: tuple[Address, ...]) -> tuple[Address, ...]:
        known = self._topology.description.server_descriptions()
        return records.next_hosts(self._srv, known, verified, self._below)

    def _failed(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        """Log `complaint`, keep the servers unchanged and schedule the next attempt soon ("Implementation").

        `kind`: what is the same for all complaints about one failure, if it is not their text.
        """
        self._complain(complaint, error, kind)
        self._interval = self._heartbeat_frequency

    def _complain(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        if complaint and (kind or complaint) != self._complaint:
            _logger.warning("rescan of SRV records: %s", complaint, exc_info=error)
        self._complaint = kind or complaint
