"""Pure: a cursor that is still open on a server although no task reads from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motorlite._base.values import Address
    from motorlite._execution.operation import Pin
    from motorlite._sessions.session import Session


class LostCursor:
    """The address of a lost cursor, and the resources that it held for its commands."""

    __slots__ = ("address", "collection", "cursor_id", "database", "pin", "session")

    def __init__(
        self,
        address: Address,
        database: str,
        collection: str,
        cursor_id: int,
        *,
        session: Session | None = None,
        pin: Pin | None = None,
    ) -> None:
        self.address: Address = address
        self.database: str = database
        self.collection: str = collection
        self.cursor_id: int = cursor_id
        # Its implicit session.
        self.session: Session | None = session
        # Behind a load balancer: the only connection that reaches it.
        self.pin: Pin | None = pin
