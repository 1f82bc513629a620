"""Operations on a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.entities import Session
    from tests.spec.unified.operations.method import Arguments, Handler


async def _end_session(session: Session, arguments: Arguments) -> None:
    await session.end()


OPERATIONS: Final[Mapping[str, Handler]] = {"endSession": _end_session}
