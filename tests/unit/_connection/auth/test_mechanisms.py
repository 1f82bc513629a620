from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from motorlite._connection.auth.conversation import NeedSecurityContext, RunCommand, Service
from motorlite._connection.auth.mechanisms import Authentication, start
from motorlite._connection.auth.oidc import TokenCache
from motorlite._connection.auth.scram import KeyCache
from motorlite._connection.handshake import Handshake, parse_hello
from motorlite._options.credentials import Credentials
from motorlite.errors import ConfigurationError, OperationFailure
from tests.support.scram_server import ScramServer, drive, recorder

NONCE = b"12345678901234567890123456789012"
SHA_1_USER_PENCIL = b"1c33006ec1ffd90f9cadcbcc0e118200"


def credentials(
    mechanism: str | None = None,
    *,
    username: str | None = "user",
    password: str | None = "pencil",
    source: str = "admin",
    **properties: str,
) -> Credentials:
    return Credentials(username, password, source, mechanism, properties)


def begin(mechanism: str | None = None, **fields: Any) -> Authentication:
    return start(credentials(mechanism, **fields), ("a", 1), NONCE, KeyCache(1_000_000), TokenCache())


def handshake(**fields: Any) -> Handshake:
    return parse_hello(("a", 1), {"ok": 1, "maxWireVersion": 17, **fields}, False)


def first_command(authentication: Authentication, answer: Handshake) -> dict[str, Any]:
    conversation = authentication.conversation(answer)
    assert conversation is not None
    request = next(conversation)
    assert isinstance(request, RunCommand)
    return request.document


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (["SCRAM-SHA-1", "SCRAM-SHA-256"], "SCRAM-SHA-256"),
        (["SCRAM-SHA-256"], "SCRAM-SHA-256"),
        (["SCRAM-SHA-1"], "SCRAM-SHA-1"),
        # Unknown names are no error (handshake prose test 2), and PLAIN, which shows the password, is never chosen.
        (["PLAIN", "ArBiTrArY"], "SCRAM-SHA-1"),
        (["PLAIN"], "SCRAM-SHA-1"),
        ([], "SCRAM-SHA-1"),
        (None, "SCRAM-SHA-1"),
        ("SCRAM-SHA-256", "SCRAM-SHA-1"),
        ({"SCRAM-SHA-256": 1}, "SCRAM-SHA-1"),
        (7, "SCRAM-SHA-1"),
        ([7, None], "SCRAM-SHA-1"),
    ],
)
def test_negotiation(listed: Any, chosen: str) -> None:
    authentication = begin(source="db")
    assert authentication.sasl_supported_mechs() == "db.user"
    speculative = authentication.speculative_document()
    assert speculative is not None
    assert (speculative["mechanism"], speculative["db"]) == ("SCRAM-SHA-256", "db")
    command = first_command(authentication, handshake(saslSupportedMechs=listed))
    assert command["mechanism"] == chosen
    assert "db" not in command
    # The list is not authenticated, so it does not change what was configured.
    for configured in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
        authentication = begin(configured)
        assert authentication.sasl_supported_mechs() is None
        speculative = authentication.speculative_document()
        assert speculative is not None
        assert speculative["mechanism"] == configured
        assert first_command(authentication, handshake(saslSupportedMechs=listed))["mechanism"] == configured


def test_the_name_is_asked_for_as_it_was_given() -> None:
    assert begin(username="\u2168,=").sasl_supported_mechs() == "admin.\u2168,="


@pytest.mark.parametrize(
    ("configured", "mechanism", "password"),
    [
        (None, "SCRAM-SHA-256", b"pencil"),
        ("SCRAM-SHA-256", "SCRAM-SHA-256", b"pencil"),
        ("SCRAM-SHA-1", "SCRAM-SHA-1", SHA_1_USER_PENCIL),
    ],
)
def test_a_speculative_answer_is_continued(configured: str | None, mechanism: str, password: bytes) -> None:
    authentication = begin(configured)
    server = ScramServer(mechanism, password)
    speculative = authentication.speculative_document()
    assert speculative is not None
    reply = server.answer(speculative)
    del reply["ok"]  # as in a real hello
    conversation = authentication.conversation(handshake(speculativeAuthenticate=reply))
    assert conversation is not None
    drive(conversation, server.answer)
    assert server.is_authenticated
    assert [next(iter(command)) for command in server.commands] == ["saslStart", "saslContinue"]


@pytest.mark.parametrize(
    ("mechanism", "command"),
    [("PLAIN", "saslStart"), ("GSSAPI", None), ("MONGODB-OIDC", None), ("MONGODB-AWS", None)],
)
def test_mechanisms_without_a_speculative_message(mechanism: str, command: str | None) -> None:
    """An answer to what was not sent counts for nothing."""
    authentication = begin(mechanism)
    assert authentication.speculative_document() is None
    assert authentication.sasl_supported_mechs() is None
    answer = handshake(speculativeAuthenticate={"conversationId": 1, "done": True, "payload": b"", "ok": 1})
    request = next(authentication.conversation(answer))
    assert (next(iter(request.document)) if isinstance(request, RunCommand) else None) == command


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_another_conversation_has_another_nonce(mechanism: str) -> None:
    authentication = begin(mechanism)
    first = first_command(authentication, handshake())["payload"]
    assert first.endswith(b64encode(NONCE))
    request = next(authentication.again(NONCE[::-1]))
    assert isinstance(request, RunCommand)
    assert request.document["payload"].endswith(b64encode(NONCE[::-1]))
    assert request.document["mechanism"] == mechanism


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "MONGODB-X509"])
def test_arbiters_know_no_users(mechanism: str | None) -> None:
    authentication = begin(mechanism)
    authentication.speculative_document()
    answer = handshake(setName="rs", arbiterOnly=True, speculativeAuthenticate={"done": True})
    with pytest.raises(ConfigurationError, match="a:1 is an arbiter and cannot authenticate"):
        authentication.conversation(answer)


def test_unsupported_mechanisms_name_the_supported() -> None:
    supported = "SCRAM-SHA-256, SCRAM-SHA-1, MONGODB-X509, PLAIN, GSSAPI, MONGODB-AWS, MONGODB-OIDC"
    with pytest.raises(ConfigurationError, match=f"'MONGODB-CR'.*{supported}"):
        begin("MONGODB-CR")


@pytest.mark.parametrize("mechanism", [None, "SCRAM-SHA-1", "SCRAM-SHA-256", "PLAIN"])
@pytest.mark.parametrize("lacking", [{"username": None}, {"username": ""}, {"password": None}])
def test_incomplete_credentials(mechanism: str | None, lacking: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="needs a username and a password"):
        begin(mechanism, **lacking)


@pytest.mark.parametrize("length", [31, 33])
def test_nonces_have_their_length(length: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {length}"):
        start(credentials(), ("a", 1), b"x" * length, KeyCache(1_000_000), TokenCache())


@pytest.mark.parametrize(("mechanism", "shown"), [(None, "by negotiation"), ("PLAIN", "PLAIN")])
def test_the_repr_is_redacted(mechanism: str | None, shown: str) -> None:
    assert repr(begin(mechanism)) == f"<Authentication {shown}>"


def test_gssapi_asks_for_a_ticket_of_the_address() -> None:
    authentication = begin("GSSAPI", password=None, SERVICE_NAME="mongo")
    for conversation in (authentication.conversation(handshake()), authentication.again(NONCE)):
        request = next(conversation)
        assert isinstance(request, NeedSecurityContext)
        assert (request.service, request.username) == (Service("mongo", "a", None, "none"), "user")


def test_gssapi_needs_a_host_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError, match="SERVICE_HOST"):
        start(credentials("GSSAPI"), ("/tmp/mongodb.sock", None), NONCE, KeyCache(1_000_000), TokenCache())


# --- X.509 ---


@pytest.mark.parametrize(("username", "extra"), [("CN=client", {"user": "CN=client"}), (None, {}), ("", {})])
def test_x509(username: str | None, extra: dict[str, str]) -> None:
    command = {"authenticate": 1, "mechanism": "MONGODB-X509", **extra}
    authentication = begin("MONGODB-X509", username=username, password=None, source="$external")
    assert authentication.sasl_supported_mechs() is None
    assert authentication.speculative_document() == command
    sent: list[dict[str, Any]] = []
    drive(authentication.conversation(handshake()), recorder(sent, {"ok": 1}), "$external")
    assert sent == [command]
    # Nothing is left to do after a success in the handshake.
    assert list(authentication.conversation(handshake(speculativeAuthenticate={"user": "CN=client"}))) == []


def test_x509_refused() -> None:
    conversation = begin("MONGODB-X509", username=None, password=None, source="$external").conversation(handshake())
    with pytest.raises(OperationFailure, match="no such user"):
        drive(conversation, lambda command: {"ok": 0, "errmsg": "no such user", "code": 18}, "$external")


# --- PLAIN ---


def plain(username: str = "user", password: str = "pencil", source: str = "$external") -> Any:
    return begin("PLAIN", username=username, password=password, source=source).conversation(handshake())


DONE = {"conversationId": 1, "payload": b"", "done": True, "ok": 1}


def test_the_specified_conversation_of_plain() -> None:
    sent: list[dict[str, Any]] = []
    drive(plain(), recorder(sent, DONE), "$external")
    assert sent == [
        {"saslStart": 1, "mechanism": "PLAIN", "payload": b64decode("AHVzZXIAcGVuY2ls"), "autoAuthorize": 1}
    ]


@pytest.mark.parametrize(("name", "password"), [("us\0er", "hidden"), ("user", "hid\0den"), ("user", "hidden\udc80")])
def test_what_plain_cannot_send(name: str, password: str) -> None:
    with pytest.raises(ConfigurationError, match=r"NUL|UTF-8") as raised:
        next(plain(name, password))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("reply", "text"), [({"ok": 0, "errmsg": "LDAP", "code": 18}, "LDAP"), (DONE | {"done": False}, "did not end")]
)
def test_plain_refused(reply: dict[str, Any], text: str) -> None:
    with pytest.raises(OperationFailure, match=text):
        drive(plain(source="ldap"), lambda command: reply, "ldap")
