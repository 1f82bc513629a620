"""Net: small files and the wall clock, for authentication."""

from __future__ import annotations

import time


def read_text(path: str) -> str:
    """Return the content of a small file. Blocks.

    Raises:
        OSError, UnicodeError: the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        return file.read()


def utc_date() -> str:
    """The current UTC time as ``YYYYMMDDTHHMMSSZ``."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
