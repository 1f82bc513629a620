from __future__ import annotations

from typing import Any

import pytest

from motorlite._connection.auth.mechanisms import converse_x509, x509_command
from motorlite.errors import OperationFailure
from tests.support.scram_server import drive, recorder


@pytest.mark.parametrize(("username", "extra"), [("CN=client", {"user": "CN=client"}), (None, {}), ("", {})])
def test_one_command_on_external(username: str | None, extra: dict[str, str]) -> None:
    sent: list[dict[str, Any]] = []
    drive(converse_x509(username), recorder(sent, {"ok": 1}), "$external")
    assert sent == [{"authenticate": 1, "mechanism": "MONGODB-X509", **extra}]
    assert x509_command(username) == sent[0]


def test_nothing_is_left_after_a_speculative_success() -> None:
    with pytest.raises(StopIteration):
        next(converse_x509(None, {"dbname": "$external", "user": "CN=client"}))


def test_refusal() -> None:
    with pytest.raises(OperationFailure, match="no such user"):
        drive(converse_x509(None), lambda command: {"ok": 0, "errmsg": "no such user", "code": 18}, "$external")
