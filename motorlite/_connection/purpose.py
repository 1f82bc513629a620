"""Pure: the purposes that connections behind a load balancer are checked out for."""

from __future__ import annotations

import enum


class Purpose(enum.Enum):
    """The purpose of a check-out (load balancer specification, "Connection Tracking")."""

    CURSOR = "cursor"
    TRANSACTION = "transaction"
    OTHER = "other"
