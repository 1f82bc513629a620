"""Net: small files and the wall clock, for authentication."""

from __future__ import annotations

import time
from pathlib import Path


def read_text(path: str) -> str:
    """Return the content of a small file. Blocks.

    Raises:
        OSError, UnicodeError: the file cannot be read.
    """
    return Path(path).read_text(encoding="utf-8")


def utc_date() -> str:
    """The current UTC time as ``YYYYMMDDTHHMMSSZ``."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
