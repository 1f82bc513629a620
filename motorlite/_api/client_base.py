"""Shell: what a client executes and knows, apart from its databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, Unpack

from motorlite._api.commands import UserCommand
from motorlite._api.core import GRACE
from motorlite._api.database_base import name_of
from motorlite._api.lists import list_databases, names
from motorlite._api.method_options import LIST_DATABASES_CHECKS, ListDatabasesOptions
from motorlite._api.session import AsyncClientSession, SessionOptions
from motorlite._api.settings import Configured, Settings
from motorlite._api.typings import DocumentT
from motorlite._api.validation import checked, converted, database_name, seconds
from motorlite._operations.drop_database import DropDatabase
from motorlite.driver_info import as_driver_info
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from types import TracebackType

    from motorlite._api.command_cursor import AsyncCommandCursor
    from motorlite._api.core import CoreLike, TopologyLike
    from motorlite.driver_info import DriverInfo
    from motorlite.options import ClientOptions
    from motorlite.stats import ClientStats
    from motorlite.values import Address


_WRITABLE = ("RSPrimary", "Standalone", "Mongos", "LoadBalancer")


class ClientBase(Configured[DocumentT]):
    """Life cycle, sessions, databases by name, and what is known of the deployment."""

    __slots__ = ("_options",)

    def __init__(self, core: CoreLike, options: ClientOptions) -> None:
        timeout = options.timeout
        settings = Settings(
            options.codec_options,
            options.read_preference,
            options.write_concern,
            options.read_concern,
            float("inf") if timeout == 0 else timeout,
        )
        super().__init__(core, settings)
        self._options = options

    @property
    def options(self) -> ClientOptions:
        """The configuration of the client. What DNS adds for ``mongodb+srv://`` is in it after the first operation."""
        return self._core.options

    # --- life cycle ---

    async def aconnect(self, timeoutMS: float | None = None) -> None:
        """Start to discover the deployment now, and not at the first operation, and wait for a server to read from.

        It sends no command: whether the user may do anything, the first operation finds out.

        Args:
            timeoutMS: How long to wait at most, if that is less than `serverSelectionTimeoutMS`; 0 for no limit.

        Raises:
            ServerSelectionTimeoutError: No server was found in time.
            ConfigurationError: The deployment cannot be used, or there are no SRV records for it.
        """
        _, limit = self._begin(None, timeoutMS)
        await self._core.connect(limit)

    async def close(self, grace: float = GRACE) -> None:
        """End the server sessions, close all connections and stop all background work, for good.

        New operations are refused from now on, and those that wait for a server, for a connection or for their next
        attempt end at once with InvalidOperation. Those that wait for a reply may finish within `grace`. Then their
        connections are closed, and they raise AutoReconnect: the server may or may not have executed them.

        While another task is closing the client, it waits with that one, and for `grace` at most.

        Args:
            grace: For how many seconds to wait for operations in flight; 0 ends them at once.

        Raises:
            TypeError, ValueError: `grace` is not a number, or it is negative.

        Retries: none; errors of endSessions are ignored.
        """
        await self._core.close(converted("grace", grace, seconds))

    aclose = close

    async def __aenter__(self) -> Self:
        # What is wrong with the connection string, the first operation says.
        if not self._core.options.refusals:
            self._core.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def stats(self) -> ClientStats:
        """A snapshot of pools, queues, the retry budget, retries by reason and round-trip times."""
        return self._core.stats()

    def start_session(self, causal_consistency: bool | None = None) -> AsyncClientSession:
        """Start a session. It costs nothing until its first operation.

        ``async with client.start_session()``, ``async with await client.start_session()`` and ``await
        client.start_session()`` all give the session; one that is not in ``async with`` needs `end_session`.

        Args:
            causal_consistency: Whether reads observe the session's earlier operations; True by default.

        Raises:
            TypeError: `causal_consistency` is not True, False or None.

        Source: driver sessions and causal consistency specifications.
        """
        return AsyncClientSession(self, self._core, SessionOptions(causal_consistency))

    def append_metadata(self, driver_info: DriverInfo) -> None:
        """Name a library on top of motorlite in the server's log, beside those that are named already.

        It is for connections that are made from now on: open ones stay as they are, and none is made or closed for
        this. Naming the same library twice changes nothing.

        Args:
            driver_info: The library's name, version and platform. What the server would refuse, because the client
                metadata is longer than 512 bytes, is cut off.

        Raises:
            TypeError: `driver_info` is no DriverInfo.

        Source: handshake specification.
        """
        self._core.append_metadata(converted("driver_info", driver_info, as_driver_info))

    # --- operations ---

    async def server_info(
        self, session: AsyncClientSession | None = None, timeoutMS: float | None = None
    ) -> dict[str, Any]:
        """The reply of the server to buildInfo.

        Args:
            session: The session to use.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff).
        """
        state, limit = self._begin(session, timeoutMS)
        reply: dict[str, Any] = await UserCommand("admin", {"buildInfo": 1}).execute(self._core, state, limit)
        return reply

    def list_databases(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        **options: Unpack[ListDatabasesOptions],
    ) -> AsyncCommandCursor[dict[str, Any]]:
        """The databases, as a cursor.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            options: See `ListDatabasesOptions`.

        Raises:
            TypeError, ValueError: An argument is wrong; the message says what is allowed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).

        Source: enumerating databases specification.
        """
        given = checked("list_databases", options, LIST_DATABASES_CHECKS)
        return list_databases(self._core, self._settings, session, comment, given)

    async def list_database_names(
        self,
        session: AsyncClientSession | None = None,
        comment: Any = None,
        timeoutMS: float | None = None,
    ) -> list[str]:
        """The names of the databases.

        Args:
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            PyMongoError: The operation failed.

        Retries: overload errors (up to 5, with backoff); network errors and failovers once (retryable read).

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
        """Drop a database. One that does not exist is no error.

        Args:
            name_or_database: The database or its name.
            session: The session to use.
            comment: Shown in the server's log and profile.
            timeoutMS: The limit of the whole operation; 0 for no limit.

        Raises:
            TypeError: Not a database and not a name.
            PyMongoError: The operation failed.

        Retries: overload errors only (up to 5, with backoff).
        """
        name = database_name(name_of(name_or_database))
        write_concern = self._settings.write_concern
        state, limit = self._begin(session, timeoutMS, write_concern.acknowledged)
        operation = DropDatabase(name, write_concern=write_concern, comment=comment)
        await self._core.executor.execute(operation, state, limit)

    # --- what is known of the deployment ---

    @property
    def topology_description(self) -> TopologyLike:
        """What is known of the deployment now; nothing before the first operation."""
        return self._core.topology_description

    @property
    def nodes(self) -> frozenset[Address]:
        """The addresses of the servers that are known to be available now."""
        return frozenset(server.address for server in self.topology_description.known_servers)

    @property
    async def address(self) -> Address | None:
        """The address of the one server that the client talks to. Connects if necessary (see `aconnect`).

        Raises:
            InvalidOperation: There is no such server: the deployment is a cluster with several routers.
        """
        topology = await self._known_topology()
        if topology.topology_type_name == "Sharded" and len(topology.known_servers) > 1:
            raise InvalidOperation("the deployment has several mongos servers; use nodes instead")
        if topology.topology_type_name.startswith("ReplicaSet"):
            return await self.primary
        return next((server.address for server in topology.known_servers), None)

    @property
    async def primary(self) -> Address | None:
        """The address of the replica set's primary, None when none is known. Connects if necessary."""
        return next(iter(await self._addresses("RSPrimary")), None)

    @property
    async def secondaries(self) -> set[Address]:
        """The addresses of the replica set's secondaries that are known. Connects if necessary."""
        return await self._addresses("RSSecondary")

    @property
    async def arbiters(self) -> set[Address]:
        """The addresses of the replica set's arbiters that are known. Connects if necessary."""
        return await self._addresses("RSArbiter")

    @property
    async def is_primary(self) -> bool:
        """Whether a server that takes writes is known. Connects if necessary."""
        # Not has_writable_server(): over a direct connection a secondary is tried for writes, too.
        servers = (await self._known_topology()).known_servers
        return any(server.server_type_name in _WRITABLE for server in servers)

    @property
    async def is_mongos(self) -> bool:
        """Whether the deployment is a sharded cluster. Connects if necessary."""
        return (await self._known_topology()).topology_type_name == "Sharded"

    async def _known_topology(self) -> TopologyLike:
        if not self.topology_description.known_servers:
            await self.aconnect()
        return self.topology_description

    async def _addresses(self, server_type: str) -> set[Address]:
        servers = (await self._known_topology()).known_servers
        return {server.address for server in servers if server.server_type_name == server_type}
