"""Shell: the object that a client's background work references instead of the client.

Monitors, pools and the host task live until the client ends. They must not reference the client's core, which the
client shares with its cursors and sessions. Otherwise a client dropped without `close` would live as long as its event
loop.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import WeakMethod

from motorlite._client.leftovers import LostCursors, LostTransactions
from motorlite._client.outside_requests import OutsideRequests
from motorlite._execution.pins import opens_cursor
from motorlite._net.host import leave_to_parent
from motorlite._net.runtime import WaitTimeout
from motorlite.topology_description import ServerType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from weakref import WeakSet

    from motorlite._base.values import Address
    from motorlite._client.abandoned_operations import AbandonedOperations
    from motorlite._execution.executor import Executor
    from motorlite._net.runtime import BackgroundTask, Host, Runtime
    from motorlite._operations.cursors import LostCursor
    from motorlite._options.options import ClientOptions
    from motorlite._topology.topology import Topology

# Seconds between checks for operations in flight. Having operations wake the closer would slow each of them down.
_LOOK_EVERY: Final = 0.01
# Seconds that what cancelled tasks have left is ended for, on the servers, before waiting operations are refused.
_LAST_KILLS: Final = 1.0
# Turns of the event loop that released operations get until they have ended.
_TURNS: Final = 10


class MayBeOpen(Protocol):
    """A cursor of the application's."""

    cursor_id: int

    def to_kill(self) -> LostCursor | None:
        """Return the cursor on the server, unless it is closed or has a command in flight."""
        ...


def _no_client() -> None:
    """Stand in for a weak reference to the client, which has a new background."""


class Background:
    """The part of one client that lives on its event loop. `on_end` is a method of the client, held weakly."""

    topology: Topology
    executor: Executor
    lost_cursors: LostCursors
    lost_transactions: LostTransactions
    # None without the option killAbandoned.
    abandoned_operations: AbandonedOperations | None = None
    # Reads the default maxTimeMS from the deployment; None if no option asks for it.
    default_max_time: BackgroundTask | None = None

    def __init__(
        self,
        runtime: Runtime,
        on_end: Callable[[], None],
        open_cursors: WeakSet[MayBeOpen],
        options: ClientOptions,
    ) -> None:
        self._runtime = runtime
        # All cursors that have been open on a server.
        self._open_cursors = open_cursors
        self._on_end: Callable[[], Callable[[], None] | None] = WeakMethod(on_end)
        # Those of the client, with the seeds and options that DNS records add before any server is known.
        self.options: ClientOptions = options
        self.outside_requests: OutsideRequests = OutsideRequests()
        # Until it has all its parts: an interrupt (Ctrl-C) may come before.
        self._is_abandoned = True
        self.host: Host = runtime.host("motorlite client", self._host_ended)

    def serve(self, executor: Executor, *, is_strict: bool) -> None:
        """Clean up on the servers, with `executor`, what operations leave behind. `is_strict`: in the Stable API."""
        facilities = executor, self.host.spawn, self._runtime.sleep, self._runtime.now
        self.executor = executor
        self.lost_cursors = LostCursors(*facilities, is_load_balanced=lambda: self.options.load_balanced)
        self.lost_transactions = LostTransactions(*facilities)
        if self.options.kill_abandoned:
            from motorlite._client.abandoned_operations import AbandonedOperations

            self.abandoned_operations = AbandonedOperations(*facilities, is_strict=is_strict)
        self._is_abandoned = False

    async def finish(self, grace: float) -> bool:
        """Release all waiters, and wait for operations in flight.

        Returns False if some remain after `grace` seconds, or if the event loop is ending and so nothing is cleaned up.
        """
        runtime = self._runtime
        until = runtime.now() + grace
        if self.default_max_time is not None:
            self.default_max_time.cancel()
        abandoned = self.abandoned_operations
        if abandoned is not None:
            abandoned.stop()
        await self._receive_dropped(until)
        # A program that ends cancels its tasks just before it closes its client. First, because the commands that kill
        # and abort may need a new connection: that of the cancelled operation still waits for a reply.
        kill_until = runtime.now() + min(grace, _LAST_KILLS)
        while runtime.now() < kill_until and self._has_leftovers() and not self.host.is_closed:
            await runtime.sleep(_LOOK_EVERY)
        if abandoned is not None:
            abandoned.cancel()
        self.executor.stop()
        if self.executor.is_pausing:
            # The released operations give their sessions back as soon as they run. Do not wait for retry strategies.
            for _ in range(_TURNS):
                await runtime.sleep(0)
        while self._is_busy():
            left = until - runtime.now()
            if left <= 0 or self.host.is_closed:
                return False
            await runtime.sleep(min(left, _LOOK_EVERY))
        return True

    def _has_leftovers(self) -> bool:
        """Whether commands that may still need a connection are ending something on the servers."""
        abandoned = self.abandoned_operations
        if self.lost_transactions.is_busy or (abandoned is not None and abandoned.is_busy):
            return True
        servers = self.topology.description.server_descriptions()
        return self.lost_cursors.are_killed_on(
            address for address, server in servers.items() if server.server_type is not ServerType.Unknown
        )

    async def _receive_dropped(self, until: float) -> None:
        """Wait until the cursors and sessions dropped before this have arrived: `run_soon` keeps their order."""
        arrival = self._runtime.waiter()
        self._runtime.run_soon(arrival.offer, True)
        with suppress(WaitTimeout):
            await arrival.wait(until)

    def _is_busy(self) -> bool:
        """End unused cursors and transactions on the servers. Return whether anything is still in flight."""
        self.lost_transactions.abort_all()
        for cursor in list(self._open_cursors):
            lost = cursor.to_kill()
            if lost is not None:
                self.lost_cursors.kill(lost)
            if lost is not None or not cursor.cursor_id:
                self._open_cursors.discard(cursor)
        if self.topology.expects_cursors:  # which are killed as soon as they are known
            return True
        if self.outside_requests.is_busy:
            return True
        return self.topology.is_busy or self.lost_transactions.is_busy or self.lost_cursors.is_busy

    async def join(self, grace: float) -> None:
        """Wait while another task closes the client, for at most `grace` seconds."""
        runtime = self._runtime
        until = runtime.now() + grace
        try:
            while not self.host.is_closed and (left := until - runtime.now()) > 0:
                await runtime.sleep(min(left, _LOOK_EVERY))
        finally:
            await self.close()

    async def close(self) -> None:
        """Close every connection and stop everything."""
        self.topology.close(now=True)
        self.outside_requests.end()
        await self.host.close()

    def end(self) -> None:
        """Close every connection and stop everything, without waiting. Call on the event loop."""
        self.topology.close(now=True)
        self.host.stop()

    def abandon(self) -> None:
        """Stop what was begun for a client that could not be bound to its event loop. Nothing of it has run yet."""
        self._is_abandoned = True
        self.host.stop()

    def leave_to_parent(self) -> None:
        """In a forked child: keep all of it unchanged, detached from the client.

        If it were freed, transports and tasks would warn, and close or cancel what belongs to the parent.
        """
        self._on_end = _no_client
        leave_to_parent(self)

    def _host_ended(self) -> None:
        """Leave no socket open: the client has ended, or its event loop is ending."""
        if self._is_abandoned:
            return
        on_end = self._on_end()
        if on_end is not None:
            on_end()
        self.topology.close(now=True)

    def learn_late(self, address: Address, reply: Mapping[str, Any]) -> bool:
        """Learn the cluster time from a reply whose caller stopped waiting, and kill the cursor in it.

        Returns False if only closing the connection ends that cursor: behind a load balancer, no other connection is
        sure to reach it.
        """
        self.executor.gossip(reply)
        if self.options.load_balanced:
            return not opens_cursor(reply)
        self.lost_cursors.kill_opened(address, reply)
        return True

    def kill_opened(self, address: Address, reply: Mapping[str, Any]) -> None:
        """Kill the cursor in a reply that the caller never receives."""
        self.lost_cursors.kill_opened(address, reply)

    def kill_abandoned(self, address: Address, comment: str) -> None:
        """Kill an operation that its caller left and that the server would not end by itself."""
        if self.abandoned_operations is not None:
            self.abandoned_operations.kill(address, comment)
