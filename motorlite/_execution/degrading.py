"""Shell: answers for operations that were refused before anything was sent (`WaitQueue(strategy="degrade")`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from motorlite._operations.contract import CursorReply, Opened
from motorlite.errors import RateLimitError
from motorlite.read_preferences import ServerMode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite._execution.run import Run
    from motorlite._operations.contract import Call, Operation
    from motorlite.errors import AdmissionError
    from motorlite.overload import CallBlock


def fallback_of(operation: Operation[Any], call: Call) -> CallBlock | None:
    """Return the block whose fallback can answer `operation`, or None.

    Nothing but the server answers in a transaction: its writes may depend on what it reads.
    """
    queue = call.options.wait_queue
    if queue is None or queue.strategy != "degrade":
        return None
    if not operation.is_degradable or (call.session is not None and call.session.in_transaction):
        return None
    return call.options.fallback


async def answer(
    execute: Callable[..., Awaitable[Any]], run: Run, block: CallBlock, error: AdmissionError, *, opens: bool
) -> Any:
    """Return what the fallback of `block` answers: another server, or a function of the application.

    The fallback is used once: when it is refused too, the operation fails. It is a part of the same operation, which
    publishes one start and one end. With `opens`, documents of the application become an exhausted cursor.

    Raises:
        TypeError: The function did not return a list of documents.
    """
    operation, call = run.operation, run.call
    if isinstance(block.fallback, ServerMode):
        options = call.options.with_options(fallback=None, has_tokens=not isinstance(error, RateLimitError))
        instead = type(call)(call.session, call.deadline, run.operation_id, options)
        return await execute(operation.reading_from(block.fallback), instead, opens=opens)
    assert block._answer is not None
    result = await block._answer(error)
    if not opens:
        return result
    if not isinstance(result, list):
        raise TypeError(
            f"the fallback of {operation.name} must return a list of documents, not {type(result).__name__}"
        )
    batch = {"cursor": {"id": Int64(0), "ns": f"{operation.database}.$fallback", "firstBatch": result}}
    return Opened(CursorReply(batch, "firstBatch"), error.address or ("", None), None, None)
