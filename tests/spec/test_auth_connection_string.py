"""Public tests of credentials in connection strings."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import pytest

from motorlite.errors import ConfigurationError
from motorlite.options import client_options
from tests.support.specifications import load

SUITE = "auth/tests/legacy"

# These contradict "should throw an exception if username and password provided (MONGODB-AWS)" of the same
# file, and the authentication specification since 2025-09-30: no AWS credentials are taken from the options.
SUPERSEDED = {
    "should use username and password if specified (MONGODB-AWS)",
    "should use username, password and session token if specified (MONGODB-AWS)",
}

CASES = [pytest.param(test, id=test["description"]) for _, content in load(SUITE) for test in content["tests"]]


@pytest.mark.parametrize("test", CASES)
def test_auth_connection_string(test: dict[str, Any]) -> None:
    if not test["valid"] or test["description"] in SUPERSEDED:
        with warnings.catch_warnings():
            # Of a mechanism property that no mechanism knows.
            warnings.simplefilter("ignore")
            with pytest.raises(ConfigurationError):
                client_options(test["uri"])
        return
    credentials = client_options(test["uri"]).credentials
    if test["credential"] is None:
        assert credentials is None
        return
    assert credentials is not None
    found = dataclasses.asdict(credentials)
    found["mechanism_properties"] = found["mechanism_properties"] or None
    assert found == test["credential"]
