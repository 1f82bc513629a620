"""Public tests of read and write concerns in connection strings and as documents."""

from __future__ import annotations

from typing import Any

import pytest

from motorlite.concerns import ReadConcern, WriteConcern
from motorlite.errors import ConfigurationError
from motorlite.options import client_options
from tests.support.specifications import load

SUITE = "read-write-concern/tests"

# What the documents of the tests call the fields of a write concern.
ARGUMENTS = {"w": "w", "wtimeoutMS": "wtimeout", "journal": "j"}


def cases(folder: str) -> list[Any]:
    return [
        pytest.param(test, id=f"{name}: {test['description']}")
        for name, content in load(f"{SUITE}/{folder}")
        for test in content["tests"]
    ]


@pytest.mark.parametrize("test", cases("connection-string"))
def test_connection_string(test: dict[str, Any]) -> None:
    if not test["valid"]:
        # A wrong value is a warning (connection string specification), a contradiction an error.
        with pytest.raises((ConfigurationError, UserWarning)):
            client_options(test["uri"])
        return
    options = client_options(test["uri"])
    if "readConcern" in test:
        assert options.read_concern.document == test["readConcern"]
    if "writeConcern" in test:
        expected = {ARGUMENTS[name]: value for name, value in test["writeConcern"].items()}
        assert options.write_concern.document == expected


@pytest.mark.parametrize("test", cases("document"))
def test_document(test: dict[str, Any]) -> None:
    if "readConcern" in test:
        read_concern = ReadConcern(**test["readConcern"])
        assert read_concern.document == test["readConcernDocument"]
        assert read_concern.is_server_default is test["isServerDefault"]
        return
    arguments = {ARGUMENTS[name]: value for name, value in test["writeConcern"].items()}
    if not test["valid"]:
        with pytest.raises((ConfigurationError, ValueError)):
            WriteConcern(**arguments)
        return
    write_concern = WriteConcern(**arguments)
    assert write_concern.document == test["writeConcernDocument"]
    assert write_concern.is_server_default is test["isServerDefault"]
    assert write_concern.acknowledged is test["isAcknowledged"]
