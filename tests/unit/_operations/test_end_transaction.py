"""The commands that end transactions."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._base.values import ServerFacts
from motorlite._operations.sessions import AbortTransaction, CommitTransaction
from motorlite.errors import WriteConcernError

FACTS = ServerFacts(("a", 1), max_wire_version=21)


def test_the_commands() -> None:
    assert AbortTransaction().command(FACTS).document == {"abortTransaction": 1}
    assert CommitTransaction().command(FACTS).document == {"commitTransaction": 1}
    assert CommitTransaction(0).command(FACTS).document == {"commitTransaction": 1, "maxTimeMS": 0}
    assert AbortTransaction().database == CommitTransaction().database == "admin"


def test_without_an_error() -> None:
    CommitTransaction().parse({"ok": 1})
    AbortTransaction().parse({"ok": 1})


@pytest.mark.parametrize(
    ("code", "labels"),
    [(64, {"UnknownTransactionCommitResult"}), (91, {"UnknownTransactionCommitResult"}), (79, set())],
)
def test_write_concern_errors(code: int, labels: set[str]) -> None:
    reply: dict[str, Any] = {"ok": 1, "writeConcernError": {"code": code, "errmsg": "x"}}
    with pytest.raises(WriteConcernError) as raised:
        CommitTransaction().parse(reply)
    assert raised.value.error_labels == labels
    with pytest.raises(WriteConcernError) as raised:
        AbortTransaction().parse(reply)
    assert raised.value.error_labels == frozenset()
