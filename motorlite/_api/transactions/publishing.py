"""Shell: publishes transactions as operations that other operations are part of (OpenTelemetry specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite._client.core import Core
    from motorlite._execution.reports import PublishedOperation
    from motorlite._sessions.session import Session


class PublishedPart:
    """The published operation that the operations of a session are part of until `end`."""

    __slots__ = ("_core", "_outer", "_published", "_session")

    def __init__(self, name: str, core: Core, session: Session) -> None:
        self._core = core
        self._session = session
        # What it is part of itself.
        self._outer = session.enclosing
        self._published: PublishedOperation | None = None
        reports = core.executor.reports
        if reports.publish_operation:
            operation_id = core.new_operation_id()
            self._published = reports.operation(name, "admin", None, operation_id, core.now(), session)
            session.enclosing = operation_id

    def end(self, error: BaseException | None = None) -> None:
        """Publish its end, once."""
        published, self._published = self._published, None
        if published is None:
            return
        self._session.enclosing = self._outer
        if error is None:
            published.succeeded(self._core.now())
        else:
            published.failed(error, self._core.now())
