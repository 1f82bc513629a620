"""Shell: the clients that an exporter reads, by name, each until it is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import ref

from motorlite import AsyncMongoClient
from motorlite._base.arguments import wrong

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.stats import ClientStats

T = TypeVar("T")

# Exporters run in threads of their own. A dictionary of the driver that grows while it is copied is copied again.
_TRIES: Final = 10


class Clients(Generic[T]):
    """Weak references to clients, each with a name and something of the exporter's own."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[ref[AsyncMongoClient[Any]], T]] = {}

    def add(self, client: AsyncMongoClient[Any], name: str, own: T) -> None:
        """Add a client.

        Raises:
            TypeError: `client` is not a client, or `name` is not a string.
            ValueError: Another client has this name, or the client has another name.
        """
        if not isinstance(client, AsyncMongoClient):
            raise TypeError(wrong("client", client, "an AsyncMongoClient"))
        if not isinstance(name, str):
            raise TypeError(wrong("name", name, "a string"))
        for known_name, known, _ in self.live():
            if known is client or known_name == name:
                raise ValueError(f"a client with the name {known_name!r} has been added already")
        entries = self._entries

        def forget(reference: ref[AsyncMongoClient[Any]]) -> None:
            entry = entries.get(name)
            if entry is not None and entry[0] is reference:
                entries.pop(name, None)

        entries[name] = (ref(client, forget), own)

    def remove(self, client: AsyncMongoClient[Any]) -> None:
        """Remove a client.

        Raises:
            ValueError: It was not added.
        """
        for name, known, _ in self.live():
            if known is client:
                del self._entries[name]
                return
        raise ValueError("the client was not added")

    def live(self) -> Iterator[tuple[str, AsyncMongoClient[Any], T]]:
        """Yield name, client and own part of each client that was not dropped."""
        for name, (reference, own) in tuple(self._entries.items()):
            client = reference()
            if client is not None:
                yield name, client, own


def snapshot(client: AsyncMongoClient[Any]) -> ClientStats:
    """Return `client.stats()`, also from another thread than that of the client's event loop."""
    for _ in range(_TRIES - 1):
        try:
            return client.stats()
        except RuntimeError:
            continue  # "dictionary changed size during iteration"
    return client.stats()
