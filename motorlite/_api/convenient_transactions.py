"""Shell: executes a callback in a transaction, and again as `TransactionRetries` decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._sessions.convenient import After, TransactionRetries
from motorlite.errors import InvalidOperation, PyMongoError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._api.transaction_blocks import EndsTransactions
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core


T = TypeVar("T")


async def with_transaction(
    core: Core,
    session: EndsTransactions,
    callback: Callable[[Any], Awaitable[T]],
    deadline: Deadline,
    *,
    start: Callable[[], None],
    abort: Callable[[BaseException], Awaitable[None]],
) -> T:
    """Execute `callback` between `start` and a commit, until that succeeds or must not be repeated."""
    retries = TransactionRetries(deadline, core.executor.jitter, core.now(), core.executor.bucket)
    while True:
        try:
            start()
        except PyMongoError:
            await core.checkpoint()
            raise
        retries.started()
        try:
            result = await callback(session)
        except BaseException as error:
            if session.in_transaction:
                await abort(error)
            after, delay = retries.after_callback(error, core.now())
            if after is After.TIME_OUT:
                _raise_timeout(retries, error)
            if after is not After.START_AGAIN:
                raise
        else:
            # A callback may have ended the transaction itself.
            if not session.in_transaction:
                return result
            try:
                wait = await _commit(core, session, retries)
            except InvalidOperation as refused:
                if session.in_transaction:  # an operation of the callback is still running
                    await abort(refused)
                raise
            except BaseException as error:
                if not isinstance(error, Exception):
                    session._leave_commit()
                raise
            if wait is None:
                return result
            delay = wait
        await core.sleep(delay)


def _raise_timeout(retries: TransactionRetries, error: BaseException) -> None:
    """Raise that time ran out, unless `error` says so itself."""
    instead = retries.timed_out(error)
    try:
        if instead is not error:
            raise instead from error
    finally:
        del instead, error  # whose tracebacks reference this frame, or one that this frame references


async def _commit(core: Core, session: EndsTransactions, retries: TransactionRetries) -> float | None:
    """Commit. Returns after how many seconds to start another transaction, or None if it is committed."""
    while True:
        try:
            await session.commit_transaction()
        except PyMongoError as error:
            after, delay = retries.after_commit(error, core.now())
            if after is After.TIME_OUT:
                _raise_timeout(retries, error)
            if after is After.START_AGAIN:
                return delay
            if after is not After.COMMIT_AGAIN:
                raise
            if delay:
                await core.sleep(delay)
        else:
            return None
