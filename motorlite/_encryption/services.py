"""Shell: what the encryption library asks for: data keys, collections, requests to key management services.

All commands are operations of a client of their own, so they take the one path. They end with the operation that needs
them, and never take part in a session of the application. Options of `call_options` are for the application's commands:
its fallback has no data keys, and the client of the data keys may have no wait queue.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from motorlite._api.call_options import without_options
from motorlite._api.cursors.cursor import AsyncCursor
from motorlite._api.session import unbound
from motorlite._api.time_limits import within
from motorlite._base.deadline import NO_DEADLINE
from motorlite._encryption.credentials import CredentialSource
from motorlite._encryption.library import is_from_library
from motorlite.errors import InvalidOperation
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import ReadPreference
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._api.handles import AsyncCollection, AsyncMongoClient
    from motorlite._base.deadline import Deadline
    from motorlite._client.core import Core
    from motorlite._encryption.kms import KeyServices
    from motorlite._encryption.mongocryptd import Mongocryptd

RAW: Final[CodecOptions[Any]] = CodecOptions(document_class=RawBSONDocument)


def key_vault(client: AsyncMongoClient[Any], namespace: tuple[str, str]) -> AsyncCollection[Any]:
    """Return the collection of the data keys. A key that is not majority-committed could be lost with its data."""
    database, collection = namespace
    return client[database].get_collection(
        collection, RAW, ReadPreference.PRIMARY, WriteConcern("majority"), ReadConcern("majority")
    )


@contextmanager
def own_operations(deadline: Deadline = NO_DEADLINE) -> Iterator[None]:
    """Keep the operations in a ``with`` block out of the caller's session and options; they end with `deadline`."""
    with unbound(), without_options(), within(deadline):
        yield


class _KeysCursor(AsyncCursor[RawBSONDocument]):
    """The application reads it, but its commands are our own."""

    __slots__ = ()

    async def _open(self) -> None:
        with own_operations():
            await super()._open()

    async def _fetch(self, is_patient: bool) -> bool:
        with own_operations():
            return await super()._fetch(is_patient)

    async def explain(self, timeoutMS: float | None = None) -> Mapping[str, Any]:
        """As that of other cursors."""
        with own_operations():
            return await super().explain(timeoutMS)

    async def distinct(self, key: str, timeoutMS: float | None = None) -> list[Any]:
        """As that of other cursors."""
        with own_operations():
            return await super().distinct(key, timeoutMS)


def all_keys(keys: AsyncCollection[Any]) -> AsyncCursor[RawBSONDocument]:
    """Return a cursor over all data keys."""
    return keys.find({})._clone(_KeysCursor, keys._settings)


class ClientServices:
    """The services of one client.

    Args:
        core: Its event loop opens the connections to key management services.
        keys: The collection of the data keys.
        kms: The key management services.
        collections: The client that describes collections; None: the library never asks.
        mongocryptd: Marks commands; None: the library never asks.
    """

    def __init__(
        self,
        core: Core,
        keys: AsyncCollection[Any],
        kms: KeyServices,
        collections: AsyncMongoClient[Any] | None = None,
        mongocryptd: Mongocryptd | None = None,
    ) -> None:
        self._core = core
        self._keys = keys
        self._kms = kms
        self._collections = collections
        self._mongocryptd = mongocryptd
        self._credentials = CredentialSource()

    async def collections(self, database: str, filter: bytes, deadline: Deadline) -> list[bytes]:
        """Return the descriptions of collections, encoded."""
        if self._collections is None:
            raise InvalidOperation("the client does not look at the schemas of collections")
        with own_operations(deadline):
            found = await self._collections[database].list_collections(filter=bson.decode(filter))
            return [bson.encode(document) for document in await found.to_list()]

    async def mark(self, database: str, command: bytes, deadline: Deadline) -> bytes:
        """Return the command with marks where it needs encryption."""
        if self._mongocryptd is None:
            raise InvalidOperation("the client does not use mongocryptd")
        with own_operations(deadline):
            return await self._mongocryptd.mark(database, command)

    async def keys(self, filter: bytes, deadline: Deadline) -> list[bytes]:
        """Return the data keys, encoded."""
        with own_operations(deadline):
            found = await self._keys.find(bson.decode(filter)).to_list()
        return [document.raw for document in found]

    async def ask_kms(self, request: Any, deadline: Deadline) -> None:
        """Send a request to a key management service and feed it with the response."""
        self._core.enter()
        try:
            await self._kms.ask(request, self._core, deadline)
        except Exception as error:
            if is_from_library(error):  # the service has refused the request
                self._credentials.forget()
            raise

    async def credentials(self, providers: Mapping[str, Any], deadline: Deadline) -> Mapping[str, Any]:
        """Return the credentials of the providers that have none yet."""
        self._core.enter()
        return await self._credentials.find(providers, self._core, deadline)
