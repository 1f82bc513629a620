from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._connection.auth.conversation import Compute, RunCommand
from motorlite._connection.auth.scram import (
    SCRAM_SHA_1,
    SCRAM_SHA_256,
    KeyCache,
    ScramUser,
    converse,
    derive_keys,
    parse_server_first,
    sign,
    start_command,
)
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError
from tests.support.scram_server import ScramServer, drive

if TYPE_CHECKING:
    from collections.abc import Callable

NONCE = b"a nonce of 18 byte"
MAX_ITERATIONS = 1_000_000
MECHANISMS = [SCRAM_SHA_1, SCRAM_SHA_256]


def user(name: str = "user", password: str = "pencil", nonce: bytes = NONCE) -> ScramUser:
    return ScramUser(name, password, "admin", nonce)


def stored_password(mechanism: str, name: str = "user", password: str = "pencil") -> bytes:
    if mechanism == SCRAM_SHA_256:
        return password.encode()
    return hashlib.md5(f"{name}:mongo:{password}".encode()).hexdigest().encode()


def test_rfc_5802_example() -> None:
    salt = b64decode("QSXCR+Q6sek8bf92")
    nonce = "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    message = f"n=user,r=fyko+d2lbbFgONRv9qkxdawL,r={nonce},s=QSXCR+Q6sek8bf92,i=4096,c=biws,r={nonce}".encode()
    proof, signature = sign("sha1", derive_keys("sha1", b"pencil", salt, 4096), message)
    assert b64encode(proof) == b"v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    assert b64encode(signature) == b"rmF9pqV8S7suAoZWja4dJRkFsKQ="


# Authentication specification, "Conversation"; the second is RFC 7677's example as well.
SPECIFIED = [
    (
        SCRAM_SHA_1,
        "fyko+d2lbbFgONRv9qkxdawL",
        "biwsbj11c2VyLHI9ZnlrbytkMmxiYkZnT05Sdjlxa3hkYXdM",
        "r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,s=rQ9ZY3MntBeuP3E1TDVC4w==,i=10000",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawLHo+Vgk7qvUOKUwuWLIWg4l/9SraGMHEE,p=MC2T8BvbmWRckDw8oWl5IVghwCY=",
        "v=UMWeI25JD1yNYZRMpZ4VHvhZ9e0=",
    ),
    (
        SCRAM_SHA_256,
        "rOprNGfwEbeRWgbNEkqO",
        "biwsbj11c2VyLHI9ck9wck5HZndFYmVSV2diTkVrcU8=",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
]


@pytest.mark.parametrize("is_speculative", [False, True])
@pytest.mark.parametrize("exchange", SPECIFIED, ids=MECHANISMS)
def test_specified_conversations(exchange: tuple[str, ...], is_speculative: bool) -> None:
    mechanism, nonce, client_first, server_first, client_final, server_final = exchange
    someone = user(nonce=b64decode(nonce))
    first: dict[str, Any] = {"conversationId": 1, "payload": server_first.encode(), "done": False}
    last = {"conversationId": 1, "payload": server_final.encode(), "done": True, "ok": 1}
    start = start_command(mechanism, someone)
    assert start == {
        "saslStart": 1,
        "mechanism": mechanism,
        "payload": b64decode(client_first),
        "autoAuthorize": 1,
        "options": {"skipEmptyExchange": True},
    }
    conversation = converse(mechanism, someone, KeyCache(MAX_ITERATIONS), first if is_speculative else None)
    request = next(conversation)
    if not is_speculative:
        assert isinstance(request, RunCommand)
        assert request.document == start
        request = conversation.send(first | {"ok": 1})
    assert isinstance(request, Compute)
    request = conversation.send(request.function())
    assert isinstance(request, RunCommand)
    assert request.document == {"saslContinue": 1, "conversationId": 1, "payload": client_final.encode()}
    with pytest.raises(StopIteration):
        conversation.send(last)


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_lengths(mechanism: str, short: bool) -> None:
    server = ScramServer(mechanism, stored_password(mechanism), short=short)
    drive(converse(mechanism, user(), KeyCache(MAX_ITERATIONS)), server.answer)
    assert server.is_authenticated
    assert len(server.commands) == (2 if short else 3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password(mechanism: str) -> None:
    server = ScramServer(mechanism, stored_password(mechanism))
    with pytest.raises(OperationFailure, match="Authentication failed") as raised:
        drive(converse(mechanism, user(password="graphite"), KeyCache(MAX_ITERATIONS)), server.answer)
    assert raised.value.code == 18
    assert "graphite" not in repr(raised.value) + str(raised.value)


@pytest.mark.parametrize(
    ("mechanism", "name", "password", "prepared"),
    [
        # Names are escaped and otherwise raw.
        *((mechanism, "\u2168=,\u00adü", "пароль", "пароль") for mechanism in MECHANISMS),
        # SHA-256 prepares the password; to SHA-1 the prohibited \u0007 is one character like others.
        *((SCRAM_SHA_256, "user", password, "IV") for password in ("IV", "I\u00adV", "\u2163")),
        (SCRAM_SHA_1, "user", "I\u00adV\u0007", "I\u00adV\u0007"),
    ],
)
def test_names_and_passwords_on_the_wire(mechanism: str, name: str, password: str, prepared: str) -> None:
    escaped = name.replace("=", "=3D").replace(",", "=2C").encode()
    server = ScramServer(mechanism, stored_password(mechanism, name, prepared), username=escaped)
    drive(converse(mechanism, user(name, password), KeyCache(MAX_ITERATIONS)), server.answer)
    assert server.is_authenticated


@pytest.mark.parametrize(("mechanism", "name"), [(SCRAM_SHA_1, "user"), (SCRAM_SHA_256, "user\udc80")])
def test_lone_surrogates_are_refused_without_showing_them(mechanism: str, name: str) -> None:
    server = ScramServer(mechanism, b"")
    with pytest.raises(ConfigurationError, match="UTF-8") as raised:
        drive(converse(mechanism, user(name, "hidden\udc80"), KeyCache(MAX_ITERATIONS)), server.answer)
    assert "hidden" not in str(raised.value)


def payload(step: int, change: Callable[[bytes], bytes]) -> Callable[[int, dict[str, Any]], None]:
    def tamper(at: int, reply: dict[str, Any]) -> None:
        if at == step:
            reply["payload"] = change(reply["payload"])

    return tamper


def field(step: int, **fields: Any) -> Callable[[int, dict[str, Any]], None]:
    return lambda at, reply: reply.update(fields) if at == step else None


def missing(step: int, name: str) -> Callable[[int, dict[str, Any]], None]:
    return lambda at, reply: reply.pop(name) and None if at == step else None


def replaced(step: int, old: bytes, new: bytes) -> Callable[[int, dict[str, Any]], None]:
    return payload(step, lambda found: found.replace(old, new))


TAMPERED: dict[str, tuple[Callable[[int, dict[str, Any]], None], str]] = {
    "another nonce": (payload(1, lambda p: b"r=x" + p[2:]), "nonce"),
    "only our nonce": (payload(1, lambda p: b"r=" + b64encode(NONCE) + p[p.index(b",") :]), "nonce"),
    "extension": (payload(1, lambda p: b"m=x," + p), "malformed"),
    "too short": (payload(1, lambda p: p.rpartition(b",")[0]), "malformed"),
    "empty": (payload(1, lambda p: b""), "malformed"),
    "salt": (replaced(1, b",s=", b",s=!"), "salt"),
    "no salt": (payload(1, lambda p: p.partition(b",")[0] + b",s=,i=4096"), "salt"),
    "i=4095": (replaced(1, b"4096", b"4095"), "4095, allowed are 4096"),
    "i=0": (replaced(1, b"4096", b"0"), "iteration count is malformed"),
    "i=x": (replaced(1, b"4096", b"x"), "iteration count is malformed"),
    "i huge": (replaced(1, b"4096", b"9" * 5000), "malformed"),
    "i large": (replaced(1, b"4096", b"1000001"), r"1000001, allowed are 4096 to 1000000 \(scramMaxIterations\)"),
    "done at once": (field(1, done=True), "proved"),
    "signature": (payload(2, lambda p: b"v=" + b64encode(b"x" * 32)), "signature"),
    "no signature": (payload(2, lambda p: b""), "signature"),
    "not base64": (payload(2, lambda p: b"v=!"), "signature"),
    "server error": (payload(2, lambda p: b"e=other-error"), "other-error"),
    "never done": (lambda at, reply: reply.update(done=False), "did not end"),
    "refused": (field(1, ok=0, code=334, errmsg="unsupported"), "unsupported"),
}
INCOMPLETE: dict[str, tuple[Callable[[int, dict[str, Any]], None], str]] = {
    "no done": (missing(2, "done"), "done"),
    "no payload": (missing(1, "payload"), "payload"),
    "no id": (missing(1, "conversationId"), "conversationId"),
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("case", [*TAMPERED, *INCOMPLETE])
def test_a_server_that_cheats(case: str, mechanism: str) -> None:
    tamper, words = {**TAMPERED, **INCOMPLETE}[case]
    server = ScramServer(mechanism, stored_password(mechanism), tamper=tamper)
    with pytest.raises(ProtocolError if case in INCOMPLETE else OperationFailure, match=words) as raised:
        drive(converse(mechanism, user(), KeyCache(MAX_ITERATIONS)), server.answer)
    assert "pencil" not in str(raised.value)
    assert len(server.commands) <= 3


def test_extensions_at_the_end_are_ignored() -> None:
    assert parse_server_first(SCRAM_SHA_256, b"r=ab,s=eA==,i=5000,x=y", b"a", 5000) == (b"ab", b"x", 5000)


def test_keys_are_cached_by_mechanism_password_salt_and_iterations() -> None:
    cache = KeyCache(MAX_ITERATIONS)

    def authenticate(mechanism: str = SCRAM_SHA_256, password: str = "pencil", **options: Any) -> int:
        server = ScramServer(mechanism, stored_password(mechanism, password=password), **options)
        return drive(converse(mechanism, user(password=password), cache), server.answer)

    for options in (
        {},
        {"mechanism": SCRAM_SHA_1},
        {"password": "graphite"},
        {"salt": b"another salt"},
        {"iterations": 5000},
    ):
        assert authenticate(**options) == 1, options
        assert authenticate(**options) == 0, options
    # The same bytes go into both derivations here.
    assert authenticate(password=stored_password(SCRAM_SHA_1).decode()) == 1
    assert len(cache) == 6


def test_the_cache_is_bounded_and_drops_the_oldest() -> None:
    cache = KeyCache(MAX_ITERATIONS)
    for number in range(KeyCache.CAPACITY + 1):
        cache.put((SCRAM_SHA_1, b"", b"", number), (b"a", b"b"))
        cache.put((SCRAM_SHA_1, b"", b"", number), (b"a", b"b"))
    assert len(cache) == KeyCache.CAPACITY
    assert cache.get((SCRAM_SHA_1, b"", b"", 0)) is None
    assert cache.get((SCRAM_SHA_1, b"", b"", 1)) == (b"a", b"b")


def test_reprs_are_redacted() -> None:
    cache = KeyCache(MAX_ITERATIONS)
    cache.put((SCRAM_SHA_1, b"", b"", 1), (b"key", b"key"))
    assert repr(cache) == "<KeyCache with 1 entries>"
    assert repr(user()) == "<ScramUser>"
