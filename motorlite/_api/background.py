"""Shell: what the background work of a client refers to in the place of the client.

Monitors, pools and the host task live until the client ends. Were the client's core, which cursors and sessions share
with it, within their reach, a client that is dropped without `close` would live as long as its event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod

from motorlite._execution.pinning import opens_cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._api.lost_cursors import LostCursors
    from motorlite._execution.executor import Executor
    from motorlite._net.runtime import Host, Runtime
    from motorlite._topology.topology import Topology
    from motorlite.values import Address

# Seconds between two looks at the operations in flight: for those to wake it would cost each of them something.
_LOOK_EVERY: Final = 0.01


class Background:
    """What of one client lives on its event loop; `on_end` is a method of the client's, which this does not keep."""

    topology: Topology
    executor: Executor
    lost_cursors: LostCursors

    def __init__(self, runtime: Runtime, on_end: Callable[[], None], *, is_load_balanced: bool) -> None:
        self._runtime = runtime
        self._on_end = WeakMethod(on_end)
        self._is_load_balanced = is_load_balanced
        self.host: Host = runtime.host("motorlite client", self._host_ended)

    async def finish(self, grace: float) -> bool:
        """Refuse all waiting, and let what is in flight end; False when it has not after `grace` seconds."""
        runtime = self._runtime
        until = runtime.now() + grace
        self.executor.stop()
        while self.topology.is_busy:
            left = until - runtime.now()
            if left <= 0:
                return False
            await runtime.sleep(min(left, _LOOK_EVERY))
        return True

    async def join(self, grace: float) -> None:
        """Another task is closing the client: wait with it, and after `grace` seconds for nothing any more."""
        runtime = self._runtime
        until = runtime.now() + grace
        try:
            while not self.host.is_closed and (left := until - runtime.now()) > 0:
                await runtime.sleep(min(left, _LOOK_EVERY))
        finally:
            self.topology.close(now=True)
            await self.host.close()

    def end(self) -> None:
        """Close every connection and stop everything, without waiting. To be called on the event loop."""
        self.topology.close(now=True)
        self.host.stop()

    def _host_ended(self) -> None:
        """The client has ended, or its event loop is ending: leave no socket open."""
        on_end = self._on_end()
        if on_end is not None:
            on_end()
        self.topology.close(now=True)

    def learn_late(self, address: Address, reply: Mapping[str, Any]) -> bool:
        """Learn the cluster time from a reply whose caller had stopped waiting, and kill the cursor in it.

        False: only closing the connection ends that cursor, as behind a load balancer no other is sure to lead to it.
        """
        self.executor.gossip(reply)
        if self._is_load_balanced:
            return not opens_cursor(reply)
        self.lost_cursors.kill_opened(address, reply)
        return True

    def kill_opened(self, address: Address, reply: Mapping[str, Any]) -> None:
        """Kill the cursor that is in a reply which the caller does not get."""
        self.lost_cursors.kill_opened(address, reply)
