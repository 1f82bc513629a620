"""Pure: facts about this machine and process, and randomness."""

from __future__ import annotations
