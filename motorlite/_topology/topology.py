"""Shell: the client's view of the deployment: applies results of monitors and operations, and selects servers.

Everything except waiting for a server is synchronous, so a change of the description, its pools and its events cannot
be interrupted (server discovery and monitoring specification, "Why synchronize clearing a server's pool...").
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bson.objectid import ObjectId

from motorlite import monitoring as events
from motorlite._base.values import format_address
from motorlite._net.runtime import WaitTimeout
from motorlite._net.waking import Waking
from motorlite._topology.error_handling import ErrorFacts, on_check_error, on_error
from motorlite._topology.monitor import Monitor, Pace
from motorlite._topology.selection import choose, describe_failure, describe_limit, suitable_servers
from motorlite._topology.server_description import ServerDescription
from motorlite._topology.topology_description import TopologyChange, TopologyDescription
from motorlite.errors import AutoReconnect, ConfigurationError, InvalidOperation, ServerSelectionTimeoutError
from motorlite.topology_description import TopologyType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from motorlite._admission.gate import Gate
    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._connection.establish import Establisher, EstablishmentError
    from motorlite._net.runtime import Host, Runtime, Waiter
    from motorlite._options.options import ClientOptions
    from motorlite._pool.pool import Pool
    from motorlite._topology.error_handling import ErrorEffect
    from motorlite._topology.monitor import MonitorSettings
    from motorlite._topology.selection import Selector
    from motorlite.errors import PyMongoError


class OnError(Protocol):
    """Takes the error of an operation on an established connection of `generation` (`server.OnError`).

    `topology_version` is that of the reply, for errors that do not contain the whole reply.
    """

    def __call__(
        self,
        error: PyMongoError,
        generation: int,
        *,
        topology_version: Mapping[str, Any] | None = None,
        service_id: ObjectId | None = None,
    ) -> None: ...


class Server:
    """A selectable server."""

    __slots__ = ("address", "attempts", "attempts_ended", "description", "failed", "gate", "monitor", "pool")

    # Updates the topology; which sets it.
    failed: OnError

    def __init__(self, description: ServerDescription, pool: Pool, monitor: Monitor | None) -> None:
        self.address: Address = description.address
        # The newest description; an operation reads the minimum round-trip time from it when it selects the server.
        self.description: ServerDescription = description
        self.pool: Pool = pool
        # The breaker and the concurrency limit, for the executor; monitors ignore them. None: neither is configured.
        self.gate: Gate | None = pool.gate
        # None behind a load balancer.
        self.monitor: Monitor | None = monitor
        # Numbers of attempts of operations that selected this server, and of those that ended.
        self.attempts: int = 0
        self.attempts_ended: int = 0

    @property
    def operation_count(self) -> int:
        """The number of operations that hold or wait for a connection, for the choice between two servers."""
        return self.attempts - self.attempts_ended


class Seeds(Protocol):
    """Looks for the seeds of a topology, which then waits for them (`srv`)."""

    def look_up(self) -> None: ...
    def too_late(self, words: str) -> ServerSelectionTimeoutError: ...
    def own_error(self, error: Exception) -> PyMongoError: ...


class Topology:
    """One client's deployment."""

    def __init__(
        self,
        description: TopologyDescription,
        options: ClientOptions,
        monitor_settings: MonitorSettings,
        *,
        runtime: Runtime,
        host: Host,
        below: Callable[[int], int],
        publish: Callable[[Any], None] | None,
    ) -> None:
        """Create it without servers: `open` brings them. `options`: those of selection, which no DNS record changes."""
        self.description: TopologyDescription = description
        self._id = ObjectId()
        self._options = options
        self._monitor_settings = monitor_settings
        self._runtime = runtime
        self._host = host
        # Returns a random whole number below its argument.
        self._below = below
        # False if there is no listener and nothing is logged.
        self._publish = publish
        # Looks for the seeds that `open` needs; None once it was called.
        self.seeds: Seeds | None = None
        self._servers: dict[Address, Server] = {}
        # Of changes in which servers take the place of others. Names that lead to other members than they should make
        # each of them leave and bring the others back, for as long as there is no primary.
        self._exchanges = Pace(monitor_settings.min_heartbeat_interval)
        # Suitable servers by selector, so that selection is a single dictionary look-up. Every change clears it.
        self._suitable: dict[Any, tuple[Server, ...]] = {}
        # The latest selector for which it has a single server, and that server. Most operations of a client have the
        # same one, and hashing a read preference would cost more than the rest of the selection.
        self._latest: Selector | None = None
        self._only: Server | None = None
        # In the order in which they came.
        self._waiters: dict[Waiter, None] = {}
        self._waking = Waking(runtime)
        # The client is being closed, so waiting has ended.
        self.is_stopped: bool = False
        self._is_closed = False
        # Servers that left the deployment while operations were in flight on them.
        self._left: list[Server] = []

    def open(
        self,
        description: TopologyDescription,
        establisher: Establisher,
        make_pool: Callable[[Address, Callable[[EstablishmentError, int], None]], Pool],
    ) -> None:
        """Start monitoring the seeds."""
        self.seeds = None
        self._establisher = establisher
        self._make_pool = make_pool
        if self._publish:
            self._publish(events.TopologyOpenedEvent(self._id))
        self.description = TopologyDescription.empty()
        self._replace(description, None)
        if description.topology_type is TopologyType.LoadBalanced:
            for address in list(self._servers):
                self._apply(ServerDescription.load_balancer(address))

    @property
    def servers(self) -> Collection[Server]:
        """All servers, known or not."""
        return self._servers.values()

    # --- selection ---

    def select_now(self, selector: Selector, deprioritized: Collection[Address] = ()) -> Server | None:
        """Return a suitable server, or None if none is known at the moment.

        Raises:
            ConfigurationError: the deployment or the read preference cannot be used.
        """
        if deprioritized:
            candidates = self._find(selector, deprioritized)
        elif selector is self._latest:
            return self._only
        else:
            found = self._suitable.get(selector)
            if found is None:
                found = self._find(selector, ())
                # An application's own selector may return something else the next time.
                if found and self._options.server_selector is None:
                    self._suitable[selector] = found
            candidates = found
            if len(found) == 1 and self._options.server_selector is None:
                self._latest, self._only = selector, found[0]
        count = len(candidates)
        if count == 1:
            return candidates[0]
        if not count:
            return None
        return choose(candidates, self._below(count), self._below(count - 1))

    def _forget_selections(self) -> None:
        self._suitable.clear()
        self._latest = self._only = None

    def _find(self, selector: Selector, deprioritized: Collection[Address]) -> tuple[Server, ...]:
        descriptions = suitable_servers(
            self.description,
            selector,
            deprioritized=deprioritized,
            local_threshold=self._options.local_threshold,
            heartbeat_frequency=self._monitor_settings.heartbeat_frequency,
            server_selector=self._options.server_selector,
        )
        # An application's own selector may return servers that are not (or no longer) in the deployment.
        found = (self._servers.get(description.address) for description in descriptions)
        return tuple(server for server in found if server is not None)

    async def select(
        self,
        selector: Selector,
        deadline: Deadline,
        deprioritized: Collection[Address],
        until: float | None,
        on_wait: Callable[[float], None] | None = None,
    ) -> Server:
        """Wait for a suitable server until the loop time `until` and the deadline. None: only let other tasks run.

        If there is none at first and it waits, `on_wait` is called once with the number of seconds left.

        Raises:
            ServerSelectionTimeoutError: no suitable server in time.
            AutoReconnect: the server of the cursor or transaction has left the deployment.
            InvalidOperation: the client was closed.
        """
        started = self._runtime.now()
        limit = min(started if until is None else until, deadline.expires_at)
        is_over = False
        while True:
            if self.is_stopped:
                raise InvalidOperation("the client is closed")
            server = self.select_now(selector, deprioritized)
            if server is not None:
                return server
            if isinstance(selector, tuple):
                self._check_is_there(selector)
            if is_over:
                timeout = self._options.server_selection_timeout
                raise self._timed_out(selector, describe_limit(deadline, until, started, timeout))
            if on_wait is not None and until is not None:
                on_wait(limit - self._runtime.now())
                on_wait = None
            seeds = self.seeds
            if seeds is not None:
                seeds.look_up()
            for known in self._servers.values():
                if known.monitor is not None:
                    known.monitor.request_check()
            try:
                failure = await self._next_change(limit)
            except WaitTimeout:
                # Something may have changed just before, and this operation was not woken yet.
                is_over = True
                continue
            if seeds is not None and isinstance(failure, Exception):
                raise seeds.own_error(failure) from failure

    async def _next_change(self, until: float) -> Any:
        """Wait for a new description. Return the error of a look-up of the seeds instead. Raises WaitTimeout."""
        # A waiter is usable once.
        waiter = self._runtime.waiter()
        self._waiters[waiter] = None
        try:
            return await waiter.wait(until)
        finally:
            self._waiters.pop(waiter, None)

    def wake(self, outcome: object = True) -> None:
        """Wake all that wait for a new description; `outcome`: the error of a look-up of the seeds."""
        waiters, self._waiters = self._waiters, {}
        if waiters:
            self._waking.wake(waiters, lambda waiter: waiter.offer(outcome))

    def _timed_out(self, selector: Selector, words: str) -> ServerSelectionTimeoutError:
        if self.seeds is not None:
            return self.seeds.too_late(words)
        error = ServerSelectionTimeoutError(describe_failure(self.description, selector, words))
        error.phase = "selection" if words else None
        return error

    def _check_is_there(self, address: Address) -> None:
        """Fail instead of waiting if the server of a cursor is no longer part of the deployment."""
        description = self.description
        if description.topology_type is TopologyType.Unknown or address in description.server_descriptions():
            return
        error = AutoReconnect(f"{format_address(address)} has left the deployment, with the cursor or transaction")
        error.address = address
        raise error

    async def back_off(self, selector: Selector, failed: Address, until: float) -> None:
        """Wait until the loop time `until`, or until another server than `failed` newly becomes suitable."""
        before = self._suitable_addresses(selector) | {failed}
        while not self._suitable_addresses(selector) - before and await self._changes(until):
            pass

    async def pause(self, until: float) -> None:
        """Wait until the loop time `until`, or until the client is closed."""
        while await self._changes(until):
            pass

    async def _changes(self, until: float) -> bool:
        """Wait for a new description; return False if there is none before `until`, or the client is being closed."""
        if self.is_stopped:
            return False
        try:
            await self._next_change(until)
        except WaitTimeout:
            return False
        return True

    def _suitable_addresses(self, selector: Selector) -> set[Address]:
        try:
            return {server.address for server in self._find(selector, ())}
        except ConfigurationError:
            return set()  # the next attempt will raise it

    # --- results of operations and checks ---

    def _on_operation_error(
        self,
        server: Server,
        error: PyMongoError,
        generation: int,
        *,
        topology_version: Mapping[str, Any] | None = None,
        service_id: ObjectId | None = None,
    ) -> None:
        facts = ErrorFacts(error=error, topology_version=topology_version, service_id=service_id)
        self._on_error(server, facts, generation)

    def _on_establishment_error(self, server: Server, failure: EstablishmentError, generation: int) -> None:
        facts = ErrorFacts(
            error=failure.error,
            during_handshake=not failure.during_authentication,
            during_authentication=failure.during_authentication,
            service_id=failure.service_id,
        )
        self._on_error(server, facts, generation)

    def _on_error(self, server: Server, facts: ErrorFacts, generation: int) -> None:
        if self._is_closed or self._servers.get(server.address) is not server:
            return
        facts.is_stale_generation = server.pool.is_stale(generation, facts.service_id)
        effect = on_error(server.description, facts)
        self._mark(server, effect, facts.error, facts.service_id)
        if server.monitor is not None:
            if effect.cancel_check:
                server.monitor.cancel_check()
            if effect.request_check:
                server.monitor.request_check()

    def _on_check_failed(self, address: Address, error: PyMongoError) -> bool:
        server = self._servers.get(address)
        if server is None or self._is_closed:
            return False
        effect = on_check_error(server.description, error, now=self._runtime.now())
        self._mark(server, effect, error)
        return effect.request_check

    def _mark(
        self, server: Server, effect: ErrorEffect, error: PyMongoError, service_id: ObjectId | None = None
    ) -> None:
        if effect.description is not None:
            self._apply(effect.description)
        if effect.clear_pool:
            server.pool.clear(error, interrupt_in_use=effect.interrupt_in_use, service_id=service_id)

    # --- changes ---

    @property
    def takes_srv_records(self) -> bool:
        """Whether new SRV records change the servers (polling SRV records specification, "Implementation")."""
        return not self._is_closed and self.description.topology_type in (TopologyType.Unknown, TopologyType.Sharded)

    def use_hosts(self, addresses: Collection[Address]) -> None:
        """Set the servers to exactly these, unless SRV records ceased to matter during the look-up."""
        if self.takes_srv_records:
            self._replace(self.description.with_hosts(addresses), None)

    def _apply(self, reported: ServerDescription) -> None:
        if not self._is_closed:
            self._replace(self.description.apply(reported), reported)

    def _replace(self, new: TopologyDescription, reported: ServerDescription | None) -> None:
        old = self.description
        if new is old:
            return
        self.description = new
        self._forget_selections()
        if self._left:
            self._left = [left for left in self._left if left.operation_count]
        subject = reported.address if reported is not None else None
        change = TopologyChange.between(old, new, subject)
        is_first = not self._servers
        if is_first:
            self._publish_topology(old)
        changed = not is_first and bool(change.added or change.removed)
        if reported is not None:
            changed = self._publish_servers(old, reported, change) or changed
        opened = [self._add(new.server_descriptions()[address]) for address in change.added]
        for address in change.removed:
            self._remove(address)
        for address, description in new.server_descriptions().items():
            self._servers[address].description = description
        if changed:
            self._publish_topology(old)
        for address in change.deposed:
            monitor = self._servers[address].monitor
            if monitor is not None:
                monitor.request_check()
        if reported is not None and new.is_pool_ready_after(reported) and reported.address in self._servers:
            self._servers[reported.address].pool.ready()
        delay = self._exchanges.delay(self._runtime.now()) if change.added and change.removed else 0.0
        for server in opened:
            if server.monitor is not None:
                server.monitor.start(self._host, delay)
        self.wake()

    def _publish_servers(self, old: TopologyDescription, reported: ServerDescription, change: TopologyChange) -> bool:
        """Publish changes of the server in `reported` and of deposed primaries; return whether there were any."""
        changed = False
        for address in (reported.address, *change.deposed):
            before = old.server_descriptions()[address]
            after = self.description.server_descriptions().get(address, reported)
            if before != after:
                changed = True
                if self._publish:
                    self._publish(events.ServerDescriptionChangedEvent(self._id, address, before, after))
        return changed

    def _publish_topology(self, old: TopologyDescription) -> None:
        if self._publish:
            self._publish(events.TopologyDescriptionChangedEvent(self._id, old, self.description))

    def _add(self, description: ServerDescription) -> Server:
        address = description.address
        if self._publish:
            self._publish(events.ServerOpeningEvent(self._id, address))
        monitor = None
        if self.description.topology_type is not TopologyType.LoadBalanced:
            monitor = Monitor(
                address,
                self._monitor_settings,
                runtime=self._runtime,
                establisher=self._establisher,
                on_checked=self._apply,
                on_failed=self._on_check_failed,
                publish=self._publish,
            )

        def on_establishment_error(failure: EstablishmentError, generation: int) -> None:
            self._on_establishment_error(server, failure, generation)

        server = Server(description, self._make_pool(address, on_establishment_error), monitor)
        server.failed = partial(self._on_operation_error, server)
        self._servers[address] = server
        return server

    def _remove(self, address: Address) -> None:
        server = self._servers.pop(address)
        self._left = [left for left in (*self._left, server) if left.operation_count]
        if server.monitor is not None:
            server.monitor.stop()
        server.pool.close(is_server_gone=not self._is_closed)
        if self._publish:
            self._publish(events.ServerClosedEvent(self._id, address))

    # --- shutdown ---

    @property
    def is_busy(self) -> bool:
        """Whether operations are in flight."""
        return any(server.operation_count for server in (*self._servers.values(), *self._left))

    @property
    def expects_cursors(self) -> bool:
        """Whether a late reply may still open a cursor on a server, for a caller that left."""
        return any(server.pool.expects_cursors for server in (*self._servers.values(), *self._left))

    def stop(self) -> None:
        """Release all waiters for a server, a connection or the next attempt. Operations in flight continue."""
        self.is_stopped = True
        for server in self._servers.values():
            server.pool.refuse_waiting()
        self.wake()

    def close(self, *, now: bool = False) -> None:
        """Stop monitoring and close the pools; `now` also closes connections in use."""
        if self._is_closed:
            return
        self._is_closed = self.is_stopped = True
        self._forget_selections()
        if now:
            for server in self._left:
                server.pool.close_now()
        for server in list(self._servers.values()):
            if now:
                server.pool.close_now()
            self._remove(server.address)
        if self.seeds is None:
            old, self.description = self.description, TopologyDescription.empty()
            self._publish_topology(old)
            if self._publish:
                self._publish(events.TopologyClosedEvent(self._id))
        self.wake()
