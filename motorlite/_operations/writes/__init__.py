"""Pure: the commands that write documents, and bulk writes."""

from __future__ import annotations
