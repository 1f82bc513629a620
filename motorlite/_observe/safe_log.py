"""Shell: logs without letting the application's filters and handlers fail the driver's work."""

from __future__ import annotations

import logging
import traceback
from typing import Any


def safe_log(logger: logging.Logger, level: int, text: str, *arguments: object, **options: Any) -> None:
    """Log a message. An exception in a filter is reported as the standard library reports those in handlers."""
    try:
        logger.log(level, text, *arguments, stacklevel=2, **options)
    except Exception:
        if logging.raiseExceptions:
            traceback.print_exc()
