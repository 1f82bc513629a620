"""Initial DNS seedlist discovery: seeds and options from records of a DNS server of the test's own ("dns-seedlist").

The names of the servers lead to a scripted deployment: nothing leaves this process but the queries, which stay on the
loopback interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from motorlite import AsyncMongoClient
from motorlite._base.deadline import NO_DEADLINE
from motorlite._base.values import format_address
from motorlite._client.core import Core
from motorlite._client.dependencies import Dependencies
from motorlite._net.dns import DNSResolver
from motorlite.errors import ConfigurationError
from motorlite.read_preferences import ReadPreference
from motorlite.testing.scripted import ScriptedDeployment
from tests.spec.formats.base import Format, equal
from tests.spec.unified.outcomes import BadTest, Failed
from tests.support.dns_server import dns_server
from tests.support.dns_zone import BALANCER_PORT, public_zone
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from motorlite._base.values import Address
    from motorlite._net.runtime import Connector, Framer, FrameStream, Runtime
    from motorlite._net.tls import TLSContext
    from motorlite._options.options import ClientOptions

_FIELDS: Final = frozenset(
    {"uri", "seeds", "numSeeds", "hosts", "numHosts", "options", "parsed_options", "error", "ping", "comment"}
)
# Seconds: how long selecting a server, and then learning of all others, may take.
_PATIENCE: Final = 20.0


async def check(test: Mapping[str, Any]) -> None:
    """Connect and compare seeds, hosts and options; or the error, with which nothing must have been connected to."""
    if unknown := test.keys() - _FIELDS:
        raise BadTest(f"unknown fields: {', '.join(sorted(unknown))}")
    deployment = _deployment(test)
    try:
        with dns_server(public_zone()) as nameserver:
            world = Dependencies(
                connector=lambda runtime, tls, _proxy: _on_this_host(deployment, runtime, tls),
                resolver=lambda runtime: DNSResolver(runtime, [nameserver]),
            )
            await _check(test, world)
    finally:
        await deployment.close()
    if test.get("error") and any(server.connections_made for server in deployment.servers.values()):
        raise Failed("a server was connected to")


async def _check(test: Mapping[str, Any], world: Dependencies) -> None:
    try:
        client: AsyncMongoClient = AsyncMongoClient(test["uri"])
        core = client._core = Core(client.options, world)
        async with client:
            # Not only an operation selects: not all tests allow one.
            await core.topology.select(ReadPreference.NEAREST, NO_DEADLINE, (), core.now() + _PATIENCE)
            await _compare(test, client, core)
    except ConfigurationError:
        if not test.get("error"):
            raise
        return
    if test.get("error"):
        raise Failed("expected an error, found none")


async def _compare(test: Mapping[str, Any], client: AsyncMongoClient, core: Core) -> None:
    if test.get("ping", True) and not test.get("error"):
        equal(1, (await client.admin.command("ping"))["ok"], "ok of ping")
    options = client.options
    if "seeds" in test:
        equal(set(test["seeds"]), _texts(options.seeds), "seeds")
    if "numSeeds" in test:
        equal(test["numSeeds"], len(options.seeds), "number of seeds")

    def hosts() -> set[str]:
        return _texts(core.topology.description.server_descriptions())

    if "hosts" in test:
        await until(lambda: hosts() == set(test["hosts"]), _PATIENCE)
    if "numHosts" in test:
        await until(lambda: len(hosts()) == test["numHosts"], _PATIENCE)
    for name, value in test.get("options", {}).items():
        equal(value, _option(options, name), name)
    for name, value in test.get("parsed_options", {}).items():
        equal(value, _parsed(options, name), name)


def _texts(addresses: Iterable[Address]) -> set[str]:
    return set(map(format_address, addresses))


def _option(options: ClientOptions, name: str) -> Any:
    """What the client has in force, under the name of the URI option."""
    srv = options.srv
    assert srv is not None
    found: dict[str, Any] = {
        "ssl": options.tls is not None,
        "replicaSet": options.replica_set,
        "loadBalanced": options.load_balanced,
        "directConnection": options.direct_connection,
        "srvMaxHosts": srv.max_hosts,
        "srvServiceName": srv.service_name,
        # Without a user it has no effect.
        "authSource": srv._settings.options.get("authSource"),
    }
    if name not in found:
        raise BadTest(f"unknown option {name}")
    return found[name]


def _parsed(options: ClientOptions, name: str) -> Any:
    user = options.credentials
    if name in ("auth_database", "db", "defaultDatabase"):
        return options.database
    if name not in ("user", "password") or user is None:
        raise BadTest(f"there is no {name}")
    return user.username if name == "user" else user.password


def _deployment(test: Mapping[str, Any]) -> ScriptedDeployment:
    """The one of the three deployments ("Test Setup") that the hosts which are expected are of."""
    if any(seed.endswith(f":{BALANCER_PORT}") for seed in test.get("seeds", ())):
        balancer = ScriptedDeployment([f"localhost:{BALANCER_PORT}"], mongos=True)
        for server in balancer.servers.values():
            server.hello = {"serviceId": ObjectId()}
        return balancer
    if any(host.startswith("localhost:") for host in test.get("hosts", ())):
        return ScriptedDeployment([f"localhost:{port}" for port in (27017, 27018, 27019)], replica_set="repl0")
    return ScriptedDeployment([f"localhost:{port}" for port in (27017, 27018)], mongos=True)


def _on_this_host(deployment: ScriptedDeployment, runtime: Runtime, tls: TLSContext | None) -> Connector:
    """All names are those of this host, as they are in the public zone."""
    connect = deployment.connector(runtime, tls)

    async def connect_here(address: Address, framer: Framer, limit: float) -> FrameStream:
        return await connect(("localhost", address[1]), framer, limit)

    return connect_here


DNS_SEEDLIST: Final = Format(
    "dns-seedlist",
    check,
    lambda content: str(content.get("uri")).startswith("mongodb+srv://") and "tests" not in content,
    is_real_time=True,
)
