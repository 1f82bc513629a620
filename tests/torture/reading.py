"""Net: what a deployment holds after a torture, read with PyMongo: nothing of the driver judges itself."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pymongo import MongoClient, ReadPreference
from pymongo.read_concern import ReadConcern

from motorlite.testing.account import FinalState, Key, StoredChunk, StoredFile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Collections that the account knows by other names; all others are documents of their own.
NAMED: Final = ("accounts", "counters", "registers", "lists", "fs.files", "fs.chunks")
# Seconds that reading may wait for a primary.
PATIENCE: Final = 60


def read(uri: str, database: str) -> FinalState:
    """Read a database from the primary, as far as a majority has it.

    Args:
        uri: The connection string of the deployment.
        database: The name of the database.

    Raises:
        PyMongoError: PyMongo cannot read it.
    """
    with MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=PATIENCE * 1000) as client:
        there = client.get_database(
            database, read_concern=ReadConcern("majority"), read_preference=ReadPreference.PRIMARY
        )
        return final_state({name: list(there[name].find()) for name in there.list_collection_names()})


def final_state(collections: Mapping[str, Sequence[Mapping[str, Any]]]) -> FinalState:
    """The documents of all collections, as the account wants them.

    Args:
        collections: The documents of each collection.
    """

    def values(collection: str, field: str) -> dict[Key, Any]:
        return {each["_id"]: each[field] for each in collections.get(collection, ())}

    chunks = sorted(collections.get("fs.chunks", ()), key=lambda chunk: int(chunk["n"]))
    digests: dict[Key, Any] = defaultdict(hashlib.sha256)
    for chunk in chunks:
        digests[chunk["files_id"]].update(chunk["data"])
    return FinalState(
        documents={name: found for name, found in collections.items() if name not in NAMED},
        files=[
            StoredFile(each["_id"], each["length"], each["chunkSize"], digests[each["_id"]].hexdigest())
            for each in collections.get("fs.files", ())
        ],
        chunks=[StoredChunk(each["files_id"], each["n"], len(each["data"])) for each in chunks],
        balances=values("accounts", "balance"),
        counters=values("counters", "n"),
        registers=values("registers", "value"),
        lists=values("lists", "values"),
    )
