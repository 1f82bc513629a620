"""The wrong cases of docs/doctor.md: what the doctor finds with real servers and sockets, and its exit statuses."""

from __future__ import annotations

import datetime
import re
import socket
import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

import pytest
import trustme

from motorlite._client.dependencies import Dependencies
from motorlite._net.dns import DNSResolver
from motorlite.doctor._examination import Examination, Wishes
from motorlite.doctor._finding import Finding, Severity, Step, exit_status
from motorlite.testing import LocalServer
from tests.support.dns_server import Zone, dns_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

Result: TypeAlias = "tuple[int, str, list[Finding]]"


async def examine(uri: str, *, world: Dependencies | None = None, seconds: float = 5.0, write: bool = False) -> Result:
    """The exit status, text and advice of the errors, and all findings."""
    examination = Examination(lambda _finding: None, wishes=Wishes(seconds, write=write), world=world or Dependencies())
    findings = await examination.run(uri)
    errors = [f"{each.text} -> {each.advice}" for each in findings if each.severity is Severity.ERROR]
    return exit_status(findings), "\n".join(errors), findings


@contextmanager
def listener(backlog: int = 5) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as found:
        yield found


def uri_of(listening: socket.socket, options: str = "") -> str:
    return f"mongodb://127.0.0.1:{listening.getsockname()[1]}/?{options}"


@contextmanager
def tls_server(certificate: trustme.LeafCert) -> Iterator[socket.socket]:
    """Accept TLS with a certificate, and never say more."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)

    def serve() -> None:
        while True:
            try:
                connected, _ = listening.accept()
            except OSError:
                return
            with connected:
                connected.settimeout(5)
                try:
                    with context.wrap_socket(connected, server_side=True) as secure:
                        secure.recv(1)
                except OSError:
                    continue  # the client refused the certificate

    with listener() as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


# --- network ---


async def test_a_healthy_server(replica_set: LocalServer) -> None:
    status, errors, findings = await examine(replica_set.uri, write=True)
    assert (status, errors) == (0, "")
    assert {each.step for each in findings} == set(Step) - {Step.SRV, Step.TLS, Step.AUTHENTICATION}
    assert any("write on test.motorlite_doctor is permitted" in each.text for each in findings)
    reply = replica_set.command({"count": "motorlite_doctor"}, "test")
    assert reply["n"] == 0


async def test_without_the_wish_nothing_is_written(replica_set: LocalServer) -> None:
    before = replica_set.command({"serverStatus": 1}, "admin")["opcounters"]
    status, _, findings = await examine(replica_set.uri)
    after = replica_set.command({"serverStatus": 1}, "admin")["opcounters"]
    assert status == 0
    assert (after["insert"], after["delete"]) == (before["insert"], before["delete"])
    assert not any("write on" in each.text for each in findings)


async def test_a_closed_port() -> None:
    with listener() as listening:
        uri = uri_of(listening)
    status, errors, _ = await examine(uri)
    assert status == Step.ADDRESS.value
    assert "connection refused -> nothing listens there" in errors


async def test_a_firewall_that_drops() -> None:
    """The backlog of the listener is full, so the kernel drops what comes."""
    with listener(backlog=0) as listening:
        waiting = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
            waiting.append(filler)
        try:
            status, errors, _ = await examine(uri_of(listening), seconds=0.3)
        finally:
            for filler in waiting:
                filler.close()
    assert status == Step.ADDRESS.value
    assert "no answer within 0.3 s -> a firewall drops the packets" in errors


async def test_a_server_that_never_answers() -> None:
    with listener() as listening:
        status, errors, _ = await examine(uri_of(listening), seconds=0.3)
    assert status == Step.HELLO.value
    assert "swallows the data" in errors


async def test_a_host_without_an_address() -> None:
    status, errors, _ = await examine("mongodb://nowhere.invalid/")
    assert status == Step.ADDRESS.value
    assert "cannot be resolved" in errors
    assert "spelling" in errors


async def test_a_wrong_host_in_the_configuration_of_the_set() -> None:
    with listener() as listening:
        wrong = f"localhost:{listening.getsockname()[1]}"
    with LocalServer.start("replicaset", own=True) as server:
        config = server.command({"replSetGetConfig": 1}, "admin")["config"]
        config["version"] += 1
        config["members"].append({"_id": 7, "host": wrong, "votes": 0, "priority": 0})
        server.command({"replSetReconfig": config, "force": True}, "admin")
        server.wait_for_primary()
        status, _, findings = await examine(server.uri)
        needed, errors, _ = await examine(f"{server.uri}&readPreference=secondary")
    (warning,) = (each for each in findings if each.severity is Severity.WARNING)
    assert (status, warning.server) == (0, wrong)
    assert "the name is from the replica set's configuration (rs.conf())" in warning.advice
    assert needed == Step.ADDRESS.value
    assert f"{wrong} is Unknown" in errors


async def test_a_secondary_that_is_down(replica_set3: LocalServer) -> None:
    primary = replica_set3.wait_for_primary()
    lost = next(address for address in replica_set3.addresses if address != primary)
    replica_set3.kill(lost)
    try:
        status, errors, findings = await examine(replica_set3.uri)
    finally:
        replica_set3.restore()
    assert (status, errors) == (0, "")
    (warning,) = (each for each in findings if each.severity is Severity.WARNING)
    assert warning.server == f"{lost[0]}:{lost[1]}"
    assert "connection refused" in warning.text
    assert "clients do their work without this server" in warning.advice


async def test_a_web_server() -> None:
    def serve() -> None:
        listening.accept()[0].close()  # the step before
        connected, _ = listening.accept()
        with connected:
            connected.recv(1 << 16)
            connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener() as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        status, errors, _ = await examine(uri_of(listening))
        thread.join()
    assert status == Step.HELLO.value
    assert "the peer speaks HTTP" in errors
    assert "check the host and the port" in errors


async def test_the_set_has_another_name(replica_set: LocalServer) -> None:
    uri = re.sub("replicaSet=[^&]*", "replicaSet=other", replica_set.uri)
    assert uri != replica_set.uri
    status, errors, _ = await examine(uri)
    assert status == Step.HELLO.value
    assert "and replicaSet is 'other' -> set replicaSet=" in errors


async def test_tags_that_select_nothing(replica_set: LocalServer) -> None:
    options = "readPreference=nearest&readPreferenceTags=dc:mars"
    uri = f"{replica_set.uri}{'&' if '?' in replica_set.uri else '/?'}{options}"
    status, errors, _ = await examine(uri)
    assert status == Step.SELECTION.value
    assert "no server has these tags" in errors


# --- TLS ---


@pytest.mark.parametrize(
    ("names", "expires_in", "is_trusted", "expected"),
    [
        (("127.0.0.1",), -1, True, "the certificate expired on 20"),
        (("127.0.0.1",), 90, False, "does not trust the certificate"),
        (("db.example.com",), 90, True, "the certificate is for db.example.com, not for 127.0.0.1"),
    ],
)
async def test_wrong_certificates(
    names: tuple[str, ...], expires_in: int, is_trusted: bool, expected: str, tmp_path: Path
) -> None:
    authority, other = trustme.CA(organization_name="The Proxy"), trustme.CA()
    (authority if is_trusted else other).cert_pem.write_to_path(tmp_path / "ca.pem")
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=expires_in)
    with tls_server(authority.issue_cert(*names, not_after=end)) as listening:
        status, errors, _ = await examine(uri_of(listening, f"tls=true&tlsCAFile={quote(str(tmp_path / 'ca.pem'))}"))
    assert status == Step.TLS.value
    assert expected in errors
    if not is_trusted:
        assert "The Proxy" in errors
        assert "has replaced the certificate" in errors


async def test_a_server_without_tls(standalone: LocalServer) -> None:
    host, port = standalone.addresses[0]
    status, errors, _ = await examine(f"mongodb://{host}:{port}/?tls=true")
    assert status == Step.TLS.value
    assert "remove tls=true" in errors


async def test_a_server_that_requires_tls(secured: LocalServer) -> None:
    host, port = secured.addresses[0]
    status, errors, _ = await examine(f"mongodb://{host}:{port}/")
    assert status == Step.HELLO.value
    assert "set tls=true" in errors


# --- authentication ---


def with_user(secured: LocalServer, user: str, password: str, options: str) -> str:
    """The URI of a server for another user."""
    head, _, rest = secured.uri.partition("://")
    return f"{head}://{user}:{password}@{rest.rpartition('@')[2]}&{options}"


async def test_a_wrong_password_is_found_and_not_shown(secured: LocalServer) -> None:
    user = secured.uri.partition("://")[2].partition(":")[0]
    status, errors, findings = await examine(with_user(secured, user, "not-the-password", "authSource=admin"))
    assert status == Step.AUTHENTICATION.value
    assert "the password is wrong" in errors
    assert "not-the-password" not in repr([each.as_document() for each in findings])


async def test_a_wrong_auth_source(secured: LocalServer) -> None:
    status, errors, _ = await examine(f"{secured.uri}&authSource=shop")
    assert status == Step.AUTHENTICATION.value
    assert "the server knows no user 'motorlite' in 'shop': set authSource" in errors


async def test_a_user_without_a_role(secured: LocalServer) -> None:
    secured.command({"createUser": "roleless", "pwd": "secret-word", "roles": []}, "admin")
    try:
        status, errors, _ = await examine(with_user(secured, "roleless", "secret-word", "authSource=admin"))
    finally:
        secured.command({"dropUser": "roleless"}, "admin")
    assert status == Step.ACCESS.value
    assert "the connection has no role: grant the role read on 'test'" in errors


@pytest.mark.parametrize(
    ("path", "severity", "expected"),
    [
        ("", Severity.OK, "find on shop.orders is permitted"),
        ("shop", Severity.OK, "find on shop.orders is permitted"),
        (
            "admin",
            Severity.WARNING,
            "not permitted on 'admin', the database of the connection string, but on shop.orders",
        ),
    ],
)
async def test_a_user_of_one_collection(secured: LocalServer, path: str, severity: Severity, expected: str) -> None:
    privilege = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find", "insert"]}
    secured.command({"createRole": "clerk", "privileges": [privilege], "roles": []}, "admin")
    secured.command({"createUser": "clerk", "pwd": "secret-word", "roles": ["clerk"]}, "admin")
    uri = with_user(secured, "clerk", "secret-word", "authSource=admin").replace("/?", f"/{path}?", 1)
    try:
        status, errors, findings = await examine(uri, write=True)
    finally:
        secured.command({"dropUser": "clerk"}, "admin")
        secured.command({"dropRole": "clerk"}, "admin")
    assert (status, errors) == (0, "")
    assert expected in "\n".join(each.text for each in findings if each.severity is severity)
    assert any("no write was tried" in each.text for each in findings)


# --- SRV ---


def in_zone(where: tuple[str, int]) -> Dependencies:
    return Dependencies(resolver=lambda runtime: DNSResolver(runtime, [where]))


async def test_an_srv_name_of_too_many_labels() -> None:
    zone = Zone()
    zone.set_srv("_mongodb._tcp.shop.cluster.test.example", ("a.test.example", 27017))
    with dns_server(zone) as where:
        status, errors, _ = await examine("mongodb+srv://shop.cluster.test.example/", world=in_zone(where))
    assert status == Step.SRV.value
    assert "not below 'cluster.test.example'" in errors
    assert "too many labels for these hosts: use the name that the records are for, such as 'cluster.test.example'" in (
        errors
    )


async def test_a_name_without_srv_records() -> None:
    with dns_server(Zone()) as where:
        status, errors, _ = await examine("mongodb+srv://cluster.test.example/", world=in_zone(where))
    assert status == Step.SRV.value
    assert "check the name" in errors


async def test_a_txt_record_that_is_not_permitted() -> None:
    zone = Zone()
    zone.set_srv("_mongodb._tcp.cluster.test.example", ("a.test.example", 27017))
    zone.set_txt("cluster.test.example", ("ssl=false",))
    with dns_server(zone) as where:
        status, errors, _ = await examine("mongodb+srv://cluster.test.example/", world=in_zone(where))
    assert status == Step.SRV.value
    assert "TXT record may only have" in errors


@pytest.mark.parametrize(
    "uri", ["mongodb://a:b@c@host/", "http://host/", "mongodb://host/?tls=maybe", "mongodb://host/?tlsCAFile=/nowhere"]
)
async def test_a_wrong_connection_string(uri: str) -> None:
    status, errors, findings = await examine(uri)
    assert status == Step.URI.value
    assert errors
    assert {each.step for each in findings} == {Step.URI}


def test_the_counts_of_the_page() -> None:
    """Every step has its own exit status, and none is that of a crash or of wrong arguments."""
    values = [step.value for step in Step]
    assert values == list(range(3, 13))
