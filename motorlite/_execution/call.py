"""Pure: the settings of one public call."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from motorlite.retry import SpecificationRetry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._base.deadline import Deadline
    from motorlite._sessions.session import Session
    from motorlite.overload import CallBlock, WaitQueue
    from motorlite.retry import RetryStrategy

DEFAULT_PRIORITY: Final = 50
DEFAULT_STRATEGY: Final = SpecificationRetry()


class CallOptions:
    """What clients, databases, collections and `motorlite.call_options` blocks set for calls. Immutable and shared.

    Attributes:
        priority: 0 to 100; operations with higher numbers leave a queue that orders by priority first.
        context: Data of the application, for its own retry strategy.
        retry_strategy: Decides about retries that the specifications refuse.
        assigned_priority: The priority of the outermost block that sets one; None: no block does.
        fallback: The block whose fallback answers operations that the client refuses to send, or None.
        wait_queue: The rules for waiting for a connection; None: the client has none.
        unread: The settings of blocks that the client ignores and has not warned about yet. The only part that changes;
            all calls of a client share it.
    """

    __slots__ = ("assigned_priority", "context", "fallback", "priority", "retry_strategy", "unread", "wait_queue")

    def __init__(
        self,
        priority: int = DEFAULT_PRIORITY,
        context: Mapping[str, Any] = MappingProxyType({}),
        retry_strategy: RetryStrategy = DEFAULT_STRATEGY,
        assigned_priority: int | None = None,
        fallback: CallBlock | None = None,
        wait_queue: WaitQueue | None = None,
        unread: set[str] | None = None,
    ) -> None:
        self.priority: int = priority
        self.context: Mapping[str, Any] = context
        self.retry_strategy: RetryStrategy = retry_strategy
        self.assigned_priority: int | None = assigned_priority
        self.fallback: CallBlock | None = fallback
        self.wait_queue: WaitQueue | None = wait_queue
        self.unread: set[str] = set() if unread is None else unread

    def with_options(self, **options: Any) -> CallOptions:
        """Return a copy with some attributes replaced."""
        return CallOptions(**{name: getattr(self, name) for name in self.__slots__} | options)


DEFAULT_OPTIONS: Final = CallOptions()
"""Shared by all calls without options of their own."""


class Call:
    """The settings of one call, independent of its operation. All commands of one call share one instance.

    Attributes:
        session: The caller's session, or the implicit session of a cursor or a bulk write. None: the executor acquires
            a server session for this operation alone.
        deadline: When the call must end.
        operation_id: The id that all its command events share. None: each operation has its own id.
        options: The options that the call inherited.
    """

    __slots__ = ("deadline", "operation_id", "options", "session")

    def __init__(
        self,
        session: Session | None,
        deadline: Deadline,
        operation_id: int | None = None,
        options: CallOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.session: Session | None = session
        self.deadline: Deadline = deadline
        self.operation_id: int | None = operation_id
        self.options: CallOptions = options
