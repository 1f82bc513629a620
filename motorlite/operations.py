"""Pure: the write requests of `bulk_write` and the descriptions of indexes, with PyMongo's constructors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from motorlite._base import arguments
from motorlite._base.arguments import WrongType, is_like, wrong
from motorlite._base.values import cut

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.raw_bson import RawBSONDocument

    from motorlite._base.arguments import Hint, Pipeline

__all__ = [
    "DeleteMany",
    "DeleteOne",
    "IndexModel",
    "InsertOne",
    "ReplaceOne",
    "SearchIndexModel",
    "UpdateMany",
    "UpdateOne",
]

_Document = TypeVar("_Document", bound="Mapping[str, Any]")


# The arguments of requests that their repr does not name.
_POSITIONAL: Final = ("document", "filter", "replacement", "update")


class _Request:
    """The base class of requests, with equality and repr based on the constructor's arguments."""

    __slots__ = ("namespace",)

    # "database.collection", only for writes to several collections.
    namespace: str | None
    # Names of the attributes, in the order in which `repr` shows them.
    _shown: ClassVar[tuple[str, ...]] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._shown)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _Request)
        return self.namespace == other.namespace and self._values() == other._values()

    def __repr__(self) -> str:
        options = ((name, getattr(self, name)) for name in (*self._shown, "namespace"))
        shown = [
            repr(value) if name in _POSITIONAL else f"{name}={value!r}"
            for name, value in options
            if name in _POSITIONAL or value is not None
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


class InsertOne(_Request, Generic[_Document]):
    """Insert one document.

    Args:
        document: The document; the driver adds an `_id` if it has none.
        namespace: "database.collection"; only for writes to several collections.
    """

    __slots__ = ("document",)
    _shown = ("document",)

    def __init__(self, document: _Document | RawBSONDocument, namespace: str | None = None) -> None:
        self.document: _Document | RawBSONDocument = document
        self.namespace: str | None = namespace


class _Filtered(_Request):
    """The base class of requests for the documents that a filter matches; those that delete add nothing."""

    __slots__ = ("collation", "filter", "hint")
    _shown: ClassVar[tuple[str, ...]] = ("filter", "collation", "hint")

    def __init__(
        self, filter: Mapping[str, Any], collation: Any = None, hint: Hint | None = None, namespace: str | None = None
    ) -> None:
        arguments.check_mapping("filter", filter)
        self.filter: Mapping[str, Any] = filter
        self.collation: Mapping[str, Any] | None = arguments.collation_document(collation)
        self.hint: str | Mapping[str, Any] | None = arguments.hint_value(hint)
        self.namespace: str | None = namespace


class DeleteOne(_Filtered):
    """Delete the first document that matches.

    Args:
        filter: A query that matches the document.
        collation: The collation of the query: a Collation or its document.
        hint: The index to use, by name or by keys (MongoDB 4.4 and later).
        namespace: "database.collection"; only for writes to several collections.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()


class DeleteMany(_Filtered):
    """Delete all documents that match; a batch with such a request is not a retryable write.

    Args:
        filter: A query that matches the documents.
        collation: The collation of the query: a Collation or its document.
        hint: The index to use, by name or by keys (MongoDB 4.4 and later).
        namespace: "database.collection"; only for writes to several collections.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()


class ReplaceOne(_Filtered, Generic[_Document]):
    """Replace the first document that matches.

    Args:
        filter: A query that matches the document.
        replacement: The new document; it must not begin with an update operator.
        upsert: Insert the replacement when nothing matches.
        collation: The collation of the query: a Collation or its document.
        hint: The index to use, by name or by keys.
        namespace: "database.collection"; only for writes to several collections.
        sort: Which document is the first, when several match (MongoDB 8.0 and later).

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ("replacement", "sort", "upsert")
    _shown = ("filter", "replacement", "upsert", "collation", "hint", "sort")

    def __init__(
        self,
        filter: Mapping[str, Any],
        replacement: _Document | RawBSONDocument,
        upsert: bool | None = None,
        collation: Any = None,
        hint: Hint | None = None,
        namespace: str | None = None,
        sort: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(filter, collation, hint, namespace)
        if upsert is not None:
            arguments.check_boolean("upsert", upsert)
        self.replacement: _Document | RawBSONDocument = replacement
        self.upsert: bool | None = upsert
        self.sort: Mapping[str, Any] | None = sort


class _Update(_Filtered):
    __slots__ = ("array_filters", "sort", "update", "upsert")
    _shown: ClassVar[tuple[str, ...]] = ("filter", "update", "upsert", "collation", "array_filters", "hint")

    def __init__(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | Pipeline,
        upsert: bool | None = None,
        collation: Any = None,
        array_filters: list[Mapping[str, Any]] | None = None,
        hint: Hint | None = None,
        namespace: str | None = None,
    ) -> None:
        super().__init__(filter, collation, hint, namespace)
        if upsert is not None:
            arguments.check_boolean("upsert", upsert)
        if array_filters is not None:
            arguments.check_list("array_filters", array_filters)
        self.update: Mapping[str, Any] | Pipeline = update
        self.upsert: bool | None = upsert
        self.array_filters: list[Mapping[str, Any]] | None = array_filters
        self.sort: Mapping[str, Any] | None = None


class UpdateOne(_Update):
    """Update the first document that matches.

    Args:
        filter: A query that matches the document.
        update: Update operators, or a pipeline as a list of stages.
        upsert: Insert a document when nothing matches.
        collation: The collation of the query: a Collation or its document.
        array_filters: Which array elements are updated.
        hint: The index to use, by name or by keys.
        namespace: "database.collection"; only for writes to several collections.
        sort: Which document is the first, when several match (MongoDB 8.0 and later).

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()
    _shown = (*_Update._shown, "sort")

    def __init__(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | Pipeline,
        upsert: bool | None = None,
        collation: Any = None,
        array_filters: list[Mapping[str, Any]] | None = None,
        hint: Hint | None = None,
        namespace: str | None = None,
        sort: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(filter, update, upsert, collation, array_filters, hint, namespace)
        self.sort: Mapping[str, Any] | None = sort


class UpdateMany(_Update):
    """Update all documents that match; a batch with such a request is not a retryable write.

    Args:
        filter: A query that matches the documents.
        update: Update operators, or a pipeline as a list of stages.
        upsert: Insert a document when nothing matches.
        collation: The collation of the query: a Collation or its document.
        array_filters: Which array elements are updated.
        hint: The index to use, by name or by keys.
        namespace: "database.collection"; only for writes to several collections.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ()


class IndexModel:
    """An index to create.

    Args:
        keys: The name of a field, or a mapping or list of names and (name, direction) pairs; the default
            direction is 1.
        kwargs: Options of the index as the createIndexes command names them: `name` (by default made from the
            keys), `unique`, `sparse`, `expireAfterSeconds`, `partialFilterExpression`, `collation`, `hidden`,
            `wildcardProjection`...

    Raises:
        TypeError: `keys` are not valid index keys.
        ValueError: `keys` is empty.
    """

    __slots__ = ("_document",)

    def __init__(self, keys: Hint, **kwargs: Any) -> None:
        pairs = [keys] if isinstance(keys, str) else keys
        key = arguments.index_document(pairs, "keys")
        document = kwargs
        if document.get("name") is None:
            document["name"] = arguments.index_name(pairs)
        document["key"] = key
        collation = arguments.collation_document(document.pop("collation", None))
        if collation is not None:
            document["collation"] = collation
        self._document = document

    @property
    def document(self) -> dict[str, Any]:
        """The index in the form of the createIndexes command."""
        return self._document

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._document.items() if name != "key")
        return f"{type(self).__name__}({self._document['key']!r}{options})"


class SearchIndexModel:
    """A search index to create (MongoDB 7.0 and later, with Atlas Search).

    Args:
        definition: The definition of the index; its content depends on `type`.
        name: The index's name; the server's default is "default".
        type: "search" or "vectorSearch"; the server's default is "search".
        kwargs: Further options of the index, as the createSearchIndexes command names them.

    Raises:
        TypeError: An argument has the wrong type.
    """

    __slots__ = ("_document",)

    def __init__(
        self, definition: Mapping[str, Any], name: str | None = None, type: str | None = None, **kwargs: Any
    ) -> None:
        arguments.check_mapping("definition", definition)
        document: dict[str, Any] = {"definition": definition}
        if name is not None:
            arguments.check_string("name", name)
            document["name"] = name
        if type is not None:
            arguments.check_string("type", type)
            document["type"] = type
        self._document = document | kwargs

    @property
    def document(self) -> Mapping[str, Any]:
        """The index in the form of the createSearchIndexes command."""
        return self._document

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._document.items())
        return f"{type(self).__name__}({options})"


def model_documents(kind: type[IndexModel] | type[SearchIndexModel], models: Any) -> list[Mapping[str, Any]]:
    """Return the documents of a list of models, which may be PyMongo's. Raises TypeError."""
    allowed = f"a list of {kind.__name__}"
    if not isinstance(models, list | tuple):
        raise WrongType(allowed, f"write [{models!r}]" if is_like(models, kind) else "")
    for position, model in enumerate(models):
        if not is_like(model, kind):
            shown = cut(repr([model] if isinstance(model, tuple) else model), 200)
            raise WrongType(allowed, f"item {position} is no {kind.__name__}; write {kind.__name__}({shown})")
    return [model.document for model in models]


_KINDS: Final[tuple[type[_Request], ...]] = (InsertOne, UpdateOne, ReplaceOne, DeleteOne, UpdateMany, DeleteMany)
# Our names for the attribute that PyMongo's requests call `_doc`.
_DOCUMENTS: Final = ("document", "replacement", "update")


def as_request(request: Any) -> _Request:
    """Return `request`, which may be PyMongo's, as a write request.

    Raises:
        TypeError: `request` is not a write request, or one of its arguments has the wrong type.
    """
    if isinstance(request, _KINDS):
        return request
    for kind in _KINDS:
        if is_like(request, kind):
            names = {name: "_doc" if name in _DOCUMENTS else f"_{name}" for name in (*kind._shown, "namespace")}
            # PyMongo has `sort` since 4.11.
            return kind(**{name: getattr(request, theirs, None) for name, theirs in names.items()})
    *others, last = (kind.__name__ for kind in _KINDS)
    raise TypeError(wrong("a write request", request, f"an {', '.join(others)} or {last}"))
