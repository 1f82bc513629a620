"""Pure: the settings of one public call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite._base.deadline import Deadline
    from motorlite._sessions.session import Session


class Call:
    """The settings of one call, independent of its operation. All commands of one call share one instance.

    Attributes:
        session: The caller's session, or the implicit session of a cursor or a bulk write. None: the executor acquires
            a server session for this operation alone.
        deadline: When the call must end.
        operation_id: The id that all its command events share. None: each operation has its own id.
    """

    __slots__ = ("deadline", "operation_id", "session")

    def __init__(self, session: Session | None, deadline: Deadline, operation_id: int | None = None) -> None:
        self.session: Session | None = session
        self.deadline: Deadline = deadline
        self.operation_id: int | None = operation_id
