"""The conversation of GSSAPI, with a security context that is a stand-in; tests/live/test_kerberos.py has real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from motorlite._connection.auth import gssapi
from motorlite._connection.auth.conversation import NeedSecurityContext, RunCommand, Service
from motorlite._options.credentials import Credentials
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError

if TYPE_CHECKING:
    from motorlite._base.values import Address

SERVICE = Service("mongodb", "db.example.com", None, "none")


class Context:
    """A context that is complete after `tokens` tokens of the server."""

    def __init__(self, tokens: int = 1) -> None:
        self.left = tokens
        self.taken: list[bytes] = []

    @property
    def is_complete(self) -> bool:
        return not self.left

    def step(self, token: bytes) -> bytes:
        self.taken.append(token)
        self.left -= 1
        return b"token" if self.left else b""

    def unwrap(self, message: bytes) -> bytes:
        assert message.startswith(b"wrapped ")
        return message.removeprefix(b"wrapped ")

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped " + message


def reply(payload: bytes = b"", *, done: bool = False) -> dict[str, Any]:
    return {"conversationId": 7, "done": done, "payload": payload, "ok": 1}


OFFER = reply(b"wrapped \7\0\0\0")


def converse(
    context: Context, *replies: dict[str, Any], username: str = "ada@R", password: str | None = None
) -> list[dict[str, Any]]:
    """Run a conversation to its end; return what was sent."""
    conversation = gssapi.converse(username, password, SERVICE)
    request = next(conversation)
    assert isinstance(request, NeedSecurityContext)
    assert (request.service, request.username) == (SERVICE, username)
    answer: Any = (context, b"first")
    sent: list[dict[str, Any]] = []
    left = list(replies)
    while True:
        try:
            request = conversation.send(answer)
        except StopIteration:
            assert not left
            return sent
        assert isinstance(request, RunCommand)
        assert request.database == "$external"
        sent.append(request.document)
        answer = left.pop(0)


def test_a_conversation() -> None:
    context = Context()
    sent = converse(context, reply(b"second"), OFFER, reply(done=True), username="ädä@R")
    assert sent == [
        {"saslStart": 1, "mechanism": "GSSAPI", "payload": b"first", "autoAuthorize": 1},
        {"saslContinue": 1, "conversationId": 7, "payload": b""},
        {"saslContinue": 1, "conversationId": 7, "payload": b"wrapped \1\0\0\0" + "ädä@R".encode()},
    ]
    assert context.taken == [b"second"]


def test_more_tokens() -> None:
    context = Context(3)
    sent = converse(context, reply(b"1"), reply(b"2"), reply(b"3"), OFFER, reply(done=True))
    assert [command["payload"] for command in sent[:4]] == [b"first", b"token", b"token", b""]
    assert context.taken == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        # Without its token, the server has not proved what it is.
        ([reply(done=True)], "the server ended the conversation before the user was named"),
        ([reply(b"second"), reply(done=True)], "the server ended the conversation before the user was named"),
        ([reply(b"second"), reply(b"wrapped \6\0\0\0")], "requires a security layer; use TLS instead"),
        ([reply(b"second"), reply(b"wrapped \1\0\0")], "offer of security layers has 3 bytes, not 4"),
        ([reply(b"second"), reply(b"wrapped \1\0\0\0\0")], "offer of security layers has 5 bytes, not 4"),
        ([reply(b"second"), OFFER, reply()], "the server did not end the conversation"),
        ([{"ok": 0, "errmsg": "no such principal", "code": 18}], "no such principal"),
    ],
)
def test_a_conversation_that_fails(replies: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(OperationFailure, match=text):
        converse(Context(), *replies)


def test_a_server_that_never_ends() -> None:
    with pytest.raises(OperationFailure, match="the server asked for more than 10 tokens"):
        converse(Context(100), *[reply(b"again")] * 10)


def test_a_malformed_reply() -> None:
    with pytest.raises(ProtocolError, match="GSSAPI: the server's reply must have conversationId"):
        converse(Context(), {"ok": 1, "payload": "text"})


@pytest.mark.parametrize(("password", "secret"), [(None, None), ("", b""), ("pencil", b"pencil")])
def test_the_password_is_not_shown(password: str | None, secret: bytes | None) -> None:
    request = next(gssapi.converse("ada", password, SERVICE))
    assert isinstance(request, NeedSecurityContext)
    assert request.password == secret
    assert repr(request) == "<NeedSecurityContext mongodb/db.example.com>"


@pytest.mark.parametrize(("username", "password"), [("\udc80", None), ("ada", "hunter2\udc80")])
def test_what_is_no_utf_8(username: str, password: str | None) -> None:
    with pytest.raises(ConfigurationError, match="cannot be encoded as UTF-8") as caught:
        next(gssapi.converse(username, password, SERVICE))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "address", "service"),
    [
        ({}, ("a", 1), Service("mongodb", "a", None, "none")),
        ({"SERVICE_NAME": "mongo"}, ("a", 1), Service("mongo", "a", None, "none")),
        ({"SERVICE_HOST": "b"}, ("/tmp/mongodb.sock", None), Service("mongodb", "b", None, "none")),
        (
            {"SERVICE_REALM": "R", "CANONICALIZE_HOST_NAME": "forward"},
            ("a", 1),
            Service("mongodb", "a", "R", "forward"),
        ),
    ],
)
def test_the_service(properties: dict[str, str], address: Address, service: Service) -> None:
    assert gssapi.service(Credentials("u", None, "$external", "GSSAPI", properties), address) == service


def test_a_socket_has_no_host_name() -> None:
    with pytest.raises(ConfigurationError, match=r"'/tmp/mongodb\.sock' has no host name .*; set .* SERVICE_HOST"):
        gssapi.service(Credentials("u", None, "$external", "GSSAPI"), ("/tmp/mongodb.sock", None))
