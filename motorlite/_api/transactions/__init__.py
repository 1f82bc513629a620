"""Pure: options of sessions and transactions, and the helpers around them."""

from __future__ import annotations
