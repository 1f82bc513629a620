"""Shell: logs without letting the application's filters and handlers fail the driver's work."""

from __future__ import annotations

import logging
import traceback
from typing import Any, Final

# Of what plain functions of the application raise, the driver lets these pass. All else is a bug there: a function that
# does not await is never cancelled, but may raise the CancelledError that it got as the result of a task.
ENDS_PROGRAM: Final = (KeyboardInterrupt, SystemExit)


def safe_log(logger: logging.Logger, level: int, text: str, *arguments: object, **options: Any) -> None:
    """Log a message. An exception in a filter is reported as the standard library reports those in handlers."""
    try:
        logger.log(level, text, *arguments, stacklevel=2, **options)
    except ENDS_PROGRAM:
        raise
    except BaseException:
        if logging.raiseExceptions:
            traceback.print_exc()
