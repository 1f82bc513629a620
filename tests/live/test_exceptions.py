"""The exceptions of misuse are PyMongo's, as the installed version raises them, or `exceptions.toml` says why not."""

from __future__ import annotations

import asyncio
import textwrap
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gridfs
import pymongo
import pytest
from bson import ObjectId
from bson.codec_options import CodecOptions

import motorlite
import motorlite.gridfs
from tests.live.oracle import classes, collect_what_pymongo_lost

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

TABLE: Final[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "exceptions.toml").read_text(encoding="utf-8"))
DIFFERENT: Final[dict[str, dict[str, str]]] = TABLE["different"]
CODES: Final = (*TABLE["same"], *DIFFERENT)
NAMES: Final = ("InsertOne", "UpdateOne", "ReplaceOne", "IndexModel", "WriteConcern", "AsyncMongoClient", "timeout")
# The names of an exception's class and of its bases; empty if there was none.
Found = list[str]


async def raised(code: str, library: Any, grid: Any, uri: str, clients: list[Any]) -> Found:
    """What `code` raises. `clients` are two open ones, which are made anew when they were closed."""
    if not clients:
        clients += [library.AsyncMongoClient(uri), library.AsyncMongoClient(uri)]
        await clients[0].motorlite_test_exceptions.coll.replace_one({"_id": 1}, {}, upsert=True)
    client, other = clients
    db = client.motorlite_test_exceptions
    names: dict[str, Any] = {name: getattr(library, name) for name in NAMES}
    names |= {"client": client, "other": other, "db": db, "coll": db.coll, "gridfs": grid}
    names |= {"ObjectId": ObjectId, "CodecOptions": CodecOptions}
    exec(f"async def use():\n{textwrap.indent(code, '    ')}", names)
    try:
        await names["use"]()
    except Exception as error:
        return classes(error)
    finally:
        if "client.close()" in code:
            await other.close()
            clients.clear()
    return []


async def all_raised(library: Any, grid: Any, uri: str) -> dict[str, Found]:
    clients: list[Any] = []
    with warnings.catch_warnings():
        # Of options that are ignored, coroutines that are not awaited, and clients that are not closed.
        warnings.simplefilter("ignore")
        found = {code: await raised(code, library, grid, uri, clients) for code in CODES}
        for client in clients:
            await client.close()
    return found


@pytest.fixture(scope="module")
def theirs(replica_set: LocalServer) -> dict[str, Found]:
    found = asyncio.run(all_raised(pymongo, gridfs, replica_set.uri))
    collect_what_pymongo_lost()
    return found


def name(found: Found) -> str:
    return found[0] if found else "nothing"


@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_exceptions_of_misuse(replica_set: LocalServer, theirs: dict[str, Found]) -> None:
    ours = await all_raised(motorlite, motorlite.gridfs, replica_set.uri)
    # What catches theirs catches ours, and where theirs is none, ours is none.
    other = [
        code for code in CODES if not set(theirs[code]) <= set(ours[code]) or bool(theirs[code]) != bool(ours[code])
    ]
    told = {code: {"theirs": name(theirs[code]), "ours": name(ours[code])} for code in other}
    assert told == {code: {"theirs": row["theirs"], "ours": row["ours"]} for code, row in DIFFERENT.items()}


def test_every_difference_has_a_reason() -> None:
    assert [code for code, row in DIFFERENT.items() if not row["why"]] == []
    assert len(CODES) == len(set(CODES)) > 200
