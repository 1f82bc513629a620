"""Shell: answers for operations that were refused before anything was sent (`WaitQueue(strategy="degrade")`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from motorlite._operations.contract import CursorReply, Opened
from motorlite.read_preferences import ServerMode

if TYPE_CHECKING:
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


def redirected(run: Run, block: CallBlock) -> tuple[Operation[Any], Call] | None:
    """Return the operation and call to execute instead; None if a function supplies the answer.

    The fallback is used once: when it is refused too, the operation fails. It is a part of the same operation, which
    publishes one start and one end.
    """
    if not isinstance(block.fallback, ServerMode):
        return None
    call = run.call
    instead = type(call)(call.session, call.deadline, run.operation_id, call.options.with_options(fallback=None))
    return run.operation.reading_from(block.fallback), instead


async def answer(block: CallBlock, error: AdmissionError) -> Any:
    """Return what the application's function answers."""
    assert block._answer is not None
    return await block._answer(error)


async def opened(operation: Operation[CursorReply], block: CallBlock, error: AdmissionError) -> Opened:
    """Return an exhausted cursor with the documents that the application's function answers.

    Raises:
        TypeError: The function did not return a list.
    """
    documents = await answer(block, error)
    if not isinstance(documents, list):
        raise TypeError(
            f"the fallback of {operation.name} must return a list of documents, not {type(documents).__name__}"
        )
    batch = {"cursor": {"id": Int64(0), "ns": f"{operation.database}.$fallback", "firstBatch": documents}}
    return Opened(CursorReply(batch, "firstBatch"), error.address or ("", None), None, None)
