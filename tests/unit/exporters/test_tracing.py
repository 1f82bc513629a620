"""Spans from events: names, attributes, parents, errors, secrets; and that nothing is kept."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from bson.binary import Binary
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from motorlite import monitoring as events
from motorlite._base.version import __version__
from motorlite._options.tracing import TracingOptions
from motorlite.errors import DuplicateKeyError, NetworkTimeout, OperationFailure, ServerSelectionTimeoutError
from motorlite.exporters.opentelemetry._tracing import tracing_listeners

ADDRESS = ("db.example", 27017)
TOPOLOGY: Any = None


class Traced:
    """The listeners of a client that traces, and the spans that they made."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("application")
        self.listeners = tracing_listeners(TracingOptions(True, tracer_provider=provider, **options))
        self.spans: Any = self.listeners[0]

    def begin(self, name: str = "find", database: str = "db", collection: str | None = "coll", id_: int = 1) -> None:
        self.spans.operation_started(events.OperationStartedEvent(name, database, collection, id_))

    def end(self, error: BaseException | None = None, id_: int = 1) -> None:
        names = ("find", "db", "coll", id_)
        if error is None:
            self.spans.operation_succeeded(events.OperationSucceededEvent(0.1, *names))
        else:
            self.spans.operation_failed(events.OperationFailedEvent(0.1, error, *names))

    def command(self, command: dict[str, Any], outcome: Any, **changes: Any) -> None:
        """A command with its reply, or the document and the error of its failure."""
        settings = {"name": next(iter(command), "saslStart"), "database": "db", "address": ADDRESS, **changes}
        args = (settings["name"], settings["database"], 7, 1, settings["address"], 8, 9)
        self.spans.started(events.CommandStartedEvent(command, *args))
        if isinstance(outcome, tuple):
            self.spans.failed(events.CommandFailedEvent(0.1, *outcome, *args))
        else:
            self.spans.succeeded(events.CommandSucceededEvent(0.1, outcome, *args))

    def run(
        self, command: dict[str, Any], outcome: Any, error: BaseException | None = None, **changes: Any
    ) -> dict[str, Any]:
        """The spans of a whole operation with one command."""
        self.begin()
        self.command(command, outcome, **changes)
        self.end(error)
        return self.take()

    def take(self) -> dict[str, Any]:
        """The spans that ended, by name; nothing of them is kept."""
        found = {span.name: span for span in self.exporter.get_finished_spans()}
        assert len(found) == len(self.exporter.get_finished_spans())
        self.exporter.clear()
        assert not self.spans.operations
        assert not self.spans._commands
        return found


def test_an_operation_and_its_command() -> None:
    lsid = {"id": Binary.from_uuid(uuid.UUID(int=5))}
    spans = Traced().run({"find": "coll", "lsid": lsid, "txnNumber": 3, "$db": "db"}, {"cursor": {"id": 77}})
    operation, sent = spans["find db.coll"], spans["find"]
    # The public suites compare all other attributes.
    assert sent.attributes["db.mongodb.cursor_id"] == 77
    assert operation.parent is None
    assert sent.parent.span_id == operation.context.span_id
    assert operation.kind is sent.kind is SpanKind.CLIENT
    assert operation.status.status_code is sent.status.status_code is StatusCode.UNSET
    scope = operation.instrumentation_scope
    assert (scope.name, scope.version) == ("motorlite", __version__)


def test_the_parent_is_the_current_span() -> None:
    for phases in (False, True):
        traced = Traced(phases=phases)
        assert len(traced.listeners) == 1 + phases
        with traced.tracer.start_as_current_span("request"):
            traced.begin()
        traced.end()
        spans = traced.take()
        assert spans["find db.coll"].parent.span_id == spans["request"].context.span_id


def test_a_command_on_another_database_has_no_collection() -> None:
    traced = Traced()
    traced.begin("runCommand", "db", None)
    traced.command({"renameCollection": "db.a"}, {"ok": 1}, database="admin", address=("/tmp/m.sock", None))
    traced.end()
    attributes = traced.take()["renameCollection"].attributes
    assert attributes["db.query.summary"] == "renameCollection admin"
    assert attributes["network.transport"] == "unix"
    assert attributes["server.address"] == "/tmp/m.sock"
    assert not {"db.collection.name", "server.port", "db.mongodb.cursor_id"} & attributes.keys()


@pytest.mark.parametrize(
    ("limit", "text"), [(100, '{"find": "coll", "filter": {"x": 1}}'), (10, '{"find": "...'), (0, None)]
)
def test_query_text(limit: int, text: str | None) -> None:
    command = {"find": "coll", "filter": {"x": 1}, "lsid": {}, "$db": "db", "$clusterTime": {}, "signature": 1}
    spans = Traced(query_text_max_length=limit).run(command, {})
    assert spans["find"].attributes.get("db.query.text") == text


def test_a_command_that_fails() -> None:
    error = OperationFailure("no", 89, {"code": 89, "codeName": "NetworkTimeout"})
    try:
        raise error
    except OperationFailure:
        spans = Traced().run({"find": "coll"}, ({"code": 89}, error), error)
    operation, command = spans["find db.coll"], spans["find"]
    attributes = command.attributes
    assert attributes["db.response.status_code"] == attributes["error.type"] == "89"
    assert attributes["exception.type"] == "motorlite.errors.OperationFailure"
    assert attributes["exception.message"] == str(error)
    assert "test_a_command_that_fails" in attributes["exception.stacktrace"]
    (recorded,) = command.events
    assert recorded.attributes["exception.type"] == attributes["exception.type"]
    # The exception is the command's.
    assert operation.status.status_code is command.status.status_code is StatusCode.ERROR
    assert operation.attributes["error.type"] == "OperationFailure"
    assert "exception.message" not in operation.attributes
    # A network error has no code.
    late = NetworkTimeout("late")
    attributes = (
        Traced().run({"find": "coll"}, ({"errmsg": "late", "type": "NetworkTimeout"}, late), late)["find"].attributes
    )
    assert attributes["error.type"] == "NetworkTimeout"
    assert "db.response.status_code" not in attributes


@pytest.mark.parametrize(
    "error", [DuplicateKeyError("twice", 11000), ServerSelectionTimeoutError("none"), KeyError("x")]
)
def test_an_operation_that_fails_without_its_command(error: Exception) -> None:
    traced = Traced()
    traced.begin()
    traced.end(error)
    operation = traced.take()["find db.coll"]
    assert operation.status.status_code is StatusCode.ERROR
    assert operation.attributes["exception.type"].endswith(type(error).__name__)
    assert operation.attributes["exception.message"] == str(error)


def test_secrets_are_not_shown() -> None:
    traced = Traced(query_text_max_length=1000)
    traced.begin("runCommand", "admin", None)
    traced.command({}, ({"code": 51003}, None), name="createUser")
    traced.end(OperationFailure("pwd=secret", 51003))
    spans = traced.take()
    assert list(spans) == ["runCommand admin"]
    assert "secret" not in str(spans["runCommand admin"].attributes)


def test_what_began_before_the_listener_is_ignored() -> None:
    traced = Traced(phases=True)
    traced.command({"find": "coll"}, {})
    traced.command({"find": "coll"}, ({}, NetworkTimeout("late")))
    traced.end()
    traced.end(KeyError())
    phases = traced.listeners[1]
    selection = ("find", 1, "a write", TOPOLOGY)
    phases.selection_started(events.ServerSelectionStartedEvent(*selection))
    phases.selection_waiting(events.ServerSelectionWaitingEvent(*selection, 1.0))
    phases.selection_succeeded(events.ServerSelectionSucceededEvent(*selection, ADDRESS))
    phases.selection_failed(events.ServerSelectionFailedEvent(*selection, KeyError()))
    assert traced.take() == {}
