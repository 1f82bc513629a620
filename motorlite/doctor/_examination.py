"""Shell: goes the way of a client step by step, with the driver's own parts, and hands each finding on.

No more than one connection to a server is open at a time: one to each of its addresses for the time of TCP, with TLS
one for a look at the certificates, and one for everything else. Nothing is written unless that is asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from bson.objectid import ObjectId

from motorlite._base.values import format_address
from motorlite._client import optional
from motorlite._client.dependencies import PRODUCTION, Dependencies
from motorlite._client.settings import Libraries, initial_description
from motorlite._connection.auth.oidc_callbacks import Limits
from motorlite._connection.connection import Connection
from motorlite._connection.decoding import Decoder
from motorlite._connection.handshake import MAX_HELLO_SIZE, hello_document, parse_hello, server_api_fields
from motorlite._connection.metadata import ENVIRONMENT_VARIABLES
from motorlite._net import probe
from motorlite._net.host import read_environment, read_platform_facts
from motorlite._options import srv as records
from motorlite._options.options import client_options, shown_secret, with_srv_records
from motorlite._topology.server_description import ServerDescription
from motorlite._wire.frames import FrameReader, ReceiveBuffer
from motorlite.doctor import _access as access
from motorlite.doctor import _configuration as configuration
from motorlite.doctor import _deployment as deployment
from motorlite.doctor import _network as network
from motorlite.doctor._access import COLLECTION, DEFAULT_DATABASE
from motorlite.doctor._finding import Finding, Secrets, Severity, Step, failed
from motorlite.doctor._reading import document
from motorlite.errors import AutoReconnect, ConfigurationError, OperationFailure, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._base.values import Address
    from motorlite._net.probe import Reached
    from motorlite._net.runtime import Host, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.options import ClientOptions
    from motorlite._topology.topology_description import TopologyDescription

T = TypeVar("T")
Report: TypeAlias = Callable[[Finding], None]

PINGS: Final = 20
# More servers than any replica set has (50), and enough for most lists of mongos.
MOST_SERVERS: Final = 60
_EPOCH: Final = datetime(1970, 1, 1)  # as bson decodes times


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command was asked for.

    Attributes:
        timeout: The time limit of each step with one server, seconds.
        write: Whether to insert a document and to delete it again.
    """

    timeout: float = 5.0
    write: bool = False


@dataclass(slots=True)
class Examination:
    """One examination of one deployment."""

    report: Report
    # What it is about to wait for.
    waiting: Callable[[str], None] = lambda _what: None
    wishes: Wishes = field(default_factory=Wishes)
    world: Dependencies = PRODUCTION
    findings: list[Finding] = field(default_factory=list)
    _secrets: Secrets = field(default_factory=Secrets)

    async def run(self, uri: str) -> list[Finding]:
        """Examine the deployment of a connection string, and return all findings."""
        options = self._read(uri)
        if options is None:
            return self.findings
        try:
            tls = optional.tls_context(options)
            optional.check_credentials(options)
        except ConfigurationError as error:
            self._add(Finding(Step.URI, Severity.ERROR, str(error), "correct the option, or the file"))
            return self.findings
        runtime = self.world.runtime()
        host = runtime.host("motorlite doctor", lambda: None)
        try:
            found = await self._look_up(runtime, options)
            if found is not None:
                await _Visits(self, runtime, host, found, tls).run()
        finally:
            await host.close()
        return self.findings

    def _add(self, *findings: Finding) -> None:
        for finding in map(self._secrets.cleaned, findings):
            self.findings.append(finding)
            self.report(finding)

    def add(self, findings: Iterable[Finding]) -> bool:
        """Report findings; returns whether there is no error among them."""
        found = list(findings)
        self._add(*found)
        return not failed(found)

    def _read(self, uri: str) -> ClientOptions | None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                options = client_options(uri)
            except ConfigurationError as error:
                self._add(configuration.malformed(str(error)))
                return None
            secret = shown_secret(options)
            if secret is not None:
                warnings.warn(f"without TLS, anyone on the network path can read {secret}: set tls=true", stacklevel=1)
            optional.compressors(options)
        self._secrets = configuration.secrets_of(options)
        notes = [str(each.message) for each in caught]
        return options if self.add(configuration.judge_options(options, notes)) else None

    async def _look_up(self, runtime: Runtime, options: ClientOptions) -> ClientOptions | None:
        """The options with the hosts of the SRV records."""
        srv = options.srv
        if srv is None:
            return options
        self.waiting(f"looking up the SRV and TXT records of {srv.host_name}")
        resolver = self.world.resolver(runtime)
        try:
            found = await resolver.srv(records.query_name(srv), runtime.now() + self.wishes.timeout)
            until = runtime.now() + self.wishes.timeout
            txt = records.txt_record(srv, await resolver.txt(records.txt_name(srv), until))
            if not self.add(configuration.judge_records(srv, found.hosts, txt)):
                return None
            return with_srv_records(options, records.initial_seeds(srv, found, self.world.below), txt)
        except ConfigurationError as error:
            self._add(configuration.no_records(str(error)))
            return None


class _Visits:
    """The visits to all servers, of the connection string and of the replica set's configuration."""

    def __init__(
        self, owner: Examination, runtime: Runtime, host: Host, options: ClientOptions, tls: TLSContext | None
    ) -> None:
        self._owner = owner
        self._runtime = runtime
        self._options = options
        self._tls = tls
        self._topology: TopologyDescription = initial_description(options)
        self._authenticator = optional.authenticator(options, owner.world, runtime, host)
        self._connect = owner.world.connector(runtime, tls, options.proxy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # reported before
            self._compressors = tuple(each.name for each in optional.compressors(options))
        self._platform = read_platform_facts(runtime.name)
        environment = read_environment(ENVIRONMENT_VARIABLES)
        # Of the server that was greeted last.
        self._clock: Finding | None = None
        self._greeted: set[str] = set()
        # The errors of single servers.
        self._problems: list[Finding] = []
        self._metadata = Libraries(()).metadata(self._platform, environment, options.app_name)

    def _until(self) -> float:
        return self._runtime.now() + self._owner.wishes.timeout

    async def run(self) -> None:
        owner = self._owner
        try:
            await self._visit_all()
        finally:
            # Also after Ctrl-C.
            selection = list(deployment.judge_selection(self._topology, self._options))
            owner.add(deployment.weighed(self._problems, selection))
        members = self._topology.server_descriptions()
        if self._topology.replica_set_name is not None and self._topology.has_known_servers:
            names = [format_address(each) for each in members]
            for seed in map(format_address, self._options.seeds):
                if seed not in names and seed in self._greeted and not self._has_problem(seed):
                    owner.add([deployment.unlisted(seed, names)])
        owner.add([deployment.judge_files(self._options, max(len(members), 1), probe.open_files_limit())])
        owner.add(selection)

    async def _visit_all(self) -> None:
        seeds = frozenset(self._options.seeds)
        visited: set[Address] = set()
        while len(visited) < MOST_SERVERS:
            known = self._topology.server_descriptions()
            # Seeds first, also those that the set does not have: a client asks them too.
            address = next((each for each in (*self._options.seeds, *known) if each not in visited), None)
            if address is None:
                break
            visited.add(address)
            await self._visit(address, is_from_set=address not in seeds)

    def _add(self, findings: Iterable[Finding]) -> bool:
        """Report what was found at one server, but keep errors; returns whether there are none.

        How bad they are depends on the other servers.
        """
        found = list(findings)
        self._owner.add(each for each in found if each.severity is not Severity.ERROR)
        self._problems += (each for each in found if each.severity is Severity.ERROR)
        return not failed(found)

    def _has_problem(self, server: str) -> bool:
        return any(each.server == server for each in self._problems)

    async def _visit(self, address: Address, *, is_from_set: bool) -> None:
        owner, server = self._owner, format_address(address)
        if await self._look_at_network(address, is_from_set=is_from_set):
            owner.waiting(f"{server}: hello")
            connection = await self._greet(address)
            if connection is not None:
                await self._converse(connection, server)
                return
        # What the last step says of it in its list of servers.
        reason = AutoReconnect(next(each.text for each in self._problems if each.server == server))
        self._topology = self._topology.apply(ServerDescription.unknown(address, error=reason))

    async def _converse(self, connection: Connection, server: str) -> None:
        try:
            if await self._judge_hello(connection) and await self._authenticate(connection):
                await self._try_commands(connection)
        except PyMongoError as error:
            text = f"the connection failed: {error}"
            self._add([Finding(Step.ACCESS, Severity.ERROR, text, "the server's log says why", server)])
        finally:
            connection.close()

    # --- network ---

    async def _in_thread(self, function: Callable[[], T]) -> T:
        return await probe.in_daemon(self._runtime, function)

    async def _look_at_network(self, address: Address, *, is_from_set: bool) -> bool:
        owner, options, server = self._owner, self._options, format_address(address)
        host, port = address
        if port is None:
            attempt = partial(probe.reach, "Unix", host, host, owner.wishes.timeout)
            return self._add(network.judge_socket_file(server, await self._in_thread(attempt)))
        proxy = ""
        if options.proxy is not None:
            host, port = options.proxy.host, options.proxy.port
            proxy = format_address((host, port))
            owner.add([network.by_proxy(server, proxy)])
        owner.waiting(f"{server}: looking up the addresses of {host}")
        try:
            found = await self._in_thread(partial(probe.resolve, host, port, owner.wishes.timeout))
        except (OSError, UnicodeError) as error:
            return self._add([network.unresolved(server, str(error), is_from_set=is_from_set, proxy=proxy)])
        reached = []
        for family, ip, where in found:
            owner.waiting(f"{server}: TCP connection to {ip}")
            attempt = partial(probe.reach, family, ip, where, owner.wishes.timeout)
            reached.append(await self._in_thread(attempt))
        in_container = self._platform.is_docker
        judged = network.judge_addresses(
            server, reached, is_from_set=is_from_set, is_in_container=in_container, proxy=proxy
        )
        if not self._add(judged):
            return False
        if options.tls is None or options.proxy is not None:
            return True
        return await self._look_at_tls(server, host, next(each for each in reached if each.error is None))

    async def _look_at_tls(self, server: str, host: str, reached: Reached) -> bool:
        owner, tls = self._owner, self._options.tls
        assert tls is not None
        owner.waiting(f"{server}: TLS handshake")
        look = await self._in_thread(partial(probe.look_at_tls, reached, host, tls, owner.wishes.timeout))
        try:
            return self._add(network.judge_tls(server, look, tls, probe.wall_clock()))
        except ValueError as error:
            return self._add(
                [Finding(Step.TLS, Severity.WARNING, f"the certificate cannot be read: {error}", "", server)]
            )

    # --- hello ---

    async def _greet(self, address: Address) -> Connection | None:
        """Open the connection and say hello; None if that fails."""
        options, server, runtime = self._options, format_address(address), self._runtime
        credentials = options.credentials
        asks = credentials is not None and credentials.username is not None
        document = hello_document(
            metadata=self._metadata(),
            load_balanced=options.load_balanced,
            compressors=self._compressors,
            server_api=options.server_api,
            sasl_supported_mechs=f"{credentials.source}.{credentials.username}" if asks and credentials else None,
        )
        connection: Connection | None = None
        try:
            framer = FrameReader(MAX_HELLO_SIZE, ReceiveBuffer())
            stream = await self._connect(address, framer, self._until())
            connection = Connection(address, 1, 0, stream, framer, Decoder(runtime.sleep, pauses_collector=False))
            started = runtime.now()
            reply = await connection.command("admin", document, self._until())
            took = runtime.now() - started
            self._clock = self._judge_clock(server, reply, took)
            connection.learn(parse_hello(address, reply, options.load_balanced, check_versions=False))
            seen = ServerDescription.from_hello(
                address, reply, round_trip_time=took, min_round_trip_time=took, now=runtime.now()
            )
        except PyMongoError as error:
            if connection is not None:
                connection.close()
            self._add([deployment.no_hello(server, error, is_plain=self._tls is None)])
            return None
        self._greeted.add(server)
        self._topology = self._topology.apply(seen)
        return connection

    @staticmethod
    def _judge_clock(server: str, reply: Mapping[str, Any], took: float) -> Finding | None:
        local = reply.get("localTime")
        if not isinstance(local, datetime):
            return None
        # bson's times are in UTC, without a zone.
        difference = (local - _EPOCH).total_seconds() - (probe.wall_clock() - took / 2)
        return deployment.judge_clock(server, difference, took / 2)

    async def _judge_hello(self, connection: Connection) -> bool:
        reply, address = connection.handshake.reply, connection.address
        built = await self._command(connection, "admin", {"buildInfo": 1})
        version = str(built.get("version", "")) if built.get("ok") == 1 else ""
        return self._add(
            deployment.judge_hello(address, reply, connection.facts, self._options, self._compressors, version)
        )

    async def _command(self, connection: Connection, database: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        declared = server_api_fields(self._options.server_api)
        return await connection.command(database, {**document, **declared}, self._until())

    # --- authentication and commands ---

    async def _authenticate(self, connection: Connection) -> bool:
        authenticator, address = self._authenticator, connection.address
        if authenticator is None or connection.handshake.is_arbiter:  # arbiters know no users
            return True
        server = format_address(address)
        self._owner.waiting(f"{server}: authentication")
        problem: PyMongoError | None = None
        code: int | None = None
        try:
            authentication = authenticator.begin(address)
            await authenticator.authenticate(connection, authentication, Limits(self._until(), None))
        except PyMongoError as error:
            problem = error
            code = error.code if isinstance(error, OperationFailure) else None
        mechanisms = connection.handshake.sasl_supported_mechs
        finding = deployment.judge_authentication(server, mechanisms, self._options, problem, code)
        return self._add([finding])

    async def _try_commands(self, connection: Connection) -> None:
        owner, server = self._owner, format_address(connection.address)
        connection.expect_replies()
        owner.waiting(f"{server}: ping")
        reply = await self._command(connection, "admin", {"ping": 1})
        if not self._add([access.judge_command(server, "ping", "admin", reply, ())]):
            return
        if connection.handshake.is_arbiter:
            return
        roles = access.Roles(await self._command(connection, "admin", {"connectionStatus": 1, "showPrivileges": True}))
        owner.waiting(f"{server}: find")
        self._add([await self._find(connection, server, roles)])
        is_writable = ServerDescription.from_hello(
            connection.address, connection.handshake.reply, round_trip_time=None, min_round_trip_time=0.0, now=0.0
        ).is_writable
        if owner.wishes.write and is_writable:
            await self._write(connection, server, roles)
        await self._measure(connection, server)
        status = await self._command(connection, "admin", {"serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0})
        connections = document(status.get("connections")) or None
        owner.add([deployment.judge_connections(server, connections, self._options)])

    async def _find(self, connection: Connection, server: str, roles: access.Roles) -> Finding:
        """Read from the doctor's collection, which need not exist, or else from one that the roles permit."""

        async def find(database: str, collection: str) -> Mapping[str, Any]:
            command = {"find": collection, "limit": 1, "singleBatch": True}
            preference = {"$readPreference": {"mode": "primaryPreferred"}}
            return await self._command(connection, database, {**command, **preference})

        named = self._options.database
        database = named or DEFAULT_DATABASE
        namespace = f"{database}.{COLLECTION}"
        reply = await find(database, COLLECTION)
        if not access.is_refused(reply):
            return access.judge_command(server, "find", namespace, reply, roles.names)
        place = roles.place(database, "find")
        if place is None:
            return access.judge_refused_find(server, namespace, reply, roles)
        return access.judge_other_find(server, named, place, await find(*place), roles)

    async def _measure(self, connection: Connection, server: str) -> None:
        self._owner.waiting(f"{server}: {PINGS} round trips")
        times = []
        for _ in range(PINGS):
            started = self._runtime.now()
            await self._command(connection, "admin", {"ping": 1})
            times.append(self._runtime.now() - started)
        self._owner.add(deployment.judge_round_trips(server, times, self._options))
        if self._clock is not None:
            self._owner.add([self._clock])

    async def _write(self, connection: Connection, server: str, roles: access.Roles) -> None:
        """Insert a document into a collection of the doctor's, and delete it."""
        self._owner.waiting(f"{server}: write")
        database, identifier = self._options.database or DEFAULT_DATABASE, ObjectId()
        namespace = f"{database}.{COLLECTION}"
        insert = {"insert": COLLECTION, "documents": [{"_id": identifier}]}
        finding = access.judge_write(server, namespace, await self._command(connection, database, insert), roles)
        self._add([finding])
        if finding.severity is Severity.OK:
            delete = {"delete": COLLECTION, "deletes": [{"q": {"_id": identifier}, "limit": 1}]}
            reply = await self._command(connection, database, delete)
            self._add(access.judge_removal(server, namespace, identifier, reply))
