"""Pure: parts of the exception tree that `errors` re-exports."""

from __future__ import annotations
