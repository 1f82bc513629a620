"""Listeners registered with PyMongo, tracing agents among them, hear motorlite's events after `compat.install()`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pymongo.monitoring
import pytest
import sentry_sdk
from opentelemetry.instrumentation.pymongo import PymongoInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pymongo import event_loggers
from sentry_sdk.integrations.pymongo import PyMongoIntegration
from sentry_sdk.transport import Transport

from motorlite import compat
from motorlite.errors import AutoReconnect, OperationFailure
from motorlite.testing.scripted import Close, failure
from tests.support.clients import one_member

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("installed")]

SECRET = {"name": "Ada"}


@pytest.fixture
def installed() -> Iterator[None]:
    """`compat.install()`; what the test registers with PyMongo is taken back."""
    lists: Any = getattr(pymongo.monitoring, "_LISTENERS")  # noqa: B009  # not in the stubs
    before = [list(each) for each in lists]
    compat.install()
    yield
    compat.uninstall()
    for listeners, kept in zip(lists, before, strict=True):
        listeners[:] = kept


async def work(*listeners: Any) -> None:
    """An insert, a find that fails on the server, and one whose connection breaks."""
    answers = {"insert": {"ok": 1, "n": 1}, "find": [failure(2), Close(), Close()]}
    async with one_member(answers, event_listeners=listeners, heartbeatFrequencyMS=500) as (client, _):
        people = client.shop.people
        await people.insert_one(dict(SECRET))
        with pytest.raises(OperationFailure):
            await people.find_one(SECRET)
        with pytest.raises(AutoReconnect):
            await people.find_one(SECRET)


@pytest.mark.parametrize("is_registered", [True, False])
async def test_pymongo_s_event_loggers(is_registered: bool, caplog: pytest.LogCaptureFixture) -> None:
    """They find in every event what they look for, also when the client is given them."""
    caplog.set_level(logging.INFO)
    kinds: Any = (
        event_loggers.CommandLogger,
        event_loggers.ServerLogger,
        event_loggers.HeartbeatLogger,
        event_loggers.TopologyLogger,
        event_loggers.ConnectionPoolLogger,
    )
    loggers = [kind() for kind in kinds]
    if is_registered:
        for each in loggers:
            pymongo.monitoring.register(each)
    await work(*([] if is_registered else loggers))
    said = [record.getMessage() for record in caplog.records if record.name == "root"]
    for words in ("Command insert", "Command find", "Heartbeat to server", "Topology", "Server ('a', 1)", "pool"):
        assert any(words.lower() in text.lower() for text in said), words
    # A listener that fails is logged as an error.
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_opentelemetry_s_instrumentation(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = PymongoInstrumentor()  # there is only one, and it registers its listener only once
    monkeypatch.setattr(instrumentor, "_commandtracer_instance", None)
    hooked: list[Any] = []
    instrumentor._instrument(
        tracer_provider=provider,
        capture_statement=True,
        request_hook=lambda _, event: hooked.append(event.command),
        response_hook=lambda _, event: hooked.append(event.reply),
        failed_hook=lambda _, event: hooked.append(event.failure),
    )
    await work()
    instrumentor._uninstrument()
    spans: Any = [span for span in exporter.get_finished_spans() if span.name.startswith("shop.")]
    assert [(span.name, span.status.status_code) for span in spans] == [
        ("shop.insert", StatusCode.UNSET),
        *[("shop.find", StatusCode.ERROR)] * 3,
    ]
    assert len(hooked) >= 2 * len(spans)
    attributes = spans[0].attributes
    assert attributes["db.name"] == "shop"
    assert attributes["db.mongodb.collection"] == "people"
    assert (attributes["net.peer.name"], attributes["net.peer.port"]) == ("a", 1)
    assert "Ada" in attributes["db.statement"]
    assert all(span.status.description for span in spans[1:])


class Kept(Transport):
    """Keeps what Sentry would send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Any] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.sent += [item.payload.json for item in envelope.items]


async def test_sentry_s_integration() -> None:
    kept = Kept()
    client = sentry_sdk.Client(
        dsn="http://key@localhost/1",
        transport=kept,
        integrations=[PyMongoIntegration()],
        default_integrations=False,
        auto_enabling_integrations=False,
        traces_sample_rate=1.0,
    )
    # The first client of the process registers the listener.
    listeners: list[Any] = getattr(pymongo.monitoring, "_LISTENERS").command_listeners  # noqa: B009
    listeners.clear()
    PyMongoIntegration.setup_once()
    with sentry_sdk.isolation_scope() as scope:
        scope.set_client(client)
        with sentry_sdk.start_transaction(name="request"):
            await work()
    (transaction,) = kept.sent
    spans = [span for span in transaction["spans"] if span["op"] == "db" and "people" in span["description"]]
    assert [(span["data"]["db.operation"], span["tags"]["status"]) for span in spans] == [
        ("insert", "ok"),
        *[("find", "internal_error")] * 3,
    ]
    assert spans[0]["data"]["db.mongodb.collection"] == "people"
    assert (spans[0]["data"]["server.address"], spans[0]["data"]["server.port"]) == ("a", 1)
    assert spans[0]["data"]["operation_ids"]["session"]
    # It replaces what commands say in a copy, or the server would be asked for "%s".
    assert "Ada" not in str(spans)
