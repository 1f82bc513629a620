"""Pure: a bulk write as runs, each of statements of one kind (CRUD specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._operations.slices import ITEMS
from motorlite._operations.statements import statement_of
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from motorlite._operations.slices import Slices

# In the order in which an unordered bulk write sends its runs.
KINDS: Final = ("insert", "update", "delete")


class Run:
    """Statements of one kind, and where each of them was in the bulk write."""

    __slots__ = ("encoded", "encoded_from", "indexes", "kind", "multis", "statements")

    def __init__(self, kind: str, statements: list[Any], indexes: Sequence[int]) -> None:
        # "insert", "update" or "delete"; the statements of an insert are the documents. Empty at the end.
        self.kind = kind
        self.statements = statements
        self.indexes = indexes
        # Statements that are encoded and not in a batch yet, the position of the first of them, and the positions of
        # those, batched or not, that may change several documents (ascending); see `BulkBatch.prepare`.
        self.encoded: list[bytes] = []
        self.encoded_from = 0
        self.multis: list[int] = []


def insert_run(documents: list[Any]) -> Run:
    """The one run of insert_many.

    Raises:
        InvalidOperation: There are no documents.
    """
    if not documents:
        raise InvalidOperation("no documents to insert")
    return Run("insert", documents, range(len(documents)))


def ordered_runs(requests: Iterable[object]) -> Slices[list[Run]]:
    """Neighbours of one kind together, in the order of the requests.

    Raises:
        InvalidOperation: There are no requests.
        TypeError: Not a request, or an argument of one is of a wrong type.
        ValueError: An update or a replacement is not one.
    """
    runs: list[Run] = []
    kind, statements, indexes = "", list[Any](), list[int]()
    for index, request in enumerate(requests):
        next_kind, statement = statement_of(request)
        if next_kind != kind:
            kind, statements, indexes = next_kind, [], []
            runs.append(Run(kind, statements, indexes))
        statements.append(statement)
        indexes.append(index)
        if index % ITEMS == ITEMS - 1:
            yield
    return _not_empty(runs)


def unordered_runs(requests: Iterable[object]) -> Slices[list[Run]]:
    """All requests of one kind together. Raises as `ordered_runs` does."""
    statements: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    indexes: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for index, request in enumerate(requests):
        kind, statement = statement_of(request)
        statements[kind].append(statement)
        indexes[kind].append(index)
        if index % ITEMS == ITEMS - 1:
            yield
    return _not_empty([Run(kind, statements[kind], indexes[kind]) for kind in KINDS if indexes[kind]])


def _not_empty(runs: list[Run]) -> list[Run]:
    if not runs:
        raise InvalidOperation("no requests to execute")
    return runs
