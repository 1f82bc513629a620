"""Shell: asks the application's retry strategy, and survives whatever it does."""

from __future__ import annotations

import inspect
import traceback
from typing import TYPE_CHECKING, Any

from motorlite._base.values import cut
from motorlite._retry.decision import StrategyFault
from motorlite.retry import RetryAction

if TYPE_CHECKING:
    from motorlite._retry.decision import Ask


_SHOWN = 200


async def consult(ask: Ask, until: float) -> RetryAction | StrategyFault:
    """Return the strategy's answer, or what is wrong with it. It runs in the caller's task, until loop time `until`.

    Cancellation of the caller, and other exceptions that do not derive from Exception, pass through.
    """
    import anyio

    is_plain = True
    try:
        answer: Any = ask.strategy.retry_after(ask.request, ask.reason)
        if inspect.isawaitable(answer):
            is_plain = False
            with anyio.CancelScope(deadline=until) as scope:
                answer = await answer
            if scope.cancelled_caught:
                return StrategyFault("did not answer in time")
        if isinstance(answer, RetryAction):
            # Checked once more: a NaN from a subclass of the application's own would disorder the loop's timers.
            return RetryAction(answer.duration)
        return StrategyFault(f"returned {cut(repr(answer), _SHOWN)} instead of a RetryAction")
    except BaseException as error:
        # A function that does not await is never cancelled, but may raise what it got as the result of a task.
        is_result = is_plain and isinstance(error, anyio.get_cancelled_exc_class())
        if not (isinstance(error, Exception) or is_result):
            raise
        # As text: the exception itself would keep the frames of this call alive.
        summary = traceback.format_exception_only(error)[-1].strip()
        return StrategyFault(f"raised {cut(summary, _SHOWN)}", "".join(traceback.format_exception(error, chain=False)))
