"""Command events: what they show, and what they must not show."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS

from motorlite._observe.publishing import CommandEvents
from motorlite.errors import AutoReconnect, NotPrimaryError
from tests.support.kept_errors import is_kept_copy
from tests.support.operations import server_error

if TYPE_CHECKING:
    from motorlite.monitoring import CommandEvent

SERVICE = bson.ObjectId()
SENSITIVE = [
    *("authenticate", "saslStart", "saslContinue", "getnonce", "createUser", "updateUser"),
    *("copydbgetnonce", "copydbsaslstart", "copydb"),
]


def events(name: str, document: dict[str, Any]) -> CommandEvents:
    return CommandEvents(name, {**document, "$db": "admin"}, 11, 22, ("a", 1), 33, 44, SERVICE)


def check_common(event: CommandEvent, name: str) -> None:
    assert event.command_name == name
    assert event.database_name == "admin"
    assert event.request_id == 11
    assert event.operation_id == 22
    assert event.connection_id == ("a", 1)
    assert event.server_connection_id == 33
    assert event.driver_connection_id == 44
    assert event.service_id == SERVICE


def test_an_ordinary_command() -> None:
    made = events("find", {"find": "coll"})
    started = made.started({"find": "coll", "$db": "admin"}, ())
    assert started.command == {"find": "coll", "$db": "admin"}
    succeeded = made.succeeded(0.25, {"ok": 1, "cursor": {}})
    assert (succeeded.duration, succeeded.duration_micros) == (0.25, 250_000)
    assert succeeded.reply == {"ok": 1, "cursor": {}}
    error = server_error(7, "Label")
    failed = made.failed(0.5, error)
    assert (failed.duration, failed.duration_micros) == (0.5, 500_000)
    assert failed.failure == error.details
    assert is_kept_copy(failed.error, error)
    for event in (started, succeeded, failed):
        check_common(event, "find")


def test_the_shown_command_is_a_copy() -> None:
    document: dict[str, Any] = {"find": "coll"}
    started = events("find", document).started(document, ())
    document["lsid"] = 1
    assert started.command == {"find": "coll"}


def test_document_sequences_are_shown_as_arrays() -> None:
    document = {"insert": "coll", "ordered": True}
    sequences = [("documents", [bson.encode({"_id": 1}), bson.encode({"_id": 2})]), ("more", [])]
    started = events("insert", document).started(document, sequences)
    assert started.command == {**document, "documents": [{"_id": 1}, {"_id": 2}], "more": []}
    assert "documents" not in document


class Foreign(ValueError):
    """Another library's, with details of its own."""

    details = MappingProxyType({"secret": 1})


# Nothing that a server said, so nothing that must be hidden.
@pytest.mark.parametrize("name", ["find", "saslStart"])
@pytest.mark.parametrize("error", [AutoReconnect("gone"), KeyError("x"), KeyboardInterrupt(), Foreign("y")])
def test_an_error_without_a_reply(name: str, error: BaseException) -> None:
    failed = events(name, {name: 1}).failed(1, error)
    kind = type(error).__name__
    assert failed.failure == {"errmsg": str(error), "errtype": kind, "type": kind}
    assert is_kept_copy(failed.error, error)


def test_a_state_change_has_its_reply() -> None:
    reply = {"ok": 0, "code": 91}
    assert events("find", {"find": "coll"}).failed(1, NotPrimaryError("x", reply)).failure == reply


# --- sensitive commands ---


@pytest.mark.parametrize("name", [*SENSITIVE, *map(str.lower, SENSITIVE), *map(str.upper, SENSITIVE)])
def test_a_sensitive_command_shows_nothing(name: str) -> None:
    document = {name: 1, "pwd": "secret"}
    made = events(name, document)
    assert made.started(document, [("documents", [bson.encode({"pwd": "secret"})])]).command == {}
    assert made.succeeded(1, {"ok": 1, "payload": "secret"}).reply == {}
    failed = made.failed(1, server_error(18, "Label", errmsg="secret", codeName="AuthenticationFailed"))
    assert failed.failure == {"code": 18, "codeName": "AuthenticationFailed", "errorLabels": ["Label"]}
    # Its text and details are the server's.
    assert failed.error is None
    check_common(failed, name)


@pytest.mark.parametrize("name", ["hello", "isMaster", "ismaster", "HELLO"])
def test_hello_is_sensitive_only_when_it_authenticates(name: str) -> None:
    made = events(name, {name: 1})
    assert made.started({name: 1}, ()).command == {name: 1}
    assert made.succeeded(1, {"ok": 1}).reply == {"ok": 1}
    document = {name: 1, "speculativeAuthenticate": {"payload": "secret"}}
    made = events(name, document)
    assert made.started(document, ()).command == {}
    assert made.succeeded(1, {"ok": 1}).reply == {}
    assert made.failed(1, server_error(18)).failure == {"code": 18, "errorLabels": []}


def test_another_command_with_that_field_is_not_sensitive() -> None:
    document = {"find": "coll", "speculativeAuthenticate": 1}
    assert events("find", document).started(document, ()).command == document


def test_showing_a_document_does_not_fail_where_sending_it_did_not() -> None:
    far = bson.encode({"at": DatetimeMS(2**60)})
    command = events("insert", {"insert": "coll"}).started({"insert": "coll"}, [("documents", [far])]).command
    assert command["documents"] == [{"at": DatetimeMS(2**60)}]
