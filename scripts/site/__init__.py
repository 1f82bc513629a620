"""The documentation site: its pages, its build, and the check of its links."""

from __future__ import annotations
