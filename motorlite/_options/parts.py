"""Pure: parts of a client's configuration that most clients do not have. They are imported with the first that has one.

`ClientOptions.pool_options` makes its `PoolOptions` when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from motorlite._options.table import value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._options.uri import ParsedURI
    from motorlite.driver_info import DriverInfo
    from motorlite.server_api import ServerApi

__all__ = ["SRV", "PoolOptions", "ProxyOptions", "TLSOptions"]


@dataclass(frozen=True, slots=True)
class SRV:
    """The source of the seeds for a connection string that begins with ``mongodb+srv://``.

    Attributes:
        host_name: The name whose SRV records are looked up.
        service_name: The service name in that lookup.
        max_hosts: The maximum number of hosts to use; 0 means all.
        host_validator: The application's own rule for the hosts; None: they must be below the domain.
    """

    host_name: str
    service_name: str
    max_hosts: int
    host_validator: Callable[[str], bool] | None
    # Evaluated again once the records are known: keyword arguments have already replaced options.
    _settings: ParsedURI = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TLSOptions:
    """How to verify servers and identify the client.

    Python's ssl module checks no OCSP endpoint and no revocation list except `crl_file`, so both `disable_` fields are
    effectively true.
    """

    ca_file: str | None = None
    certificate_key_file: str | None = None
    certificate_key_file_password: str | None = field(default=None, repr=False)
    crl_file: str | None = None
    allow_invalid_certificates: bool = False
    allow_invalid_hostnames: bool = False
    disable_ocsp_endpoint_check: bool = False
    disable_certificate_revocation_check: bool = False


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """A SOCKS5 proxy (SOCKS5 support specification)."""

    host: str
    port: int = value_of("proxyPort", {})
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


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


for _each in (SRV, TLSOptions, ProxyOptions, PoolOptions):
    _each.__module__ = "motorlite.client_options"
