"""Pure: parts of the decision after a failed attempt: its reason, the possible decisions, asking a strategy."""

from __future__ import annotations
