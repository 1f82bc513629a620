"""The exceptions that error documents become."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite._wire.replies import error_from_reply
from motorlite.errors import NotPrimaryError, OperationFailure, WriteConcernError, WTimeoutError

CONCERN = {"code": 100, "errmsg": "not enough"}


def reply(code: int, **more: Any) -> dict[str, Any]:
    return {"ok": 0.0, "code": code, "errmsg": "no", "writeConcernError": CONCERN, **more}


def test_a_write_concern_error_beside_another_error() -> None:
    error = error_from_reply(reply(26, errorLabels=["Label"]), prefers_concern_error=True)
    assert type(error) is WriteConcernError
    assert (error.code, error.details) == (100, CONCERN)
    assert error.has_error_label("Label")
    wtimeout = {"code": 64, "errmsg": "late", "errInfo": {"wtimeout": True}}
    assert type(error_from_reply(reply(26, writeConcernError=wtimeout), prefers_concern_error=True)) is WTimeoutError


@pytest.mark.parametrize("operation_prefers", [True, False])
@pytest.mark.parametrize("code", [91, 10107, 6])
def test_an_error_after_which_the_command_is_sent_again_counts_more(code: int, operation_prefers: bool) -> None:
    error = error_from_reply(reply(code), prefers_concern_error=operation_prefers)
    assert type(error) is (OperationFailure if code == 6 else NotPrimaryError)


@pytest.mark.parametrize("concern", [None, 5, []])
def test_a_write_concern_error_that_is_none(concern: Any) -> None:
    error = error_from_reply(reply(26, writeConcernError=concern), prefers_concern_error=True)
    assert (type(error), getattr(error, "code", None)) == (OperationFailure, 26)


def test_commands_of_the_application_have_their_own_error() -> None:
    assert getattr(error_from_reply(reply(26)), "code", None) == 26
