"""What the doctor sees of addresses, of TLS and of this machine, on real sockets."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme

from motorlite._net import probe
from motorlite._net.current import current_runtime
from motorlite._net.probe import Reached, in_daemon, look_at_tls, open_files_limit, reach, resolve
from motorlite._options.parts import TLSOptions
from tests.support.peers import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from motorlite.testing.server.certificates import Certificates

PATIENCE = 5.0


@contextmanager
def listener(serve: Callable[[socket.socket], None] | None = None) -> Iterator[Reached]:
    """A listener on this machine; `serve` gets each connection."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(PATIENCE)
                assert serve is not None
                serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept)
        if serve is not None:
            thread.start()
        try:
            yield Reached("127.0.0.1", "IPv4", 0.0, None, listening.getsockname())
        finally:
            if serve is not None:
                listening.shutdown(socket.SHUT_RDWR)
                thread.join()


def with_tls(context: ssl.SSLContext) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secure:
            secure.recv(1)

    return serve


# --- threads ---


@pytest.mark.anyio
@pytest.mark.real_time
async def test_a_thread_returns_and_raises() -> None:
    assert await in_daemon(current_runtime(), lambda: threading.current_thread().daemon)

    def fail() -> None:
        raise LookupError("in the thread")

    with pytest.raises(LookupError, match="in the thread"):
        await in_daemon(current_runtime(), fail)


@pytest.mark.anyio
@pytest.mark.real_time
async def test_an_interrupted_caller_leaves_its_thread_behind() -> None:
    runtime = current_runtime()
    may_go_on = threading.Event()
    waited: list[bool] = []

    def work() -> None:
        runtime.run_soon(scope.cancel)
        waited.append(may_go_on.wait(PATIENCE))

    with anyio.CancelScope() as scope:
        await in_daemon(runtime, work)
    assert scope.cancelled_caught
    assert not waited
    may_go_on.set()


# --- addresses ---


def test_names_have_addresses() -> None:
    assert resolve("127.0.0.1", 27017, PATIENCE) == [("IPv4", "127.0.0.1", ("127.0.0.1", 27017))]
    assert resolve("::1", 1, PATIENCE)[0][:2] == ("IPv6", "::1")


def test_names_without_addresses() -> None:
    with pytest.raises(OSError, match=r"."):
        resolve("nowhere.invalid", 1, 60.0)
    with pytest.raises(UnicodeError):
        resolve("a" * 70, 1, PATIENCE)


def test_a_resolver_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for, neither here nor at the end of the program."""
    end = threading.Event()

    def wait(*_arguments: Any, **_options: Any) -> list[Any]:
        end.wait(PATIENCE)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", wait)
    with pytest.raises(TimeoutError, match=r"no answer within 0\.05 s"):
        resolve("db.example.com", 1, 0.05)
    (left,) = (each for each in threading.enumerate() if each.name == "motorlite doctor")
    assert left.daemon
    end.set()
    left.join()


def test_a_server_that_listens() -> None:
    with listener() as where:
        found = reach("IPv4", "127.0.0.1", where.where, PATIENCE)
    assert (found.ip, found.family, found.error) == ("127.0.0.1", "IPv4", None)
    assert 0 < found.seconds < PATIENCE


def test_a_closed_port() -> None:
    with listener() as where:
        pass
    assert reach("IPv4", "127.0.0.1", where.where, PATIENCE).error == "refused"


def test_packets_that_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_arguments: Any) -> socket.socket:
        raise TimeoutError

    monkeypatch.setattr(probe, "_open", connect)
    assert reach("IPv4", "192.0.2.1", ("192.0.2.1", 1), 0.1).error == "timeout"


def test_socket_files(tmp_path: Path) -> None:
    path = str(tmp_path / "m.sock")
    assert "No such file" in str(reach("Unix", path, path, PATIENCE).error)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(path)
        made.listen()
        assert reach("Unix", path, path, PATIENCE).error is None


# --- TLS ---


def test_a_handshake(certificates: Certificates) -> None:
    options = TLSOptions(ca_file=str(certificates.ca_file))
    with listener(with_tls(server_context(certificates))) as where:
        look = look_at_tls(where, "127.0.0.1", options, PATIENCE)
    assert (look.version, look.error, look.verify_code, look.is_closed) == ("TLSv1.3", None, None, False)
    assert look.cipher
    # A certificate in DER is a sequence; before Python 3.13 the others of the chain cannot be seen.
    assert all(each[0] == 0x30 for each in look.chain)
    assert len(look.chain) == 1 or sys.version_info >= (3, 13)


@pytest.mark.parametrize(("host", "code"), [("127.0.0.1", None), ("other.example.com", 62)])
def test_a_certificate_that_is_refused_is_read(certificates: Certificates, host: str, code: int | None) -> None:
    """Either its authority is unknown, or it is for another name."""
    options = TLSOptions(ca_file=str(certificates.ca_file) if code else None)
    with listener(with_tls(server_context(certificates))) as where:
        look = look_at_tls(where, host, options, PATIENCE)
    assert look.error
    assert look.verify_code in ([code] if code else [18, 19, 20, 21])
    assert look.chain, "the second look, without a check"


def test_a_server_that_is_gone_when_its_certificate_is_to_be_read(certificates: Certificates) -> None:
    context = server_context(certificates)
    seen: list[socket.socket] = []

    def once(connection: socket.socket) -> None:
        seen.append(connection)
        if len(seen) == 1:
            with_tls(context)(connection)

    other = TLSOptions()
    with listener(once) as where:
        look = look_at_tls(where, "127.0.0.1", other, PATIENCE)
    assert look.verify_code
    assert look.chain == ()
    assert len(seen) == 2


def test_a_peer_that_closes() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)

    with listener(serve) as where:
        look = look_at_tls(where, "127.0.0.1", TLSOptions(), PATIENCE)
    assert look.error
    assert look.is_closed


def test_a_peer_without_tls() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with listener(serve) as where:
        look = look_at_tls(where, "127.0.0.1", TLSOptions(), PATIENCE)
    assert "WRONG_VERSION_NUMBER" in str(look.error)
    assert not look.is_closed


def test_a_peer_that_says_nothing() -> None:
    with listener() as where:
        assert look_at_tls(where, "127.0.0.1", TLSOptions(), 0.05).error == "timeout"


def test_a_server_that_demands_a_certificate_in_an_old_version(certificates: Certificates) -> None:
    """With TLS 1.2 the refusal is a part of the handshake."""
    context = server_context(certificates)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    trustme.CA().configure_trust(context)
    options = TLSOptions(ca_file=str(certificates.ca_file))
    with listener(with_tls(context)) as where:
        look = look_at_tls(where, "127.0.0.1", options, PATIENCE)
    assert look.error
    assert look.chain == ()


# --- this machine ---


def test_the_limit_of_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (1024, 4096))
    assert open_files_limit() == 1024
    monkeypatch.setattr(resource, "getrlimit", lambda _what: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert open_files_limit() is None
    monkeypatch.setitem(sys.modules, "resource", None)
    assert open_files_limit() is None


def test_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    assert probe.wall_clock() == 1_700_000_000.5
