"""Uses of clients, databases, collections, cursors and files that differ."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.unit.port.written import ported, report, written

HEAD = """\
import asyncio
from motor.motor_asyncio import (
    AsyncIOMotorClient, AsyncIOMotorCollection, AsyncIOMotorCursor, AsyncIOMotorDatabase,
    AsyncIOMotorGridFSBucket, AsyncIOMotorGridOut, AsyncIOMotorClientSession)
async def program(
    client: AsyncIOMotorClient, db: AsyncIOMotorDatabase, parts: AsyncIOMotorCollection, cursor: AsyncIOMotorCursor,
    bucket: AsyncIOMotorGridFSBucket, file: AsyncIOMotorGridOut, session: AsyncIOMotorClientSession
):
"""


def body(text: str) -> tuple[str, list[str]]:
    """What is written in place of lines of a function, and the report about them, from the line number on."""
    head = len(HEAD.splitlines())
    after, lines = ported({"a.py": HEAD + indent(dedent(text), "    ")})["a.py"]
    kept = [line for line in lines if int(line.partition(":")[0]) > head]
    return dedent("".join(after.splitlines(keepends=True)[-len(dedent(text).splitlines()) :])), kept


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("client.close()\n", "await client.close()\n"),
        ("client.close()  # at last\n", "await client.close()  # at last\n"),
        ("x = client.primary\n", "x = await client.primary\n"),
        ("x = client.primary[0]\n", "x = (await client.primary)[0]\n"),
        ("if client.is_primary: pass\n", "if (await client.is_primary): pass\n"),
        ("x, y = client.nodes, client.secondaries\n", "x, y = client.nodes, (await client.secondaries)\n"),
        ("file.seek(4)\n", "await file.seek(4)\n"),
        ("cursor.rewind()\n", "await cursor.rewind()\n"),
        ("f(client.close())\n", "f(await client.close())\n"),
        ("(await bucket.open_download_stream(1)).seek(2)\n", "await (await bucket.open_download_stream(1)).seek(2)\n"),
        ("await session.with_transaction(coro=f)\n", "await session.with_transaction(callback=f)\n"),
        ("AsyncIOMotorGridFSBucket(db, collection='x')\n", "AsyncGridFSBucket(db, bucket_name='x')\n"),
        ("AsyncIOMotorClient(io_loop=loop)\n", "AsyncMongoClient()\n"),
        ("AsyncIOMotorClient('a', io_loop=loop)\n", "AsyncMongoClient('a')\n"),
        ("AsyncIOMotorClient('a', io_loop=loop, w=1)\n", "AsyncMongoClient('a', w=1)\n"),
        ("parts.find({}, None, 0, 1, True)\n", "parts.find({}, None, 0, 1, no_cursor_timeout=True)\n"),
        ("db.parts.find_one({}, None, 3)\n", "db.parts.find_one({}, None, skip=3)\n"),
    ],
)
def test_what_is_written(before: str, after: str) -> None:
    found, lines = body(before)
    # A call that is not awaited is another finding.
    assert found == after
    assert any(": write: " in line for line in lines)


@pytest.mark.parametrize(
    "same",
    [
        "await parts.insert_one({})\n",
        "x = parts.insert_one({})\n",
        "docs = await parts.find().to_list(length=None)\n",
        "async for doc in parts.aggregate([]): pass\n",
        "async with await client.start_session() as s: await s.commit_transaction()\n",
        "async with session.start_transaction(): pass\n",
        "await cursor.close()\n",
        "parts.find({}, None, 0, 1)\n",
        "parts.find(*arguments)\n",
        "client.nodes\n",
        "thing.close()\n",
        "await asyncio.wait([asyncio.create_task(parts.drop())])\n",
        "thing.primary\n",
        "client['close'].close\n",
        "client.other.parts.next_step\n",
        "await bucket.open_download_stream(1)\n",
        "close = 1; close()\n",
        "parts.insert_one({}).__name__\n",
        "x = asyncio.create_task(unknown.to_list(5))\nx.add_done_callback(f)\n",
        "x = unknown.spawn()\nx.add_done_callback(f)\n",
        "class A(AsyncMongoClient): pass\n",
        "things.each(f)\n",
        "async for document in cursor: pass\n",
        "client.close()  # port: keep\n",
        "while await cursor.fetch_next:  # port: keep\n    d = cursor.next_object()  # port: keep\n    print(d)\n",
    ],
)
def test_what_is_the_same(same: str) -> None:
    assert body(same) == (same, [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("client.get_io_loop()\n", "asyncio.get_running_loop()"),
        ("db.get_io_loop\n", "asyncio.get_running_loop()"),
        ("client.io_loop\n", "asyncio.get_running_loop()"),
        ("unknown.get_io_loop()\n", "asyncio.get_running_loop()"),
        ("cursor.each(f)\n", "async for document in cursor: callback(document)"),
        ("x = await cursor.fetch_next\n", "async for document in cursor"),
        ("x = unknown.next_object()\n", "async for document in cursor"),
        ("db.wrap(x)\n", "nothing to wrap"),
        ("file.stream_to_handler(h)\n", "readchunk"),
        ("parts.delegate\n", "no synchronous object"),
        ("parts.find_one().add_done_callback(f)\n", "asyncio.ensure_future"),
        ("x = parts.find_one()\nx.add_done_callback(f)\n", "asyncio.ensure_future"),
        ("parts.insert_one({})\n", "a coroutine does not"),
        ("atexit.register(client.close)\n", "what calls it must await it"),
        ("f(lambda: client.close())\n", "must be awaited, and nothing can be awaited here"),
        ("def g(): client.close()\n", "must be awaited, and nothing can be awaited here"),
        ("unknown.to_list(5).add_done_callback(f)\n", "asyncio.ensure_future"),
        ("x = self.raw.to_list(5)\nx.add_done_callback(f)\n", "asyncio.ensure_future"),
        ("class A(AsyncIOMotorCursor): pass\n", "only the driver makes these objects"),
        ("self.raw_cursor.each(f)\n", "async for document in cursor: callback(document)"),
        ("parts.find(None, None, 0, 0, *others)\n", "name them: no_cursor_timeout=..."),
        ("async for x, y in file: pass\n", "readchunk"),
        ("await asyncio.wait([parts.insert_one({}), parts.drop()])\n", "it takes no coroutines"),
        ("await asyncio.wait({parts.insert_one(d) for d in docs})\n", "it takes no coroutines"),
        ("calls = [parts.insert_one(d) for d in docs]\nawait asyncio.wait(calls)\n", "it takes no coroutines"),
        ("AsyncIOMotorCollection(db, 'x', create=True)\n", "use create_collection"),
        ("x = [client.close() for _ in y]; z = (client.close() for _ in y)\n", "nothing can be awaited here"),
    ],
)
def test_what_a_person_has_to_change(text: str, expected: str) -> None:
    _, lines = body(text)
    assert any(": by hand: " in line and expected in line for line in lines), lines


def test_methods_outside_of_functions() -> None:
    (line,) = report("from motorlite import AsyncMongoClient\nclient = AsyncMongoClient()\nclient.close()\n")
    assert line == "3: by hand: client.close() -> must be awaited, and nothing can be awaited here"


def test_an_argument_that_is_left_out_takes_its_line_along() -> None:
    head = "from motorlite import AsyncMongoClient\nclient = AsyncMongoClient("
    for comma in (",  # gone", "", ","):
        after = written(f"{head}\n    'a',  # here\n    io_loop=loop{comma}\n)\n")
        assert after == f"{head}\n    'a',  # here\n)\n"
    kept = f"{head}'a', io_loop=loop)  # port: keep\n"
    assert written(kept) == kept


# --- loops ---


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "while await cursor.fetch_next:\n    # One of them.\n    doc = cursor.next_object()\n    print(doc)\n",
            "async for doc in cursor:\n    # One of them.\n    print(doc)\n",
        ),
        (
            "while (await cursor.fetch_next):  # all\n"
            "    a['x'] = cursor.next_object()\n\n    use(a)\nelse:\n    end()\n",
            "async for a['x'] in cursor:  # all\n\n    use(a)\nelse:\n    end()\n",
        ),
        (
            "async for chunk in file:\n    print(chunk)\n    continue\n",
            "while chunk := await file.readchunk():\n    print(chunk)\n    continue\n",
        ),
    ],
)
def test_loops(before: str, after: str) -> None:
    after_head = written(HEAD + indent(before, "    "))
    assert dedent(after_head.partition("):\n")[2]) == after
    assert report(after_head) == []


@pytest.mark.parametrize(
    "loop",
    [
        "while await cursor.fetch_next:\n    print(cursor.next_object())\n",
        "while await cursor.fetch_next:\n    doc = cursor.next_object()\n    last = cursor.next_object()\n",
        "while await cursor.fetch_next:\n    doc = other.next_object()\n    print(doc)\n",
        "while await cursor.fetch_next:\n    doc = cursor.next_object()\n",
        "while await cursor.fetch_next: print(cursor.next_object())\n",
        "while await cursor.fetch_next:\n    if 1: pass\n    doc = cursor.next_object()\n",
        "while await cursor.fetch_next:\n    a = b = cursor.next_object()\n    print(a)\n",
        "while await cursor.fetch_next:\n    doc = 1\n    print(cursor.next_object())\n",
    ],
)
def test_loops_that_a_person_has_to_change(loop: str) -> None:
    text, lines = body(loop)
    assert text == loop
    assert any(": by hand: " in line for line in lines)


# --- after the change ---


@pytest.mark.parametrize(
    ("call", "is_reported"),
    [
        ("asyncio.create_task(parts.aggregate([]))", True),
        ("group.create_task(parts.list_indexes())", True),
        ("asyncio.run_coroutine_threadsafe(parts.watch(), loop)", True),
        ("background.add_task(parts.aggregate, [])", True),
        ("BackgroundTask(parts.aggregate_raw_batches, [])", True),
        ("asyncio.create_task(parts.find_one())", False),
        ("asyncio.create_task(parts.find().to_list())", False),
        ("asyncio.create_task(task)", False),
        ("asyncio.ensure_future(parts.aggregate([]))", False),
        ("background.add_task(parts.insert_one, {})", False),
        ("background.add_task(unknown.aggregate, [])", False),
        ("background.add_task(send, [])", False),
        ("asyncio.create_task()", False),
    ],
)
def test_a_cursor_is_no_coroutine(call: str, is_reported: bool) -> None:
    head = "from pymongo.asynchronous.collection import AsyncCollection\nasync def f(parts: AsyncCollection):\n"
    lines = report(f"{head}    {call}\n")
    assert any("which is no coroutine: `asyncio.ensure_future`" in line for line in lines) is is_reported


def test_a_call_that_is_passed_on_is_no_difference_in_pymongos_programs() -> None:
    text = """\
        import asyncio
        from motorlite import AsyncMongoClient
        async def f(client: AsyncMongoClient):
            await asyncio.gather(client.close(), client.shop.parts.drop())
            asyncio.create_task(client.aconnect())
            return client.close()
    """
    assert report(text) == []


def test_objects_that_only_the_driver_makes() -> None:
    text = """\
        from pymongo import monitoring
        from pymongo.asynchronous.cursor import AsyncCursor
        event = monitoring.CommandStartedEvent({}, "db", 1, ("a", 1), 1)
        AsyncCursor(collection, limit=1)
        def f(event: monitoring.CommandStartedEvent): ...
    """
    after, lines = ported({"a.py": text})["a.py"]
    by_hand = [line for line in lines if "by hand" in line]
    assert [line.partition(" -> ")[0] for line in by_hand] == [
        "3: by hand: monitoring.CommandStartedEvent",
        "4: by hand: AsyncCursor",
    ]
    assert report(after) == by_hand


# --- objects of modules that are imported by name ---


def test_objects_whose_class_comes_from_nowhere_are_followed() -> None:
    text = """\
        class Storage:
            def __init__(self, dependencies):
                self.lib = dependencies["motor.motor_asyncio"].module
                self.client = self.lib.AsyncIOMotorClient("mongodb://a", io_loop=loop)
                self.other = dependencies["pymongo"].module.AsyncMongoClient()

            async def stop(self):
                self.client.close()
                self.other.close()
                print(self.client.primary)
    """
    after, lines = ported({"a.py": text})["a.py"]
    assert "        await self.client.close()\n        await self.other.close()\n" in after
    assert "print(await self.client.primary)" in after
    assert 'AsyncIOMotorClient("mongodb://a")' in after
    assert [line.partition(":")[0] for line in lines if ": by hand: " in line] == ["3", "4", "5"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("self.mongo.close()", "client"),
        ("motor_client.close()", "client"),
        ("app.state.client.close()", "client"),
        ("self.raw_cursor.rewind()", "cursor"),
        ("cursor.add_option(2)", "cursor"),
        ("grid_out.seek(0)", "file"),
    ],
)
def test_what_may_have_to_be_awaited(call: str, what: str) -> None:
    (line,) = report(f"from motorlite import AsyncCollection\nasync def f():\n    {call}\n")
    assert line.startswith(f"3: by hand: {call} -> `await` it, if it is a {what}'s: ")
    # In a program of something else, or with PyMongo's own client, it is right.
    assert report(f"import collections\nasync def f():\n    {call}\n") == []
    lines = report(f"from pymongo import MongoClient\nasync def f():\n    {call}\n")
    assert all(": stays: " in each for each in lines)


@pytest.mark.parametrize(
    "text",
    [
        *("await self.mongo.close()", "file.close()", "session.close()", "x = client.close()", "tape.rewind()"),
        *("parser.add_option(1)", "file.seek(0)", "await cursor.rewind()"),
    ],
)
def test_what_is_something_else(text: str) -> None:
    assert report(f"from motorlite import AsyncCollection\nasync def f():\n    {text}\n") == []
