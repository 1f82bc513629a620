"""Pure: the executor's interface to a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from motorlite._base.deadline import Deadline
    from motorlite._base.values import Address
    from motorlite._topology.selection import Selector
    from motorlite._topology.server import Server
    from motorlite._topology.topology_description import TopologyDescription


class Deployment(Protocol):
    """A topology, or its placeholder until the seeds are known."""

    description: TopologyDescription

    def select_now(self, selector: Selector, deprioritized: Collection[Address] = ()) -> Server | None:
        """Return a suitable server, or None if none is known right now."""
        ...

    def select(
        self,
        selector: Selector,
        deadline: Deadline,
        deprioritized: Collection[Address],
        until: float,
        on_wait: Callable[[float], None] | None = None,
    ) -> Coroutine[Any, Any, Server]:
        """Wait for a suitable server, until the loop time `until` or the deadline."""
        ...

    def back_off(self, selector: Selector, failed: Address, until: float) -> Coroutine[Any, Any, None]:
        """Wait until the loop time `until`, or until a server other than `failed` becomes suitable."""
        ...

    def pause(self, until: float) -> Coroutine[Any, Any, None]:
        """Wait until the loop time `until`, or until the client closes."""
        ...

    def stop(self) -> None:
        """Release all waiters. Operations in flight continue."""
        ...
