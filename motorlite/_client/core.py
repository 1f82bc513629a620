"""Shell: the composition root: assembles one client's machinery and binds it to the running event loop."""

from __future__ import annotations

import warnings
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakSet, ref

from bson.objectid import ObjectId

from motorlite._base.arguments import outside
from motorlite._base.deadline import GRACE, Deadline
from motorlite._base.values import format_address
from motorlite._client import optional, settings
from motorlite._client.background import Background, MayBeOpen
from motorlite._client.dependencies import PRODUCTION, Dependencies
from motorlite._client.prefetch import Prefetching
from motorlite._client.session_turns import take_turn
from motorlite._connection.establish import Establisher, HandshakeSettings
from motorlite._connection.handshake import server_api_fields
from motorlite._connection.metadata import ENVIRONMENT_VARIABLES, with_info
from motorlite._execution.building import CommandDefaults, default_milliseconds
from motorlite._execution.executor import Executor
from motorlite._execution.reports import Reports
from motorlite._execution.run import new_operation_id
from motorlite._net import current, host
from motorlite._net.host import read_environment, read_platform_facts
from motorlite._observe.log_documents import LENGTH_VARIABLES, max_document_length
from motorlite._observe.publishing import Publishers, make_publishers
from motorlite._operations.contract import Call
from motorlite._operations.sessions import EndSessions, session_batches
from motorlite._options.options import shown_secret
from motorlite._options.row import TRACING_VARIABLES
from motorlite._options.table import default_setting
from motorlite._pool.pool import Pool
from motorlite._sessions.session import SessionPool
from motorlite._topology.topology import Topology
from motorlite.errors import ConfigurationError, InvalidOperation, PyMongoError
from motorlite.read_preferences import ReadPreference
from motorlite.retry import RetryBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from motorlite._base.values import Address
    from motorlite._connection.establish import EstablishmentError
    from motorlite._net.runtime import Connector, Dial, Host, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._operations.cursors import LostCursor
    from motorlite._options.options import ClientOptions
    from motorlite._sessions.session import Session
    from motorlite._topology.topology_description import TopologyDescription
    from motorlite.driver_info import DriverInfo
    from motorlite.read_preferences import ServerMode
    from motorlite.retry import OverloadRetry
    from motorlite.stats import ClientStats

# Those of all clients that were not dropped, for `motorlite.exporters.live`.
cores: Final[WeakSet[Core]] = WeakSet()
# Time limit of endSessions at close, seconds.
_END_SESSIONS_LIMIT = 1.0


def _publishers(options: ClientOptions, dependencies: Dependencies) -> Publishers:
    if not dependencies.is_observed:
        # Only that a server is unreachable.
        return make_publishers((), logging_enabled=lambda name: name == "motorlite.client")
    length = max_document_length(read_environment(LENGTH_VARIABLES))
    listeners = (*options.event_listeners, *optional.tracing_listeners(options, read_environment(TRACING_VARIABLES)))
    return make_publishers(listeners, max_document_length=length)


class Core:
    """One client's machinery. Cheap to create; the first `enter` creates everything that needs an event loop.

    All objects of the client reference it, but background work does not (`background`). So the client ends when the
    last of these objects is dropped.
    """

    # How long a computation may hold the event loop, in seconds, and the loop time until which that is known
    # (`_api.turns`).
    turn: tuple[float, float] = (0.0, -inf)

    def __init__(self, options: ClientOptions, dependencies: Dependencies = PRODUCTION) -> None:
        # First, because `__del__` reads it.
        self._runtime: Runtime | None = None
        self._given: ClientOptions = options
        self.policy: OverloadRetry = options.overload_policy
        # None: retries have no budget.
        self._bucket = options.retry_budget
        if self._bucket is None and self.policy.is_budgeted:
            self._bucket = RetryBudget(self.policy.token_capacity)
        optional.check_credentials(options)
        secret = shown_secret(options)
        if secret is not None:
            # Point at the caller of the client's constructor, which called this one.
            warnings.warn(
                f"without TLS, anyone on the network path to the server can read {secret}: set tls=true", stacklevel=3
            )
        late = settings.late_queue_timeout(options)
        if late is not None:
            warnings.warn(late, stacklevel=3)
        # Created here, so that an unusable file fails in the constructor call that names it.
        self._tls = optional.tls_context(options)
        self._compressors = optional.compressors(options)
        optional.prepare_kills(options)
        # Encrypts commands and decrypts replies; None: nothing does.
        self._encryption = optional.encryption(options, dependencies)
        self._libraries = settings.Libraries((options.driver_info,) if options.driver_info else ())
        self._dependencies = dependencies
        self._publishers: Publishers = _publishers(options, dependencies)
        self._begin()
        self._is_closed = False
        # Closed by the end of its event loop, not by the application.
        self._has_lost_loop = False
        # Set by the first `enter`.
        self._background: Background
        self.topology: Topology
        self.executor: Executor
        self.now: Callable[[], float]
        self.run_soon: Callable[[Callable[[], object]], None]
        self.prefetching: Prefetching
        self.scope_deadline: Callable[[], float]
        cores.add(self)

    @property
    def options(self) -> ClientOptions:
        """The client's options, with those of the TXT record once it was read."""
        return self._background.options if self._is_bound else self._given

    def _begin(self) -> None:
        """Create what belongs to one process and needs no event loop."""
        options = self._given
        # The ObjectId makes the comments of this client's operations its own.
        comment = f"motorlite {ObjectId()}" if options.kill_abandoned else ""
        self.limits: CommandDefaults = CommandDefaults(default_milliseconds(options.default_max_time), comment)
        self.sessions: SessionPool = SessionPool(host.session_id)
        # The cursors that have been open on a server.
        self.open_cursors: WeakSet[MayBeOpen] = WeakSet()
        self._limits = optional.limits(options, self._publishers.breaker)
        self._fork_generation = current.fork_generation

    # --- binding ---

    def enter(self) -> float:
        """Bind to the running event loop at the first call; check it at later calls.

        Returns:
            The deadline of the cancel scopes around the caller.

        Raises:
            InvalidOperation: No event loop is running, the running one is not the client's or comes from before a fork,
                or the client is closed.
            ConfigurationError: A TLS or authentication option in the connection string is wrong.
        """
        runtime = self._runtime
        if runtime is None or self._is_closed or self._fork_generation != current.fork_generation:
            self._enter_first()
            runtime = self._runtime
            assert runtime is not None
        scope = runtime.deadline_here()
        if scope is None:
            self._refuse()
        return scope

    @property
    def _has_forked(self) -> bool:
        """Whether this process was forked after the client was created, or after its last fresh start."""
        return self._fork_generation != current.fork_generation

    @property
    def generation(self) -> int:
        """The number of forks that led to this process, for `is_of_parent`."""
        return current.fork_generation

    @staticmethod
    def is_of_parent(generation: int) -> bool:
        """Whether something of this `generation` began in another process, before a fork."""
        return generation != current.fork_generation

    def _enter_first(self) -> None:
        if self._has_forked and (self._has_lost_loop or not self._is_closed):
            self._start_afresh()
        if self._is_closed:
            if self._has_lost_loop:
                raise InvalidOperation(
                    "the event loop that the client was bound to has ended; make a client for each event loop"
                )
            raise InvalidOperation("the client is closed; make a new AsyncMongoClient, or close it later")
        if self.options.refusals:
            # Before any lookup or connection: without these options the client would be less secure than intended.
            raise ConfigurationError(
                f"nothing is sent, because the connection string is invalid: {'; '.join(self.options.refusals)}"
            )
        if self._runtime is None:
            self._bind(self._dependencies.runtime())

    def _start_afresh(self) -> None:
        """Start afresh in a forked child, which neither uses nor closes anything that the parent made."""
        bound = self._runtime
        if bound is not None:
            if bound.is_current() or not current.is_in_loop():
                raise InvalidOperation(
                    "an event loop from before a fork belongs to the parent process: run a new one in the child "
                    "(asyncio.run, trio.run)"
                )
            self._background.leave_to_parent()
            self._runtime = None
        if self._bucket is not None:
            self._bucket._renew_lock()
        chosen = self.limits
        self._begin()
        self.limits.choose(chosen.chosen)
        self._is_closed = self._has_lost_loop = False
        self.turn = type(self).turn  # the clock of another event loop may begin anywhere

    def _refuse(self) -> NoReturn:
        raise InvalidOperation(
            "the client is bound to the event loop of its first operation and cannot be used from another one; "
            "make a client for each event loop (in tests: a fixture with the scope of the loop)"
        )

    def _bind(self, runtime: Runtime) -> None:
        background = Background(runtime, self._lose_loop, self.open_cursors, self._given)
        try:
            self._assemble(runtime, background)
        except BaseException:
            # Ctrl-C, or a listener that ends the program. The next operation begins anew.
            background.abandon()
            raise
        self._background = background
        self._runtime = runtime

    def _assemble(self, runtime: Runtime, background: Background) -> None:
        options, world = self._given, self._dependencies
        topology = Topology(
            settings.initial_description(options),
            options,
            settings.monitor_settings(options, world.min_heartbeat_interval),
            runtime=runtime,
            host=background.host,
            below=world.below,
            publish=self._publishers.topology,
        )
        self.topology = background.topology = topology
        if options.srv is None:
            self._open(runtime, background, options)
        else:
            from motorlite._topology.srv import SRVSeeds

            topology.seeds = SRVSeeds(
                options.srv,
                options,
                topology,
                # connectTimeoutMS=0 lifts the limit of connections only.
                timeout=options.connect_timeout or default_setting("connectTimeoutMS"),
                runtime=runtime,
                host=background.host,
                resolver=world.resolver(runtime),
                below=world.below,
                open_with=self._opener(runtime, background),
            )
        self.executor = self._executor(runtime, background)
        background.serve(self.executor, is_strict=options.server_api is not None and bool(options.server_api.strict))
        if options.default_max_time_namespace is not None:
            from motorlite._client.default_max_time import DefaultMaxTime

            polling = DefaultMaxTime(options.default_max_time_namespace, self.limits, self.executor, runtime)
            background.default_max_time = background.host.spawn(polling.run, name="default maxTimeMS")
        self.now, self.prefetching = runtime.now, Prefetching(background.host.spawn, runtime.waiter)
        self.run_soon, self.scope_deadline = runtime.run_soon, runtime.scope_deadline
        self._publishers.bind(runtime.now)

    def _opener(self, runtime: Runtime, background: Background) -> Callable[[], Callable[[ClientOptions], None] | None]:
        """Return a weak reference to `_open`, since background work must not keep the client."""
        core = ref(self)
        return lambda: None if (found := core()) is None else partial(found._open, runtime, background)

    def _open(self, runtime: Runtime, background: Background, options: ClientOptions) -> None:
        """Open the topology, with options that have the seeds. Monitoring of its servers starts now."""
        world, publishers, host = self._dependencies, self._publishers, background.host
        background.options = options
        handshake = HandshakeSettings(
            self._libraries.metadata(
                read_platform_facts(runtime.name), read_environment(ENVIRONMENT_VARIABLES), options.app_name
            ),
            load_balanced=options.load_balanced,
            compressors=self._compressors,
            backpressure=self.policy.handshake,
            server_api=options.server_api,
            is_plain=self._tls is None,
        )
        connector = world.connector(runtime, self._tls, options.proxy)
        authenticator = optional.authenticator(options, world, runtime, host)
        pauses = options.pause_garbage_collector
        establisher = Establisher(runtime, connector, handshake, authenticator, pauses_collector=pauses)
        pool_options, gates = settings.pool_options(options), None if self._limits is None else self._limits.gates
        bucket = self._bucket

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
                gate=None if gates is None else gates.make(address),
                on_gone=() if bucket is None else (partial(bucket.forget, address),),
            )

        self.topology.open(settings.initial_description(options), establisher, make_pool)

    def _executor(self, runtime: Runtime, background: Background) -> Executor:
        options = self._given
        return Executor(
            self.topology,
            self.sessions,
            settings.retry_settings(options, self._bucket, self._dependencies.jitter),
            self.limits,
            Reports(self._bucket, self._publishers),
            now=runtime.now,
            sleep=runtime.sleep,
            take_turn=partial(take_turn, runtime.waiter),
            server_selection_timeout=options.server_selection_timeout,
            socket_timeout=options.socket_timeout,
            api_declaration=server_api_fields(options.server_api) or None,
            on_lost_cursor=background.kill_opened,
            on_abandoned=background.kill_abandoned,
            admission=None if self._limits is None else self._limits.admission(runtime),
            encryption=self._encryption,
        )

    # --- use ---

    @property
    def _is_bound(self) -> bool:
        return self._runtime is not None and not self._has_forked

    @property
    def topology_description(self) -> TopologyDescription:
        """The current description of the deployment."""
        return self.topology.description if self._is_bound else settings.initial_description(self.options)

    async def connect(self, deadline: Deadline, wanted: ServerMode = ReadPreference.NEAREST) -> None:
        """Wait for a `wanted` server, by default any readable one. Discovery began when the client was bound."""
        until = self.now() + self.options.server_selection_timeout
        await self.topology.select(wanted, deadline, (), until)

    def is_known(self, address: Address) -> bool:
        """Whether this server is available, as far as the client knows."""
        server = self.topology.description.server_descriptions().get(address)
        return server is not None and server.is_server_type_known

    def backoff(self, retries: int) -> float:
        """Return the seconds to wait before another try, after so many retries, as after overload errors."""
        return self.policy.backoff(retries, self._dependencies.jitter())

    async def pause(self, until: float) -> None:
        """Wait until a loop time, or until the client closes."""
        await self.topology.pause(until)

    def encrypted_fields(self, database: str, collection: str) -> Mapping[str, Any] | None:
        """The collection's fields of queryable encryption, as the client's options have them."""
        given = self._given.auto_encryption_opts
        known = None if given is None else given.encrypted_fields_map
        return None if known is None else known.get(f"{database}.{collection}")

    @property
    def runtime(self) -> Runtime:
        """The event loop of the client, after its first operation."""
        assert self._runtime is not None
        return self._runtime

    @property
    def host(self) -> Host:
        """What runs the background work of the client, after its first operation."""
        return self._background.host

    def connector(self, tls: TLSContext | None, dial: Dial | None = None) -> Connector:
        """Return what opens connections to other services than the deployment; None: without TLS."""
        runtime, world = self.runtime, self._dependencies
        if dial is not None:
            return partial(runtime.connect, tls=tls, dial=dial)
        return world.http(runtime) if tls is None else world.connector(runtime, tls, None)

    def outside_request(self, service: str) -> AbstractContextManager[None]:
        """Return a ``with`` block for a request to another service than the deployment. `close` ends it."""
        return self._background.outside_requests.in_flight(service)

    async def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        assert self._runtime is not None
        await self._runtime.sleep(seconds)

    async def checkpoint(self) -> None:
        """Yield to the event loop once."""
        await self.sleep(0)

    @property
    def default_max_time(self) -> float:
        """The default maxTimeMS in force, in seconds; 0: none."""
        return self.limits.milliseconds / 1000

    def set_default_max_time(self, seconds: float | None) -> None:
        """Set the default maxTimeMS from the next command on; 0 for none, None for what the options say."""
        self.limits.choose(default_milliseconds(seconds))

    def new_operation_id(self) -> int:
        """Return an id for the command events of all commands that one call sends."""
        return new_operation_id()

    def append_metadata(self, info: DriverInfo) -> None:
        """Add a library on top of the driver to the handshakes of all future connections."""
        self._libraries.infos = with_info(self._libraries.infos, info)

    @property
    def is_closed(self) -> bool:
        """Whether operations are refused: the client was closed, or its event loop has ended."""
        return self._is_closed

    @property
    def is_over(self) -> bool:
        """Whether nothing can run in the background: the client has not begun, or has ended, or its process forked."""
        # The end comes before the fork: when the interpreter ends, what is left of a closed client may outlive the
        # modules. After a fork, the loop and its wakeup mechanism belong to the parent.
        return self._runtime is None or self._background.host.is_closed or self._has_forked

    def kill_cursor(self, cursor: LostCursor) -> None:
        """Kill a cursor in the background. Does nothing if the loop has ended. Call from anywhere."""
        if self._runtime is not None and not self.is_over:
            self._runtime.run_soon(self._background.lost_cursors.kill, cursor)

    def release_session(self, session: Session, publish_end: Callable[[], None] | None = None) -> None:
        """Return the server session of a dropped `session`. Does nothing if the loop has ended. Call from anywhere.

        `publish_end`: publishes that its transaction has ended.
        """
        if self._runtime is not None and not self.is_over:
            self._runtime.run_soon(self._background.lost_transactions.drop, session, publish_end)

    def abort_transaction(self, session: Session, *, has_failed: bool = False) -> None:
        """Abort the transaction of `session` in the background; `has_failed`: not at once. Call on the event loop."""
        self._background.lost_transactions.abort(session, has_failed=has_failed)

    def abort_left(self, session: Session) -> None:
        """Abort the transaction of `session`, which is left, also while the client closes: that waits for the abort.

        Does nothing if the client has ended, or on another event loop.
        """
        runtime = self._runtime
        if runtime is not None and not self.is_over and runtime.is_current():
            self._background.lost_transactions.abort(session)

    # --- the end ---

    async def close(self, grace: float = GRACE) -> None:
        """End all server sessions, close all connections and stop all background work.

        Operations that wait for anything but a reply end at once (after up to a second, while what cancelled tasks have
        left is killed and aborted). Operations in flight get `grace` seconds. Meanwhile, the client aborts open
        transactions and kills open cursors, each as soon as no operation uses it.
        """
        if self._is_closed:
            if self._has_lost_loop:
                self._has_lost_loop = False  # closed late, but closed
                self._erase_keys()
            if self._runtime is not None and not self._has_forked and self._runtime.is_current():
                await self._background.join(grace)
            return
        if self._runtime is None or self._has_forked:
            # After a fork, the parent still owns and uses the sockets and sessions.
            self._is_closed = True
            self._erase_keys()
            return
        if not self._runtime.is_current():
            self._refuse()
        for unused in settings.unused_priorities(self.options, self.stats):
            warnings.warn(unused, stacklevel=outside())
        self._is_closed = True
        until = self.now() + grace
        try:
            if await self._background.finish(grace):
                await self._end_sessions()
        finally:
            try:
                await self._background.close()
            finally:  # not later: on trio, a cancelled task cannot wait even for what is there
                if self._encryption is not None:
                    await self._encryption.close(max(0.0, until - self.now()))

    def _erase_keys(self) -> None:
        if self._encryption is not None:
            self._encryption.erase_keys()

    async def _end_sessions(self) -> None:
        """End the server sessions (driver sessions specification, "endSessions"). Best effort: errors are ignored."""
        ids = self.sessions.drain()
        if not ids or not self.topology.description.has_known_servers:
            return
        deadline = Deadline(self.now() + _END_SESSIONS_LIMIT, inf, _END_SESSIONS_LIMIT)
        for batch in session_batches(ids):
            operation = EndSessions(batch, selector=ReadPreference.PRIMARY_PREFERRED)
            try:
                await self.executor.execute(operation, Call(None, deadline))
            except PyMongoError:
                return  # the server times out the remaining sessions

    def _lose_loop(self) -> None:
        """Mark the client as closed. Called when it was closed or when its event loop is ending."""
        self._has_lost_loop = not self._is_closed
        self._is_closed = True

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        # Called by pickle and deepcopy for every object of the client.
        raise TypeError(
            "a client holds connections and an event loop, so neither the client nor its objects can be pickled "
            "or deep-copied: create a client in each process"
        )

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        # May run in another thread, at any point of the event loop's work, or after the loop has ended.
        # When the interpreter ends, a closed client may outlive the modules: it is looked at first.
        if self._runtime is None or (self._is_closed and not self._has_lost_loop) or self._has_forked:
            return
        self._runtime.run_soon(self._background.end)
        options = self.options
        where = options.srv.host_name if options.srv is not None else ",".join(map(format_address, options.seeds))
        message = f"the client of {where} was dropped without close(); use `async with AsyncMongoClient(...)`"
        warn(message, ResourceWarning, source=self)

    def stats(self) -> ClientStats:
        """Return a snapshot of pools, budget and retries."""
        from motorlite._client.statistics import client_stats, initial_stats

        bucket = self._bucket
        if not self._is_bound:
            return initial_stats(bucket)
        servers, now = self.topology.servers, self.now()
        return client_stats(servers, self.executor.reports, bucket, self._limits, len(self.sessions), now)

    def watch(self) -> dict[str, Any] | None:
        """Follow each operation from now on, and return what is known; None before the first one and after `close`.

        Call from any thread, again if it raises RuntimeError. `end_watch` ends it.
        """
        if not self._is_bound or self._is_closed:
            return None
        return self.executor.reports.begin_watch().report(self.now())

    def end_watch(self) -> None:
        """Follow no further operation. Call from any thread."""
        if self._is_bound:
            self.executor.reports.end_watch()
