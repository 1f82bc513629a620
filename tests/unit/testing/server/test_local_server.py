"""Which server is used, and what is said when there is none; without real servers."""

from __future__ import annotations

import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import InvalidOperation
from motorlite.testing import LocalServer, ServerNotFound
from motorlite.testing.server import local_commands, mongod_members
from motorlite.testing.server.certificates import make_certificates
from motorlite.testing.server.local_commands import Credential
from motorlite.testing.server.mongod_processes import PortUnavailable
from tests.support.ports import two_free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from motorlite._base.values import Address, Document
    from motorlite.testing.server.local_commands import Access


class Deployment:
    """Answers commands in the place of a server."""

    def __init__(self, set_name: str | None = None) -> None:
        self.set_name = set_name
        self.seen: list[tuple[Address, Access]] = []

    @contextmanager
    def connection(self, address: Address, access: Access, timeout: float) -> Iterator[Deployment]:
        self.seen.append((address, access))
        assert timeout <= 5
        yield self

    def run(self, document: Mapping[str, Any], database: str) -> Document:
        return {"ok": 1.0, "version": "7.0.1", **({"setName": self.set_name} if self.set_name else {})}


@pytest.fixture
def deployment(monkeypatch: pytest.MonkeyPatch) -> Deployment:
    answering = Deployment()
    monkeypatch.setattr(local_commands, "CommandConnection", answering.connection)
    monkeypatch.setenv("MONGODB_URI", "mongodb://localhost:5/")
    monkeypatch.delenv("MOTORLITE_ALLOW_REMOTE", raising=False)
    # Starting a server of its own is seen by this error.
    monkeypatch.setenv("MONGOD", "/nowhere/mongod")
    return answering


def test_a_plain_request_attaches(deployment: Deployment) -> None:
    with LocalServer.start() as server:
        assert server.uri == "mongodb://localhost:5/"
        assert server.addresses == (("localhost", 5),)
        assert (server.started, server.replica_set, server.version) == (False, None, "7.0.1")
        assert repr(server) == "<LocalServer standalone localhost:5 version 7.0.1, attached>"
    # So does a request for the deployment's kind.
    assert not LocalServer.start("standalone").started
    deployment.set_name = "rs"
    server = LocalServer.start("replicaset")
    assert (server.started, server.replica_set, server.topology) == (False, "rs", "replicaset")
    with pytest.raises(ServerNotFound, match="MONGOD="):
        LocalServer.start("standalone")


@pytest.mark.parametrize(
    "request_",
    [
        {"own": True},
        {"port": 20_001},
        {"auth": True},
        {"tls": True},
        {"parameters": {"a": 1}},
        {"topology": "replicaset"},
        {"topology": "replicaset", "nodes": 3},
    ],
)
def test_a_request_that_the_deployment_cannot_meet_starts_a_server(
    deployment: Deployment, request_: dict[str, Any]
) -> None:
    with pytest.raises(ServerNotFound, match="MONGOD=/nowhere/mongod"):
        LocalServer.start(**request_)


def test_an_attached_deployment_is_not_stopped_killed_or_frozen(deployment: Deployment) -> None:
    server = LocalServer.start()
    every = (server.kill, server.restart, server.has_ended, server.freeze, server.thaw)
    for forbidden in (*every, server.fill_disk, server.free_disk, server.partition, server.heal):
        with pytest.raises(InvalidOperation, match="own=True"):
            forbidden()
    server.stop()


def test_an_address_that_is_not_this_machine_is_refused(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://user:secret@localhost,db.example.com:99/")
    with pytest.raises(ServerNotFound, match="MOTORLITE_ALLOW_REMOTE=1") as caught:
        LocalServer.start()
    assert "db.example.com:99" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not deployment.seen
    monkeypatch.setenv("MOTORLITE_ALLOW_REMOTE", "1")
    assert LocalServer.start().addresses == (("localhost", 27017), ("db.example.com", 99))


def test_credentials_and_tls_files_of_the_uri_are_used(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = make_certificates(tmp_path)
    query = f"tls=true&tlsCAFile={files.ca_file}&tlsCertificateKeyFile={files.client_file}"
    monkeypatch.setenv("MONGODB_URI", f"mongodb://u:p@localhost/?authSource=x&{query}")
    server = LocalServer.start()
    assert (server.username, server.password) == ("u", "p")
    assert (server.ca_file, server.client_certificate_file) == (str(files.ca_file), str(files.client_file))
    # Verification is only switched off when the URI says so.
    LocalServer.start(uri="mongodb://localhost/?tls=true&tlsInsecure=true")
    (_, verified), (_, unverified) = deployment.seen
    assert verified.credential == Credential("u", "p", "x")
    assert verified.tls is not None
    assert verified.tls.check_hostname
    assert unverified.tls is not None
    assert not unverified.tls.check_hostname


@pytest.mark.parametrize(("query", "missing"), [("", "reply to isMaster"), ("?tls=true", "complete the TLS handshake")])
def test_a_deployment_that_accepts_and_never_answers_is_named(
    monkeypatch: pytest.MonkeyPatch, query: str, missing: str
) -> None:
    # The real limit is checked by the other tests.
    monkeypatch.setattr(local_commands, "ATTACH_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        monkeypatch.setenv("MONGODB_URI", f"mongodb://{host}/{query}")
        with pytest.raises(ServerNotFound) as caught:
            LocalServer.start()
    assert str(caught.value) == (
        f"MONGODB_URI names {host}, which cannot be used: {host} did not {missing} within 0.1 s"
    )


def test_tls_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(ServerNotFound, match=r"^uri names .*missing\.pem for TLS, which cannot be used: .*No such"):
        LocalServer.start(uri=f"mongodb://127.0.0.1:1/?tls=true&tlsCAFile={missing}")
    missing.write_text("no certificate")
    with pytest.raises(ServerNotFound, match=r"^uri names .*missing\.pem for TLS, which cannot be used"):
        LocalServer.start(uri=f"mongodb://127.0.0.1:1/?tls=true&tlsCertificateKeyFile={missing}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *(
            ({"uri": "mongodb://localhost/", **more}, "uri attaches to a deployment")
            for more in ({"topology": "standalone"}, {"own": True}, {"tls": True}, {"port": 20_001})
        ),
        ({"nodes": 0}, "nodes="),
        ({"nodes": 3}, "nodes="),
        ({"topology": "standalone", "nodes": 2}, "nodes="),
        ({"topology": "sharded"}, "topology must"),
        ({"disk_mb": 0}, "disk_mb=0 is not possible"),
        ({"topology": "replicaset", "port": 0}, r"^port=\d+ is not possible"),
        ({"topology": "replicaset", "port": 65_536}, r"^port=\d+ is not possible"),
        ({"topology": "replicaset", "port": 65_535, "nodes": 2}, r"^port=\d+ is not possible"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalServer.start(**arguments)


@pytest.mark.parametrize("source", ["uri", "MONGODB_URI"])
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("mongodb://127.0.0.1:1/", r"names 127\.0\.0\.1:1, which cannot be used"),
        ("mongodb+srv://cluster.example.com/", "must start with mongodb://"),
    ],
)
def test_a_uri_is_named_in_messages(source: str, uri: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", uri)
    with pytest.raises(ServerNotFound, match=f"^{source} {message}"):
        LocalServer.start(uri=uri if source == "uri" else None)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(OSError, match=f"^port {port} of 127.0.0.1 cannot be used: Address already in use$"):
            LocalServer.start(port=port)


def pretend_mongod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    program = tmp_path / "mongod"
    program.write_text(f"#!{sys.executable} -IS\n{code}\n")
    program.chmod(0o755)
    monkeypatch.delenv("MONGODB_URI", raising=False)
    monkeypatch.setenv("MONGOD", str(program))


@pytest.mark.parametrize(
    ("said", "times"), [("unknown option", 1), (mongod_members.PORT_TAKEN, mongod_members.START_ATTEMPTS)]
)
def test_a_server_that_ends_while_it_starts(
    said: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output is in the error; where a port was taken meanwhile, another one is tried."""
    tried = tmp_path / "tried"
    pretend_mongod(tmp_path, monkeypatch, f"open({str(tried)!r}, 'a').write('x')\nraise SystemExit({said!r})")
    with pytest.raises(RuntimeError, match=rf"ended while it was starting:\s*{said}"):
        LocalServer.start()
    assert tried.read_text() == "x" * times


def test_a_port_that_was_asked_for_and_is_taken_meanwhile_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = two_free_ports()
    pretend_mongod(tmp_path, monkeypatch, f"raise SystemExit({mongod_members.PORT_TAKEN!r})")
    with pytest.raises(PortUnavailable, match=f"^port {port} or {port + 1} of 127.0.0.1 was taken while"):
        LocalServer.start("replicaset", nodes=2, port=port)
    pretend_mongod(tmp_path, monkeypatch, "raise SystemExit('unknown option')")
    with pytest.raises(RuntimeError, match="unknown option"):
        LocalServer.start(port=port)


def test_tls_without_trustme_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trustme", None)
    with pytest.raises(ServerNotFound, match=r"pip install 'motorlite\[testing\]'"):
        make_certificates(tmp_path)
