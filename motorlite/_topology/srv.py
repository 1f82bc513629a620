"""Shell: the hosts of a ``mongodb+srv://`` connection string: discovery, and polling for sharded clusters."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from motorlite._options import srv as records
from motorlite._options.options import with_srv_records
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError, ServerSelectionTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from motorlite._base.values import Address
    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Host, Runtime
    from motorlite._options.options import ClientOptions
    from motorlite._options.parts import SRV
    from motorlite._topology.topology import Topology

_logger = logging.getLogger("motorlite.topology")


class SRVSeeds:
    """The SRV and TXT records of a client: the seeds of its topology, and the servers of a sharded cluster.

    Nothing is looked up before the first operation, because a constructor cannot wait. All operations share the
    look-up. If it fails, all waiters raise its error, and the next operation starts another one (initial DNS seedlist
    discovery specification). Afterwards, the records are polled until the deployment turns out not to be a sharded
    cluster (polling SRV records for mongos discovery specification).
    """

    def __init__(
        self,
        srv: SRV,
        options: ClientOptions,
        topology: Topology,
        *,
        timeout: float,
        runtime: Runtime,
        host: Host,
        resolver: Resolver,
        below: Callable[[int], int],
        open_with: Callable[[], Callable[[ClientOptions], None] | None],
    ) -> None:
        self._srv = srv
        self._options = options
        self._topology = topology
        # Timeout in seconds for both queries together.
        self._timeout = timeout
        self._runtime = runtime
        self._host = host
        self._resolver = resolver
        # Returns a random whole number below its argument.
        self._below = below
        # Returns what opens the topology with the complete options; None if the client was dropped.
        self._open_with = open_with
        self._is_looking_up = False
        # Seconds until the next query.
        self._interval = 0.0
        # What the last rescan complained of: a persistent failure is logged once.
        self._complaint: object = ""

    # --- the look-up ---

    def look_up(self) -> None:
        """Begin to look the records up, if nothing else does. The outcome goes to the waiters of the topology."""
        if not self._is_looking_up:
            self._is_looking_up = True
            # In the background, because the operation that starts it may be cancelled while others wait.
            self._host.spawn(self._run, name=f"SRV records {self._srv.host_name}")

    def too_late(self, words: str) -> ServerSelectionTimeoutError:
        """Return the error of an operation that had no time to wait for the records."""
        name = self._srv.host_name
        error = ServerSelectionTimeoutError(f"{name}: its SRV and TXT records were not found {words}")
        error.phase = "selection"
        return error

    @staticmethod
    def own_error(error: Exception) -> PyMongoError:
        """Return a new error for one waiter: waiters share the cause, but not what retrying adds to the error."""
        if isinstance(error, ConfigurationError):
            return type(error)(str(error))
        return ConfigurationError(f"the SRV and TXT records cannot be used: {error!r}")

    async def _run(self) -> None:
        try:
            options, time_to_live = await self._ask()
            if self._topology.is_stopped:
                return
            open_with = self._open_with()
            if open_with is None:
                raise InvalidOperation("the client was dropped")
            open_with(options)
        except Exception as error:
            # Exceptions of every kind are passed to the waiters.
            self._is_looking_up = False
            self._topology.wake(error)
        else:
            self._interval = records.rescan_interval(time_to_live)
            await self._poll()

    async def _ask(self) -> tuple[ClientOptions, float]:
        srv, resolver = self._srv, self._resolver
        until = self._runtime.now() + self._timeout
        found = await resolver.srv(records.query_name(srv), until)
        seeds = records.initial_seeds(srv, found, self._below)
        text = records.txt_record(srv, await resolver.txt(records.txt_name(srv), until))
        return with_srv_records(self._options, seeds, text), found.time_to_live

    # --- polling ---

    async def _poll(self) -> None:
        """Rescan while the topology follows SRV records."""
        while self._topology.takes_srv_records:
            await self._runtime.sleep(self._interval)
            if self._topology.takes_srv_records:
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
        self._topology.use_hosts(self._next(verified))

    def _next(self, verified: tuple[Address, ...]) -> tuple[Address, ...]:
        known = self._topology.description.server_descriptions()
        return records.next_hosts(self._srv, known, verified, self._below)

    def _failed(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        """Log `complaint`, keep the servers unchanged and schedule the next attempt soon ("Implementation").

        `kind`: what is the same for all complaints about one failure, if it is not their text.
        """
        self._complain(complaint, error, kind)
        self._interval = self._options.heartbeat_frequency

    def _complain(self, complaint: str, error: Exception | None = None, kind: object = None) -> None:
        if complaint and (kind or complaint) != self._complaint:
            _logger.warning("rescan of SRV records: %s", complaint, exc_info=error)
        self._complaint = kind or complaint
