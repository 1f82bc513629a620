"""Shell: the common base of a collection's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from motorlite._api.cursors.watching import Watching
from motorlite._api.missing import not_callable
from motorlite._api.typings import DocumentT

if TYPE_CHECKING:
    from motorlite._api.settings import Settings
    from motorlite._client.core import Core
    from motorlite._operations.find import FindFirstFacts
    from motorlite._operations.single_writes import TemplateWrites


class CollectionBase(Watching[DocumentT]):
    """The names of a collection."""

    __slots__ = ("_database_name", "_first", "_name", "_template_writes")

    def __init__(self, core: Core, settings: Settings, database_name: str, name: str) -> None:
        super().__init__(core, settings)
        self._database_name = database_name
        self._name = name
        # What `find_one` needs, made by the first one. In one attribute, because each look-up takes 400 instructions in
        # a class with `__getattr__`.
        self._first: tuple[Core, Settings, FindFirstFacts] | None = None
        # Made by the first write.
        self._template_writes: TemplateWrites | None = None

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

    @property
    def _watched(self) -> tuple[str, str | None]:
        return self._names

    if not TYPE_CHECKING:  # type checkers report the call themselves and continue

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Reject a call: the attribute is a collection, not a method."""
            _, dot, name = self._name.rpartition(".")
            owner = type(self) if dot else type(self._database)
            taken = f"the collection {self.full_name!r}"
            raise TypeError(not_callable("AsyncCollection", owner, name, taken))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CollectionBase):
            return NotImplemented
        return self._core is other._core and self._names == other._names

    def __hash__(self) -> int:
        return hash((id(self._core), *self._names))

    def __bool__(self) -> bool:  # not NoReturn: type checkers would skip the code after a truth test
        """Reject a truth test: usually ``is not None`` was meant."""
        raise NotImplementedError("a collection is neither true nor false; compare with None instead")
