"""Listeners that log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import event_loggers, monitoring
from motorlite._observe.publishing import HANDLERS
from motorlite._topology.topology_description import TopologyDescription
from motorlite.event_loggers import (
    CommandLogger,
    ConnectionPoolLogger,
    HeartbeatLogger,
    ServerLogger,
    TopologyLogger,
)
from tests.unit._api.event_samples import ADDRESS, FULL, TOPOLOGY, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

LOGGERS = [CommandLogger(), ConnectionPoolLogger(), HeartbeatLogger(), ServerLogger(), TopologyLogger()]


assert {type(each).__name__ for each in LOGGERS} == set(event_loggers.__all__)


def receivers() -> Iterator[tuple[type, Any]]:
    """The events, each with the method of a logger that receives it."""
    for handlers in HANDLERS.values():
        for event, (listener, method) in handlers.items():
            for each in LOGGERS:
                if isinstance(each, listener) and method in vars(type(each)) and "Changed" not in event.__name__:
                    yield event, getattr(each, method)


@pytest.mark.parametrize(("event", "receive"), tuple(receivers()), ids=lambda value: getattr(value, "__name__", ""))
def test_events_are_logged_with_their_server(event: type, receive: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "motorlite.event_loggers"):
        receive(next(sample for sample in FULL if type(sample) is event))
    (record,) = caplog.records
    assert record.name == "motorlite.event_loggers"
    assert str(TOPOLOGY) in record.getMessage() or "db.example:27018" in record.getMessage()


def test_texts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "motorlite.event_loggers")
    pool = ConnectionPoolLogger()
    pool.connection_closed(monitoring.ConnectionClosedEvent(ADDRESS, 3, "stale"))
    pool.connection_check_out_failed(monitoring.ConnectionCheckOutFailedEvent(ADDRESS, "timeout", 0.1))
    HeartbeatLogger().failed(monitoring.ServerHeartbeatFailedEvent(ADDRESS, False, 0.1, ValueError("broken")))
    ServerLogger().closed(monitoring.ServerClosedEvent(TOPOLOGY, ADDRESS))
    # Documents are not logged.
    CommandLogger().started(
        monitoring.CommandStartedEvent({"insert": "c", "x": "secret"}, "insert", "d", 1, 2, ADDRESS)
    )
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "pool db.example:27018, connection 3: closed (stale)"),
        ("INFO", "pool db.example:27018: check-out failed (timeout)"),
        ("WARNING", "heartbeat of db.example:27018: failed: broken"),
        ("WARNING", f"server db.example:27018: removed from topology {TOPOLOGY}"),
        ("INFO", "insert, request 1 to db.example:27018: started"),
    ]


class Described:
    """A usable description with the names and answers that the loggers read."""

    def __init__(self, kind: str) -> None:
        self.server_type_name = self.topology_type_name = kind
        self.has_writable_server = self.has_readable_server = lambda: True


def test_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "motorlite.event_loggers")
    primary: Any = Described("RSPrimary")
    # Those of servers are logged if their type changed.
    for before, after in ((UNKNOWN, UNKNOWN), (UNKNOWN, primary)):
        event = monitoring.ServerDescriptionChangedEvent(TOPOLOGY, ADDRESS, before, after)
        ServerLogger().description_changed(event)
    single: Any = Described("Single")
    nothing = TopologyDescription.initial([ADDRESS], direct_connection=False, replica_set=None, load_balanced=False)
    for before, after in ((nothing, single), (single, single), (single, nothing)):
        TopologyLogger().description_changed(monitoring.TopologyDescriptionChangedEvent(TOPOLOGY, before, after))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "server db.example:27018: was Unknown, is RSPrimary"),
        ("INFO", f"topology {TOPOLOGY}: was Unknown, is Single"),
        ("INFO", f"topology {TOPOLOGY}: changed"),
        ("INFO", f"topology {TOPOLOGY}: was Single, is Unknown"),
        ("WARNING", f"topology {TOPOLOGY}: no server accepts writes"),
        ("WARNING", f"topology {TOPOLOGY}: no server accepts reads"),
    ]
