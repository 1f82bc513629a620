"""Shell: a client's external dependencies. Tests replace clocks, streams and resolvers here."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from motorlite._net import current, host
from motorlite._net.host import utc_date
from motorlite._topology.monitor import MIN_HEARTBEAT_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Connector, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.parts import ProxyOptions


def _connector(runtime: Runtime, tls: TLSContext | None, proxy: ProxyOptions | None) -> Connector:
    return partial(runtime.connect, tls=tls, proxy=proxy)


def _resolver(runtime: Runtime) -> Resolver:
    from motorlite._net.dns import DNSResolver

    return DNSResolver(runtime)


def _plain_connector(runtime: Runtime) -> Connector:
    return partial(runtime.connect, tls=None)


class Dependencies(NamedTuple):
    """The sources of a client's event loop, connections, SRV records and randomness."""

    runtime: Callable[[], Runtime] = current.current_runtime
    connector: Callable[[Runtime, TLSContext | None, ProxyOptions | None], Connector] = _connector
    resolver: Callable[[Runtime], Resolver] = _resolver
    jitter: Callable[[], float] = host.jitter
    below: Callable[[int], int] = host.below
    nonce: Callable[[], bytes] = host.nonce
    # For authentication: plain connections to cloud metadata services, and the UTC time.
    http: Callable[[Runtime], Connector] = _plain_connector
    date: Callable[[], str] = utc_date
    min_heartbeat_interval: float = MIN_HEARTBEAT_INTERVAL
    # False: commands have values that must stay secret, so there are no events, traces and command messages.
    is_observed: bool = True


PRODUCTION = Dependencies()
