"""Operations on a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.spec.unified.operations.method import Method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Handler

OPERATIONS: Final[Mapping[str, Handler]] = {"endSession": Method("end_session")}
