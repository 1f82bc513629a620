"""Shell: the requests of operations to services that are not the deployment, so that `close` can wait for and end them.

They run in the tasks of their operations, since an application's callback may open the connection.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio import CancelScope


class OutsideRequests:
    """The requests of one client that are in flight. Call all methods on its event loop."""

    def __init__(self) -> None:
        self._scopes: set[CancelScope] = set()
        self._is_over = False

    @property
    def is_busy(self) -> bool:
        """Whether a request is in flight."""
        return bool(self._scopes)

    @contextmanager
    def in_flight(self, service: str) -> Iterator[None]:
        """Send a request to `service` in a ``with`` block, which ends with the client.

        Raises:
            InvalidOperation: The client was closed before the block ended.
        """
        import anyio

        if self._is_over:
            raise InvalidOperation("the client is closed")
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield
            finally:
                self._scopes.discard(scope)
        if scope.cancelled_caught:
            raise InvalidOperation(f"the client was closed before {service} answered")

    def end(self) -> None:
        """End all requests in flight, and refuse others."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
