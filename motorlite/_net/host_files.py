"""Net: small files and the clock on the wall, for authentication."""

from __future__ import annotations

import time
from pathlib import Path


def read_text(path: str) -> str:
    """What is in a small file. Blocks.

    Raises:
        OSError, UnicodeError: it cannot be read.
    """
    return Path(path).read_text(encoding="utf-8")


def utc_date() -> str:
    """The time in UTC as ``YYYYMMDDTHHMMSSZ``."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
