"""Shell: follows the SRV records of a sharded cluster (polling SRV records for mongos discovery specification)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from motorlite._options import srv as records
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.values import Address
    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Runtime
    from motorlite._options.options import SRV
    from motorlite._topology.topology import Topology

_logger = logging.getLogger("motorlite.topology")


class SRVPolling:
    """Polls the SRV records until the deployment turns out not to be a sharded cluster."""

    def __init__(
        self,
        srv: SRV,
        topology: Topology,
        *,
        time_to_live: float,
        heartbeat_frequency: float,
        timeout: float,
        runtime: Runtime,
        resolver: Resolver,
        below: Callable[[int], int],
    ) -> None:
        self._srv = srv
        self._topology = topology
        # Seconds until the next query.
        self._interval = records.rescan_interval(time_to_live)
        self._heartbeat_frequency = heartbeat_frequency
        # Timeout of a query in seconds.
        self._timeout = timeout
        self._runtime = runtime
        self._resolver = resolver
        # Returns a random whole number below its argument.
        self._below = below
        # What the last rescan complained of: a persistent failure is logged once.
        self._complaint: object = ""

    async def run(self) -> None:
        """Rescan while the topology follows SRV records; run this in the background."""
        while self._topology.follows_srv_records:
            await self._runtime.sleep(self._interval)
            if self._topology.follows_srv_records:
                try:
                    await self._rescan()
                except Exception as error:
                    # An unexpected response, or a bug. Polling continues.
                    self._failed(f"{records.query_name(self._srv)}: {error!r}", error)

    async def _rescan(self) -> None:
        name = records.query_name(self._srv)
        try:
            found = await self._resolver.srv(name, self._runtime.now() + self._timeout)
        except ConfigurationError as error:
            # Not by its text, which may say how long the name servers were asked.
            self._failed(str(error), kind=type(error.__cause__))
            return
        try:
            verified, refused = records.verify(self._srv, found.hosts)
            if not verified:
                self._failed(f"{name}: no SRV record points to a host in the domain")
                return
            records.check_count(self._srv, verified)
        except ConfigurationError as error:
            self._failed(str(error))
            return
        names = records.list_names(refused)
        self._complain(f"{name}: ignoring hosts that are not in the domain, or have port 0: {names}" if refused else "")
        self._interval = records.rescan_interval(found.time_to_live)
        self._topology.follow_srv_records(self._next(verified))

    def _next(self, verified: tuple[Address, ...]) -> tuple[Address, ...]:
        known = self._topology.description.server_descriptions()
        return records.next_hosts(self._srv, known, verified, self._below)

    def _failed(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        """Log `complaint`, keep the servers unchanged and schedule the next attempt soon ("Implementation").

        `kind`: what is the same for all complaints about one failure, if it is not their text.
        """
        self._complain(complaint, error, kind)
        self._interval = self._heartbeat_frequency

    def _complain(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        if complaint and (kind or complaint) != self._complaint:
            _logger.warning("rescan of SRV records: %s", complaint, exc_info=error)
        self._complaint = kind or complaint
