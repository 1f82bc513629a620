"""The way through the steps: a scripted deployment behind a network that is made up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from motorlite._client.dependencies import Dependencies
from motorlite._net import probe
from motorlite._net.probe import Reached, TLSLook
from motorlite.doctor._examination import PINGS, Examination, Wishes
from motorlite.doctor._finding import Severity, Step, exit_status
from motorlite.errors import ConfigurationError
from motorlite.testing.answers import Close, Hang, Raw, failure
from motorlite.testing.scripted import ScriptedDeployment
from tests.support.auth_servers import threadless
from tests.support.scram_server import ScramServer
from tests.support.srv import Records

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite.doctor._finding import Finding

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 31, tzinfo=UTC)
UNAUTHORIZED = failure(13, message="not authorized")


class Network:
    """What is below the driver's streams: names, addresses and TLS."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.unresolved: dict[str, Exception] = {}
        self.errors: dict[str, str] = {}
        self.tls = TLSLook("TLSv1.3", "AES", (b"no certificate",))
        self.reached: list[str] = []
        monkeypatch.setattr(probe, "in_daemon", self._at_once)
        monkeypatch.setattr(probe, "resolve", self._resolve)
        monkeypatch.setattr(probe, "reach", self._reach)
        monkeypatch.setattr(probe, "look_at_tls", lambda *_arguments: self.tls)
        monkeypatch.setattr(probe, "wall_clock", NOW.timestamp)

    @staticmethod
    async def _at_once(_runtime: Any, function: Callable[[], Any]) -> Any:
        return function()

    def _resolve(self, host: str, port: int, _timeout: float) -> list[tuple[str, str, Any]]:
        if host in self.unresolved:
            raise self.unresolved[host]
        return [("IPv4", host, (host, port))]

    def _reach(self, family: str, ip: str, where: Any, _timeout: float) -> Reached:
        self.reached.append(f"{family} {ip}")
        return Reached(ip, family, 0.001, self.errors.get(ip), where)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    return Network(monkeypatch)


class Report:
    """What an examination found."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = findings
        self.status = exit_status(findings)

    def texts(self, severity: Severity, step: Step | None = None) -> str:
        found = (each for each in self.findings if each.severity is severity and step in (None, each.step))
        return "\n".join(f"{each.server}: {each.text} -> {each.advice}" for each in found)

    @property
    def errors(self) -> str:
        return self.texts(Severity.ERROR)

    @property
    def warnings(self) -> str:
        return self.texts(Severity.WARNING)


async def examine(
    deployment: ScriptedDeployment, uri: str | None = None, *, write: bool = False, **world: Any
) -> Report:
    shown: list[Finding] = []
    waited: list[str] = []
    with_defaults: dict[str, Any] = {"runtime": threadless, "connector": deployment.connector, **world}
    examination = Examination(shown.append, waited.append, Wishes(1.0, write=write), Dependencies(**with_defaults))
    async with deployment:
        found = await examination.run(uri or deployment.uri)
    assert found == shown == examination.findings
    for server in deployment.servers.values():
        assert not server.open_connections, "each connection is closed"
    return Report(found)


def replica_set(*hosts: str) -> ScriptedDeployment:
    return ScriptedDeployment(hosts, replica_set="rs")


def grants(*privileges: tuple[Mapping[str, Any], str]) -> dict[str, Any]:
    """A reply to connectionStatus, for resources and an action."""
    found = [{"resource": dict(resource), "actions": [action]} for resource, action in privileges]
    roles = [{"role": "custom", "db": "admin"}] if found else []
    return {"authInfo": {"authenticatedUserRoles": roles, "authenticatedUserPrivileges": found}}


# --- a healthy deployment ---


async def test_all_steps(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    for server in deployment.servers.values():
        server.hello = {"localTime": NOW}
        server.on("buildInfo", {"version": "7.0.1"})
        server.on("serverStatus", {"connections": {"current": 3, "available": 800}})
    report = await examine(deployment, write=True)
    assert (report.status, report.warnings) == (0, "")
    assert {each.step for each in report.findings} == set(Step) - {Step.SRV, Step.TLS, Step.AUTHENTICATION}
    assert network.reached == ["IPv4 a", "IPv4 b"]
    texts = report.texts(Severity.OK)
    for expected in (
        "a:1: MongoDB 7.0.1, RSPrimary, of the set 'rs'",
        "b:1: find on test.motorlite_doctor is permitted",
        f"b:1: {PINGS} round trips",
        "differs by +0.000 s",
        "room for 800 more",
        ": writes would go to a:1",
    ):
        assert expected in texts
    for address, server in (("a:1", deployment["a:1"]), ("b:1", deployment["b:1"])):
        assert server.connections_made == 1
        assert len(server.commands("ping")) == PINGS + 1
        # Only the primary is written to.
        assert len(server.commands("insert")) == len(server.commands("delete")) == (address == "a:1")
    (inserted,), (deleted,) = (deployment["a:1"].commands(name) for name in ("insert", "delete"))
    assert deleted["deletes"][0]["q"]["_id"] == inserted["documents"][0]["_id"]
    assert inserted["$db"] == "test"


async def test_without_the_wish_nothing_is_written(network: Network) -> None:
    deployment = replica_set("a:1")
    report = await examine(deployment)
    assert report.status == 0
    assert not deployment["a:1"].commands("insert")


async def test_members_that_the_connection_string_does_not_name(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    report = await examine(deployment, "mongodb://a:1/?replicaSet=rs")
    assert report.status == 0
    assert deployment["b:1"].connections_made == 1


async def test_a_seed_that_the_set_knows_by_another_name(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    deployment.remove("b:1")
    report = await examine(deployment, "mongodb://a:1,b:1/?replicaSet=rs")
    assert report.status == 0
    assert "b:1: the set does not know the server by this name: its members are a:1" in report.warnings


async def test_an_arbiter_knows_no_user(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    deployment["b:1"].hello = {"arbiterOnly": True, "secondary": False}
    let_in(deployment["a:1"])
    report = await examine(deployment, "mongodb://user:pencil@a:1,b:1/?replicaSet=rs")
    assert report.status == 0
    assert deployment["b:1"].commands("find") == deployment["b:1"].commands("saslStart") == []
    assert "b:1" not in report.warnings + report.texts(Severity.OK, Step.AUTHENTICATION)


# --- the connection string ---


async def test_a_connection_string_that_cannot_be_read(network: Network) -> None:
    report = await examine(ScriptedDeployment(), "mongodb://u:hunter2@h@host/")
    assert (report.status, len(report.findings)) == (Step.URI.value, 1)
    assert "hunter2" not in report.errors


@pytest.mark.parametrize("option", ["tls=maybe", "tlsCAFile=/nowhere"])
async def test_an_option_that_no_client_works_with(network: Network, option: str) -> None:
    deployment = ScriptedDeployment()
    report = await examine(deployment, f"mongodb://a:1/?{option}")
    assert report.status == Step.URI.value
    assert (network.reached, deployment["a:1"].connections_made) == ([], 0)


async def test_what_the_driver_warns_of_is_reported(network: Network) -> None:
    report = await examine(ScriptedDeployment(), "mongodb://a:1/?colour=red")
    assert report.status == 0
    assert "unknown option 'colour'" in report.warnings
    password = await examine(
        ScriptedDeployment(), "mongodb://u:hunter2@a:1/?authMechanism=PLAIN&authSource=%24external"
    )
    assert "anyone on the network path can read the password" in password.warnings


# --- SRV records ---


async def test_srv_records(network: Network) -> None:
    deployment = ScriptedDeployment(("a.example.com:1", "b.example.com:1"), mongos=True)
    records = Records("a.example.com:1", "b.example.com:1", texts=["authSource=shop"])
    report = await examine(deployment, "mongodb+srv://cluster.example.com/?tls=false", resolver=records.resolver)
    assert report.status == 0
    assert "2 SRV records: a.example.com:1, b.example.com:1; TXT record: authSource=shop" in report.texts(Severity.OK)
    assert all(server.connections_made == 1 for server in deployment.servers.values())


@pytest.mark.parametrize(
    ("records", "expected"), [(["a.other.com:1"], "may only point below"), ([], "mongodb:// with all hosts")]
)
async def test_srv_records_that_no_client_follows(network: Network, records: list[str], expected: str) -> None:
    found = Records(*records)
    if not records:
        found.failures["SRV"] = ConfigurationError("there is no such name")
    report = await examine(ScriptedDeployment(), "mongodb+srv://cluster.example.com/", resolver=found.resolver)
    assert report.status == Step.SRV.value
    assert expected in report.errors
    assert network.reached == []


# --- addresses ---


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OSError("no such name"), "cannot be resolved: no such name"),
        (UnicodeError("label too long"), "cannot be resolved: label too long"),
        (TimeoutError("no answer within 1 s"), "cannot be resolved: no answer within 1 s"),
    ],
)
async def test_a_name_without_an_address(network: Network, error: Exception, expected: str) -> None:
    network.unresolved["a"] = error
    deployment = ScriptedDeployment()
    report = await examine(deployment)
    assert report.status == Step.ADDRESS.value
    assert expected in report.errors
    assert deployment["a:1"].connections_made == 0
    # Reads and writes fail for one and the same reason, which is said once.
    assert report.texts(Severity.ERROR, Step.SELECTION).count("a:1 did not say hello") == 1


async def test_a_member_that_is_down_is_no_error_if_clients_work_without_it(network: Network) -> None:
    network.errors["b"] = "refused"
    report = await examine(replica_set("a:1", "b:1", "c:1"))
    assert (report.status, report.errors) == (0, "")
    assert "b:1: b (IPv4): connection refused -> clients do their work without this server; nothing listens" in (
        report.warnings
    )


async def test_a_member_that_is_needed_and_down(network: Network) -> None:
    network.errors["b"] = "refused"
    report = await examine(replica_set("a:1", "b:1"), "mongodb://a:1,b:1/?replicaSet=rs&readPreference=secondary")
    assert report.status == Step.ADDRESS.value
    assert "b:1: b (IPv4): connection refused" in report.errors
    assert "b:1 is Unknown: AutoReconnect: b (IPv4): connection refused" in report.errors
    assert "without this server" not in report.errors


async def test_a_primary_that_is_down(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    network.errors["a"] = "timeout"
    report = await examine(deployment)
    assert report.status == Step.ADDRESS.value
    assert "the set has no primary" in report.errors


async def test_a_member_that_is_only_in_the_configuration(network: Network) -> None:
    network.errors["b"] = "refused"
    report = await examine(replica_set("a:1", "b:1"), "mongodb://a:1/?replicaSet=rs")
    assert report.status == 0
    assert "b:1" in report.warnings
    assert "the name is from the replica set's configuration" in report.warnings


async def test_a_proxy(network: Network) -> None:
    report = await examine(ScriptedDeployment(), "mongodb://a:1/?proxyHost=relay&proxyPort=9")
    assert report.status == 0
    assert network.reached == ["IPv4 relay"]
    assert "SOCKS5 proxy relay:9" in report.texts(Severity.NOTE)


@pytest.mark.parametrize("problem", ["resolved", "reached"])
async def test_a_proxy_that_is_not_there(network: Network, problem: str) -> None:
    if problem == "resolved":
        network.unresolved["relay"] = OSError("unknown name")
    else:
        network.errors["relay"] = "refused"
    report = await examine(ScriptedDeployment(), "mongodb://a:1/?proxyHost=relay&proxyPort=9")
    assert report.status == Step.ADDRESS.value
    assert f"proxy relay:9 cannot be {problem}" in report.errors
    assert "check proxyHost and proxyPort" in report.errors
    assert "mongod runs" not in report.errors


@pytest.mark.parametrize("error", [None, "No such file"])
async def test_a_socket_file(network: Network, error: str | None) -> None:
    deployment = ScriptedDeployment()
    server = deployment.servers[("/tmp/m.sock", None)] = deployment["a:1"]
    if error is not None:
        network.errors["/tmp/m.sock"] = error
    report = await examine(deployment, "mongodb://%2Ftmp%2Fm.sock/")
    assert network.reached == ["Unix /tmp/m.sock"]
    assert report.status == (Step.ADDRESS.value if error else 0)
    assert server.connections_made == (0 if error else 1)
    assert ("pathPrefix" in report.errors) is bool(error)


# --- TLS ---


async def test_tls_that_is_refused(network: Network) -> None:
    network.tls = TLSLook(error="closed", is_closed=True)
    deployment = ScriptedDeployment()
    report = await examine(deployment, "mongodb://a:1/?tls=true")
    assert report.status == Step.TLS.value
    assert "remove tls=true" in report.errors
    assert deployment["a:1"].connections_made == 0


async def test_a_certificate_that_cannot_be_read_is_no_error(network: Network) -> None:
    report = await examine(ScriptedDeployment(), "mongodb://a:1/?tls=true")
    assert report.status == 0
    assert "the certificate cannot be read" in report.warnings


# --- hello ---


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Hang(), "swallows the data"),
        (Close(), "set tls=true; or it is no MongoDB server"),
        (Raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "the peer speaks HTTP"),
        (Raw(b"\xff" * 64), "is no MongoDB server: check the host and the port"),
        # A message whose document ends too early.
        (Raw(b"\x24\0\0\0\1\0\0\0\1\0\0\0\xdd\7\0\0\0\0\0\0\0\x0f\0\0\0xxxxxxxxxxx"), "is no MongoDB server"),
        (
            failure(323, message="API version 2 is not known"),
            "version 2 is not known -> the server's log says why",
        ),
    ],
)
async def test_no_hello(network: Network, answer: Any, expected: str) -> None:
    deployment = ScriptedDeployment()
    for name in ("hello", "isMaster", "ismaster"):
        deployment["a:1"].on(name, answer)
    report = await examine(deployment)
    assert report.status == Step.HELLO.value
    assert expected in report.errors


async def test_tls_is_no_advice_where_there_is_tls(network: Network) -> None:
    deployment = ScriptedDeployment()
    for name in ("hello", "isMaster", "ismaster"):
        deployment["a:1"].on(name, Close())
    report = await examine(deployment, "mongodb://a:1/?tls=true")
    assert report.status == Step.HELLO.value
    assert "the server's log says why it refuses" in report.errors


async def test_a_server_that_is_behind_no_load_balancer(network: Network) -> None:
    report = await examine(ScriptedDeployment(), "mongodb://a:1/?loadBalanced=true")
    assert report.status == Step.HELLO.value
    assert "load balancing mode" in report.errors
    assert "-> correct the options" in report.errors


async def test_another_set(network: Network) -> None:
    deployment = replica_set("a:1")
    report = await examine(deployment, "mongodb://a:1/?replicaSet=other")
    assert report.status == Step.HELLO.value
    assert "the set is called 'rs'" in report.errors
    assert "no server for reads and writes: none is left" in report.errors
    assert not deployment["a:1"].commands("ping")


async def test_a_server_that_goes_away(network: Network) -> None:
    deployment = ScriptedDeployment()
    deployment["a:1"].on("ping", Close())
    report = await examine(deployment)
    assert report.status == Step.ACCESS.value
    assert "the connection failed" in report.errors


async def test_a_server_that_goes_away_and_is_not_needed(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    deployment["b:1"].on("ping", Close())
    report = await examine(deployment)
    assert report.status == 0
    assert "b:1: the connection failed" in report.warnings


# --- authentication ---


def let_in(server: Any, password: bytes = b"pencil") -> None:
    scram = ScramServer("SCRAM-SHA-256", password)
    server.hello = {**server.hello, "saslSupportedMechs": ["SCRAM-SHA-256"]}
    server.on("saslStart", scram.answer)
    server.on("saslContinue", scram.answer)


async def test_authentication(network: Network) -> None:
    deployment = ScriptedDeployment()
    let_in(deployment["a:1"])
    report = await examine(deployment, "mongodb://user:pencil@a:1/")
    assert report.status == 0
    assert "authenticated 'user', authSource 'admin'; the server offers SCRAM-SHA-256" in report.texts(Severity.OK)


async def test_a_wrong_password_is_not_shown(network: Network) -> None:
    deployment = ScriptedDeployment()
    let_in(deployment["a:1"])
    report = await examine(deployment, "mongodb://user:p%40ss%2Fw%3Ard@a:1/")
    assert report.status == Step.AUTHENTICATION.value
    assert "the password is wrong" in report.errors
    shown = repr([each.as_document() for each in report.findings])
    assert "p@ss" not in shown
    assert "p%40ss" not in shown


# --- access ---


async def test_no_ping(network: Network) -> None:
    deployment = ScriptedDeployment()
    deployment["a:1"].on("ping", failure(8000, message="quota"))
    report = await examine(deployment)
    assert report.status == Step.ACCESS.value
    assert "ping on admin failed: quota (code 8000)" in report.errors
    assert not deployment["a:1"].commands("find")


ORDERS = {"db": "shop", "collection": "orders"}
SHOP = {"db": "shop", "collection": ""}


@pytest.mark.parametrize(
    ("uri", "privileges", "severity", "expected"),
    [
        ("/", [], Severity.ERROR, "the connection has no role: grant the role read on 'test'"),
        ("/shop", [(ORDERS, "find")], Severity.OK, "find on shop.orders is permitted"),
        ("/", [(ORDERS, "find")], Severity.OK, "find on shop.orders is permitted"),
        ("/", [(SHOP, "find")], Severity.OK, "find on shop.motorlite_doctor is permitted"),
        ("/admin", [(SHOP, "find")], Severity.WARNING, "name 'shop' in the connection string"),
        ("/admin", [({"db": "", "collection": ""}, "find")], Severity.WARNING, "but on test.motorlite_doctor"),
        ("/shop", [({"db": "", "collection": "orders"}, "find")], Severity.OK, "find on shop.orders"),
        ("/shop", [({"db": "a", "collection": "b"}, "find"), (ORDERS, "find")], Severity.OK, "find on shop.orders"),
        ("/shop", [(ORDERS, "insert")], Severity.WARNING, "the roles permit no find, but writes on shop.orders"),
        # What says nothing about data.
        ("/shop", [({"db": "shop", "collection": "system.js"}, "find")], Severity.ERROR, "has custom on 'admin'"),
        ("/shop", [({"cluster": True}, "find")], Severity.ERROR, "has custom on 'admin'"),
    ],
)
async def test_a_find_where_the_roles_permit_it(
    network: Network, uri: str, privileges: list[Any], severity: Severity, expected: str
) -> None:
    deployment = ScriptedDeployment()
    refused = uri.strip("/") or "test"

    def find(command: dict[str, Any]) -> dict[str, Any]:
        is_own = command["$db"] == refused and command["find"] == "motorlite_doctor"
        return UNAUTHORIZED if is_own else {"cursor": {"id": 0, "ns": "x", "firstBatch": []}}

    deployment["a:1"].on("find", find)
    deployment["a:1"].on("connectionStatus", grants(*privileges))
    report = await examine(deployment, f"mongodb://a:1{uri}")
    assert report.status == (Step.ACCESS.value if severity is Severity.ERROR else 0)
    assert expected in report.texts(severity, Step.ACCESS)
    assert deployment["a:1"].commands("connectionStatus")[0]["showPrivileges"] is True


async def test_a_find_that_fails_where_the_roles_permit_it(network: Network) -> None:
    deployment = ScriptedDeployment()
    deployment["a:1"].on("find", UNAUTHORIZED, failure(8000, message="quota"))
    deployment["a:1"].on("connectionStatus", grants((ORDERS, "find")))
    report = await examine(deployment, "mongodb://a:1/shop")
    assert report.status == Step.ACCESS.value
    assert "find on shop.orders failed: quota" in report.errors


@pytest.mark.parametrize(
    ("privileges", "status", "expected"),
    [
        ([], Step.ACCESS.value, "grant the role readWrite on 'shop'"),
        ([(ORDERS, "insert")], 0, "no write was tried: the roles permit them on shop.orders, but not on"),
        ([({"db": "b", "collection": ""}, "insert")], 0, "name 'b' in the connection string"),
    ],
)
async def test_a_write_that_the_roles_do_not_permit(
    network: Network, privileges: list[Any], status: int, expected: str
) -> None:
    deployment = ScriptedDeployment()
    deployment["a:1"].on("insert", UNAUTHORIZED)
    deployment["a:1"].on("connectionStatus", grants(*privileges))
    report = await examine(deployment, "mongodb://a:1/shop", write=True)
    assert report.status == status
    assert expected in report.errors + report.warnings
    assert len(deployment["a:1"].commands("insert")) == 1, "no collection of the user's is written to"
    assert not deployment["a:1"].commands("delete")


@pytest.mark.parametrize("reply", [UNAUTHORIZED, {"n": 0}])
async def test_a_document_that_stays_is_named(network: Network, reply: dict[str, Any]) -> None:
    deployment = ScriptedDeployment()
    deployment["a:1"].on("delete", reply)
    report = await examine(deployment, write=True)
    assert report.status == 0
    (inserted,) = deployment["a:1"].commands("insert")
    assert "the document of the write has stayed in test.motorlite_doctor" in report.warnings
    assert f"delete the document with the _id {inserted['documents'][0]['_id']}" in report.warnings


# --- the end ---


async def test_what_was_found_before_an_interruption_is_reported(network: Network) -> None:
    deployment = replica_set("a:1", "b:1")
    network.errors["a"] = "refused"
    for name in ("hello", "isMaster", "ismaster"):
        deployment["b:1"].on(name, Hang())
    findings: list[Finding] = []
    world = Dependencies(runtime=threadless, connector=deployment.connector)
    examination = Examination(findings.append, wishes=Wishes(60.0), world=world)
    async with deployment:
        with anyio.move_on_after(1):
            await examination.run("mongodb://a:1,b:1/?replicaSet=rs")
    assert [each.text for each in findings if each.severity is Severity.ERROR] == ["a (IPv4): connection refused"]


async def test_no_more_servers_than_a_deployment_has(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motorlite.doctor._examination.MOST_SERVERS", 2)
    deployment = replica_set("a:1", "b:1", "c:1")
    await examine(deployment)
    assert [server.connections_made for server in deployment.servers.values()] == [1, 1, 0]


# --- peers that lie ---

WRONG: list[Any] = [None, 7, "text", [], [7], {}, {"x": 7}, [[]], -1.5, float("nan"), True, NOW]


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(
    ("command", "field"),
    [
        ("buildInfo", "version"),
        ("connectionStatus", "authInfo"),
        ("connectionStatus", "authInfo.authenticatedUserRoles"),
        ("connectionStatus", "authInfo.authenticatedUserPrivileges"),
        ("find", "errmsg"),
        ("find", "code"),
        ("insert", "writeErrors"),
        ("delete", "n"),
        ("delete", "writeErrors"),
        ("serverStatus", "connections"),
        ("serverStatus", "connections.current"),
        ("serverStatus", "connections.available"),
        ("isMaster", "localTime"),
        ("isMaster", "hosts"),
        ("isMaster", "setName"),
        ("isMaster", "compression"),
        ("isMaster", "saslSupportedMechs"),
        ("isMaster", "maxWireVersion"),
        ("isMaster", "tags"),
    ],
)
async def test_a_reply_with_a_value_of_a_wrong_type(network: Network, command: str, field: str, value: Any) -> None:
    """The doctor meets what is no server, or no good one: it must not crash."""
    deployment = ScriptedDeployment()
    reply: dict[str, Any] = {"ok": 1.0}
    if command == "find":
        reply["ok"] = 0.0
    outer, _, inner = field.partition(".")
    reply[outer] = {inner: value} if inner else value
    server = deployment["a:1"]
    if command == "isMaster":
        server.hello = reply
    else:
        server.on(command, reply)
    report = await examine(deployment, "mongodb://a:1/?compressors=zlib", write=True)
    assert len(report.findings) > 3
    assert report.findings[-1].step is Step.SELECTION
