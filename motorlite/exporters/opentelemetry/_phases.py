"""Shell: spans of what the specification has no spans for: attempts, server selection, check-outs and backoff.

An attempt begins with server selection. A check-out lasts from the selection until the command begins. The backoff
before a retry lasts until the next server selection begins, or the next command where none is selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.trace import SpanKind, set_span_in_context

from motorlite import monitoring as events
from motorlite.exporters.opentelemetry._spans import Operation, fail, server_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer


class Phases(events.ServerSelectionListener, events.RetryListener):
    """Makes the spans of the phases of one client's operations."""

    def __init__(self, tracer: Tracer, operations: Mapping[int, Operation]) -> None:
        self._tracer = tracer
        self._operations = operations

    def selection_started(self, event: events.ServerSelectionStartedEvent) -> None:
        operation = self._operations.get(event.operation_id)
        if operation is None:
            return
        outer = set_span_in_context(operation.span)
        operation.end_backoff()
        if operation.attempt is not None:  # that of the operation's command before this one
            if operation.check_out is not None:  # that was refused, and a fallback reads from another server
                operation.check_out.end()
            operation.attempt.end()
            operation.attempts, operation.check_out = 0, None
        operation.attempts += 1
        operation.attempt = self._start("attempt", outer)
        operation.attempt.set_attribute("motorlite.attempt", operation.attempts)
        operation.context = set_span_in_context(operation.attempt)
        operation.selection = self._start("server selection", operation.context)
        operation.selection.set_attribute("motorlite.selector", event.selector)

    def selection_waiting(self, event: events.ServerSelectionWaitingEvent) -> None:
        operation = self._operations.get(event.operation_id)
        if operation is not None and operation.selection is not None:
            operation.selection.add_event("waiting for a suitable server")

    def selection_succeeded(self, event: events.ServerSelectionSucceededEvent) -> None:
        operation = self._operations.get(event.operation_id)
        if operation is None or operation.selection is None:
            return
        attributes = server_attributes(event.server_address)
        operation.selection.set_attributes(attributes)
        operation.selection.end()
        operation.selection = None
        operation.check_out = self._start("check-out", operation.context)
        operation.check_out.set_attributes(attributes)

    def selection_failed(self, event: events.ServerSelectionFailedEvent) -> None:
        operation = self._operations.get(event.operation_id)
        if operation is not None and operation.selection is not None:
            fail(operation.selection, type(event.failure).__name__)
            operation.selection.end()
            operation.selection = None

    def retry(self, event: events.RetryEvent) -> None:
        operation = self._operations.get(event.operation_id)
        if operation is None:
            return
        # Without a command in between, it was the check-out that failed.
        for span in (operation.check_out, operation.attempt):
            if span is not None:
                fail(span, type(event.error).__name__)
                span.end()
        operation.check_out = operation.attempt = None
        operation.context = set_span_in_context(operation.span)
        if event.permitted and event.delay:
            operation.backoff = self._start("backoff", operation.context)
            operation.backoff.set_attribute("motorlite.retry.reason", event.reason)
            operation.backoff.set_attribute("motorlite.retry.delay", event.delay)
        elif event.refusal is not None:
            operation.span.set_attribute("motorlite.retry.refusal", event.refusal)

    def _start(self, name: str, parent: Context) -> Span:
        return self._tracer.start_span(name, parent, SpanKind.INTERNAL)
