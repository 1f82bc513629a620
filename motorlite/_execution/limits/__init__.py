"""Pure: what attempts pass before they are made: rate limits, breakers, concurrency limits."""

from __future__ import annotations
