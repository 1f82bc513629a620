"""Pure: the settings of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.overload import WaitQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """The settings of a pool; times in seconds."""

    # 0: no limit.
    max_size: int
    min_size: int
    # How many connections may be established at the same time.
    max_connecting: int
    # None: idle connections are kept forever.
    max_idle_time: float | None
    # None: an operation waits as long as its deadline allows.
    wait_queue_timeout: float | None
    # 0: no timeout.
    connect_timeout: float
    # For each command that authenticates a connection that no operation waits for: timeoutMS of the client.
    command_timeout: float = inf
    maintenance_interval: float = 1.0
    # The settings of the application with their public names and units, for events.
    given: Mapping[str, int]
    # None: the queue is unbounded, as the pooling specification has it.
    wait_queue: WaitQueue | None = None
