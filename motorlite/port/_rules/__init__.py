"""Pure: what is reported about a program, and what is changed in it."""

from __future__ import annotations
