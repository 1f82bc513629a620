"""RFC 1928 and RFC 1929, the client's side: which bytes go out, how many are awaited, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motorlite._net.proxy import Socks5Error, conversation


def talk(
    answers: bytes, host: str = "db.example", username: str | None = None, password: str | None = None
) -> list[bytes]:
    """What is written when the proxy sends `answers`, of which all must be read."""
    written, rest = converse(answers, host, username, password)
    assert rest == b""
    return written


def converse(answers: bytes, host: str, username: str | None, password: str | None) -> tuple[list[bytes], bytes]:
    """What is written when the proxy sends `answers`, and what of them is left for the server's side."""
    talking = conversation(host, 27017, username, password)
    written = []
    request, wanted = next(talking)
    while True:
        if request:
            written.append(request)
        assert wanted > 0
        if len(answers) < wanted:
            raise EOFError
        answer, answers = answers[:wanted], answers[wanted:]
        try:
            request, wanted = talking.send(answer)
        except StopIteration:
            return written, answers


CONNECTED = b"\5\0\0\1" + bytes(6)
NAME = b"\3\x0adb.example"
PORT = b"\x69\x89"


def test_without_authentication() -> None:
    assert talk(b"\5\0" + CONNECTED) == [b"\5\1\0", b"\5\1\0" + NAME + PORT]


def test_with_authentication() -> None:
    written = talk(b"\5\2\1\0" + CONNECTED, username="üser", password="p4ss")
    assert written == [b"\5\2\0\2", b"\1\x05\xc3\xbcser\x04p4ss", b"\5\1\0" + NAME + PORT]


def test_a_proxy_that_asks_for_none() -> None:
    assert talk(b"\5\0" + CONNECTED, username="u", password="p") == [b"\5\2\0\2", b"\5\1\0" + NAME + PORT]


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", b"\3\x09localhost"),
        ("under_score.example", b"\3\x13under_score.example"),
        ("two..dots", b"\3\x09two..dots"),
        ("bücher.example", b"\3\x15xn--bcher-kva.example"),
        ("127.0.0.1", b"\1\x7f\0\0\1"),
        ("::1", b"\4" + bytes(15) + b"\1"),
        ("x" * 255, b"\3\xff" + b"x" * 255),
    ],
)
def test_the_host_is_for_the_proxy_to_look_up(host: str, expected: bytes) -> None:
    assert talk(b"\5\0" + CONNECTED, host)[-1] == b"\5\1\0" + expected + PORT


@pytest.mark.parametrize(
    "bound",
    [b"\1" + bytes(6), b"\4" + bytes(18), b"\3\0" + bytes(2), b"\3\xff" + bytes(257)],
    ids=["4", "6", "none", "name"],
)
def test_the_bound_address_is_read_to_its_end(bound: bytes) -> None:
    assert len(talk(b"\5\0\5\0\0" + bound)) == 2


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (b"HT", "does not speak SOCKS5"),
        (b"\4\0", "does not speak SOCKS5"),
        (b"\5\xff", "requires authentication"),
        (b"\5\2", "requires authentication"),
        (b"\5\1", "requires authentication"),
        (b"\5\0\4\0\0\1", "does not speak SOCKS5"),
        (b"\5\0\5\1\0\1", "general failure"),
        (b"\5\0\5\2\0\1", "is not allowed"),
        (b"\5\0\5\3\0\1", "network is unreachable"),
        (b"\5\0\5\4\0\1", "host is unreachable"),
        (b"\5\0\5\5\0\0", "the server refused the connection"),
        (b"\5\0\5\6\0\1", "time to live"),
        (b"\5\0\5\7\0\1", "command is not supported"),
        (b"\5\0\5\x08\0\1", "kind of address is not supported"),
        (b"\5\0\5\x99\0\1", "failure 153"),
        (b"\5\0\5\0\0\2", "address of unknown kind 2"),
    ],
)
def test_refusals(answers: bytes, text: str) -> None:
    with pytest.raises(Socks5Error, match=text):
        talk(answers)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        (b"\5\xff", "does not accept user names and passwords"),
        (b"\5\1", "does not accept user names and passwords"),
        (b"\5\2\1\1", "refused proxyUsername and proxyPassword"),
        (b"\5\2\1\xff", "refused proxyUsername and proxyPassword"),
    ],
)
def test_refusals_of_the_user(answers: bytes, text: str) -> None:
    with pytest.raises(Socks5Error, match=text) as caught:
        talk(answers, username="hunter", password="hunter2")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("host", ["x" * 256, "ü" * 300])
def test_a_name_that_is_too_long(host: str) -> None:
    with pytest.raises((Socks5Error, UnicodeError)):
        talk(b"\5\0" + CONNECTED, host)


@given(st.binary(max_size=40))
def test_garbage(answers: bytes) -> None:
    try:
        written, rest = converse(answers, "h", "u", "p")
    except (Socks5Error, EOFError):
        return
    assert answers.endswith(rest)
    assert len(written) == (2 if answers[1] == 0 else 3)
