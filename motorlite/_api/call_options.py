"""Shell: options for single calls, which methods do not take as parameters."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import check_mapping, outside, wrong
from motorlite._options.table import BY_NAME
from motorlite.errors import ConfigurationError
from motorlite.read_preferences import as_read_preference
from motorlite.retry.overload import is_asked
from motorlite.retry.strategy import as_retry_strategy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from motorlite._operations.contract import CallOptions
    from motorlite.errors import AdmissionError
    from motorlite.overload.fallback import CallBlock, Fallback
    from motorlite.overload.wait_queue import WaitQueue
    from motorlite.retry import RetryStrategy

# What the enclosing blocks set, by the names of the attributes of CallOptions.
BLOCK: Final[ContextVar[Mapping[str, Any] | None]] = ContextVar("motorlite.call_options", default=None)

# The order or strategy that the client needs to read these settings of a block.
_NEEDED: Final = {
    "context": "a retry_strategy that reads it: of the client, a database, a collection or the block",
    "priority": "wait_queue=WaitQueue('queue', ordering='priority')",
    "fallback": "wait_queue=WaitQueue('degrade')",
}


@contextmanager
def call_options(
    *,
    priority: int | None = None,
    context: Mapping[str, Any] | None = None,
    retry_strategy: RetryStrategy | None = None,
    fallback: Fallback | None = None,
    wait_queue: WaitQueue | str | None = None,
) -> Iterator[CallBlock]:
    """Set options for all calls in a ``with`` block. None changes nothing; an inner block adds to the outer one.

    A client whose `wait_queue` has another order or strategy ignores `priority` or `fallback`, and warns at the first
    such call. So does a client without a retry strategy that reads `context`.

    Args:
        priority: 0 to 100; in a queue that orders by priority, calls with higher numbers get a connection first.
            Raising the priority of an outer block needs ``WaitQueue(allow_priority_override=True)``.
        context: Data of the application, for its own retry strategy (`RetryRequest.context`).
        retry_strategy: Decides about retries that the specifications refuse. `SpecificationRetry()` ends the effect of
            a strategy set at an outer level.
        fallback: For a client with ``WaitQueue(strategy="degrade")``: how find, find_one, aggregate (without $out and
            $merge), distinct and the counts answer when the client refuses to send them. Either a read preference to
            use instead, once; or a function, possibly a coroutine function, that takes the `AdmissionError` and returns
            what the method returns (for a cursor: the list of its documents). The driver does not limit the time
            that the function takes, and its exceptions leave the method. Calls that the function makes have no
            fallback, unless it sets one. Other operations, and all of GridFS, raise the error.
        wait_queue: What happens to these calls when all connections are in use, in place of the client's `wait_queue`,
            which the client must have: strategy, depth, memory, timeout and overflow. Depth and memory count everything
            that waits for a connection. The order cannot be set here: it remains that of the client's queue.

    Returns:
        A `motorlite.overload.CallBlock`: how many calls were answered by the fallback that this block sets.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `priority` is out of range, the budget of `retry_strategy` is an unknown word, or `wait_queue` sets
            an order.
        ConfigurationError: Raised by the calls in the block if `wait_queue` is set and their client has no such option.
    """
    from motorlite.overload.fallback import CallBlock

    outer = BLOCK.get() or {}
    made = dict(outer)
    if priority is not None:
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(wrong("priority", priority, "an integer from 0 to 100"))
        if not 0 <= priority <= 100:
            raise ValueError(wrong("priority", priority, "an integer from 0 to 100"))
        made["priority"] = priority
        made.setdefault("assigned_priority", priority)
    if retry_strategy is not None:
        made["retry_strategy"] = as_retry_strategy(retry_strategy)
    if context is not None:
        check_mapping("context", context)
        made["context"] = {**outer.get("context", {}), **context}
    block = CallBlock()
    if fallback is not None:
        checked = _checked(fallback)
        made["fallback"] = block = CallBlock(checked, _without_fallback(checked) if callable(checked) else None)
    if wait_queue is not None:
        made["wait_queue"] = _checked_queue(wait_queue)
    token = BLOCK.set(made)
    try:
        yield block
    finally:
        BLOCK.reset(token)


call_options.__module__ = "motorlite"


@contextmanager
def without_options() -> Iterator[None]:
    """Keep the driver's own operations in a ``with`` block out of the caller's `call_options` blocks."""
    token = BLOCK.set(None)
    try:
        yield
    finally:
        BLOCK.reset(token)


def _checked(fallback: Fallback) -> Fallback:
    if callable(fallback):
        return fallback
    try:
        return as_read_preference(fallback)
    except TypeError:
        raise TypeError(wrong("fallback", fallback, "a read preference or a function")) from None


def _checked_queue(queue: Any) -> WaitQueue:
    from motorlite.overload.wait_queue import WaitQueue

    if isinstance(queue, str):
        queue = BY_NAME["wait_queue"].parse(queue)
    if not isinstance(queue, WaitQueue):
        raise TypeError(wrong("wait_queue", queue, "a WaitQueue"))
    if queue.ordering != "fifo":
        raise ValueError(
            f"wait_queue cannot set ordering={queue.ordering!r} for a block: the client's queue has one order"
        )
    return queue


def _without_fallback(function: Callable[[AdmissionError], Any]) -> Callable[[AdmissionError], Awaitable[Any]]:
    """Return a function that calls `function` outside of the fallback: its own calls may be refused as well."""

    async def answer(error: AdmissionError) -> Any:
        token = BLOCK.set({**(BLOCK.get() or {}), "fallback": None})
        try:
            found = function(error)
            return await found if isawaitable(found) else found
        finally:
            BLOCK.reset(token)

    return answer


def effective(inherited: CallOptions) -> CallOptions:
    """Return the options of a call that starts now.

    Raises:
        ConfigurationError: The block sets a wait queue for a client that has none.
    """
    block = BLOCK.get()
    if block is None:
        return inherited
    if inherited.wait_queue is None and "wait_queue" in block:
        raise ConfigurationError(
            "call_options(wait_queue=...) has no effect: the client was made without the option wait_queue"
        )
    options = inherited.with_options(**block)
    if not inherited.takes_fallback:
        options = options.with_options(fallback=None)
    if inherited.unread:
        _check_effect(options, block)
    return options


def _check_effect(options: CallOptions, block: Mapping[str, Any]) -> None:
    """Warn about settings of the block that the client ignores, once for each client."""
    queue, unread = options.wait_queue, options.unread
    for name in sorted(unread):
        if name == "fallback" and queue is not None and queue.strategy == "degrade":
            continue
        if name == "context" and is_asked(options.retry_strategy):
            continue
        if block.get(name) is not None:
            unread.discard(name)
            text = f"call_options({name}=...) has no effect on this client without {_NEEDED[name]}"
            warnings.warn(text, stacklevel=outside())
