"""Pure: a bulk write as runs of statements of the same kind (CRUD specification)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.arguments import located
from motorlite._operations.slices import ITEMS
from motorlite._operations.statements import statement_of
from motorlite.errors import InvalidOperation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from motorlite._operations.slices import Slices


# In the order in which an unordered bulk write sends its runs.
KINDS: Final = ("insert", "update", "delete")


class BulkRun:
    """Statements of one kind, with their indexes in the bulk write."""

    __slots__ = ("encoded", "encoded_from", "indexes", "kind", "multis", "statements")

    def __init__(self, kind: str, statements: list[Any], indexes: Sequence[int]) -> None:
        # "insert", "update" or "delete". The statements of an insert are the documents. Emptied at the end.
        self.kind = kind
        self.statements = statements
        self.indexes = indexes
        # Encoded statements that are not yet in a batch, the position of the first one, and the ascending positions of
        # statements, batched or not, that may change several documents; see `BulkBatch.prepare`.
        self.encoded: list[bytes] = []
        self.encoded_from = 0
        self.multis: list[int] = []


def insert_run(documents: list[Any]) -> BulkRun:
    """Return the single run of insert_many.

    Raises:
        TypeError: There are no documents (PyMongo's error too).
    """
    if not documents:
        raise TypeError("documents must contain at least one document; check for an empty list before the call")
    return BulkRun("insert", documents, range(len(documents)))


def ordered_runs(requests: Iterable[object]) -> Slices[list[BulkRun]]:
    """Group consecutive requests of one kind, in the order of the requests.

    Raises:
        InvalidOperation: There are no requests.
        TypeError: An item is not a request, or an argument of it has the wrong type.
        ValueError: An update or a replacement is invalid.
    """
    runs: list[BulkRun] = []
    kind, statements, indexes = "", list[Any](), list[int]()
    index = 0
    try:
        for index, request in enumerate(requests):
            next_kind, statement = statement_of(request)
            if next_kind != kind:
                kind, statements, indexes = next_kind, [], []
                runs.append(BulkRun(kind, statements, indexes))
            statements.append(statement)
            indexes.append(index)
            if index % ITEMS == ITEMS - 1:
                yield
    except (TypeError, ValueError) as error:
        raise located(error, f"requests[{index}]") from None
    return _not_empty(runs)


def unordered_runs(requests: Iterable[object]) -> Slices[list[BulkRun]]:
    """Group all requests of one kind. Raises like `ordered_runs`."""
    statements: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    indexes: dict[str, list[int]] = {kind: [] for kind in KINDS}
    index = 0
    try:
        for index, request in enumerate(requests):
            kind, statement = statement_of(request)
            statements[kind].append(statement)
            indexes[kind].append(index)
            if index % ITEMS == ITEMS - 1:
                yield
    except (TypeError, ValueError) as error:
        raise located(error, f"requests[{index}]") from None
    return _not_empty([BulkRun(kind, statements[kind], indexes[kind]) for kind in KINDS if indexes[kind]])


def _not_empty(runs: list[BulkRun]) -> list[BulkRun]:
    if not runs:
        raise InvalidOperation("requests must contain at least one request; check for an empty list before the call")
    return runs
