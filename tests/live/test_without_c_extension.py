"""The driver where `bson` has no C extension: pure installations, and subinterpreters, which refuse to load it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.live.clients import run_program

if TYPE_CHECKING:
    from motorlite.testing import LocalServer


USE = """
def use(uri, name):
    import asyncio
    import bson
    from bson import Decimal128, ObjectId
    from bson.son import SON
    from motorlite import AsyncMongoClient
    from motorlite.gridfs import AsyncGridFSBucket

    async def main():
        async with AsyncMongoClient(uri) as client:
            database = client[name]
            rest = {"price": Decimal128("1.5"), "data": b"data", "text": "x" * 1000}
            documents = [{"_id": ObjectId(), **rest} for _ in range(1000)]
            await database.things.insert_many(documents)
            # A batch of one megabyte, which is decoded in slices.
            assert await database.things.find().to_list() == documents
            found = await database.things.find_one({"_id": documents[5]["_id"]})
            assert found == documents[5], found
            assert [type(value) for value in found.values()] == [ObjectId, Decimal128, bytes, str]
            plain = database.things.with_options(bson.CodecOptions(document_class=SON))
            assert isinstance(await plain.find_one({}), SON)
            async with client.start_session() as session, await session.start_transaction():
                await database.things.delete_one({"_id": documents[0]["_id"]}, session=session)
            assert await database.things.count_documents({}) == 999
            bucket = AsyncGridFSBucket(database)
            number = await bucket.upload_from_stream("name", b"content" * 100_000)
            async with await bucket.open_download_stream(number) as stream:
                assert await stream.read() == b"content" * 100_000
        return bson.has_c()

    return asyncio.run(main())
"""
BLOCKED = f"""
import sys
sys.modules["bson._cbson"] = None
{USE}
print("with the extension:", use(*sys.argv[1:]))
"""
SUBINTERPRETERS = f"""
import sys
from concurrent.futures import InterpreterPoolExecutor
with InterpreterPoolExecutor(2) as pool:
    futures = []
    for number in "12":
        arguments = [sys.argv[1], sys.argv[2] + number]
        use = f"print('with the extension:', use(*{{arguments}}), flush=True)"
        futures.append(pool.submit(exec, {USE!r} + use, {{}}))
    for future in futures:
        future.result()
"""


def run(program: str, server: LocalServer, name: str) -> str:
    finished = run_program(program, server.uri, name)
    assert (finished.stderr, finished.returncode) == ("", 0)
    return finished.stdout


def test_a_client_works_without_the_extension(replica_set: LocalServer, database_name: str) -> None:
    assert run(BLOCKED, replica_set, database_name) == "with the extension: False\n"


@pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 and later have InterpreterPoolExecutor")
def test_clients_in_subinterpreters(replica_set: LocalServer, database_name: str) -> None:
    assert run(SUBINTERPRETERS, replica_set, database_name) == "with the extension: False\n" * 2
