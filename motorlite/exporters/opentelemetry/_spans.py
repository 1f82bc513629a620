"""Shell: the spans of one running operation, and what they have in common."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

from opentelemetry.trace import StatusCode, set_span_in_context

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from motorlite._base.values import Address


class Operation:
    """The spans of one running operation."""

    __slots__ = ("attempt", "attempts", "backoff", "check_out", "context", "namespace", "selection", "span", "state")

    def __init__(self, span: Span, namespace: tuple[str, str | None]) -> None:
        self.span: Span = span
        # The parent of what begins next: the operation's span, or that of its attempt.
        self.context: Context = set_span_in_context(span)
        # Names of the database and the collection.
        self.namespace: tuple[str, str | None] = namespace
        # How the last command ended: "failed", "sensitive", or "" for success and for none.
        self.state: str = ""
        # Only with phases.
        self.attempts: int = 0
        self.attempt: Span | None = None
        self.selection: Span | None = None
        self.check_out: Span | None = None
        self.backoff: Span | None = None

    def end_backoff(self) -> None:
        """End the span of a backoff, if there is one."""
        if self.backoff is not None:
            self.backoff.end()
            self.backoff = None

    def phases(self) -> tuple[Span | None, ...]:
        """The spans of phases, the inner ones first."""
        return self.selection, self.check_out, self.attempt, self.backoff


def server_attributes(address: Address) -> dict[str, str | int]:
    """Return the attributes that name a server."""
    host, port = address
    return {"server.address": host} if port is None else {"server.address": host, "server.port": port}


def fail(span: Span, kind: str) -> None:
    """Mark a span as failed; `kind` is the class of the error, or the server's code."""
    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, kind)


def record(span: Span, error: BaseException) -> None:
    """Record an exception: as OpenTelemetry does it, and in attributes, as the specification for drivers wants it."""
    if not span.is_recording():
        return
    # An event has a copy without traceback. Most are published while the original is on its way.
    current = sys.exception()
    shown = current if type(current) is type(error) and current.args == error.args else error
    attributes = {
        "exception.type": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": str(error),
        "exception.stacktrace": "".join(traceback.format_exception(shown)),
    }
    span.record_exception(error, attributes)
    span.set_attributes(attributes)
