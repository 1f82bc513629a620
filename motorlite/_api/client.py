"""Shell: the client's own operations and properties, except access to databases."""

from __future__ import annotations

import warnings
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from motorlite._api.arguments.checks import database_name, given_options, optional
from motorlite._api.arguments.method_options import ListDatabasesOptions
from motorlite._api.client_bulk import AsyncMongoClient as ClientBulkWrites
from motorlite._api.cursors.watching import Watching
from motorlite._api.database import name_of
from motorlite._api.lists import list_cursor, names
from motorlite._api.session import session_of, unbound
from motorlite._api.settings import Settings
from motorlite._api.transaction_options import SessionOptions
from motorlite._api.turns import give_way, refused
from motorlite._api.typings import DocumentT
from motorlite._base.arguments import converted
from motorlite._base.arguments import seconds as check_seconds
from motorlite._base.deadline import GRACE
from motorlite._base.hosts import DEFAULT_PORT
from motorlite._operations.contract import CallOptions
from motorlite._options.options import PILE_UP, may_pile_up
from motorlite.driver_info import as_driver_info
from motorlite.errors import InvalidOperation, PyMongoError, ServerSelectionTimeoutError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from bson.timestamp import Timestamp

    from motorlite._api.cursors.command_cursor import AsyncCommandCursor
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.transaction_options import TransactionOptions
    from motorlite._base.values import Address
    from motorlite._client.core import Core
    from motorlite._options.options import ClientOptions
    from motorlite.driver_info import DriverInfo
    from motorlite.read_preferences import ServerMode
    from motorlite.stats import ClientStats
    from motorlite.topology_description import TopologyDescription


_WRITABLE = ("RSPrimary", "Standalone", "Mongos", "LoadBalancer")


class AsyncMongoClient(ClientBulkWrites[DocumentT], Watching[DocumentT]):
    """Life cycle, sessions, lists of databases, and the state of the deployment."""

    __slots__ = ("_options",)

    _watched = ("admin", None)
    _watched_options = MappingProxyType({"allChangesForCluster": True})
    HOST: ClassVar[str] = "localhost"
    """The default host."""

    PORT: ClassVar[int] = DEFAULT_PORT
    """The default port."""

    def __init__(self, core: Core, options: ClientOptions) -> None:
        # Includes the layers below the API, which the first client imports.
        from motorlite._client.settings import unread_call_options

        timeout = options.timeout
        settings = Settings(
            options.codec_options,
            options.read_preference,
            options.write_concern,
            options.read_concern,
            float("inf") if timeout == 0 else timeout,
            CallOptions(
                retry_strategy=options.retry_strategy,
                wait_queue=options.wait_queue,
                apart=unbound,
                unread=unread_call_options(options),
            ),
        )
        super().__init__(core, settings)
        self._options = options
        if may_pile_up(options):
            # Point at the caller of the client's constructor.
            warnings.warn(PILE_UP, stacklevel=3)

    @staticmethod
    def _cores() -> tuple[Core, ...]:
        """Return what is behind all clients of this process. Call from any thread, again if it raises RuntimeError."""
        from motorlite._client.core import cores

        return tuple(cores)

    @property
    def options(self) -> ClientOptions:
        """The configuration of the client. Includes DNS options of ``mongodb+srv://`` after the first operation."""
        return self._core.options

    # --- life cycle ---

    async def aconnect(self, timeoutMS: float | None = None) -> None:
        """Start discovery now instead of at the first operation, and return at once, as PyMongo does.

        With `timeoutMS`, wait for a readable server. No command is sent, so missing permissions show at the first
        operation.

        Args:
            timeoutMS: Wait for a readable server, for no longer than this and `serverSelectionTimeoutMS`; 0: only the
                latter limits the wait. None: do not wait.

        Raises:
            InvalidOperation: The client is closed, or belongs to another event loop.
            ServerSelectionTimeoutError: No server was found in time.
            ConfigurationError: A TLS or authentication option is wrong; or, with `timeoutMS`, the deployment is
                unusable, or it has no SRV records.
        """
        call = self._begin(None, timeoutMS) or await refused()
        if timeoutMS is None:
            await self._core.checkpoint()
        else:
            await self._core.connect(call.deadline)

    async def close(self, grace: float = GRACE) -> None:
        """End the server sessions, close all connections and stop all background work, permanently.

        New operations are refused from now on. Operations that wait for a server, for a connection or for their next
        attempt end at once with InvalidOperation. Operations that wait for a reply may finish within `grace`. Then
        their connections close and they raise AutoReconnect: the server may or may not have executed them.

        If another task is already closing the client, this call waits for that task, for `grace` at most.

        Args:
            grace: Seconds to wait for operations in flight; 0 ends them at once.

        Raises:
            TypeError, ValueError: `grace` is not a number, or it is negative.

        Retries: none; errors of endSessions are ignored.
        """
        await self._core.close(converted("grace", grace, check_seconds))

    aclose = close

    async def __aenter__(self) -> Self:
        # The first operation raises the errors in the connection string.
        if not self._core.options.refusals:
            try:
                self._core.enter()
            except PyMongoError:
                await give_way()
                raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    def stats(self) -> ClientStats:
        """Return a snapshot of pools, queues, the retry budget, retries by reason and round-trip times."""
        return self._core.stats()

    def start_session(
        self,
        causal_consistency: bool | None = None,
        default_transaction_options: TransactionOptions | None = None,
        snapshot: bool | None = False,
        *,
        snapshot_time: Timestamp | None = None,
        defaultTimeoutMS: float | None = None,
    ) -> AsyncClientSession[Self]:
        """Start a session. This is free until the session's first operation.

        ``async with client.start_session()``, ``async with await client.start_session()`` and ``await
        client.start_session()`` all return the session. Without ``async with``, call `end_session`.

        Args:
            causal_consistency: Whether operations observe the session's earlier ones; True by default, unless
                `snapshot`. Unacknowledged writes are not observed.
            default_transaction_options: What the session's transactions inherit.
            snapshot: Whether all reads (find, aggregate, distinct) see the data of one moment (MongoDB 5.0 and later).
            snapshot_time: That moment, the `snapshot_time` of another session; by default that of the first read.
            defaultTimeoutMS: The timeoutMS of commit_transaction, abort_transaction, with_transaction and end_session;
                by default the client's.

        Raises:
            TypeError, ValueError: An argument is wrong.
            ConfigurationError: `snapshot` with `causal_consistency`, or `snapshot_time` without `snapshot`.

        Source: driver sessions, causal consistency, snapshot reads and transactions specifications.
        """
        options = SessionOptions(
            causal_consistency,
            default_transaction_options,
            snapshot,
            snapshot_time=snapshot_time,
            defaultTimeoutMS=defaultTimeoutMS,
        )
        return session_of(self, self._settings, self._core, options)

    def append_metadata(self, driver_info: DriverInfo) -> None:
        """Add a library on top of motorlite to the server's log, in addition to those already named.

        Applies to future connections. Open connections are unchanged, and none is opened or closed. Naming the same
        library twice has no effect.

        Args:
            driver_info: The library's name, version and platform. Client metadata is cut off at 512 bytes, because
                the server would refuse more.

        Raises:
            TypeError: `driver_info` is not a DriverInfo.

        Source: handshake specification.
        """
        self._core.append_metadata(converted("driver_info", driver_info, as_driver_info))

    # --- the default limit on the server ---

    @property
    def default_max_time(self) -> float:
        """The time that servers have for a command whose operation sets no limit of its own, in seconds; 0: no limit.

        From `set_default_max_time`, else from the document in `defaultMaxTimeNamespace`, else from `defaultMaxTimeMS`.
        """
        return self._core.default_max_time

    def set_default_max_time(self, seconds: float | None) -> None:
        """Set the time that servers have for a command whose operation sets no limit of its own.

        It applies from the next command on, to databases, collections and cursors of this client that already exist
        too. An operation's own `max_time_ms`, `maxTimeMS` or `timeoutMS` takes its place, also if that is 0, and so
        does a limit from `motorlite.timeout`.

        Args:
            seconds: The limit, rounded up to milliseconds; 0 for no limit. None takes back what this method set, so
                that the document in `defaultMaxTimeNamespace` or the option `defaultMaxTimeMS` holds again.

        Raises:
            TypeError, ValueError: `seconds` is not a number, or it is negative.
        """
        self._core.set_default_max_time(optional("seconds", seconds, check_seconds))

    # --- operations ---

    async def server_info(
        self, session: AsyncClientSession | None = None, timeoutMS: float | None = None
    ) -> dict[str, Any]:
        """Return the server's reply to buildInfo.

        Args:
            session: The session to use.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        from motorlite._operations.commands import BuildInfo

        call = self._begin(session, timeoutMS) or await refused()
        return await self._core.executor.execute(BuildInfo(), call)

    def list_databases(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[ListDatabasesOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """List the databases, as a cursor.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `ListDatabasesOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.

        Retries: as a retryable read (docs/retries.md).

        Source: enumerating databases specification.
        """
        from motorlite._operations.collections import ListDatabases

        given, further = given_options("list_databases", ListDatabasesOptions, options)

        def make(*, time_limit: object, **arguments: Any) -> ListDatabases:
            return ListDatabases(**arguments)  # there is no getMore whose time counts

        return list_cursor(self._core, self._settings, session, make, comment=comment, options=given, fields=further)

    async def list_database_names(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> list[str]:
        """Return the names of the databases.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: as a retryable read (docs/retries.md).

        Source: enumerating databases specification.
        """
        cursor = self.list_databases(session, comment, nameOnly=True, timeoutMS=timeoutMS)
        return await names(cursor)

    async def drop_database(
        self,
        name_or_database: Any,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> None:
        """Drop a database. A missing database is not an error.

        Args:
            name_or_database: The database or its name.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: Time limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: `name_or_database` is neither a database nor a name.
            PyMongoError: The operation failed.

        Retries: overload errors only (docs/retries.md).
        """
        from motorlite._operations.collections import DropDatabase

        name = database_name(name_of(name_or_database, "database"))
        write_concern = self._write_concern(session)
        call = self._begin(session, timeoutMS, write_concern.acknowledged) or await refused()
        operation = DropDatabase(name, write_concern=write_concern, comment=comment)
        await self._core.executor.execute(operation, call)

    # --- state of the deployment ---

    @property
    def topology_description(self) -> TopologyDescription:
        """The current description of the deployment; empty before the first operation."""
        return self._core.topology_description

    @property
    def nodes(self) -> frozenset[Address]:
        """The addresses of the servers that are currently known to be available."""
        return frozenset(server.address for server in self.topology_description.known_servers)

    @property
    async def address(self) -> Address | None:
        """The address of the single server that the client uses. Connects if necessary, as `primary` does.

        Raises:
            InvalidOperation: There is no single server: the deployment is a cluster with several routers.
        """
        topology = await self._known_topology(ReadPreference.PRIMARY)
        if topology.topology_type_name == "Sharded" and len(topology.known_servers) > 1:
            raise InvalidOperation("the deployment has several mongos servers; use nodes instead")
        if topology.topology_type_name.startswith("ReplicaSet"):
            return await self.primary
        return next((server.address for server in topology.known_servers), None)

    @property
    async def primary(self) -> Address | None:
        """The address of the replica set's primary, or None if none is known.

        Connects if necessary. It then waits for the primary until `serverSelectionTimeoutMS`, because another member
        may answer first.
        """
        return next(iter(await self._addresses("RSPrimary", ReadPreference.PRIMARY)), None)

    @property
    async def secondaries(self) -> set[Address]:
        """The addresses of the known secondaries of the replica set. Connects if necessary."""
        return await self._addresses("RSSecondary")

    @property
    async def arbiters(self) -> set[Address]:
        """The addresses of the known arbiters of the replica set. Connects if necessary."""
        return await self._addresses("RSArbiter")

    @property
    async def is_primary(self) -> bool:
        """Whether a writable server is known. Connects if necessary, as `primary` does."""
        # Not has_writable_server(): with a direct connection, that also accepts a secondary for writes.
        servers = (await self._known_topology(ReadPreference.PRIMARY)).known_servers
        return any(server.server_type_name in _WRITABLE for server in servers)

    @property
    async def is_mongos(self) -> bool:
        """Whether the deployment is a sharded cluster. Connects if necessary."""
        return (await self._known_topology()).topology_type_name == "Sharded"

    async def _known_topology(self, wanted: ServerMode = ReadPreference.NEAREST) -> TopologyDescription:
        """Return the deployment's description. If no server is known yet, wait for a `wanted` server first."""
        if not self.topology_description.known_servers:
            call = self._begin(None, None) or await refused()
            try:
                await self._core.connect(call.deadline, wanted)
            except ServerSelectionTimeoutError:
                if not self.topology_description.known_servers:
                    raise
        return self.topology_description

    async def _addresses(self, server_type: str, wanted: ServerMode = ReadPreference.NEAREST) -> set[Address]:
        servers = (await self._known_topology(wanted)).known_servers
        return {server.address for server in servers if server.server_type_name == server_type}
