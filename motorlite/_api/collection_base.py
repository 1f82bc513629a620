"""Shell: what the parts of a collection have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motorlite._api.settings import Configured
from motorlite._api.typings import DocumentT

if TYPE_CHECKING:
    from motorlite._api.core import CoreLike
    from motorlite._api.settings import Settings


class CollectionBase(Configured[DocumentT]):
    """The names of a collection."""

    __slots__ = ("_database_name", "_name")

    def __init__(self, core: CoreLike, settings: Settings, database_name: str, name: str) -> None:
        super().__init__(core, settings)
        self._database_name = database_name
        self._name = name

    @property
    def name(self) -> str:
        """The name of the collection."""
        return self._name

    @property
    def full_name(self) -> str:
        """``"database.collection"``."""
        return f"{self._database_name}.{self._name}"

    @property
    def _names(self) -> tuple[str, str]:
        return self._database_name, self._name
