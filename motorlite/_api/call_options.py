"""Shell: options for single calls, which methods do not take as parameters."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from motorlite._base.arguments import check_mapping, instance, wrong
from motorlite.retry import RetryStrategy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._execution.call import CallOptions

# What the enclosing blocks set, by the names of the attributes of CallOptions.
_block: ContextVar[Mapping[str, Any] | None] = ContextVar("motorlite.call_options", default=None)


@contextmanager
def call_options(
    *,
    priority: int | None = None,
    context: Mapping[str, Any] | None = None,
    retry_strategy: RetryStrategy | None = None,
) -> Iterator[None]:
    """Set options for all calls in a ``with`` block. None changes nothing; an inner block adds to the outer one.

    Args:
        priority: 0 to 100; with a queue that orders by priority, calls with higher numbers get a connection first.
        context: Data of the application, for its own retry strategy (`RetryRequest.context`).
        retry_strategy: Decides about retries that the specifications refuse. `SpecificationRetry()` ends the effect of
            a strategy set at an outer level.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `priority` is out of range.
    """
    outer = _block.get() or {}
    made = dict(outer)
    if priority is not None:
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(wrong("priority", priority, "an integer from 0 to 100"))
        if not 0 <= priority <= 100:
            raise ValueError(wrong("priority", priority, "an integer from 0 to 100"))
        made["priority"] = priority
    if retry_strategy is not None:
        instance("retry_strategy", retry_strategy, RetryStrategy)
        made["retry_strategy"] = retry_strategy
    if context is not None:
        check_mapping("context", context)
        made["context"] = {**outer.get("context", {}), **context}
    token = _block.set(made)
    try:
        yield
    finally:
        _block.reset(token)


call_options.__module__ = "motorlite"


def effective(inherited: CallOptions) -> CallOptions:
    """Return the options of a call that starts now."""
    block = _block.get()
    return inherited if block is None else inherited.with_options(**block)
