"""After a fork, a client starts afresh in the child, and what the parent has open stays the parent's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live.clients import run_program

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

# Python 3.12 and later advise against forks of processes with threads, which is what this is about.
NO_ADVICE = ("-W", "error", "-W", "ignore:This process:DeprecationWarning")

PRELUDE = """
import gc, os, sys, threading
import asyncio, trio
from bson import ObjectId
from motorlite import AsyncMongoClient
from motorlite.errors import InvalidOperation
from motorlite.gridfs import AsyncGridFSBucket
from motorlite.monitoring import CommandListener
from motorlite.retry import RetryBudget

uri, name, backend = sys.argv[1:]
parent = os.getpid()
run = asyncio.run if backend == "asyncio" else trio.run

def call(function):
    run(function if backend == "trio" else function())

class Sent(CommandListener):
    ended = []
    def started(self, event):
        if event.command_name in ("endSessions", "killCursors", "abortTransaction"):
            self.ended.append(event.command)

def ends(wait_for):
    code = os.waitstatus_to_exitcode(os.waitpid(wait_for, 0)[1])
    print("the child ended with", code, flush=True)

def in_child(function):
    # In a thread, which a new loop needs where the fork happened in a running one.
    failures = []
    def work():
        try:
            call(function)
        except BaseException as error:
            failures.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    if failures or thread.is_alive():
        import traceback
        traceback.print_exception(failures[0]) if failures else print("it hangs", file=sys.stderr)
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)

async def refused(what, awaitable):
    try:
        await awaitable
    except InvalidOperation as error:
        assert "fork" in str(error), error
        print(what, "refused", flush=True)
"""
IN_A_LOOP = """
async def main():
    global client
    budget = RetryBudget(20)
    client = AsyncMongoClient(uri, event_listeners=[Sent()], retry_budget=budget, killAbandoned=True, maxPoolSize=4)
    async with client:
        things = client[name].things
        await things.insert_many([{"_id": number} for number in range(300)])
        cursor = things.find(batch_size=100)
        assert (await cursor.next())["_id"] == 0
        other = things.find(batch_size=100)
        await other.next()
        session = client.start_session()
        await session.start_transaction()
        await things.insert_one({"_id": "in the transaction"}, session=session)
        lsid = session.session_id
        comment = client._core.limits.comment
        bucket = AsyncGridFSBucket(client[name])
        # The one has sent chunks, the other has not.
        upload, fresh = (bucket.open_upload_stream(text, chunk_size_bytes=1000) for text in ("upload", "fresh"))
        await upload.write(b"a" * 1_000_000)
        assert upload._upload.has_begun
        await fresh.write(b"a" * 2500)
        pooled = client.start_session()
        await client.admin.command("ping", session=pooled)
        known = [lsid, pooled.session_id]
        await pooled.end_session()

        async def child():
            assert client.stats().servers == {}, "those of the parent are not the child's"
            assert await things.count_documents({}) == 300
            assert client._core.limits.comment != comment
            await refused("cursor", cursor.to_list())
            await refused("session", things.find_one({}, session=session))
            await refused("commit", session.commit_transaction())
            for stream in upload, fresh:
                await refused("upload", stream.write(b"b"))
                await refused("upload", stream.close())
                try:
                    async with stream:
                        raise KeyError
                except KeyError:
                    await stream.abort()
            assert not await client[name].fs.files.count_documents({})
            assert await client[name].fs.chunks.count_documents({}) == 1000
            await cursor.close()
            await session.end_session()
            for _ in range(3):
                async with client.start_session() as own:
                    await things.find_one({}, session=own)
                    assert own.session_id not in known
            await things.insert_one({"child": True})
            mine = things.find(batch_size=100)
            await mine.next()
            await mine.close()
            assert len(Sent.ended) == 1, Sent.ended
            async with client.start_session() as own, await own.start_transaction():
                await things.insert_one({"child": 2}, session=own)
            await client.close()
            assert lsid not in Sent.ended[-1]["endSessions"]
            print("the child is done", flush=True)

        process = os.fork()
        if not process:
            # The loop of the parent is not the child's.
            await refused("the parent's loop", things.find_one())
            # Dropped here, not there.
            other = None
            gc.collect()
            in_child(child)
        ends(process)
        async with client.start_session() as again:
            assert again.session_id == known[1], "the pool of the parent is as it was"
            await client.admin.command("ping", session=again)
        assert [found["_id"] async for found in cursor][:298] == list(range(1, 299)), "the parent goes on"
        assert len(await other.to_list()) >= 299
        await session.commit_transaction()
        assert await things.count_documents({}) == 303
        for stream, size in (upload, 1_000_000), (fresh, 2500):
            await stream.close()
            assert len(await (await bucket.open_download_stream(stream._id)).read()) == size
        await session.end_session()
        print("the parent is done", flush=True)
        os._exit(0)  # trio's wake-up socket is not in the selector any more

call(main)
"""
BETWEEN_LOOPS = """
client = AsyncMongoClient(uri, event_listeners=[Sent()])

async def use():
    await client[name].things.insert_one({"by": os.getpid()})

async def closing():
    await use()
    await client.close()

loop = asyncio.new_event_loop() if backend == "asyncio" else None
if loop is not None:
    loop.run_until_complete(use())
else:
    call(use)  # the client loses its loop
client._core.turn = 0.1, float("inf")  # as long as the clock of this loop lasts
for _ in range(2):
    process = os.fork()
    if not process:
        if loop is not None:
            # A copy, which shares its selector with the parent's.
            loop.run_until_complete(refused("a loop from before the fork", use()))
        call(use)
        assert client._core.turn[0] == 0.0, client._core.turn
        grandchild = os.fork()
        if not grandchild:
            call(closing)
            os._exit(0)
        assert os.waitpid(grandchild, 0)[1] == 0
        os._exit(0)
    ends(process)
if loop is not None:
    loop.run_until_complete(closing())
    loop.close()
else:
    try:
        call(use)
    except InvalidOperation as error:
        assert "has ended" in str(error), error
    call(client.close)
print("the parent is done")
"""


def run(program: str, server: LocalServer, name: str, backend: str) -> list[str]:
    finished = run_program(PRELUDE + program, server.uri, name, backend, mode=NO_ADVICE)
    assert (finished.stderr, finished.returncode) == ("", 0)
    return finished.stdout.splitlines()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fork_in_a_running_loop(replica_set: LocalServer, database_name: str, backend: str) -> None:
    """Prose tests 12 and 13 of sessions are in it: neither a pooled session nor one in use is used after a fork."""
    assert run(IN_A_LOOP, replica_set, database_name, backend) == [
        "the parent's loop refused",
        "cursor refused",
        "session refused",
        "commit refused",
        *["upload refused"] * 4,
        "the child is done",
        "the child ended with 0",
        "the parent is done",
    ]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fork_between_loops(replica_set: LocalServer, database_name: str, backend: str) -> None:
    refused = ["a loop from before the fork refused"] if backend == "asyncio" else []
    children = [*refused, "the child ended with 0"] * 2
    assert run(BETWEEN_LOOPS, replica_set, database_name, backend) == [*children, "the parent is done"]
