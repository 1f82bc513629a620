"""The signatures are those that botocore 1.44 makes of the same requests, with the keys of AWS's documentation."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import bson
import pytest

from motorlite._connection.auth.aws import (
    AwsCredentials,
    authorization,
    converse,
    parse_server_first,
    region,
)
from motorlite.errors import OperationFailure
from tests.support.auth_servers import DONE, REFUSED, play

ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
CREDENTIALS = AwsCredentials(ACCESS_KEY, SECRET_KEY)
NONCE = b"0123456789abcdef" * 2
SERVER_NONCE = NONCE * 2
DATE = "20191107T002607Z"
HEADERS = "content-length;content-type;host;x-amz-date;x-mongodb-gs2-cb-flag;x-mongodb-server-nonce"
WITH_TOKEN = HEADERS.replace("x-amz-date;", "x-amz-date;x-amz-security-token;")


@pytest.mark.parametrize(
    ("host", "where", "token", "headers", "signature"),
    [
        (
            "sts.amazonaws.com",
            "us-east-1",
            None,
            HEADERS,
            "2d7937a782e94f98233d27373081f8c88936f5eba1c1aa0ce9143dcbf02bff6d",
        ),
        (
            "sts.us-west-2.amazonaws.com",
            "us-west-2",
            None,
            HEADERS,
            "7f2b5011d25af073051035244b9f95f8fb50384a2fa50df82f4d0ff3a9a238f3",
        ),
        (
            "sts.eu-central-1.amazonaws.com",
            "eu-central-1",
            "AQoDYXdzEJr/token+==",
            WITH_TOKEN,
            "621b9139424dfd7cdf69bc31ad2b2de938772bb8b0d24a24a4ce17374cd5618d",
        ),
    ],
)
def test_signature(host: str, where: str, token: str | None, headers: str, signature: str) -> None:
    credentials = AwsCredentials(ACCESS_KEY, SECRET_KEY, token)
    assert authorization(credentials, host, SERVER_NONCE, DATE) == (
        f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/20191107/{where}/sts/aws4_request, "
        f"SignedHeaders={headers}, Signature={signature}"
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("sts.amazonaws.com", "us-east-1"),
        ("aws.amazonaws.com", "us-east-1"),
        ("sts.us-west-2.amazonaws.com", "us-west-2"),
        ("sts.us-west-2.amazonaws.com.ch", "us-west-2"),
        ("example.com", "com"),
        ("localhost", "us-east-1"),
    ],
)
def test_region(host: str, expected: str) -> None:
    assert region(host) == expected


def server_first(host: Any = "sts.amazonaws.com", nonce: Any = SERVER_NONCE) -> bytes:
    return bson.encode({"s": nonce, "h": host})


def test_valid_first_message() -> None:
    longest = ".".join(["a" * 63] * 3 + ["b" * 63])
    assert len(longest) == 255
    for host in ("sts.amazonaws.com", "localhost", longest):
        assert parse_server_first(server_first(host), NONCE) == (SERVER_NONCE, host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "sts..com",
        ".amazonaws.com",
        "sts.amazonaws.",
        ".",
        "a" * 256,
        "é" * 128,
        "sts.amazonaws.com\nx-amz-target:a",
        "sts.amazonaws.com\r",
        "sts.amazonaws.com/a",
        "sts.amazonaws.com:443",
        "sts amazonaws.com",
        "sts.amazonaws.com\0",
        "user@sts.amazonaws.com",
        "sts.é.com",
    ],
)
def test_hosts_that_are_none(host: str) -> None:
    with pytest.raises(OperationFailure, match="which is not a host name"):
        parse_server_first(server_first(host), NONCE)


@pytest.mark.parametrize("nonce", [NONCE, NONCE * 3, SERVER_NONCE[:-1], b"x" + SERVER_NONCE[1:], b""])
def test_nonces_that_do_not_extend_ours(nonce: bytes) -> None:
    with pytest.raises(OperationFailure, match="does not extend the client's"):
        parse_server_first(server_first(nonce=nonce), NONCE)


@pytest.mark.parametrize("payload", [b"", b"nonsense", bson.encode({}), server_first(7), server_first(nonce="text")])
def test_malformed_first_message(payload: bytes) -> None:
    with pytest.raises(OperationFailure, match="first message is malformed"):
        parse_server_first(payload, NONCE)


class Server:
    def __init__(self, *replies: dict[str, Any]) -> None:
        self.replies = list(replies)
        self.commands: list[dict[str, Any]] = []

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        self.commands.append(command)
        return self.replies.pop(0)


FIRST = {"conversationId": 5, "done": False, "payload": server_first(), "ok": 1}


@pytest.mark.parametrize("token", [None, "session token"])
def test_conversation(token: str | None) -> None:
    server = Server(FIRST, DONE)
    credentials = AwsCredentials(ACCESS_KEY, SECRET_KEY, token)
    play(converse(NONCE), server.answer, aws=credentials, date=DATE)
    first, second = server.commands
    assert {**first, "payload": None} == {"saslStart": 1, "mechanism": "MONGODB-AWS", "payload": None}
    assert bson.decode(first["payload"]) == {"r": NONCE, "p": 110}
    assert {**second, "payload": None} == {"saslContinue": 1, "conversationId": 5, "payload": None}
    header = authorization(credentials, "sts.amazonaws.com", SERVER_NONCE, DATE)
    expected = {"a": header, "d": DATE, **({"t": token} if token else {})}
    assert bson.decode(second["payload"]) == expected


def test_the_first_message_is_the_one_of_the_specification() -> None:
    nonce = b64decode("Wj0lSjp8M0BMKGU+QVAzRSpWfk0hJigqO1V+b0FaVz4=")
    server = Server(REFUSED)
    with pytest.raises(OperationFailure):
        play(converse(nonce), server.answer, aws=CREDENTIALS)
    assert b64encode(server.commands[0]["payload"]) == (
        b"NAAAAAVyACAAAAAAWj0lSjp8M0BMKGU+QVAzRSpWfk0hJigqO1V+b0FaVz4QcABuAAAAAA=="
    )


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        ([REFUSED], "Authentication failed"),
        ([{**FIRST, "done": True}], "before it got a signature"),
        ([FIRST, REFUSED], "Authentication failed"),
        ([FIRST, {**DONE, "done": False}], "did not end the conversation"),
        ([{**FIRST, "payload": server_first(".")}], "not a host name"),
    ],
)
def test_failures(replies: list[dict[str, Any]], text: str) -> None:
    with pytest.raises(OperationFailure, match=text) as caught:
        play(converse(NONCE), Server(*replies).answer, aws=CREDENTIALS)
    assert SECRET_KEY not in str(caught.value)
