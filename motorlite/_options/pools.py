"""Pure: the options of a client's connection pools, as `ClientOptions.pool_options` shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite.driver_info import DriverInfo
    from motorlite.server_api import ServerApi


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """The options of each connection pool. Times are in seconds; None means no limit.

    Attributes:
        max_pool_size: The maximum number of connections; 0 for no limit.
        min_pool_size: The number of connections that are kept open.
        max_connecting: The maximum number of connections that are established at the same time.
        max_idle_time_seconds: How long a connection may be idle before it is closed.
        connect_timeout: Time limit for establishing a connection.
        socket_timeout: Time limit for a request and its reply.
        wait_queue_timeout: Time limit for getting a connection.
        tls_allow_invalid_hostnames: Whether certificates may be those of other hosts.
        appname: The name of the application, for the server's log.
        driver: The library on top of the driver, or None.
        server_api: The Stable API that commands declare, or None.
        load_balanced: Whether the servers are behind a load balancer.
        non_default_options: The options of the pool that were set explicitly, by their names in connection strings,
            times in milliseconds.
    """

    __module__ = "motorlite.client_options"

    max_pool_size: int
    min_pool_size: int
    max_connecting: int
    max_idle_time_seconds: float | None
    connect_timeout: float | None
    socket_timeout: float | None
    wait_queue_timeout: float | None
    tls_allow_invalid_hostnames: bool
    appname: str | None
    driver: DriverInfo | None
    server_api: ServerApi | None
    load_balanced: bool
    non_default_options: Mapping[str, Any] = field(hash=False)
