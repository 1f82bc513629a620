"""What is logged about an event: the sentences, and fields that agree with the public suites."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pymongo import monitoring

from motorlite import monitoring as events
from motorlite._observe.log_messages import log_message
from tests.support import specifications
from tests.unit._api.event_samples import ADDRESS, BARE, FULL, TOPOLOGY, WITH_EVERYTHING, WITH_LITTLE, kinds

SUITES = (
    "command-logging-and-monitoring/tests/logging",
    "connection-monitoring-and-pooling/tests/logging",
    "server-discovery-and-monitoring/tests/unified",
    "server-selection/tests/logging",
)
# Options of other drivers' wait queues.
UNSUPPORTED = {"waitQueueSize", "waitQueueMultiple"}
SILENT = events.ServerDescriptionChangedEvent
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int": (int,),
    "long": (int,),
    "double": (float,),
    "object": (dict,),
}


def fields(event: object) -> dict[str, Any]:
    message = log_message(event, topology_id=TOPOLOGY if isinstance(event, events.ServerHeartbeatEvent) else None)
    assert message is not None
    return message.fields


def sentence(event: object) -> str | None:
    message = log_message(event, topology_id=TOPOLOGY)
    return None if message is None else str(message)


def expected_messages() -> list[tuple[str, dict[str, Any]]]:
    """Every log message that a public suite expects, as pairs of the test's name and the message."""
    return [
        (f"{name}: {test['description']}", message)
        for suite in SUITES
        for name, content in specifications.load(suite)
        for test in content["tests"]
        for client in test.get("expectLogMessages", ())
        for message in client["messages"]
        if not message["data"].keys() & UNSUPPORTED
    ]


def disagreement(expected: dict[str, Any], actual: dict[str, Any]) -> str | None:
    """Which expectation `actual` does not meet, as far as it concerns keys and types."""
    for key, value in expected.items():
        if value == {"$$exists": False}:
            continue
        if key not in actual:
            return f"{key} is missing"
        wanted = value.get("$$type", ()) if isinstance(value, dict) else ()
        names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        allowed = tuple(kind for name in names for kind in TYPES[name])
        if allowed and (not isinstance(actual[key], allowed) or isinstance(actual[key], bool)):
            return f"{key} is {actual[key]!r}"
        if isinstance(value, dict) and "$$matchAsDocument" in value and not isinstance(json.loads(actual[key]), dict):
            return f"{key} is no document"
    return None


def test_the_fields_are_those_of_the_public_suites() -> None:
    if reason := specifications.not_run():
        pytest.skip(reason)
    samples = {fields(event)["message"]: fields(event) for event in FULL if type(event) is not SILENT}
    samples["Connection pool created"].update(maxConnecting=1, waitQueueTimeoutMS=1)
    expected = expected_messages()
    wrong = [
        f"{test}: {message['data']['message']}: {found}"
        for test, message in expected
        if (found := disagreement(message["data"], samples[message["data"]["message"]]))
    ]
    assert not wrong, "\n".join(wrong)
    # All that there is, but the messages of motorlite's own events, which no suite expects.
    seen = {message["data"]["message"] for _, message in expected}
    unseen = [event for event in FULL if type(event) is not SILENT and fields(event)["message"] not in seen]
    assert events.RetryEvent in map(type, unseen)
    assert not [event for event in unseen if hasattr(monitoring, type(event).__name__)]
    assert not [event for event in unseen if isinstance(event, events.ServerSelectionEvent)]


def test_no_public_suite_expects_less_than_the_disagreement_finds() -> None:
    assert disagreement({"serverHost": {"$$type": "string"}}, {}) == "serverHost is missing"
    assert disagreement({"serverPort": {"$$type": ["int", "long"]}}, {"serverPort": "1"}) == "serverPort is '1'"
    assert disagreement({"reply": {"$$matchAsDocument": {}}}, {"reply": "[]"}) == "reply is no document"


def test_reasons_are_those_of_the_public_suites() -> None:
    if reason := specifications.not_run():
        pytest.skip(reason)
    reasons = {m["data"]["reason"] for _, m in expected_messages() if isinstance(m["data"].get("reason"), str)}
    ours = {
        fields(event)["reason"]
        for event in (
            events.ConnectionClosedEvent(ADDRESS, 1, "error"),
            events.ConnectionClosedEvent(ADDRESS, 1, "poolClosed"),
            events.ConnectionCheckOutFailedEvent(ADDRESS, "connectionError", 0.0),
        )
    }
    assert reasons == ours


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
        (events.ConnectionCheckOutFailedEvent(ADDRESS, "poolClosed", 0.0), closed),
    ):
        assert fields(event)["reason"] == reason
