"""Shell: the settings of a client's parts, from its options."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final

from motorlite._connection.metadata import ENVIRONMENT_VARIABLES, client_metadata, faas_provider
from motorlite._net.host import read_environment
from motorlite._options.options import given_to_pools
from motorlite._pool.state import PoolSettings
from motorlite._retry.decision import RetrySettings
from motorlite._topology.monitor import MonitorSettings
from motorlite._topology.topology_description import TopologyDescription
from motorlite.retry.overload import is_asked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from motorlite._base.values import Document
    from motorlite._net.host import PlatformFacts
    from motorlite._options.options import ClientOptions
    from motorlite.driver_info import DriverInfo
    from motorlite.retry import RetryBudget
    from motorlite.stats import ClientStats, QueueStats

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


def pool_options(options: ClientOptions) -> PoolSettings:
    """Return the limits of each pool."""
    return PoolSettings(
        max_size=options.max_pool_size,
        min_size=options.min_pool_size,
        max_connecting=options.max_connecting,
        max_idle_time=options.max_idle_time,
        wait_queue_timeout=options.wait_queue_timeout,
        connect_timeout=options.connect_timeout or 0.0,
        # None and 0 are no limit.
        command_timeout=options.timeout or inf,
        wait_queue=options.wait_queue,
        given=given_to_pools(options),
    )


def monitor_settings(options: ClientOptions, min_heartbeat_interval: float) -> MonitorSettings:
    """Return the settings of each server's monitor."""
    mode = options.server_monitoring_mode
    # The process may be frozen between two calls.
    is_faas = faas_provider(read_environment(ENVIRONMENT_VARIABLES)) is not None
    return MonitorSettings(
        heartbeat_frequency=options.heartbeat_frequency,
        connect_timeout=options.connect_timeout or 0.0,
        streaming=mode == "stream" or (mode == "auto" and not is_faas),
        server_api=options.server_api,
        min_heartbeat_interval=min_heartbeat_interval,
    )


def retry_settings(options: ClientOptions, bucket: RetryBudget | None, jitter: Callable[[], float]) -> RetrySettings:
    """Return the settings of retries. `jitter`: returns a random number in [0, 1)."""
    return RetrySettings(
        options.overload_policy,
        bucket,
        jitter,
        retry_reads=options.retry_reads,
        retry_writes=options.retry_writes,
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
    if not is_asked(options.retry_strategy):
        unread.add("context")
    return unread


def unused_priorities(options: ClientOptions, stats: Callable[[], ClientStats]) -> Iterator[str]:
    """Yield a warning for each option whose queue orders by priority and had many operations of one priority only."""
    queue = options.wait_queue
    if queue is not None and queue.ordering == "priority":
        yield from _unused("wait_queue", (server.queue for server in stats().servers.values()))
    limits = {name for name, limit in (options.rate_limit or {}).items() if limit.wait_queue.ordering == "priority"}
    if limits:
        found = stats().rate_limits
        yield from _unused("rate_limit", (found[name].queue for name in limits if name in found))


def _unused(option: str, queues: Iterable[QueueStats | None]) -> Iterator[str]:
    let_in: Counter[int] = Counter()
    for queue in queues:
        if queue is not None:
            let_in.update(queue.priorities)
    if len(let_in) == 1 and let_in.total() >= _ENOUGH:
        yield (
            f"ordering='priority' of {option} has had no effect: all {let_in.total():,} operations that waited had "
            "the same priority. Set priorities with motorlite.call_options(priority=...), or leave the ordering out"
        )
