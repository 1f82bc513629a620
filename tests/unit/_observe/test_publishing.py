"""Which listeners get an event, and what happens when a listener or a handler fails."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from operator import eq
from typing import Any

import pymongo.monitoring
import pytest

from motorlite import monitoring as events
from motorlite._observe import publishing
from motorlite._observe.publishing import HANDLERS, LOGGERS, Publishers, make_publishers
from motorlite._options.options import client_options
from tests.unit._api.event_samples import ADDRESS, FULL, TOPOLOGY, kinds, retry

LISTENERS = dict.fromkeys(kind for handlers in HANDLERS.values() for kind, _ in handlers.values()).keys()


def quiet(name: str) -> bool:
    return False


def publisher_of(publishers: Publishers, event: object) -> Any:
    for attribute in LOGGERS:
        if type(event) in HANDLERS[attribute]:
            return getattr(publishers, attribute)
    raise AssertionError(f"{event!r} is published by nobody")


def recorder(kind: type, calls: list[tuple[str, object]]) -> object:
    """A listener of one kind that overrides everything."""

    def method(name: str) -> Any:
        return lambda self, event: calls.append((name, event))

    names = [name for name in vars(kind) if not name.startswith("_")]
    return type("Recorder", (kind,), {name: method(name) for name in names})()


class Own(BaseException):
    pass


class Broken(events.RetryListener):
    """Its attribute is what it raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def retry(self, event: events.RetryEvent) -> None:
        raise self.error


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What motorlite logs at DEBUG."""
    caplog.set_level(logging.DEBUG, "motorlite")
    return caplog


# --- which listeners get an event ---


def test_every_event_is_published_by_one_publisher() -> None:
    published = [event for handlers in HANDLERS.values() for event in handlers]
    assert len(published) == len(set(published))
    assert set(published) == kinds()


def test_every_method_of_every_listener_is_used() -> None:
    used = {handler for handlers in HANDLERS.values() for handler in handlers.values()}
    assert used == {(kind, name) for kind in LISTENERS for name in vars(kind) if not name.startswith("_")}
    assert {kind for name, kind in vars(events).items() if name.endswith("Listener")} == LISTENERS


@pytest.mark.parametrize("event", FULL, ids=lambda event: type(event).__name__)
def test_a_listener_is_told(event: Any) -> None:
    kind, name = next(handlers[type(event)] for handlers in HANDLERS.values() if type(event) in handlers)
    calls: list[tuple[str, object]] = []
    publish = publisher_of(make_publishers([recorder(kind, calls)], logging_enabled=quiet), event)
    publish(event)
    assert calls == [(name, event)]


def heard(publishers: Publishers) -> list[str]:
    """The loggers of the kinds of events that are published."""
    return [logger for attribute, logger in LOGGERS.items() if getattr(publishers, attribute)]


@pytest.mark.parametrize("kind", LISTENERS, ids=lambda kind: kind.__name__)
def test_only_what_somebody_hears_is_published(kind: type) -> None:
    (logger,) = [
        LOGGERS[name] for name, handlers in HANDLERS.items() if kind in {listener for listener, _ in handlers.values()}
    ]
    assert heard(make_publishers([kind()], logging_enabled=quiet)) == [logger]


def test_nothing_is_published_to_nobody() -> None:
    assert heard(make_publishers([], logging_enabled=quiet)) == []
    assert heard(Publishers()) == []
    for logger in LOGGERS.values():
        assert heard(make_publishers([], logging_enabled=partial(eq, logger))) == [logger]


def test_listeners_are_told_in_their_order() -> None:
    told: list[tuple[str, object]] = []

    class Several(events.RetryListener, events.TopologyListener):
        """Two kinds in one object."""

        def retry(self, event: events.RetryEvent) -> None:
            told.append(("several", event))

        def opened(self, event: events.TopologyOpenedEvent) -> None:
            told.append(("opened", event))

    several = Several()
    publishers = make_publishers([several, recorder(events.RetryListener, told), several], logging_enabled=quiet)
    for event in (retry(), events.TopologyOpenedEvent(TOPOLOGY), events.ServerOpeningEvent(TOPOLOGY, ADDRESS)):
        # Nobody listens to servers.
        publisher_of(publishers, event)(event)
    assert [name for name, _ in told] == ["several", "retry", "several", "opened", "opened"]


# --- who is allowed ---


@pytest.mark.parametrize(
    "listener", [object(), events.CommandListener, None, "listener", pymongo.monitoring.CommandListener]
)
def test_the_options_allow_listeners_alone(listener: object) -> None:
    listeners = [kind() for kind in LISTENERS]
    assert list(client_options(event_listeners=listeners).event_listeners) == listeners
    with pytest.raises(TypeError, match="event_listeners must be") as caught:
        client_options(event_listeners=[*listeners, listener])
    assert all(kind.__name__ in str(caught.value) for kind in LISTENERS)


def test_listeners_cannot_await() -> None:
    async def method(self: object, event: object) -> None:
        raise AssertionError

    listener = type("Waiting", (events.RetryListener,), {"retry": method})()
    with pytest.raises(TypeError, match=r"Waiting\.retry must be a plain function"):
        make_publishers([listener])


# --- failures ---


# A listener gets the first one from the result of a cancelled task. It is not a cancellation of its caller.
NO_ENDS = (asyncio.CancelledError, GeneratorExit, Own)
ENDS = (KeyboardInterrupt, SystemExit)


@pytest.mark.parametrize("kind", [ValueError, *NO_ENDS])
def test_a_listener_that_fails_is_logged_and_ignored(
    kind: type[BaseException], logged: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[str, object]] = []
    error = kind("listener bug")
    publish = make_publishers([Broken(error), recorder(events.RetryListener, calls)]).retry
    assert publish is not None
    publish(retry())
    assert len(calls) == 1
    (record,) = [record for record in logged.records if record.name == "motorlite.client"]
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "a listener failed on RetryEvent; ignored")
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.usefixtures("logged")
def test_what_ends_the_program_is_not_ignored(kind: type[BaseException]) -> None:
    publish_retry = make_publishers([Broken(kind())], logging_enabled=quiet).retry
    publish_command = make_publishers([]).command
    assert publish_retry is not None
    assert publish_command is not None
    with pytest.raises(kind):
        publish_retry(retry())
    # Nor while it logs.
    with pytest.raises(kind):
        publish_command(events.CommandStartedEvent({"x": Unprintable(kind())}, "ping", "admin", 1, 2, ADDRESS))


class Unprintable:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __repr__(self) -> str:
        raise self.error


@pytest.mark.parametrize("kind", [RuntimeError, *NO_ENDS])
def test_an_event_that_cannot_be_logged_is_ignored(kind: type[BaseException], logged: pytest.LogCaptureFixture) -> None:
    publish = make_publishers([]).command
    assert publish is not None
    publish(events.CommandStartedEvent({"x": Unprintable(kind("no repr"))}, "ping", "admin", 1, 2, ADDRESS))
    (record,) = logged.records
    assert record.name == "motorlite.client"
    assert record.getMessage() == "CommandStartedEvent could not be logged; ignored"
    assert record.exc_info is not None


@pytest.mark.parametrize("kind", [LookupError, *NO_ENDS])
def test_a_failure_that_cannot_be_logged_either_is_ignored(
    kind: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter that raises for every record, where all loggers meet."""

    def broken(record: logging.LogRecord) -> bool:
        raise kind("a bug of the application")

    for name in ("motorlite.client", "motorlite.retry"):
        monkeypatch.setattr(logging.getLogger(name), "filters", [broken])
    publish = make_publishers([Broken(ValueError())]).retry
    assert publish is not None
    publish(retry())
    assert kind.__name__ in capsys.readouterr().err


# --- logging ---


LEVELS = {
    events.CircuitBreakerOpenedEvent: logging.WARNING,
    events.CircuitBreakerHalfOpenedEvent: logging.INFO,
    events.CircuitBreakerClosedEvent: logging.INFO,
    events.RetryEvent: logging.INFO,
    events.ServerSelectionWaitingEvent: logging.INFO,
}


@pytest.mark.parametrize("event", FULL, ids=lambda event: type(event).__name__)
def test_an_event_is_logged(event: Any, logged: pytest.LogCaptureFixture) -> None:
    publishers = make_publishers([])
    publisher_of(publishers, event)(event)
    if type(event) is events.ServerDescriptionChangedEvent:
        assert not logged.records
        return
    (record,) = logged.records
    assert type(event) in HANDLERS[next(kind for kind, name in LOGGERS.items() if name == record.name)]
    assert record.levelno == LEVELS.get(type(event), logging.DEBUG)
    assert isinstance(record.args, tuple)
    (message,) = record.args
    assert record.getMessage() == str(message)
    assert vars(record)["motorlite"] == getattr(message, "fields", None)


def test_heartbeats_are_logged_with_the_topology(logged: pytest.LogCaptureFixture) -> None:
    publish = make_publishers([]).topology
    assert publish is not None
    publish(events.ServerHeartbeatStartedEvent(ADDRESS, False))
    publish(events.TopologyOpenedEvent(TOPOLOGY))
    publish(events.ServerHeartbeatStartedEvent(ADDRESS, False))
    before, _, after = (vars(record)["motorlite"] for record in logged.records)
    assert "topologyId" not in before
    assert after["topologyId"] == str(TOPOLOGY)


def test_the_level_is_asked_at_every_event(logged: pytest.LogCaptureFixture) -> None:
    publish = make_publishers([]).pool
    assert publish is not None
    logging.getLogger("motorlite").setLevel(logging.INFO)
    assert not make_publishers([]).command
    publish(events.PoolReadyEvent(ADDRESS))
    assert not logged.records
    logging.getLogger("motorlite").setLevel(logging.DEBUG)
    publish(events.PoolReadyEvent(ADDRESS))
    assert len(logged.records) == 1


def test_documents_are_cut(logged: pytest.LogCaptureFixture) -> None:
    publish = make_publishers([], max_document_length=5).command
    assert publish is not None
    publish(events.CommandStartedEvent({"ping": 1}, "ping", "admin", 1, 2, ADDRESS))
    assert vars(logged.records[0])["motorlite"]["command"] == '{"pin...'


@pytest.mark.parametrize("method", ["setLevel", "disable"])
def test_the_standard_library_forgets_its_answers_at_every_change_of_a_level(method: str) -> None:
    """The dictionary is private; this runs with the oldest and the newest Python that the driver supports."""
    assert isinstance(publishing._LEVELS, dict)
    logger = logging.getLogger("motorlite.test_levels")
    try:
        logging.getLogger().isEnabledFor(logging.DEBUG)
        assert publishing._LEVELS
        getattr(logger if method == "setLevel" else logging, method)(logging.INFO)
        assert not publishing._LEVELS
    finally:
        logger.setLevel(logging.NOTSET)
        logging.disable(logging.NOTSET)


def test_without_that_dictionary_every_operation_asks_the_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "_LEVELS", ())
    assert not make_publishers([]).levels
