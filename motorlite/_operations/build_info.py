"""Pure: the buildInfo command."""

from __future__ import annotations

from motorlite._operations.run_command import RunCommand
from motorlite.read_preferences import ReadPreference


class BuildInfo(RunCommand):
    """The version of the primary and how it was built; `parse` returns the reply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    is_idempotent = True

    def __init__(self) -> None:
        primary = ReadPreference.PRIMARY
        super().__init__("admin", {"buildInfo": 1}, selector=primary, read_preference=primary)
