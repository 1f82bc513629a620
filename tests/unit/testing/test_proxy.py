"""`FaultProxy` between a blocking socket and an echo server: every fault, on open connections and on new ones."""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from typing import TYPE_CHECKING, Literal

import bson
import pytest

from motorlite._wire.compression import Zlib, compress, make_compressors
from motorlite._wire.op_msg import encode
from motorlite.testing import FaultProxy
from motorlite.testing.proxy import LINGER_NOT, MEMBER_MARK, command_name
from motorlite.testing.server.local_commands import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# So long nothing arrives, so nothing will.
SILENCE = 0.1


class Echo(socketserver.ThreadingTCPServer):
    """Sends back what it receives; knows what it received and how its connections ended."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echoing)
        self.received = b""
        self.ends: list[str] = []
        # Set: connections are closed after the next bytes, without an answer.
        self.is_dying = False


class _Echoing(socketserver.BaseRequestHandler):
    server: Echo

    def handle(self) -> None:
        try:
            while data := self.request.recv(65536):
                self.server.received += data
                if self.server.is_dying:
                    return
                self.request.sendall(data)
            self.server.ends.append("closed")
        except ConnectionError:
            self.server.ends.append("reset")


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[FaultProxy]:
    host, port = echo.server_address[:2]
    with FaultProxy((str(host), port)) as found:
        yield found


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[socket.socket]:
    """A connection that was used already."""
    with connect(proxy) as found:
        assert said(found, b"hello") == b"hello"
        yield found


def connect(proxy: FaultProxy) -> socket.socket:
    host, port = proxy.address
    return socket.create_connection((host, port or 0), 5)


def said(client: socket.socket, data: bytes) -> bytes:
    """What comes back."""
    client.sendall(data)
    return received(client, len(data))


def received(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count and (data := client.recv(65536)):
        found += data
    return found


def assert_silent(client: socket.socket) -> None:
    client.settimeout(SILENCE)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(5)


def test_without_faults_everything_passes(proxy: FaultProxy, echo: Echo) -> None:
    data = bytes(range(256)) * 4096
    with connect(proxy) as client:
        threading.Thread(target=client.sendall, args=(data,)).start()
        assert received(client, len(data)) == data
        counts = proxy.counts
        assert (counts.accepted, counts.open, counts.open_clients) == (1, 1, 1)
        assert (counts.bytes_to_server, counts.bytes_to_client) == (len(data), len(data))
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    wait_until(lambda: proxy.counts.open == 0, "the end of the connection")
    assert echo.ends == ["closed"]
    assert str(proxy.address[1]) in repr(proxy)
    with pytest.raises(OSError, match="use"):
        FaultProxy(proxy.target, port=proxy.address[1] or 0)


def both_delays(proxy: FaultProxy) -> None:
    proxy.delay(0.05, "server")
    proxy.delay(0.03, "client")


@pytest.mark.parametrize(
    ("slow", "data", "least"),
    [
        (both_delays, b"late", 0.08),
        # One byte at a time; a reader that is late gets several at once.
        (lambda proxy: proxy.drip(0.005, "client"), b"slowly", 5 * 0.005),
        # Ten pieces with nine pauses of 20 ms; the second direction is not slower than what it gets.
        (lambda proxy: proxy.limit(20_000), b"x" * 4_000, 0.17),
    ],
    ids=["delay", "drip", "limit"],
)
def test_slowness(
    slow: Callable[[FaultProxy], None], data: bytes, least: float, proxy: FaultProxy, client: socket.socket
) -> None:
    slow(proxy)
    started = time.perf_counter()
    assert said(client, data) == data
    assert time.perf_counter() - started >= least
    proxy.delay(60)
    proxy.heal()
    # The socket waits for five seconds only.
    assert said(client, b"soon") == b"soon"


def test_closed_and_refused_connections(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.reset()
    assert proxy.counts.open == 0
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    with connect(proxy) as other:
        assert said(other, b"again") == b"again"
        for _ in range(2):
            proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        assert said(other, b"open") == b"open"
        proxy.hang_up()
        assert other.recv(1) == b""
    wait_until(lambda: sorted(echo.ends) == ["closed", "reset"], "the server to hear of it")
    proxy.heal()
    with connect(proxy) as other:
        assert said(other, b"back") == b"back"


def test_what_is_held_arrives_in_the_end(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.hold("client")
    client.sendall(b"wait")
    assert_silent(client)
    wait_until(lambda: echo.received == b"hellowait", "the server to hear it")
    proxy.heal()
    assert received(client, 4) == b"wait"
    proxy.hold()
    client.close()
    wait_until(lambda: proxy.counts.open == 1, "nothing")
    assert echo.ends == []
    proxy.heal()
    wait_until(lambda: echo.ends == ["closed"], "the server to hear of it")


def test_a_black_hole(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.black_hole()
    with connect(proxy) as other:
        for each in (client, other):
            each.sendall(b"lost")
            assert_silent(each)
        assert echo.received == b"hello"
        proxy.heal()
        for each in (client, other):
            with pytest.raises(ConnectionResetError):
                each.recv(1)
    with connect(proxy) as other:
        assert said(other, b"back") == b"back"


def test_a_half_open_connection(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.half_open()
    client.sendall(b"heard")
    assert_silent(client)
    wait_until(lambda: echo.received == b"helloheard", "the server to hear it")
    echo.is_dying = True
    client.sendall(b"!")
    # The server has closed its side, and not even sending to it tells the client.
    assert_silent(client)
    client.sendall(b"?")
    client.sendall(b"?")
    assert_silent(client)
    assert proxy.counts.open == 1


def test_a_half_open_connection_to_a_server_that_is_gone(proxy: FaultProxy, echo: Echo) -> None:
    echo.shutdown()
    echo.server_close()
    proxy.half_open()
    with connect(proxy) as client:
        assert_silent(client)
    proxy.heal()
    # Sometimes while the connection is being made.
    with pytest.raises(ConnectionResetError), connect(proxy) as client:
        client.recv(1)


@pytest.mark.parametrize("towards", ["server", "client"])
def test_a_cut_in_the_middle_of_a_message(proxy: FaultProxy, client: socket.socket, echo: Echo, towards: str) -> None:
    proxy.cut_after(3, "server" if towards == "server" else "client")
    with connect(proxy) as later:
        for each in (client, later):
            each.sendall(b"cut off")
            with pytest.raises(ConnectionResetError):
                received(each, 100)
    wait_until(lambda: len(echo.ends) == 2, "the server to hear of it")
    sent = b"hello" + (b"cut" if towards == "server" else b"cut off") * 2
    assert len(echo.received) == len(sent)
    assert echo.ends == ["reset", "reset"]
    wait_until(lambda: proxy.counts.open == 0, "the end of both connections")
    counts = proxy.counts
    assert (counts.bytes_to_server if towards == "server" else counts.bytes_to_client) <= 5 + 2 * 3


def test_who_is_cut_off(proxy: FaultProxy, client: socket.socket) -> None:
    """Old and new connections, and nobody else's; what was sent arrives in the end."""
    first, second, unnamed = (
        b"...." + MEMBER_MARK + each for each in (named_member(1), named_member(2), b"no test commands")
    )
    with connect(proxy) as one, connect(proxy) as other, connect(proxy) as third:
        for stream, hello in ((one, first), (other, second), (third, unnamed)):
            assert said(stream, hello) == hello
        proxy.cut_off(("here", 1))
        one.sendall(b"late")
        assert_silent(one)
        for stream in (client, other, third):
            assert said(stream, b"spared") == b"spared"
        with connect(proxy) as new:
            new.sendall(first)
            assert_silent(new)
            proxy.cut_off(clients=True)
            assert received(new, len(first)) == first
        assert received(one, 4) == b"late"
        client.sendall(b"late")
        assert_silent(client)
        for stream in (one, other, third):
            assert said(stream, b"spared") == b"spared"
        proxy.heal()
        assert received(client, 4) == b"late"


def named_member(port: int) -> bytes:
    """What the member that listens on `port` says in its first message."""
    host = f"name:{port}".encode() + b"\0"
    return b"\x02hostInfo\0" + struct.pack("<i", len(host)) + host


def test_members_are_spared_from_their_first_message_on(proxy: FaultProxy) -> None:
    proxy.harms = "clients"
    proxy.hold()
    with connect(proxy) as member, connect(proxy) as client:
        assert said(member, MEMBER_MARK) == MEMBER_MARK
        client.sendall(b"a client")
        assert_silent(client)


def test_a_reset_is_held_too(proxy: FaultProxy, client: socket.socket, echo: Echo) -> None:
    proxy.hold()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
    client.close()
    time.sleep(SILENCE)
    assert echo.ends == []
    proxy.heal()
    wait_until(lambda: echo.ends == ["reset"], "the server to hear of it")


@pytest.mark.parametrize("harmed", ["clients", "members"])
def test_only_one_kind_is_harmed(
    harmed: Literal["clients", "members"], proxy: FaultProxy, client: socket.socket
) -> None:
    proxy.harms = harmed
    hello = b"...." + MEMBER_MARK + b"...."
    with connect(proxy) as member:
        assert said(member, hello) == hello
        assert (proxy.counts.open, proxy.counts.open_clients) == (2, 1)
        victim, spared = (client, member) if harmed == "clients" else (member, client)
        proxy.refuse()
        proxy.black_hole()
        victim.sendall(b"lost")
        assert_silent(victim)
        proxy.reset()
        with pytest.raises(ConnectionResetError):
            victim.recv(1)
        assert said(spared, b"spared") == b"spared"
        wrong, right = (b"a client", hello) if harmed == "clients" else (hello, b"a client")
        with connect(proxy) as late, pytest.raises(ConnectionResetError):
            said(late, wrong)
        with connect(proxy) as late:
            assert said(late, right) == right


def test_the_end_is_complete(echo: Echo) -> None:
    host, port = echo.server_address[:2]
    threads = threading.active_count()
    proxy = FaultProxy((str(host), port))
    with connect(proxy) as client, connect(proxy):
        assert said(client, b"hello") == b"hello"
        proxy.hold()
        proxy.close()
        proxy.close()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    assert threading.active_count() <= threads + 2  # those of the echo server


# --- replies that are lost ---

PING, COMMIT = (
    encode(7, bson.encode({name: 1, "$db": "admin", "lsid": "x" * 100})) for name in ("ping", "commitTransaction")
)


def assert_lost(client: socket.socket, request: bytes) -> None:
    client.sendall(request)
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_lost_replies(proxy: FaultProxy, echo: Echo) -> None:
    proxy.lose_replies("commitTransaction", "abortTransaction", times=2)
    with connect(proxy) as client, connect(proxy) as other, connect(proxy) as third:
        assert said(client, PING) == PING
        assert_lost(client, COMMIT)
        assert_lost(other, COMMIT)
        assert said(third, COMMIT) == COMMIT
        # The server has read all of them.
        assert echo.received == PING + 3 * COMMIT
        assert proxy.counts.lost_replies == 2


@pytest.mark.parametrize("name", ["zlib", "snappy", "zstd"])
def test_lost_replies_to_compressed_commands(name: str, proxy: FaultProxy) -> None:
    (compressor,), _ = make_compressors([name])
    ping, commit = compress(PING, compressor), compress(COMMIT, compressor)
    proxy.lose_replies("commitTransaction")
    with connect(proxy) as client:
        assert said(client, ping) == ping
        assert_lost(client, commit)


def test_replies_are_lost_until_the_fault_ends(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.harms = "members"
    proxy.lose_replies("ping")
    assert said(client, PING) == PING
    proxy.harms = "clients"
    with connect(proxy) as other:
        assert_lost(other, PING)
    proxy.lose_replies("commitTransaction")
    assert said(client, PING) == PING
    proxy.hold("client")
    client.sendall(COMMIT)
    assert_silent(client)
    proxy.heal()
    assert received(client, len(COMMIT)) == COMMIT
    assert said(client, COMMIT) == COMMIT
    assert proxy.counts.lost_replies == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        PING[:10],
        PING[:26],
        b"\x00" * 100,
        # A reply, a message that begins with a sequence of documents, one of another protocol, and a part of one.
        PING[:8] + b"\x01" + PING[9:],
        PING[:20] + b"\x01" + PING[21:],
        # One that has no reply.
        PING[:16] + b"\x02" + PING[17:],
        PING[:12] + struct.pack("<i", 2004) + PING[16:],
        compress(PING, Zlib(-1))[:40],
        compress(PING, Zlib(-1))[:20],
    ],
)
def test_what_is_no_command(data: bytes) -> None:
    assert command_name(data) in (None, "")
    assert command_name(PING) == command_name(PING[:40]) == command_name(compress(PING, Zlib(-1))) == "ping"


def test_no_replies_are_lost_any_more(proxy: FaultProxy, client: socket.socket) -> None:
    proxy.lose_replies("ping")
    proxy.lose_replies()
    assert said(client, PING) == PING


def test_how_many_replies_are_lost(proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="at least 1, not 0"):
        proxy.lose_replies("ping", times=0)
