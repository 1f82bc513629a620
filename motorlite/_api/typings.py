"""Pure: type variables and aliases of the public API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    # PEP 696 default: as with PyMongo, the collections of an `AsyncMongoClient` without parameters may be declared to
    # hold documents of any type (``movies: AsyncCollection[Movie] = client.test.movies``).
    from typing_extensions import TypeVar

    DocumentT = TypeVar("DocumentT", bound=Mapping[str, Any], default=Any)
else:
    from typing import TypeVar

    DocumentT = TypeVar("DocumentT", bound=Mapping[str, Any])

OtherDocumentT = TypeVar("OtherDocumentT", bound=Mapping[str, Any])
"""The document class of a derived object, when its codec options are others than the parent's."""

Filter: TypeAlias = Mapping[str, Any]
Projection: TypeAlias = Mapping[str, Any] | Iterable[str]

TimeoutMode: TypeAlias = Literal["cursorLifetime", "iteration"]
"""What `timeoutMS` limits: the whole life of a cursor, or each step of the iteration."""
