"""Pure: the settings of a client's parts, from its options."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._connection.metadata import client_metadata
from motorlite._pool.options import PoolOptions
from motorlite._topology.topology_description import TopologyDescription

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Document
    from motorlite._net.host.platform_facts import PlatformFacts
    from motorlite._options.options import ClientOptions
    from motorlite.driver_info import DriverInfo
    from motorlite.stats import ClientStats

# With this many operations, a single priority is no coincidence.
_ENOUGH: Final = 100


def initial_description(options: ClientOptions) -> TopologyDescription:
    """Return the description of the deployment before any connection."""
    return TopologyDescription.initial(
        options.seeds,
        direct_connection=bool(options.direct_connection),
        replica_set=options.replica_set,
        load_balanced=options.load_balanced,
    )


def pool_options(options: ClientOptions) -> PoolOptions:
    """Return the limits of each pool."""
    return PoolOptions(
        max_size=options.max_pool_size,
        min_size=options.min_pool_size,
        max_connecting=options.max_connecting,
        max_idle_time=options.max_idle_time,
        wait_queue_timeout=options.wait_queue_timeout,
        connect_timeout=options.connect_timeout or 0.0,
        # None and 0 are no limit.
        command_timeout=options.timeout or inf,
        wait_queue=options.wait_queue,
        given=options.pool_options.non_default_options,
    )


class Libraries:
    """The libraries on top of the driver, for the handshakes of new connections."""

    __slots__ = ("infos",)

    def __init__(self, infos: tuple[DriverInfo, ...]) -> None:
        self.infos: tuple[DriverInfo, ...] = infos

    def metadata(
        self, platform: PlatformFacts, environment: Mapping[str, str], app_name: str | None
    ) -> Callable[[], Document]:
        """Return a function that makes the client metadata of handshakes."""
        return lambda: client_metadata(app_name=app_name, environment=environment, platform=platform, infos=self.infos)


def late_queue_timeout(options: ClientOptions) -> str | None:
    """Return a warning if the timeout of the wait queue has no effect, because timeoutMS passes first; else None."""
    queue = options.wait_queue
    if queue is None or queue.strategy != "queue" or not options.timeout or float(queue.timeout) < options.timeout:
        return None
    return (
        f"the timeout of wait_queue ({queue.timeout} s) is not below timeoutMS ({options.timeout} s): operations run "
        "out of time while they wait, instead of being refused early enough to do something else"
    )


def unread_call_options(options: ClientOptions) -> set[str]:
    """Return the settings of `motorlite.call_options` that a client with these options ignores."""
    queue = options.wait_queue
    queues = [queue, *(limit.queue for limit in (options.rate_limit or {}).values())]
    unread = set()
    if not any(each is not None and each.ordering == "priority" for each in queues):
        unread.add("priority")
    if queue is None or queue.strategy != "degrade":
        unread.add("fallback")
    return unread


def unused_priorities(options: ClientOptions, stats: Callable[[], ClientStats]) -> str | None:
    """Return a warning if a queue that orders by priority had many operations of one priority only; else None."""
    queue = options.wait_queue
    if queue is None or queue.ordering != "priority":
        return None
    let_in: Counter[int] = Counter()
    for server in stats().servers.values():
        if server.queue is not None:
            let_in.update(server.queue.priorities)
    if len(let_in) != 1 or let_in.total() < _ENOUGH:
        return None
    return (
        f"ordering='priority' of wait_queue has had no effect: all {let_in.total():,} operations that waited had the "
        "same priority. Set priorities with motorlite.call_options(priority=...), or leave the ordering out"
    )
