"""Connection strings, and the options in them ("connection-string", "uri-options")."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from motorlite.errors import ConfigurationError
from tests.spec.formats.base import Format, equal, have, refused
from tests.support.connection_strings import parse_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._options.uri import ParsedURI


def _parsed(test: Mapping[str, Any]) -> ParsedURI | None:
    """What the connection string says, if it should be taken; its warnings are compared."""
    if not test["valid"]:
        refused(ConfigurationError, parse_uri, test["uri"])
        return None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parsed = parse_uri(test["uri"])
    messages = [str(warning.message) for warning in caught]
    equal(bool(test["warning"]), bool(messages), f"whether it warns (the warnings: {messages})")
    return parsed


def check_connection_string(test: Mapping[str, Any]) -> None:
    """Compare hosts, user, database and options; names of options in any case."""
    parsed = _parsed(test)
    if parsed is None:
        return
    if test["hosts"]:
        equal([_host(host) for host in test["hosts"]], list(parsed.hosts), "hosts")
    auth = test["auth"]
    if auth is not None:
        equal((auth["username"], auth["password"]), (parsed.username, parsed.password), "user and password")
        namespace = f"{parsed.database}.{parsed.collection}" if parsed.collection else parsed.database
        equal(auth["db"], namespace, "database")
    found = {name.lower(): value for name, value in parsed.options.items()}
    for name, value in (test["options"] or {}).items():
        equal(value, found.get(name.lower()), name)


def _host(expected: Mapping[str, Any]) -> tuple[str, int | None]:
    if expected["type"] == "unix":
        return expected["host"], None
    return expected["host"].lower(), expected["port"] or 27017


def check_uri_options(test: Mapping[str, Any]) -> None:
    """Compare the options, by the names that the specification spells them with."""
    parsed = _parsed(test)
    if parsed is None:
        return
    for name, value in (test["options"] or {}).items():
        equal(value, parsed.options.get(name), name)


def _is_uri_options(content: Mapping[str, Any]) -> bool:
    """Both formats look the same; the tests of options name no hosts."""
    tests = [test for test in content["tests"] if isinstance(test, dict)] if have(content, "hosts") else []
    return any(test.get("options") for test in tests) and not any(test.get("hosts") for test in tests)


def _is_connection_string(content: Mapping[str, Any]) -> bool:
    return have(content, "hosts") and not _is_uri_options(content)


CONNECTION_STRING: Final = Format("connection-string", check_connection_string, _is_connection_string, has_list=True)
URI_OPTIONS: Final = Format("uri-options", check_uri_options, _is_uri_options, has_list=True)
