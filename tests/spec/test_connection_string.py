"""Public tests of connection strings."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.uri import parse_uri
from tests.support.specifications import load

SUITE = "connection-string/tests"

CASES = [
    pytest.param(test, id=f"{name}: {test['description']}")
    for name, content in load(SUITE)
    for test in content["tests"]
]


@pytest.mark.parametrize("test", CASES)
def test_connection_string(test: dict[str, Any]) -> None:
    if not test["valid"]:
        with pytest.raises(ConfigurationError):
            parse_uri(test["uri"])
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parsed = parse_uri(test["uri"])
    assert bool(caught) is test["warning"], [str(warning.message) for warning in caught]
    for expected, (host, port) in zip(test["hosts"] or (), parsed.hosts, strict=True):
        assert host == (expected["host"] if expected["type"] == "unix" else expected["host"].lower())
        default = None if expected["type"] == "unix" else 27017
        assert port == (expected["port"] or default)
    if test["auth"] is not None:
        auth = test["auth"]
        assert (parsed.username, parsed.password) == (auth["username"], auth["password"])
        namespace = f"{parsed.database}.{parsed.collection}" if parsed.collection else parsed.database
        assert namespace == auth["db"]
    options = {name.lower(): value for name, value in parsed.options.items()}
    for name, value in (test["options"] or {}).items():
        assert options[name.lower()] == value
