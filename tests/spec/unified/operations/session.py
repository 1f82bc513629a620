"""Operations on a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.spec.unified.arguments import selected, transaction_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.timestamp import Timestamp

    from tests.spec.unified.entities import Session
    from tests.spec.unified.operations.method import Arguments, Handler


async def _start_transaction(session: Session, arguments: Arguments) -> None:
    session.session.start_transaction(**transaction_options(arguments))


async def _commit_transaction(session: Session, arguments: Arguments) -> None:
    await session.session.commit_transaction(**selected(arguments, {"timeoutMS": "timeoutMS"}, "commitTransaction"))


async def _abort_transaction(session: Session, arguments: Arguments) -> None:
    await session.session.abort_transaction(**selected(arguments, {"timeoutMS": "timeoutMS"}, "abortTransaction"))


async def _with_transaction(session: Session, arguments: Arguments) -> None:
    # `Run.execute` has made a function of the operations.
    callback = arguments.pop("callback")
    await session.session.with_transaction(callback, **transaction_options(arguments))


async def _get_snapshot_time(session: Session, arguments: Arguments) -> Timestamp | None:
    return session.session.snapshot_time


async def _end_session(session: Session, arguments: Arguments) -> None:
    await session.end()


OPERATIONS: Final[Mapping[str, Handler]] = {
    "abortTransaction": _abort_transaction,
    "commitTransaction": _commit_transaction,
    "endSession": _end_session,
    "getSnapshotTime": _get_snapshot_time,
    "startTransaction": _start_transaction,
    "withTransaction": _with_transaction,
}
