"""Pure: a client's reaction to overload: backoff and retry budget."""

from __future__ import annotations
