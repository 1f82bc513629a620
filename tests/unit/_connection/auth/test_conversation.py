from __future__ import annotations

from typing import Any

import pytest

from motorlite._connection.auth.conversation import Compute, RunCommand, SaslReply, encode, run, violation
from motorlite.errors import ConfigurationError, OperationFailure, ProtocolError


def test_run_returns_the_reply() -> None:
    generator = run("admin", {"ping": 1})
    request = next(generator)
    assert isinstance(request, RunCommand)
    assert (request.database, request.document) == ("admin", {"ping": 1})
    with pytest.raises(StopIteration) as stop:
        generator.send({"ok": 1, "x": 2})
    assert stop.value.value == {"ok": 1, "x": 2}


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"conversationId": 1, "payload": b""},
        {"conversationId": 1, "done": 1, "payload": b""},
        {"conversationId": 1, "done": True, "payload": "c2VjcmV0"},
        {"done": True, "payload": b"secret"},
    ],
)
def test_incomplete_sasl_replies(reply: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="conversationId, done") as raised:
        SaslReply("PLAIN", reply)
    assert "secret" not in str(raised.value)
    assert "c2VjcmV0" not in str(raised.value)


def test_reprs_and_errors_are_redacted() -> None:
    assert repr(RunCommand("admin", {"saslStart": 1, "payload": b"secret"})) == "<RunCommand saslStart on 'admin'>"
    assert repr(Compute("key", lambda: "secret", print)) == "<Compute>"
    with pytest.raises(ConfigurationError, match="the password cannot be encoded as UTF-8") as raised:
        encode("secret\udc80", "the password")
    assert "secret" not in str(raised.value)
    # The UnicodeEncodeError holds the text.
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_violation_names_the_mechanism() -> None:
    assert str(violation("PLAIN", "why")) == "PLAIN authentication failed: why"


@pytest.mark.parametrize("ok", [0, 2, "yes", [1], None])
def test_run_raises_a_refusal(ok: object) -> None:
    generator = run("admin", {"ping": 1})
    next(generator)
    with pytest.raises(OperationFailure, match="no") as raised:
        generator.send({"ok": ok, "code": 18, "errmsg": "no", "done": True})
    assert raised.value.code == 18
