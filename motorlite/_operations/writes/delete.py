"""Pure: the delete command for one statement (CRUD specification: deleteOne, deleteMany)."""

from __future__ import annotations

from motorlite._operations.writes.single_write import SingleWrite


class Delete(SingleWrite):
    """Execute one statement of `delete_statement`; `parse` returns the reply.

    Retry: retryable write; not with a limit of 0 (deleteMany) and not when it is not acknowledged.
    """

    __slots__ = ()

    name = "delete"
    _field = "deletes"
