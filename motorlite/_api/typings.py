"""Pure: type variables and aliases of the public API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    # PEP 696 default: as with PyMongo, collections of an `AsyncMongoClient` without parameters may be annotated with
    # any document type (``movies: AsyncCollection[Movie] = client.test.movies``).
    from typing_extensions import TypeVar

    DocumentT = TypeVar("DocumentT", bound=Mapping[str, Any], default=Any)
    """The type of the documents that reads return: a mapping."""
    # The session's client. Its class depends on classes that take sessions, so it cannot be named here.
    ClientT_co = TypeVar("ClientT_co", covariant=True, default=Any)
    """The type of a session's client."""
else:
    from typing import TypeVar

    DocumentT = TypeVar("DocumentT", bound=Mapping[str, Any])
    """The type of the documents that reads return: a mapping."""
    ClientT_co = TypeVar("ClientT_co", covariant=True)
    """The type of a session's client."""

OtherDocumentT = TypeVar("OtherDocumentT", bound=Mapping[str, Any])
"""The document class of a derived object whose codec options differ from the parent's."""

Filter: TypeAlias = Mapping[str, Any]
"""A query: fields with values, or with operators."""

Projection: TypeAlias = Mapping[str, Any] | Iterable[str]
"""The fields to return: names with True or False, or names to include."""

TimeoutMode: TypeAlias = Literal["cursorLifetime", "iteration"]
"""The scope of `timeoutMS`: the whole lifetime of a cursor, or each iteration step."""
