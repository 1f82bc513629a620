from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from motorlite._connection.auth.mechanisms import converse_plain
from motorlite.errors import ConfigurationError, OperationFailure
from tests.support.scram_server import drive, recorder

DONE = {"conversationId": 1, "payload": b"", "done": True, "ok": 1}


def test_the_specified_conversation() -> None:
    sent: list[dict[str, Any]] = []
    drive(converse_plain("user", "pencil", "$external"), recorder(sent, DONE), "$external")
    assert sent == [
        {"saslStart": 1, "mechanism": "PLAIN", "payload": b64decode("AHVzZXIAcGVuY2ls"), "autoAuthorize": 1}
    ]


@pytest.mark.parametrize(("name", "password"), [("us\0er", "hidden"), ("user", "hid\0den"), ("user", "hidden\udc80")])
def test_what_cannot_be_sent(name: str, password: str) -> None:
    with pytest.raises(ConfigurationError, match=r"NUL|UTF-8") as raised:
        next(converse_plain(name, password, "$external"))
    assert "hidden" not in str(raised.value)


def test_refusal_and_a_server_that_goes_on() -> None:
    with pytest.raises(OperationFailure, match="LDAP"):
        drive(converse_plain("u", "p", "ldap"), lambda command: {"ok": 0, "errmsg": "LDAP", "code": 18}, "ldap")
    with pytest.raises(OperationFailure, match="did not end"):
        drive(converse_plain("u", "p", "ldap"), lambda command: DONE | {"done": False}, "ldap")
