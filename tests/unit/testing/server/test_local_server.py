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


def test_a_request_for_the_deployments_kind_attaches(deployment: Deployment) -> None:
    assert not LocalServer.start("standalone").started
    deployment.set_name = "rs"
    server = LocalServer.start("replicaset")
    assert (server.started, server.replica_set, server.topology) == (False, "rs", "replicaset")
    with pytest.raises(ServerNotFound, match="MONGOD="):
        LocalServer.start("standalone")


def test_an_attached_deployment_is_not_stopped_killed_or_frozen(deployment: Deployment) -> None:
    server = LocalServer.start()
    for forbidden in (server.kill, server.restart, server.freeze, server.thaw):
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


def test_a_uri_without_addresses_is_refused(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb+srv://cluster.example.com/")
    with pytest.raises(ServerNotFound, match="must start with mongodb://"):
        LocalServer.start()


def test_credentials_and_tls_files_of_the_uri_are_used(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = make_certificates(tmp_path)
    query = f"tls=true&tlsCAFile={files.ca_file}&tlsCertificateKeyFile={files.client_file}"
    monkeypatch.setenv("MONGODB_URI", f"mongodb://u:p@localhost/?authSource=x&{query}")
    server = LocalServer.start()
    assert (server.username, server.password) == ("u", "p")
    assert (server.ca_file, server.client_certificate_file) == (str(files.ca_file), str(files.client_file))
    access = deployment.seen[0][1]
    assert access.credential == Credential("u", "p", "x")
    assert access.tls is not None
    assert access.tls.check_hostname


def test_verification_is_only_switched_off_when_the_uri_says_so(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://localhost/?tls=true&tlsInsecure=true")
    LocalServer.start()
    access = deployment.seen[0][1]
    assert access.tls is not None
    assert not access.tls.check_hostname


def test_a_deployment_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:1/")
    with pytest.raises(ServerNotFound, match=r"MONGODB_URI names 127\.0\.0\.1:1, which cannot be used"):
        LocalServer.start()


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


@pytest.mark.parametrize("more", [{"topology": "standalone"}, {"own": True}, {"tls": True}, {"port": 20_001}])
def test_a_uri_names_a_deployment_that_is_not_started_here(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="uri attaches to a deployment"):
        LocalServer.start(uri="mongodb://localhost/", **more)


def test_a_uri_is_named_in_messages() -> None:
    with pytest.raises(ServerNotFound, match=r"^uri names 127\.0\.0\.1:1, which cannot be used"):
        LocalServer.start(uri="mongodb://127.0.0.1:1/")
    with pytest.raises(ServerNotFound, match=r"^uri must start with mongodb://"):
        LocalServer.start(uri="localhost")


@pytest.mark.parametrize(
    "arguments", [{"nodes": 0}, {"nodes": 3}, {"topology": "standalone", "nodes": 2}, {"topology": "sharded"}]
)
def test_contradictions_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"nodes=|topology must"):
        LocalServer.start(**arguments)


@pytest.mark.parametrize("arguments", [{"port": 0}, {"port": 65_536}, {"port": 65_535, "nodes": 2}])
def test_ports_that_do_not_exist_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^port=\d+ is not possible"):
        LocalServer.start("replicaset", **arguments)


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


def test_a_server_that_ends_while_it_starts_is_an_error_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_mongod(tmp_path, monkeypatch, "raise SystemExit('unknown option')")
    with pytest.raises(RuntimeError, match=r"ended while it was starting:\s*unknown option"):
        LocalServer.start()


def test_a_port_that_is_taken_meanwhile_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = tmp_path / "tried"
    code = f"open({str(tried)!r}, 'a').write('x')\nraise SystemExit({mongod_members.PORT_TAKEN!r})"
    pretend_mongod(tmp_path, monkeypatch, code)
    with pytest.raises(RuntimeError, match=mongod_members.PORT_TAKEN):
        LocalServer.start()
    assert tried.read_text() == "x" * mongod_members.START_ATTEMPTS


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
