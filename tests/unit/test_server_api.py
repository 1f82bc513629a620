"""The Stable API declaration checks its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite.server_api import ServerApi, ServerApiVersion


def test_server_api() -> None:
    declared = ServerApi(ServerApiVersion.V1, strict=True)
    assert (declared.version, declared.strict, declared.deprecation_errors) == ("1", True, None)
    assert declared == ServerApi("1", strict=True)
    assert hash(declared) == hash(ServerApi("1", strict=True))
    assert declared != ServerApi("1")
    assert declared != "1"
    assert repr(declared) == "ServerApi('1', strict=True, deprecation_errors=None)"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"version": "2"}, ValueError, "version must be '1', not '2'"),
        ({"version": "1", "strict": 1}, TypeError, "strict must be True, False or None, not 1"),
        ({"version": "1", "deprecation_errors": "no"}, TypeError, "deprecation_errors must be"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        ServerApi(**arguments)
