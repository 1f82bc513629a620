"""Pure: the renameCollection command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._operations.run_command import RunCommand
from motorlite._replies import check_write_concern

if TYPE_CHECKING:
    from motorlite._execution.operation import Document


class Rename(RunCommand):
    """Rename a collection; `parse` returns the reply.

    Retry: never by the retryable reads and writes specifications; overload errors by the overload policy,
    which for this command needs retryReads and retryWrites.
    """

    __slots__ = ()

    def parse(self, reply: Document) -> Document:
        check_write_concern(reply)
        return reply
