"""Pure: the driver's events and logs."""

from __future__ import annotations
