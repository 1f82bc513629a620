"""Shell: the composition root: puts one client's machinery together and binds it to the running event loop."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, cast
from weakref import ref

from bson.objectid import ObjectId

from motorlite._api.background import Background
from motorlite._api.core import GRACE
from motorlite._api.log_documents import LENGTH_VARIABLES, max_document_length
from motorlite._api.lost_cursors import LostCursors
from motorlite._api.publishing import Publishers, make_publishers
from motorlite._execution.executor import Executor
from motorlite._execution.retry import RetrySettings
from motorlite._execution.run import new_operation_id
from motorlite._execution.session import SessionPool
from motorlite._execution.token_bucket import TokenBucket
from motorlite._net import current, randomness
from motorlite._net.dns import DNSResolver
from motorlite._net.host_files import utc_date
from motorlite._net.platform_facts import read_environment, read_platform_facts
from motorlite._net.tls import make_context
from motorlite._operations.end_sessions import EndSessions, session_batches
from motorlite._pool.auth.mechanisms import check_mechanism
from motorlite._pool.authenticate import Authenticator
from motorlite._pool.establish import Establisher, HandshakeSettings
from motorlite._pool.handshake import server_api_fields
from motorlite._pool.metadata import ENVIRONMENT_VARIABLES, client_metadata, faas_provider, with_info
from motorlite._pool.pool import Pool
from motorlite._pool.state import PoolOptions
from motorlite._topology.monitor import MonitorSettings
from motorlite._topology.srv_discovery import SRVDiscovery
from motorlite._topology.srv_polling import SRVPolling
from motorlite._topology.topology import Topology, TopologySettings
from motorlite._topology.topology_description import TopologyDescription
from motorlite._wire.compression import make_compressors
from motorlite.deadline import Deadline
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError
from motorlite.options import DEFAULT_CONNECT_TIMEOUT, shown_secret
from motorlite.read_preferences import ReadPreference
from motorlite.retry import OverloadRetry
from motorlite.stats import ClientStats, ServerStats
from motorlite.values import format_address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._execution.lost_cursor import LostCursor
    from motorlite._execution.session import Session
    from motorlite._net.dns import Resolver
    from motorlite._net.runtime import Connector, Host, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._pool.establish import EstablishmentError
    from motorlite.driver_info import DriverInfo
    from motorlite.options import SRV, ClientOptions, ProxyOptions
    from motorlite.values import Address, Document

# How long the farewell to the server may take, seconds.
_FAREWELL = 1.0


def _connector(runtime: Runtime, tls: TLSContext | None, proxy: ProxyOptions | None) -> Connector:
    return partial(runtime.connect, tls=tls, proxy=proxy)


def _plain_connector(runtime: Runtime) -> Connector:
    return partial(runtime.connect, tls=None)


@dataclass(frozen=True, slots=True)
class World:
    """Where a client gets its event loop, its connections, its SRV records and its randomness from."""

    runtime: Callable[[], Runtime] = current.current_runtime
    connector: Callable[[Runtime, TLSContext | None, ProxyOptions | None], Connector] = _connector
    resolver: Callable[[Runtime], Resolver] = DNSResolver
    jitter: Callable[[], float] = randomness.jitter
    below: Callable[[int], int] = randomness.below
    nonce: Callable[[], bytes] = randomness.nonce
    # Plain connections to the metadata services of clouds, and UTC, for authentication.
    http: Callable[[Runtime], Connector] = _plain_connector
    date: Callable[[], str] = utc_date
    min_heartbeat_interval: float = 0.5


REAL = World()


def overload_policy(options: ClientOptions) -> OverloadRetry:
    """The preset, with the single options that were set on top of it."""
    preset: OverloadRetry | None = options.overload_policy
    explicit = options.explicit
    return (OverloadRetry() if preset is None else preset).with_options(
        options.max_adaptive_retries if "maxAdaptiveRetries" in explicit else None,
        options.adaptive_retries if "adaptiveRetries" in explicit else None,
        options.enable_overload_retargeting if "enableOverloadRetargeting" in explicit else None,
    )


class _Libraries:
    """The libraries on top of the driver, for the handshakes of new connections."""

    __slots__ = ("infos",)

    def __init__(self, infos: tuple[DriverInfo, ...]) -> None:
        self.infos = infos


class Core:
    """One client's machinery. Cheap to make; everything that needs an event loop is made by the first `enter`.

    Whatever belongs to the client refers to it, and what runs in the background does not (`background`): when the last
    of them is dropped, the client ends.
    """

    def __init__(self, options: ClientOptions, world: World = REAL) -> None:
        # At first, for `__del__`.
        self._runtime: Runtime | None = None
        # Those of the TXT record are in it after the first operation.
        self.options = options
        self.policy = overload_policy(options)
        # None: retries are not budgeted.
        self._bucket = TokenBucket(self.policy.token_capacity) if self.policy.is_budgeted else None
        if options.credentials is not None:
            check_mechanism(options.credentials)
        secret = shown_secret(options)
        if secret is not None:
            # The caller of the client's constructor, which called this one.
            warnings.warn(
                f"without TLS, everyone on the way to the server can read {secret}: set tls=true", stacklevel=3
            )
        # Made here, so that a file that cannot be used is found out by who names it.
        self._tls = make_context(options.tls) if options.tls is not None else None
        self._compressors, missing = make_compressors(options.compressors, options.zlib_compression_level)
        for name in missing:
            warnings.warn(f"compressor {name!r} is ignored: it needs motorlite[{name}]", stacklevel=3)
        self.sessions = SessionPool(randomness.session_id)
        self._libraries = _Libraries((options.driver_info,) if options.driver_info else ())
        self._world = world
        length = max_document_length(read_environment(LENGTH_VARIABLES))
        self._publishers: Publishers = make_publishers(options.event_listeners, max_document_length=length)
        self._is_closed = False
        # It was not the application that closed it.
        self._has_lost_loop = False
        self._fork_generation = current.fork_generation
        # Set by the first `enter`.
        self._background: Background
        self.topology: Topology
        self.executor: Executor
        self.now: Callable[[], float]
        self.scope_deadline: Callable[[], float]

    # --- binding ---

    def enter(self) -> None:
        """Bind to the running event loop at the first call, make sure of it at the others.

        Raises:
            InvalidOperation: no event loop is running, it is another one, the process was forked, or the client was
                closed.
            ConfigurationError: an option of TLS or authentication in the connection string is wrong.
        """
        runtime = self._runtime
        if runtime is None or self._is_closed or self._fork_generation != current.fork_generation:
            self._enter_first()
        elif not runtime.is_current():
            self._refuse()

    @property
    def _has_forked(self) -> bool:
        """Whether this is a child of the process that made the client."""
        return self._fork_generation != current.fork_generation

    def _enter_first(self) -> None:
        if self._is_closed:
            if self._has_lost_loop:
                raise InvalidOperation(
                    "the event loop that the client was bound to has ended; make a client for each event loop"
                )
            raise InvalidOperation("the client is closed")
        if self._has_forked:
            raise InvalidOperation("the client was made before a fork; make a new one in the child process")
        if self.options.refusals:
            # Before anything is looked up or connected: without these options it would be less safe than was meant.
            raise ConfigurationError(
                f"nothing is sent, since the connection string is wrong: {'; '.join(self.options.refusals)}"
            )
        if self._runtime is None:
            self._bind(self._world.runtime())

    def _refuse(self) -> None:
        raise InvalidOperation(
            "the client is bound to the event loop of its first operation and cannot be used from another one; "
            "make a client for each event loop (in tests: a fixture with the scope of the loop)"
        )

    def _bind(self, runtime: Runtime) -> None:
        options = self.options
        background = Background(runtime, self._lose_loop, is_load_balanced=options.load_balanced)
        connector = self._world.connector(runtime, self._tls, options.proxy)
        if options.srv is None:
            topology = self._topology(runtime, background, connector, options)
        else:
            # Until it is replaced it is only asked for what a discovery has as well.
            topology = cast("Topology", self._discovery(options.srv, runtime, background, connector))
        self.topology = background.topology = topology
        self.executor = background.executor = self._executor(runtime, background)
        background.lost_cursors = LostCursors(
            self.executor, spawn=background.host.spawn, sleep=runtime.sleep, now=runtime.now
        )
        self.now = runtime.now
        self.scope_deadline = runtime.scope_deadline
        self._background = background
        self._runtime = runtime

    def _discovery(self, srv: SRV, runtime: Runtime, background: Background, connector: Connector) -> SRVDiscovery:
        """What takes the topology's place until it can be made."""
        options, below, host = self.options, self._world.below, background.host
        resolver = self._world.resolver(runtime)
        timeout = options.connect_timeout or DEFAULT_CONNECT_TIMEOUT
        reference = ref(self)

        def found(complete: ClientOptions, time_to_live: float) -> Topology:
            core = reference()
            if core is None:
                raise InvalidOperation("the client was dropped")
            core.options = complete
            core.topology = background.topology = topology = core._topology(runtime, background, connector, complete)
            core.executor.use(topology)
            polling = SRVPolling(
                srv,
                topology,
                time_to_live=time_to_live,
                heartbeat_frequency=options.heartbeat_frequency,
                timeout=timeout,
                runtime=runtime,
                resolver=resolver,
                below=below,
            )
            host.spawn(polling.run)
            return topology

        return SRVDiscovery(
            srv,
            options,
            _initial_description(options),
            timeout=timeout,
            runtime=runtime,
            host=host,
            resolver=resolver,
            below=below,
            found=found,
        )

    def _topology(
        self, runtime: Runtime, background: Background, connector: Connector, options: ClientOptions
    ) -> Topology:
        """The deployment, from options with seeds; its servers are monitored from now on."""
        world, publishers, host = self._world, self._publishers, background.host
        environment = read_environment(ENVIRONMENT_VARIABLES)
        is_faas = faas_provider(environment) is not None
        settings = HandshakeSettings(
            self._metadata(runtime, environment, options.app_name),
            load_balanced=options.load_balanced,
            compressors=self._compressors,
            backpressure=self.policy.handshake,
            server_api=options.server_api,
        )
        authenticator = self._authenticator(runtime, host, options)
        establisher = Establisher(runtime, connector, settings, authenticator)
        pool_options = _pool_options(options)

        def make_pool(address: Address, on_error: Callable[[EstablishmentError, int], None]) -> Pool:
            return Pool(
                address,
                pool_options,
                runtime=runtime,
                host=host,
                establisher=establisher,
                on_error=on_error,
                on_late_reply=background.learn_late,
                publish=publishers.pool,
            )

        mode = options.server_monitoring_mode
        return Topology(
            ObjectId(),
            _initial_description(options),
            TopologySettings(
                server_selection_timeout=options.server_selection_timeout,
                local_threshold=options.local_threshold,
                load_balanced=options.load_balanced,
                server_selector=options.server_selector,
            ),
            MonitorSettings(
                heartbeat_frequency=options.heartbeat_frequency,
                connect_timeout=options.connect_timeout or 0.0,
                streaming=mode == "stream" or (mode == "auto" and not is_faas),
                server_api=options.server_api,
                min_heartbeat_interval=world.min_heartbeat_interval,
            ),
            runtime=runtime,
            host=host,
            establisher=establisher,
            make_pool=make_pool,
            below=world.below,
            publish=publishers.topology,
        )

    def _authenticator(self, runtime: Runtime, host: Host, options: ClientOptions) -> Authenticator | None:
        world = self._world
        if options.credentials is None:
            return None
        return Authenticator(
            options.credentials,
            world.nonce,
            runtime=runtime,
            host=host,
            http=world.http(runtime),
            server_api=options.server_api,
            connect_timeout=options.connect_timeout or 0.0,
            max_iterations=options.scram_max_iterations,
            date=world.date,
        )

    def _executor(self, runtime: Runtime, background: Background) -> Executor:
        options = self.options
        return Executor(
            self.topology,
            self.sessions,
            RetrySettings(
                self.policy,
                self._bucket,
                self._world.jitter,
                retry_reads=options.retry_reads,
                retry_writes=options.retry_writes,
            ),
            now=runtime.now,
            sleep=runtime.sleep,
            server_selection_timeout=options.server_selection_timeout,
            socket_timeout=options.socket_timeout,
            api_declaration=server_api_fields(options.server_api) or None,
            publish_command=self._publishers.command,
            publish_retry=self._publishers.retry,
            publish_selection=self._publishers.selection,
            on_lost_cursor=background.kill_opened,
        )

    def _metadata(
        self, runtime: Runtime, environment: Mapping[str, str], app_name: str | None
    ) -> Callable[[], Document]:
        platform, libraries = read_platform_facts(runtime.name), self._libraries
        return lambda: client_metadata(
            app_name=app_name,
            environment=environment,
            platform=platform,
            infos=libraries.infos,
        )

    # --- use ---

    @property
    def is_bound(self) -> bool:
        """Whether an operation was executed already."""
        return self._runtime is not None

    @property
    def topology_description(self) -> TopologyDescription:
        """What is known of the deployment at this moment."""
        return self.topology.description if self._runtime is not None else _initial_description(self.options)

    async def connect(self, deadline: Deadline) -> None:
        """Wait for a server that can be read from; discovery has begun when the client was bound."""
        until = self.now() + self.options.server_selection_timeout
        await self.topology.select(ReadPreference.NEAREST, deadline, (), until)

    async def checkpoint(self) -> None:
        """Give the event loop its turn."""
        assert self._runtime is not None
        await self._runtime.sleep(0)

    def new_operation_id(self) -> int:
        """An id for the command events of all commands that one call sends."""
        return new_operation_id()

    def append_metadata(self, info: DriverInfo) -> None:
        """Name a library on top of the driver in the handshakes of all connections made from now on."""
        self._libraries.infos = with_info(self._libraries.infos, info)

    def kill_cursor(self, cursor: LostCursor) -> None:
        """Kill a cursor in the background; does nothing when the loop is gone. To be called from anywhere."""
        # After a fork the loop, and what wakes it, are the parent's.
        if self._runtime is not None and not self._has_forked:
            self._runtime.run_soon(self._background.lost_cursors.kill, cursor)

    def release_session(self, session: Session) -> None:
        """Give the server session of a dropped `session` back; does nothing when the loop is gone. From anywhere."""
        if self._runtime is not None and not self._has_forked:
            self._runtime.run_soon(self.executor.release, session)

    # --- the end ---

    async def close(self, grace: float = GRACE) -> None:
        """End all server sessions, close all connections and stop all background work.

        Operations that wait for something else than a reply end at once; those in flight have `grace` seconds.
        """
        if self._is_closed:
            self._has_lost_loop = False  # closed late, but closed
            if self._runtime is not None and not self._has_forked and self._runtime.is_current():
                await self._background.join(grace)
            return
        if self._runtime is None or self._has_forked:
            # After a fork, sockets and sessions stay the parent's, and it goes on using them.
            self._is_closed = True
            return
        if not self._runtime.is_current():
            self._refuse()
        self._is_closed = True
        try:
            if await self._background.finish(grace):
                await self._end_sessions()
        finally:
            self.topology.close(now=True)
            await self._background.host.close()

    async def _end_sessions(self) -> None:
        """Driver sessions specification, "endSessions": best effort, errors are ignored."""
        ids = self.sessions.drain()
        if not ids or not self.topology.description.has_known_servers:
            return
        deadline = Deadline(self.now() + _FAREWELL, inf, _FAREWELL)
        for batch in session_batches(ids):
            operation = EndSessions(batch, selector=ReadPreference.PRIMARY_PREFERRED)
            try:
                await self.executor.execute(operation, None, deadline)
            except PyMongoError:
                return  # the sessions time out on the server by themselves

    def _lose_loop(self) -> None:
        """The client was closed, or its event loop is ending."""
        self._has_lost_loop = not self._is_closed
        self._is_closed = True

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # Asked by pickle and deepcopy, for whatever belongs to the client.
        raise TypeError(
            "a client has connections and an event loop, so neither it nor what belongs to it can be pickled "
            "or copied deeply: make a client of your own in each process"
        )

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        # Maybe in another thread, amid whatever the event loop was doing, or after the loop's end.
        if self._runtime is None or self._has_forked or (self._is_closed and not self._has_lost_loop):
            return
        self._runtime.run_soon(self._background.end)
        options = self.options
        where = options.srv.host_name if options.srv is not None else ",".join(map(format_address, options.seeds))
        message = f"the client of {where} was dropped without close(); use `async with AsyncMongoClient(...)`"
        warn(message, ResourceWarning, source=self)

    def stats(self) -> ClientStats:
        """A snapshot of pools, budget and retries."""
        bucket = self._bucket
        tokens, capacity = (inf, inf) if bucket is None else (bucket.tokens, bucket.capacity)
        if self._runtime is None:
            return ClientStats({}, tokens, capacity, {}, {}, 0)
        return ClientStats(
            servers={server.address: _server_stats(server) for server in self.topology.servers},
            tokens=tokens,
            token_capacity=capacity,
            retries=dict(self.executor.retries),
            refusals=dict(self.executor.refusals),
            sessions=len(self.sessions),
        )


def _server_stats(server: Any) -> ServerStats:
    state = server.pool.state
    description = server.description
    return ServerStats(
        server_type=description.server_type_name,
        round_trip_time=description.round_trip_time,
        min_round_trip_time=description.min_round_trip_time,
        in_use=len(state.in_use),
        idle=len(state.idle),
        connecting=len(state.connecting),
        pending=len(state.pending),
        waiting=len(state.queue),
        connections_created=state.created,
        replies_drained=server.pool.replies_drained,
        replies_given_up=server.pool.replies_given_up,
        generation=state.generation,
        operations=server.operation_count,
    )


def _initial_description(options: ClientOptions) -> TopologyDescription:
    return TopologyDescription.initial(
        options.seeds,
        direct_connection=bool(options.direct_connection),
        replica_set=options.replica_set,
        load_balanced=options.load_balanced,
    )


def _pool_options(options: ClientOptions) -> PoolOptions:
    public = {
        "maxPoolSize": options.max_pool_size,
        "minPoolSize": options.min_pool_size,
        "maxConnecting": options.max_connecting,
        "maxIdleTimeMS": round((options.max_idle_time or 0.0) * 1000),
        "waitQueueTimeoutMS": round((options.wait_queue_timeout or 0.0) * 1000),
    }
    return PoolOptions(
        max_size=options.max_pool_size,
        min_size=options.min_pool_size,
        max_connecting=options.max_connecting,
        max_idle_time=options.max_idle_time,
        wait_queue_timeout=options.wait_queue_timeout,
        connect_timeout=options.connect_timeout or 0.0,
        given={name: value for name, value in public.items() if name in options.explicit},
    )
