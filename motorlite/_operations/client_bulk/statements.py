"""Pure: the operations of a bulkWrite command (bulk write specification, "Operations")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from motorlite._base.arguments import check_list, check_mapping, check_replacement, check_update
from motorlite._wire.replies import is_namespace
from motorlite.errors import InvalidName, InvalidOperation
from motorlite.operations import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne, as_request

if TYPE_CHECKING:
    from motorlite._execution.operation import Document

# Fields of operations, by the attributes of the models that have them.
_OPTIONS: Final = {
    "upsert": "upsert",
    "arrayFilters": "array_filters",
    "hint": "hint",
    "collation": "collation",
    "sort": "sort",
}


class Statement(NamedTuple):
    """One write, without the position of its namespace, which depends on the batch.

    Attributes:
        kind: "insert", "update" or "delete": the first field, with the position of the namespace in `nsInfo`.
        namespace: "database.collection".
        fields: The rest of the operation.
    """

    kind: str
    namespace: str
    fields: Document

    @property
    def is_multi(self) -> bool:
        """Whether it may change several documents and so is not a retryable write."""
        return bool(self.fields.get("multi"))

    @property
    def whole(self) -> Mapping[str, Any] | None:
        """The document that it inserts, or that replaces another; None for other operations."""
        document = self.fields.get("document" if self.kind == "insert" else "updateMods")
        return document if isinstance(document, Mapping) and not next(iter(document), "").startswith("$") else None

    @property
    def shown(self) -> Document:
        """The operation as errors show it: with the namespace itself instead of its position."""
        return {self.kind: self.namespace, **self.fields}


def statement_of(model: object) -> Statement:
    """Return the operation for a model of `client.bulk_write`.

    The document of an insert is used as it is: its `_id` must be there, and first.

    Raises:
        TypeError: `model` is not a write model, or an argument of it has the wrong type.
        ValueError: An update or a replacement is invalid.
        InvalidOperation: The model has no namespace.
        InvalidName: The namespace does not name a database and a collection.
    """
    request = as_request(model)
    namespace = _checked(request.namespace, request)
    if isinstance(request, InsertOne):
        return Statement("insert", namespace, {"document": request.document})
    assert isinstance(request, UpdateOne | UpdateMany | ReplaceOne | DeleteOne | DeleteMany)
    check_mapping("filter", request.filter)
    is_multi = isinstance(request, UpdateMany | DeleteMany)
    fields: Document = {"filter": request.filter}
    if isinstance(request, UpdateOne | UpdateMany):
        check_update(request.update)
        if request.array_filters is not None:
            check_list("array_filters", request.array_filters)
        fields["updateMods"] = request.update
    elif isinstance(request, ReplaceOne):
        check_replacement(request.replacement)
        fields["updateMods"] = request.replacement
    fields["multi"] = is_multi
    for name, attribute in _OPTIONS.items():
        value: Any = getattr(request, attribute, None)
        if value is not None:
            fields[name] = value
    return Statement("delete" if isinstance(request, DeleteOne | DeleteMany) else "update", namespace, fields)


def _checked(namespace: object, request: object) -> str:
    if namespace is None:
        raise InvalidOperation(f"each write of a client's bulk_write needs a namespace, but one has none: {request!r}")
    if not is_namespace(namespace):
        raise InvalidName(f"the namespace of a write must be 'database.collection', not {str(namespace)[:200]!r}")
    return namespace
