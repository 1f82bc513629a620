"""Shell: clients of our own, for data keys, schemas and mongocryptd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._api.client import AsyncMongoClient as ClientBase
from motorlite._api.handles import AsyncMongoClient
from motorlite._client.core import Core

if TYPE_CHECKING:
    from motorlite._client.dependencies import Dependencies
    from motorlite._options.options import ClientOptions


def inner_client(options: ClientOptions, world: Dependencies) -> AsyncMongoClient[Any]:
    """Return a client of our own, with what the application's client depends on."""
    client: AsyncMongoClient[Any] = AsyncMongoClient.__new__(AsyncMongoClient)
    ClientBase.__init__(client, Core(options, world), options)
    return client
