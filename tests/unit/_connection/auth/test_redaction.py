"""What a server repeats of a secret is in no error."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.dbref import DBRef
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from motorlite._connection.auth import aws, mechanisms, oidc
from motorlite._connection.auth.conversation import NOT_SHOWN, SaslReply, redacted
from motorlite.errors import OperationFailure, ProtocolError
from tests.support.auth_servers import play

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEiLCJleHAiOjE3MDB9.c2lnbmF0dXJlLW9mLWEtdG9rZW4"


def error_of(conversation: Any, **reply: Any) -> OperationFailure:
    """What a conversation raises when the server refuses it with `reply`."""
    with pytest.raises(OperationFailure) as caught:
        play(conversation, lambda _: {"ok": 0, "code": 18, **reply}, token=lambda _: (TOKEN, False))
    return caught.value


def machine() -> Any:
    return oidc.converse(oidc.TokenCache(), oidc.Held(), None, is_human=False)


def shown(error: OperationFailure) -> str:
    return f"{error} {error!r} {error.details!r} {error.args!r}"


@pytest.mark.parametrize(
    "reply",
    [
        {"errmsg": f"bad token {TOKEN}"},
        {"errmsg": f"bad token {TOKEN[:40]}..."},
        {"errmsg": f"bad signature {TOKEN.rpartition('.')[2]}"},
        {"$err": TOKEN},
        {"codeName": TOKEN},
        {"errorLabels": [TOKEN]},
        {"errInfo": {"a": [{"b": TOKEN}]}},
        {"errInfo": {TOKEN: 1}},
        {TOKEN: 1},
        {"payload": Binary(bson.encode({"jwt": TOKEN}))},
        {"errmsg": "payload: " + b64encode(bson.encode({"jwt": TOKEN})).decode()},
        {"errmsg": "payload: " + bson.encode({"jwt": TOKEN}).hex()},
        {"errmsg": "payload: " + bson.encode({"jwt": TOKEN}).hex().upper()},
        {"errmsg": "x" * 20_000 + TOKEN},
        {"errInfo": Regex(TOKEN)},
        {"errInfo": [DBRef("coll", TOKEN)]},
        {"errInfo": DBRef(TOKEN, 1)},
        {"errInfo": Code("f()", {"a": TOKEN})},
        {"errInfo": Code(TOKEN)},
    ],
    ids=lambda reply: str(reply)[:60],
)
def test_a_token_that_the_server_repeats(reply: dict[str, Any]) -> None:
    error = error_of(machine(), **reply)
    assert error.code == 18
    text = shown(error)
    for start in range(len(TOKEN) - 15):
        assert TOKEN[start : start + 16] not in text
    assert b64encode(TOKEN.encode()).decode()[:24] not in text
    assert TOKEN.encode().hex()[:24] not in text.lower()


@pytest.mark.parametrize("is_human", [False, True])
def test_a_token_that_the_server_refused_before_it_repeats_it(is_human: bool) -> None:
    cache, held = oidc.TokenCache(), oidc.Held()
    cache.access_token = TOKEN
    codes, tokens = iter([18, 11]), iter([(TOKEN, True), ("another", False)])

    def answer(_: dict[str, Any]) -> dict[str, Any]:
        return {"ok": 0, "code": next(codes), "errmsg": f"bad token, and before {TOKEN}"}

    with pytest.raises(OperationFailure) as caught:
        play(oidc.converse(cache, held, None, is_human=is_human), answer, token=lambda _: next(tokens))
    assert caught.value.code == 11
    assert TOKEN not in shown(caught.value)
    # The connection's former token, when it authenticates again.
    held.access_token, cache.access_token, codes, tokens = TOKEN, None, iter([11]), iter([("another", False)])
    with pytest.raises(OperationFailure) as caught:
        play(oidc.converse(cache, held, None, is_human=is_human), answer, token=lambda _: next(tokens))
    assert TOKEN not in shown(caught.value)


def test_the_servers_own_words_are_shown() -> None:
    error = error_of(machine(), errmsg="Authentication failed.", codeName="AuthenticationFailed", errorLabels=["x"])
    assert str(error).startswith("Authentication failed.")
    assert error.details is not None
    assert error.details["codeName"] == "AuthenticationFailed"
    assert error.has_error_label("x")


@pytest.mark.parametrize("password", ["p", "pencil", "a much longer password than that"])
def test_a_password_that_the_server_repeats(password: str) -> None:
    error = error_of(mechanisms.converse_plain("ada", password, "$external"), errmsg=f"no user with '{password}'")
    assert str(error).startswith(NOT_SHOWN)
    assert f"'{password}'" not in shown(error)
    payload = b64encode(b"\0ada\0" + password.encode()).decode()
    assert payload not in shown(error_of(mechanisms.converse_plain("ada", password, "$external"), errmsg=payload))


def test_a_session_token_of_aws_that_the_server_repeats() -> None:
    credentials = aws.AwsCredentials("AKIDEXAMPLE", "a-secret-key-of-40-characters", "a-session-token-that-is-long")
    nonce = b"n" * 32

    def answer(command: dict[str, Any]) -> dict[str, Any]:
        if "saslStart" in command:
            payload = bson.encode({"s": nonce + b"s" * 32, "h": "sts.amazonaws.com"})
            return {"ok": 1, "conversationId": 1, "done": False, "payload": payload}
        return {"ok": 0, "errmsg": str(bson.decode(command["payload"])), "code": 18}

    with pytest.raises(OperationFailure) as caught:
        play(aws.converse(nonce), answer, aws=credentials)
    assert "a-session-token" not in shown(caught.value)


def test_a_reply_of_the_wrong_shape_is_not_repeated() -> None:
    with pytest.raises(ProtocolError) as caught:
        SaslReply("PLAIN", {TOKEN: TOKEN, "done": TOKEN, "ok": 1})
    assert "has done (str)" in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_nothing_else_is_changed() -> None:
    reply = {"ok": 0, "code": 18, "errmsg": "x", "topologyVersion": {"counter": 1}, "list": [1, None, 2.5, True]}
    assert redacted(reply, {}, ()) == reply
    assert redacted(reply, {"payload": b""}, (None, "")) == reply
    gossip = {"clusterTime": Timestamp(1, 2), "processId": ObjectId()}
    assert redacted(gossip, {}, (TOKEN,)) == gossip


@pytest.mark.parametrize("wrap", [lambda inner: {"a": inner}, lambda inner: [inner]], ids=["documents", "arrays"])
def test_a_refusal_that_is_nested_deeply(wrap: Callable[[Any], Any]) -> None:
    nested: Any = TOKEN
    for _ in range(900):
        nested = wrap(nested)
    error = error_of(machine(), errmsg="no", errInfo=nested)
    assert error.code == 18
    assert str(error).startswith("no, full error")
    assert TOKEN not in shown(error)


def test_a_refusal_full_of_text_is_searched_in_part() -> None:
    text = "x" * 10_000
    found = redacted({"errmsg": "no", "all": [text] * 100}, {}, ("secret",))
    assert found["errmsg"] == "no"
    assert found["all"] == [text] * 4 + [NOT_SHOWN] * 96
