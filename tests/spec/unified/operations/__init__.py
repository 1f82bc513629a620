"""The operations that tests execute, by the kind of object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite import AsyncChangeStream, AsyncCollection, AsyncCommandCursor, AsyncCursor, AsyncDatabase
from motorlite.encryption import AsyncClientEncryption
from motorlite.gridfs import AsyncGridFSBucket
from tests.spec.unified.entities import Client, Session
from tests.spec.unified.operations import bucket, client, collection, cursor, database, encryption, session
from tests.spec.unified.outcomes import BadTest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.spec.unified.operations.method import Handler

_BY_KIND: Final[tuple[tuple[type, str, Mapping[str, Handler]], ...]] = (
    (Client, "client", client.OPERATIONS),
    (AsyncDatabase, "database", database.OPERATIONS),
    (AsyncCollection, "collection", collection.OPERATIONS),
    (Session, "session", session.OPERATIONS),
    (AsyncCursor, "cursor", cursor.OPERATIONS),
    (AsyncCommandCursor, "cursor", cursor.OPERATIONS),
    (AsyncChangeStream, "change stream", cursor.OPERATIONS),
    (AsyncGridFSBucket, "bucket", bucket.OPERATIONS),
    (AsyncClientEncryption, "client encryption", encryption.OPERATIONS),
)
# Operations whose results are documents that may have further fields.
RETURNS_DOCUMENTS: Final = frozenset(
    {"aggregate", "find", "listCollections", "listDatabases", "listIndexes", "listSearchIndexes", "runCursorCommand"}
)


def operation(entity: Any, name: str) -> tuple[Any, Handler]:
    """What an operation is performed on, and what performs it.

    Raises:
        BadTest: there is no such operation.
    """
    for kind, word, operations in _BY_KIND:
        if isinstance(entity, kind):
            if name not in operations:
                raise BadTest(f"a {word} has no operation {name!r}")
            return (entity.client if isinstance(entity, Client) else entity), operations[name]
    raise BadTest(f"a {type(entity).__name__} has no operations")
