"""What other services answer: SOCKS5 proxies, the metadata services of clouds, name servers."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, Final

import dns.exception
import dns.message
import dns.resolver
import dns.rrset

from motorlite._base.hosts import is_dns_name, is_port
from motorlite._connection.auth.oidc import TokenCache, check_result
from motorlite._connection.auth.oidc_callbacks import AzureCallback, GCPCallback
from motorlite._net.dns import DNSResolver
from motorlite._net.proxy import introduce, through
from motorlite._options.options import client_options, with_srv_records
from motorlite._options.parts import ProxyOptions
from motorlite._options.srv import MAX_HOSTS, initial_seeds, next_hosts, query_name, rescan_interval, txt_name, verify
from motorlite._options.srv import txt_record as joined
from motorlite._wire.http import MAX_RESPONSE, Response, ResponseReader
from motorlite.auth_oidc import OIDCCallbackContext
from motorlite.errors import AutoReconnect, ConfigurationError, OperationFailure, ProtocolError, ProxyError
from tests.fuzz.driving import Pieces, drive
from tests.fuzz.target import Limit, Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite._base.values import Address

# --- SOCKS5 ---

_PROXIES: Final = (ProxyOptions("proxy", 1080, None, None), ProxyOptions("proxy", 1080, "user", "password"))
_HOSTS: Final = ("db.example.com", "10.0.0.1", "2001:db8::1", "bücher.example")
# The bytes of an address, by its kind in SOCKS5.
_SIZES: Final = {1: 4, 4: 16}


def socks(data: bytes) -> None:
    """What a proxy sends; the first byte chooses credentials, host, and how many bytes arrive together.

    Raises nothing but ProxyError. A tunnel is accepted only if the proxy has sent exactly a whole reply.
    """
    if not data:
        return
    proxy, host, size = _PROXIES[data[0] & 1], _HOSTS[data[0] >> 1 & 3], (data[0] >> 3) + 1
    pieces, written = Pieces(data[1:], size), list[bytes]()

    async def write(request: bytes) -> None:
        written.append(request)

    try:
        with through(proxy, host, 27017):
            drive(introduce(proxy, host, 27017, write, pieces.read, pieces.peek))
    except ProxyError:
        # The methods, the login, and the longest reply.
        assert pieces.taken <= 2 + 2 + 4 + 1 + 255 + 2
        return
    sent = data[1:]
    login = sent[1] == 2
    assert sent[0] == 5
    assert sent[1] in ((0, 2) if proxy.username else (0,))
    reply = sent[4:] if login else sent[2:]
    assert not login or sent[3] == 0
    assert reply[:2] == b"\x05\x00"
    assert len(reply) == 4 + 2 + (1 + reply[4] if reply[3] == 3 else _SIZES[reply[3]])
    assert len(written) == 2 + login


_SOCKS_REPLIES: Final = (
    b"\x05\x00\x00\x01\x7f\x00\x00\x01\x04\x38",
    b"\x05\x00\x00\x03\x05proxy\x04\x38",
    b"\x05\x00\x00\x04" + bytes(16) + b"\x04\x38",
    b"\x05\x05\x00\x01" + bytes(6),
)
_SOCKS_SEEDS: Final = [b"\xf8\x05\x00" + reply for reply in _SOCKS_REPLIES] + [
    b"\x07\x05\x02\x01\x00" + reply for reply in _SOCKS_REPLIES
]


# --- HTTP ---


def http(data: bytes) -> None:
    """What a metadata service sends before it closes the connection; the first byte says how many bytes at a time.

    The response is the same in pieces as at once. Raises nothing but ProtocolError; the callbacks, OperationFailure.
    """
    if not data:
        return
    at_once, in_pieces = _response(data[1:], len(data)), _response(data[1:], max(data[0] + 1, len(data) // 64))
    assert _shown(at_once) == _shown(in_pieces)
    clock, connect = _CLOCK, _http_of(data[1:])
    for callback in (AzureCallback("resource", clock, connect), GCPCallback("resource", clock, connect)):
        context = OIDCCallbackContext(60.0, "", 1, None, None)
        try:
            result = check_result(drive(callback.fetch(context)))
        except OperationFailure:
            continue
        assert at_once is not None
        assert at_once.status == 200
        assert result.access_token in (at_once.body.strip(), _azure_token(at_once.body))
        TokenCache().store(result, None)


def _azure_token(body: str) -> Any:
    try:
        return json.loads(body)["access_token"]
    except (ValueError, TypeError, KeyError):
        return None


def _shown(response: Response | None) -> tuple[int, str] | None:
    return None if response is None else (response.status, response.body)


def _response(data: bytes, size: int) -> Response | None:
    reader = ResponseReader()
    try:
        while data:
            space = reader.buffer()
            part = data[: min(size, len(space))]
            space[: len(part)] = part
            data = data[len(part) :]
            reader.received_one(len(part))
            if reader.next_frame() is not None:
                break
            assert len(reader._data) <= MAX_RESPONSE
        return reader.response()
    except ProtocolError:
        return None


class _Clock:
    """The part of a runtime that the callbacks use."""

    name = "asyncio"

    def now(self) -> float:
        return 0.0


# All that the callbacks and the resolver use of a runtime.
_CLOCK: Final[Any] = _Clock()


def _http_of(data: bytes) -> Any:
    """What opens connections on which `data` is all that arrives."""
    return _Http(data).connect


class _Http:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._reader = ResponseReader()

    async def connect(self, address: Address, reader: ResponseReader, until: float) -> _Http:
        self._reader = reader
        return self

    async def exchange(self, request: bytes, until: float) -> bytes | bytearray:
        frames = self._reader.feed(self._data)
        if not frames:
            raise AutoReconnect("the connection was closed")
        return frames[0]

    def abort(self) -> None:
        pass


_TOKEN: Final = b'{"access_token": "abc", "expires_in": "3599"}'
_HTTP_SEEDS: Final = [
    b"\xff" + head + body
    for head, body in (
        (b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(_TOKEN), _TOKEN),
        (b"HTTP/1.0 200 OK\r\n\r\n", _TOKEN),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"2d;a=b\r\n" + _TOKEN + b"\r\n0\r\n\r\n"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", b"abc"),
    )
]


# --- SRV and TXT ---

_SRV_OPTIONS: Final = tuple(
    client_options(f"mongodb+srv://{host}/{options}")
    for host in ("cluster.example.com", "bücher.example.com")
    for options in ("", "?srvMaxHosts=2", "?srvServiceName=my-db&replicaSet=rs")
    if "srvMaxHosts" not in options or "replicaSet" not in options
)


# Its constructor has no types.
_NO_ANSWER: Final[Any] = dns.resolver.NoAnswer


class _Answers(DNSResolver):
    """dnspython's own reading of messages, which arrive from nowhere."""

    def __init__(self, messages: dict[str, bytes]) -> None:
        super().__init__(_CLOCK)
        self._messages = messages

    def _make(self) -> tuple[Any, Any]:
        return None, self

    async def resolve(self, name: str, kind: str, **_: Any) -> Any:
        """As the method of dnspython's resolver."""
        query = dns.message.make_query(name, kind, id=0)
        message = dns.message.from_wire(b"\0\0" + self._messages[kind][2:])
        if not isinstance(message, dns.message.QueryMessage) or not query.is_response(message):
            raise dns.resolver.NoNameservers
        question = query.question[0]
        answer = dns.resolver.Answer(question.name, question.rdtype, question.rdclass, message)
        if answer.rrset is None:
            raise _NO_ANSWER(response=message)
        return answer


def srv(data: bytes) -> None:
    """The answers of name servers: after a byte that chooses the options, an SRV and a TXT answer with their lengths.

    Raises nothing but ConfigurationError: all hosts are in the domain, and only some options are in the TXT record.
    """
    if len(data) < 3:
        return
    options, size = _SRV_OPTIONS[data[0] % len(_SRV_OPTIONS)], int.from_bytes(data[1:3], "big")
    records, settings = _Answers({"SRV": data[3 : 3 + size], "TXT": data[3 + size :]}), options.srv
    assert settings is not None
    try:
        found = drive(records.srv(query_name(settings), 1.0))
        seeds = initial_seeds(settings, found, lambda below: data[0] % below)
        text = joined(settings, drive(records.txt(txt_name(settings), 1.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built = with_srv_records(options, seeds, text)
    except (ConfigurationError, dns.exception.DNSException):
        return
    assert 60 <= rescan_interval(found.time_to_live) <= 86_400
    assert built.seeds == seeds
    assert 0 < len(seeds) <= min(settings.max_hosts or MAX_HOSTS, MAX_HOSTS)
    for name, port in seeds:
        assert is_dns_name(name)
        assert name.endswith((".example.com", ".xn--bcher-kva.example.com"))
        assert port is not None
        assert is_port(port)
    verified, _ = verify(settings, found.hosts)
    assert set(next_hosts(settings, seeds, verified, lambda below: 0)) <= set(verified)


def _answer(name: str, kind: str, *records: str) -> bytes:
    query = dns.message.make_query(name, kind, id=0)
    reply = dns.message.make_response(query)
    if records:
        reply.answer.append(dns.rrset.from_text(f"{name}.", 60, "IN", kind, *records))
    return reply.to_wire()


def _srv_seed(option: int, hosts: Sequence[str], texts: Sequence[str]) -> bytes:
    settings = _SRV_OPTIONS[option].srv
    assert settings is not None
    found = _answer(query_name(settings), "SRV", *(f"0 5 27017 {host}" for host in hosts))
    return bytes([option]) + len(found).to_bytes(2, "big") + found + _answer(txt_name(settings), "TXT", *texts)


_SRV_SEEDS: Final = [
    _srv_seed(0, ["a.example.com.", "b.example.com."], ['"replicaSet=rs&authSource=other"']),
    _srv_seed(1, ["a.example.com.", "b.example.com.", "c.example.com."], []),
    _srv_seed(2, ["a.example.com."], ['"authSource=" "db"']),
    _srv_seed(0, ["a.example.com."], ['"loadBalanced=true"']),
    _srv_seed(0, ["a.example.org."], []),
    _srv_seed(3, ["a.xn--bcher-kva.example.com."], ['"ssl=false"']),
]

TARGETS: Final = (
    Target("socks", socks, _SOCKS_SEEDS, ("_net.proxy",), weight=500, prefix=1),
    # A response in single bytes takes some lines for each.
    Target(
        "http",
        http,
        _HTTP_SEEDS,
        ("_wire.http", "_connection.auth.oidc_callbacks"),
        weight=200,
        prefix=1,
        steps=Limit(4_000, 100),
    ),
    # Most of the memory is dnspython's.
    Target(
        "srv",
        srv,
        _SRV_SEEDS,
        ("_options.srv", "_options.uri", "_net.dns"),
        weight=10,
        prefix=3,
        memory=Limit(512 * 1024, 1_000),
    ),
)
