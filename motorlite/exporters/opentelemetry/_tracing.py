"""Shell: spans of operations and commands (OpenTelemetry specification for drivers), and of the phases of attempts.

A span of an operation begins in the task of its caller, so that its parent is the caller's current span, or in a
transaction the span of that. All spans below it find it by the operation's id, which every event carries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.binary import Binary
from opentelemetry.trace import SpanKind, get_tracer

from motorlite import monitoring as events
from motorlite._base.version import __version__
from motorlite._observe.log_documents import extended_json
from motorlite.exporters.opentelemetry._phases import Phases
from motorlite.exporters.opentelemetry._spans import Operation, fail, record, server_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span, Tracer

    from motorlite._options.tracing import TracingOptions

SYSTEM: Final = "mongodb"
# Operations without a command, which others are part of.
_WITH_TRANSACTION: Final = "withTransaction"
_PSEUDO: Final = frozenset({"transaction", _WITH_TRANSACTION})
# Fields of a command that `db.query.text` leaves out.
_UNSHOWN: Final = frozenset({"lsid", "$db", "$clusterTime", "signature"})


def tracing_listeners(options: TracingOptions) -> tuple[Any, ...]:
    """Return the listeners that trace one client. Called for the client option `tracing`."""
    tracer = get_tracer("motorlite", __version__, tracer_provider=options.tracer_provider)
    spans = Spans(tracer, options.query_text_max_length or 0, with_transaction=options.with_transaction)
    return (spans, Phases(tracer, spans.operations)) if options.phases else (spans,)


class Spans(events.OperationListener, events.CommandListener):
    """Makes the spans of one client's operations and commands."""

    def __init__(self, tracer: Tracer, query_text_max_length: int, *, with_transaction: bool) -> None:
        self._tracer = tracer
        self._with_transaction = with_transaction
        self._max_length = query_text_max_length
        # By operation id and by request id.
        self.operations: dict[int, Operation] = {}
        self._commands: dict[int, Span] = {}

    # --- operations ---

    def operation_started(self, event: events.OperationStartedEvent) -> None:
        database, collection = event.database_name, event.collection_name
        parent = None if event.parent_id is None else self.operations.get(event.parent_id)
        context = None if parent is None else parent.context
        if event.operation_name == _WITH_TRANSACTION and not self._with_transaction:
            return
        if event.operation_name in _PSEUDO:
            name = event.operation_name
            span = self._tracer.start_span(name, context, SpanKind.CLIENT, {"db.system.name": SYSTEM})
            self.operations[event.operation_id] = Operation(span, (database, None))
            return
        summary = f"{event.operation_name} {_joined(database, collection)}"
        attributes = {
            "db.system.name": SYSTEM,
            "db.namespace": database,
            "db.operation.name": event.operation_name,
            "db.operation.summary": summary,
        }
        if collection is not None:
            attributes["db.collection.name"] = collection
        span = self._tracer.start_span(summary, context, SpanKind.CLIENT, attributes)
        self.operations[event.operation_id] = Operation(span, (database, collection))

    def operation_succeeded(self, event: events.OperationSucceededEvent) -> None:
        operation = self.operations.pop(event.operation_id, None)
        if operation is not None:
            _end(operation)

    def operation_failed(self, event: events.OperationFailedEvent) -> None:
        operation = self.operations.pop(event.operation_id, None)
        if operation is None:
            return
        kind = type(event.failure).__name__
        for span in (operation.span, *operation.phases()):
            if span is not None:
                fail(span, kind)
        if not operation.state:
            # Else the exception is that of a command, whose span has it, or it might show a secret.
            record(operation.span, event.failure)
        _end(operation)

    # --- commands ---

    def started(self, event: events.CommandStartedEvent) -> None:
        operation = self.operations.get(event.operation_id)
        if operation is None:
            return
        operation.end_backoff()  # where the connection is pinned, there is no selection
        if operation.check_out is not None:
            operation.check_out.end()
            operation.check_out = None
        if not event.command:
            operation.state = "sensitive"
            return
        operation.state = ""
        attributes = self._attributes(event, operation)
        span = self._tracer.start_span(event.command_name, operation.context, SpanKind.CLIENT, attributes)
        if self._max_length and span.is_recording():
            shown = {name: value for name, value in event.command.items() if name not in _UNSHOWN}
            span.set_attribute("db.query.text", extended_json(shown, self._max_length))
        self._commands[event.request_id] = span

    def succeeded(self, event: events.CommandSucceededEvent) -> None:
        span = self._commands.pop(event.request_id, None)
        if span is None:
            return
        cursor = event.reply.get("cursor")
        if isinstance(cursor, dict) and (cursor_id := cursor.get("id")):
            span.set_attribute("db.mongodb.cursor_id", cursor_id)
        span.end()

    def failed(self, event: events.CommandFailedEvent) -> None:
        span = self._commands.pop(event.request_id, None)
        if span is None:
            return
        operation = self.operations.get(event.operation_id)
        if operation is not None:
            operation.state = "failed"
        code = event.failure.get("code")
        kind = type(event.error).__name__
        if isinstance(code, int):
            span.set_attribute("db.response.status_code", str(code))
            kind = str(code)
        fail(span, kind)
        if event.error is not None:
            record(span, event.error)
        span.end()

    @staticmethod
    def _attributes(event: events.CommandStartedEvent, operation: Operation) -> dict[str, Any]:
        database, command = event.database_name, event.command
        # The collection of an operation is that of its commands.
        collection = operation.namespace[1] if operation.namespace[0] == database else None
        attributes: dict[str, Any] = {
            "db.system.name": SYSTEM,
            "db.namespace": database,
            "db.command.name": event.command_name,
            "db.query.summary": f"{event.command_name} {_joined(database, collection)}",
            "network.transport": "unix" if event.connection_id[1] is None else "tcp",
            **server_attributes(event.connection_id),
        }
        more = {
            "db.collection.name": collection,
            "db.mongodb.server_connection_id": event.server_connection_id,
            "db.mongodb.driver_connection_id": event.driver_connection_id,
            "db.mongodb.cursor_id": command.get("getMore") if event.command_name == "getMore" else None,
            "db.mongodb.lsid": _session_id(command),
            "db.mongodb.txn_number": _integer(command.get("txnNumber")),
        }
        attributes.update((name, value) for name, value in more.items() if value is not None)
        return attributes


def _end(operation: Operation) -> None:
    for span in operation.phases():
        if span is not None:
            span.end()
    operation.span.end()


def _joined(database: str, collection: str | None) -> str:
    return database if collection is None else f"{database}.{collection}"


def _session_id(command: Mapping[str, Any]) -> str | None:
    session = command.get("lsid")
    if not isinstance(session, dict):
        return None
    found: Any = session.get("id")
    return str(found.as_uuid() if isinstance(found, Binary) else found)


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, int) else None
