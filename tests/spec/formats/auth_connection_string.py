"""Credentials in connection strings ("auth-connection-string")."""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any, Final

from motorlite._options.options import client_options
from motorlite.errors import ConfigurationError
from tests.spec.formats.base import Format, equal, have, refused

if TYPE_CHECKING:
    from collections.abc import Mapping


def check(test: Mapping[str, Any]) -> None:
    """Compare the credentials."""
    with warnings.catch_warnings():
        # One that should be refused may warn as well: of a mechanism property that no mechanism knows.
        warnings.simplefilter("error" if test["valid"] else "ignore")
        if not test["valid"]:
            refused(ConfigurationError, client_options, test["uri"])
            return
        credentials = client_options(test["uri"]).credentials
    found = None if credentials is None else dataclasses.asdict(credentials)
    if found is not None:
        found["mechanism_properties"] = found["mechanism_properties"] or None
    equal(test["credential"], found, "credentials")


AUTH_CONNECTION_STRING: Final = Format(
    "auth-connection-string", check, lambda content: have(content, "credential"), has_list=True
)
