"""The conversations of MONGODB-OIDC; the prose tests are in tests/sim/prose/test_auth_oidc.py."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import bson
import pytest

from motorlite._connection.auth.conversation import NeedToken
from motorlite._connection.auth.oidc import (
    DEFAULT_ALLOWED_HOSTS,
    Held,
    TokenCache,
    check_host,
    check_result,
    converse,
    speculative_document,
)
from motorlite.auth_oidc import OIDCCallbackResult, OIDCIdPInfo
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError
from tests.support.auth_servers import DONE, REFUSED, OIDCServer, play


class Client:
    """A client's cache, one connection's token, and what the callback returns."""

    def __init__(self, *results: OIDCCallbackResult | str, cached: str | None = None, human: bool = False) -> None:
        self.cache, self.held = TokenCache(), Held()
        self.cache.access_token = cached
        self.results = [OIDCCallbackResult(item) if isinstance(item, str) else item for item in results]
        self.human = human
        self.requests: list[NeedToken] = []

    def token(self, request: NeedToken) -> tuple[str, bool]:
        if self.cache.access_token is not None:
            return self.cache.access_token, True
        self.requests.append(request)
        result = self.results.pop(0)
        self.cache.store(result, request.idp_info)
        return result.access_token, False

    def converse(self, server: Any, username: str | None = None, **fields: Any) -> None:
        conversation = converse(self.cache, self.held, username, is_human=self.human, **fields)
        play(conversation, server.answer if isinstance(server, OIDCServer) else server, token=self.token)


def test_the_messages_are_those_of_the_specification() -> None:
    sent: list[dict[str, Any]] = []

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        sent.append(command)
        return OIDCServer("abcd1234").answer(command)

    Client("abcd1234").converse(answer)
    Client("abcd1234", human=True).converse(answer, "myidp")
    one_step, principal, two_step = sent
    assert list(one_step) == ["saslStart", "mechanism", "payload"]
    assert b64encode(one_step["payload"]) == b"FwAAAAJqd3QACQAAAGFiY2QxMjM0AAA="
    assert b64encode(principal["payload"]) == b"EgAAAAJuAAYAAABteWlkcAAA"
    assert list(two_step) == ["saslContinue", "conversationId", "payload"]
    assert two_step["payload"] == one_step["payload"]


@pytest.mark.parametrize("username", [None, ""])
def test_no_name_is_sent_where_there_is_none(username: str | None) -> None:
    server = OIDCServer("t")
    Client("t", human=True).converse(server, username)
    assert server.names == [None]


@pytest.mark.parametrize("reply", [None, {"done": False}, {}])
def test_speculative_authentication_that_fails_says_nothing_of_the_token(reply: Any) -> None:
    client = Client(cached="t")
    speculative_document(client.cache, client.held)
    server = OIDCServer("t")
    client.converse(server, speculative_reply=reply)
    assert server.shown == ["t"]
    assert client.requests == []


def test_a_token_that_was_not_accepted_in_the_handshake_is_not_the_connections() -> None:
    client = Client(cached="t")
    speculative_document(client.cache, client.held)
    client.cache.invalidate("t")
    with pytest.raises(IndexError):  # of the callback, which has nothing to return
        client.converse(OIDCServer("t"))
    assert client.held.access_token is None


def test_without_a_token_there_is_nothing_to_speculate_with() -> None:
    held = Held()
    held.access_token = "old"
    assert speculative_document(TokenCache(), held) is None
    assert held.access_token is None


def test_only_the_token_that_was_refused_is_forgotten() -> None:
    cache = TokenCache()
    cache.access_token = "new"
    cache.invalidate("old")
    cache.invalidate(None)
    assert cache.access_token == "new"
    cache.invalidate("new")
    assert cache.access_token is None


def test_a_cached_token_that_is_refused_for_another_reason_is_kept() -> None:
    client = Client(cached="t")
    with pytest.raises(OperationFailure):
        client.converse(lambda _: {**REFUSED, "code": 20})
    assert client.cache.access_token == "t"


def test_a_person_is_asked_again_from_the_beginning() -> None:
    client = Client(OIDCCallbackResult("worse", refresh_token="r2"), "good", cached="bad", human=True)
    client.cache.refresh_token, client.cache.idp_info = "r1", OIDCIdPInfo("https://issuer")
    server = OIDCServer("good")
    client.converse(server, "me")
    assert server.shown == ["bad", "worse", "good"]
    refresh, fresh = client.requests
    assert (refresh.refresh_token, refresh.idp_info) == ("r1", OIDCIdPInfo("https://issuer"))
    assert fresh.refresh_token is None
    assert fresh.idp_info == OIDCIdPInfo("https://issuer", "abcd", ["a", "b"])
    assert client.cache.idp_info == fresh.idp_info
    assert server.names == ["me"]


def test_a_cached_token_is_enough_for_a_person_too() -> None:
    client = Client(cached="t", human=True)
    server = OIDCServer("t")
    client.converse(server)
    assert (server.shown, server.names, client.requests) == (["t"], [], [])


def test_a_refresh_token_that_is_newer_than_the_refused_one_is_kept() -> None:
    client = Client(OIDCCallbackResult("bad", refresh_token="r2"), OIDCCallbackResult("good"), human=True)
    client.cache.refresh_token = "r1"
    server = OIDCServer("good")

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        if client.cache.access_token == "bad":
            # Meanwhile, on another connection.
            client.cache.refresh_token = "r3"
        return server.answer(command)

    client.converse(answer)
    assert [request.refresh_token for request in client.requests] == ["r1", "r3"]
    assert server.names == []


def identity_provider(**fields: Any) -> bytes:
    return bson.encode({"issuer": "i", **fields})


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        *((payload, "does not name the identity provider") for payload in (b"", b"nonsense", bson.encode({}))),
        *((identity_provider(issuer=issuer), "does not name the identity provider") for issuer in (None, 7)),
        *((identity_provider(clientId=client), "clientId that is not a string") for client in (1, ["a"])),
        *(
            (identity_provider(requestScopes=scopes), "requestScopes that are not a list of strings")
            for scopes in ("a", {"a": 1}, ["a", 1])
        ),
    ],
)
def test_an_identity_provider_of_no_use_does_not_reach_the_callback(payload: bytes, text: str) -> None:
    client = Client("t", human=True)
    with pytest.raises(OperationFailure, match=f"MONGODB-OIDC authentication failed: the server .*{text}"):
        client.converse(lambda _: {**DONE, "done": False, "payload": payload})
    assert client.requests == []


def test_ends_that_come_at_the_wrong_time() -> None:
    with pytest.raises(OperationFailure, match="before it got a token"):
        Client("t", human=True).converse(lambda _: DONE)
    with pytest.raises(OperationFailure, match="did not end the conversation"):
        Client("t").converse(lambda _: {**DONE, "done": False})
    with pytest.raises(ProtocolError):
        Client("t").converse(lambda _: {"ok": 1})


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "not NoneType"),
        ("token", "not str"),
        (OIDCCallbackResult(""), "no access_token"),
        (OIDCCallbackResult(None), "no access_token"),  # type: ignore[arg-type]
        (OIDCCallbackResult(b"secret"), "no access_token"),  # type: ignore[arg-type]
        (OIDCCallbackResult("secret", -1), "at least 0"),
        (OIDCCallbackResult("secret", float("nan")), "at least 0"),
        (OIDCCallbackResult("secret", "3"), "at least 0"),  # type: ignore[arg-type]
        (OIDCCallbackResult("secret", None, b"secret"), "refresh_token that is not a string"),  # type: ignore[arg-type]
        (OIDCCallbackResult("secret\ud800"), "cannot be encoded as UTF-8"),
        (OIDCCallbackResult("secret", None, "secret\udce9"), "cannot be encoded as UTF-8"),
    ],
)
def test_results_that_are_of_no_use(result: Any, text: str) -> None:
    with pytest.raises(OperationFailure, match=text) as caught:
        check_result(result)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None, "UnicodeEncodeError shows the text"


def test_results_that_are() -> None:
    for result in (OIDCCallbackResult("t"), OIDCCallbackResult("t", 0), OIDCCallbackResult("t", 3.5, "r")):
        assert check_result(result) is result


ALLOWED = [
    "a.mongodb.net",
    "A.B.MongoDB.net",
    "x.mongodb-qa.net",
    "x.mongodb-dev.net",
    "x.mongodbgov.net",
    "x.mongo.com",
]
NOT_ALLOWED = ["mongodb.net", "evilmongodb.net", "a.mongodb.net.evil.com", "localhost.evil.com", "::2"]
# Addresses are not below a domain.
WITH_ZONES = ["fe80::1%x.mongodb.net", "::1%1.mongodb.net"]
NO_NAMES = [
    "127.0.0.3\0.mongodb.net",
    "evil.org/.mongodb.net",
    "evil.org#.mongodb.net",
    "evil.org\u3002.mongodb.net",
    "evil@a.mongodb.net",
    "a\n.mongodb.net",
    ".mongodb.net",
    "a..mongodb.net",
    "a.mongodb.net.",
    "a b.mongodb.net",
    "\u212a.mongodb.net",
    "",
]


@pytest.mark.parametrize("host", [*ALLOWED, "x.mongo.com", "localhost", "127.0.0.1", "::1"])
def test_hosts_that_are_allowed_by_default(host: str) -> None:
    check_host((host, 27017), DEFAULT_ALLOWED_HOSTS)


@pytest.mark.parametrize("host", [*NOT_ALLOWED, *WITH_ZONES])
def test_hosts_that_are_not(host: str) -> None:
    with pytest.raises(ConfigurationError, match="is not one of ALLOWED_HOSTS, so no token"):
        check_host((host, 27017), DEFAULT_ALLOWED_HOSTS)


@pytest.mark.parametrize("host", NO_NAMES)
def test_what_is_no_host_name_is_none_of_them(host: str) -> None:
    for allowed in (DEFAULT_ALLOWED_HOSTS, ("*.net", host)):
        with pytest.raises(ConfigurationError, match="is not a valid DNS host name, so no token is requested"):
            check_host((host, 27017), allowed)


def test_other_hosts_are_allowed_by_name_only() -> None:
    for host in ("fe80::1%eth0", "::ffff:1", "10.0.0.1", "A.example"):
        check_host((host, 1), (host,))
        with pytest.raises(ConfigurationError, match="is not one of ALLOWED_HOSTS"):
            check_host((host, 1), ("*.0.0.1", "*.eth0", "x.example"))
    check_host(("/tmp/a.sock", None), ("/tmp/a.sock",))
    with pytest.raises(ConfigurationError, match="is not one of ALLOWED_HOSTS"):
        check_host(("/tmp/a.mongodb.net", None), DEFAULT_ALLOWED_HOSTS)


def test_the_reprs_are_redacted() -> None:
    client = Client(cached="secret")
    client.held.access_token = "secret"
    request = NeedToken(refresh_token="secret")
    assert "secret" not in repr(client.cache) + repr(client.held) + repr(request)
