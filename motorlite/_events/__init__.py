"""Pure: the event classes that `motorlite.monitoring` re-exports."""

from __future__ import annotations
