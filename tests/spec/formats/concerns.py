"""Read and write concerns in connection strings and as documents ("concern-connection-string", "concern-document")."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from motorlite._options.options import client_options
from motorlite.errors import ConfigurationError
from motorlite.read_concern import ReadConcern
from motorlite.write_concern import WriteConcern
from tests.spec.formats.base import Format, equal, have, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the documents of the tests call the fields of a write concern.
_ARGUMENTS: Final = {"w": "w", "wtimeoutMS": "wtimeout", "journal": "j"}


def check_connection_string(test: Mapping[str, Any]) -> None:
    """Compare what the connection string says of them."""
    with warnings.catch_warnings():
        # A wrong value is a warning (connection string specification), a contradiction an error.
        warnings.simplefilter("error")
        if not test["valid"]:
            refused((ConfigurationError, UserWarning), client_options, test["uri"])
            return
        options = client_options(test["uri"])
    if "readConcern" in test:
        equal(test["readConcern"], options.read_concern.document, "read concern")
    if "writeConcern" in test:
        equal(_arguments(test), options.write_concern.document, "write concern")


def check_document(test: Mapping[str, Any]) -> None:
    """Compare the documents that the server is sent."""
    if "readConcern" in test:
        read_concern = ReadConcern(**test["readConcern"])
        equal(test["readConcernDocument"], read_concern.document, "document")
        equal(test["isServerDefault"], read_concern.is_server_default, "isServerDefault")
        return
    if not test["valid"]:
        refused((ConfigurationError, ValueError), WriteConcern, **_arguments(test))
        return
    write_concern = WriteConcern(**_arguments(test))
    equal(test["writeConcernDocument"], write_concern.document, "document")
    equal(test["isServerDefault"], write_concern.is_server_default, "isServerDefault")
    equal(test["isAcknowledged"], write_concern.acknowledged, "isAcknowledged")


def _arguments(test: Mapping[str, Any]) -> dict[str, Any]:
    return {_ARGUMENTS[name]: value for name, value in test["writeConcern"].items()}


CONNECTION_STRING: Final = Format(
    "concern-connection-string",
    check_connection_string,
    lambda content: have(content, "uri") and have(content, "readConcern", "writeConcern"),
    has_list=True,
)
DOCUMENT: Final = Format(
    "concern-document",
    check_document,
    lambda content: have(content, "readConcernDocument", "writeConcernDocument"),
    has_list=True,
)
