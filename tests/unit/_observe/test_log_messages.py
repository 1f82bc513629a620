"""What is logged about an event: the sentences, and plain fields; those that are common are in the public suites."""

from __future__ import annotations

import json
from typing import Any

import pytest

from motorlite import monitoring as events
from motorlite._observe.log_messages import log_message
from tests.unit._api.event_samples import ADDRESS, BARE, FULL, TOPOLOGY, WITH_EVERYTHING, WITH_LITTLE, kinds

SILENT = events.ServerDescriptionChangedEvent


def fields(event: object) -> dict[str, Any]:
    message = log_message(event, topology_id=TOPOLOGY if isinstance(event, events.ServerHeartbeatEvent) else None)
    assert message is not None
    return message.fields


def sentence(event: object) -> str | None:
    message = log_message(event, topology_id=TOPOLOGY)
    return None if message is None else str(message)


def test_there_is_a_message_for_every_event() -> None:
    assert {type(event) for event in FULL} == kinds()
    assert [type(event) for event in FULL if log_message(event) is None] == [SILENT]


@pytest.mark.parametrize(("event", "expected"), [*WITH_EVERYTHING, *WITH_LITTLE])
def test_the_sentence(event: object, expected: str | None) -> None:
    assert sentence(event) == expected


@pytest.mark.parametrize("event", BARE, ids=lambda event: type(event).__name__)
def test_fields_without_a_value_are_left_out(event: object) -> None:
    found = fields(event)
    assert None not in found.values()
    assert not found.keys() & {"serverPort", "serviceId", "serverConnectionId", "tokens"}


def test_fields_are_plain_values() -> None:
    # A record may cross processes, and structured handlers write JSON.
    for event in FULL:
        if type(event) is not SILENT:
            assert json.loads(json.dumps(fields(event), allow_nan=False)) == fields(event)


def test_documents_are_cut() -> None:
    started = events.CommandStartedEvent({"insert": "x" * 5000}, "insert", "db", 1, 2, ADDRESS)
    message, default = log_message(started, 20), log_message(started)
    assert message is not None
    assert message.fields["command"] == '{"insert": "xxxxxxxx...'
    assert default is not None
    assert len(default.fields["command"]) == 1003


def test_odd_values() -> None:
    # Values are not read as templates.
    started = events.CommandStartedEvent({"find": "{commandName}"}, "{databaseName}", "{requestId}", 1, 2, ADDRESS)
    assert str(log_message(started)).startswith('Command "{databaseName}" started on database "{requestId}" to db.')
    assert sentence(events.PoolReadyEvent(("::1", 27017))) == "Connection pool ready for [::1]:27017"
    expected = "LogMessage({'message': 'Connection pool ready', 'serverHost': 'h', 'serverPort': 1})"
    assert repr(log_message(events.PoolReadyEvent(("h", 1)))) == expected
    closed = "Connection pool was closed"
    for event, reason in (
        (events.ConnectionClosedEvent(ADDRESS, 1, "stale"), "Connection became stale because the pool was cleared"),
        (events.ConnectionClosedEvent(ADDRESS, 1, "poolClosed"), closed),
        (events.ConnectionClosedEvent(ADDRESS, 1, "error"), "An error occurred while using the connection"),
        (events.ConnectionCheckOutFailedEvent(ADDRESS, "poolClosed", 0.0), closed),
    ):
        assert fields(event)["reason"] == reason
