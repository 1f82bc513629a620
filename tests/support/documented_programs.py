"""What the programs of each page need to run as a test (`code_blocks.Page`), and the files that some expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trustme

from tests.support.code_blocks import Case, Page

if TYPE_CHECKING:
    from pathlib import Path

PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", ".")

# Runs the worker of the recipe on ten jobs, and ends it by a signal when they are done.
WORKER: Final = """
import asyncio, os, signal, subprocess, sys
from datetime import datetime
from motorlite import AsyncMongoClient

async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"]) as client:
        jobs = client.shop.jobs
        await jobs.insert_many([{"_id": n, "done": False, "claimed_until": datetime(1970, 1, 1)} for n in range(10)])
        process = subprocess.Popen([sys.executable, "worker.py"], stdout=subprocess.PIPE, text=True)
        while await jobs.count_documents({"done": False}):
            assert process.poll() is None, process.returncode
            await asyncio.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        printed, _ = await asyncio.to_thread(process.communicate)
        assert process.returncode == 0, process.returncode
        assert sorted(printed.splitlines()) == sorted(f"job {n}" for n in range(10)), printed
        print(printed)

asyncio.run(main())
"""

# Kills the consumer of the recipe between two groups of orders: the second process begins where the first one stopped.
# Before that, one ends in its very first change.
CONSUMER: Final = """
import asyncio, os, subprocess, sys
from motorlite import AsyncMongoClient

FAILING = '''
import asyncio, consumer, os

async def handle(change):
    print("order", change["documentKey"]["_id"], flush=True)
    os._exit(1)

consumer.handle = handle
asyncio.run(consumer.main())
'''

async def main():
    async with AsyncMongoClient(os.environ["MONGODB_URI"]) as client:
        shop = client.shop
        await shop.create_collection("orders")
        process = subprocess.Popen([sys.executable, "-c", FAILING], stdout=subprocess.PIPE, text=True)
        while process.poll() is None:
            await shop.orders.insert_one({})
            await asyncio.sleep(0.05)
        failed_at, _ = process.communicate()
        assert await shop.tokens.find_one("orders") is not None
        process = subprocess.Popen([sys.executable, "consumer.py"], stdout=subprocess.PIPE, text=True)
        assert await asyncio.to_thread(process.stdout.readline) == failed_at
        process.kill()
        process.communicate()
        await shop.tokens.drop()

        async def consume(first):
            process = subprocess.Popen([sys.executable, "consumer.py"], stdout=subprocess.PIPE, text=True)
            # A consumer stores a token even where nothing has changed, so it is watching from then on.
            before = await shop.tokens.find_one("orders")
            while await shop.tokens.find_one("orders") == before:
                assert process.poll() is None, process.returncode
                await asyncio.sleep(0.05)
            await shop.orders.insert_many([{"_id": n} for n in range(first, first + 3)])
            seen = [await asyncio.to_thread(process.stdout.readline) for _ in range(3)]
            process.kill()
            process.communicate()
            return seen

        first = await consume(0)
        assert first == [f"order {n}\\n" for n in range(3)], first
        await shop.orders.insert_one({"_id": 3})
        process = subprocess.Popen([sys.executable, "consumer.py"], stdout=subprocess.PIPE, text=True)
        while (line := await asyncio.to_thread(process.stdout.readline)) != "order 3\\n":
            # Killed before its token was stored: the same order again, as the page says.
            assert line == "order 2\\n", line
        process.kill()
        process.communicate()
        print("order 3")

asyncio.run(main())
"""

WATCH: Final = """
import asyncio
import os
from motorlite import AsyncMongoClient
from motorlite.testing import failpoints

async def refuse_once():
    async with AsyncMongoClient(os.environ["MONGODB_URI"]) as client:
        await client.admin.command(failpoints.overload(times=1, commands=["find"]))

asyncio.run(refuse_once())
"""

TOUR: Final = """
import asyncio
from motorlite import AsyncMongoClient

async def main():
    async with AsyncMongoClient("mongodb://localhost:27017") as client:
        await client.test.movies.insert_one({"year": 1979})
        """

CALLS: Final = """
loop.run_until_complete(client.shop.parts.insert_one({"_id": 7}))
print(handler({"part": 7}, None), handler({"part": 8}, None))
loop.run_until_complete(client.close())
loop.close()
"""

MOTOR: Final = "import warnings\nwarnings.simplefilter('ignore', DeprecationWarning)\n"

# Not every machine can build the package, and its clients are made but not used.
AS_IF_INSTALLED: Final = """
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

sys.modules["gssapi"] = ModuleType("gssapi")
sys.modules["gssapi"].__spec__ = ModuleSpec("gssapi", None)

"""
LOGGED: Final = """
import asyncio
from motorlite import AsyncMongoClient

async def main():
    async with AsyncMongoClient("mongodb://localhost:27017") as client:
        await client.admin.command("ping")

asyncio.run(main())
"""

PRIORITIES: Final = """
import asyncio

async def use():
    async with motorlite.AsyncMongoClient("mongodb://localhost:27017", maxPoolSize=1, wait_queue=queue) as client:
        await asyncio.gather(*(handle(client, tier) for tier in ("gold", "free", "free")))
        (server,) = client.stats().servers.values()
        print(dict(server.queue.priorities))

asyncio.run(use())
"""

DEGRADED: Final = """
import asyncio

async def use():
    async with client:
        await client.shop.parts.insert_one({"_id": 7})
        print(await stock({7: "cached"}), await report())

asyncio.run(use())
"""

ORDERS: Final = """
import asyncio

async def use():
    async with client:
        first, second = await order(7), await order(8)
        print(first.status_code, second.status_code, second.headers["retry-after"])

asyncio.run(use())
"""

# The page "" is every page that is not listed.
PAGES: Final[dict[str, Page]] = {
    "": Page(),
    "README.md": Page(cases=(Case("insert_many", prints="{'_id': 3, 'name': 'part 3', 'stock': 23}"),)),
    "docs/architecture.md": Page(
        cases=(Case("client.test.movies", before=TOUR, after="\nasyncio.run(main())\n", prints="1979"),),
        # The loop becomes one line of the program around it.
        replace={":\n    ...\n": ": print(movie['year'])\n"},
    ),
    "docs/authentication.md": Page(
        is_one_program=True,
        cases=(
            Case("my_identity_provider", before="async def my_identity_provider(timeout): ...\n"),
            Case('authMechanism="GSSAPI")', before=AS_IF_INSTALLED),
        ),
    ),
    "docs/documents.md": Page(is_one_program=True),
    "docs/events.md": Page(
        cases=(
            Case("class Watch", before=WATCH, prints="find failed (overload), next in 0."),
            Case("basicConfig", after=LOGGED, prints='DEBUG motorlite.command Command "ping" started'),
        ),
    ),
    "docs/limits.md": Page(
        is_one_program=True,
        cases=(Case("async def order", after=ORDERS, prints="200 503 1"),),
        # A server that exists, and a limit that the second request meets.
        replace={"mongodb://db.example": "mongodb://localhost:27017", "rate=2000": "rate=1"},
    ),
    "docs/metrics.md": Page(
        cases=(
            Case("PrometheusCollector", prints='motorlite_attempts_total{client="shop",server="'),
            Case("OpenTelemetryMetrics", prints="db.client.operation.duration"),
            Case("TracerProvider()", prints='"server selection"'),
        ),
    ),
    "docs/ecosystem.md": Page(
        cases=(Case("from beanie", after="import asyncio\nasyncio.run(main())\n", prints="title='Alien'"),),
        replace={"AsyncMongoClient()": "AsyncMongoClient('mongodb://localhost:27017')"},
    ),
    "docs/performance.md": Page(cases=(Case("def handler", after=CALLS, prints="{'_id': 7} None"),)),
    # Motor has deprecated what the program before its port uses.
    "docs/porting-from-motor.md": Page(cases=(Case("from motor.motor_asyncio", before=MOTOR),)),
    "docs/recipes/change-stream-consumers.md": Page(commands=(("-c", CONSUMER),)),
    "docs/recipes/fastapi.md": Page(commands=(PYTEST,)),
    "docs/recipes/forking-workers.md": Page(commands=(("pool.py",),)),
    "docs/recipes/pytest.md": Page(commands=(PYTEST,)),
    "docs/recipes/trio.md": Page(commands=(("-c", WORKER),)),
    "docs/retry-strategies.md": Page(is_one_program=True),
    "docs/testing-kit.md": Page(
        cases=(
            Case("failpoints.overload", prints="mongodb://127.0.0.1:"),
            Case("proxy.black_hole", prints="mongodb://127.0.0.1:"),
        ),
    ),
    # A busy machine needs longer than the page says.
    "docs/timeouts.md": Page(replace={"timeoutMS=100)": "timeoutMS=10_000)"}),
    "docs/tutorial-trio.md": Page(is_one_program=True, logs=True),
    "docs/tutorial.md": Page(is_one_program=True, logs=True),
    "docs/wait-queue.md": Page(
        cases=(
            Case("async def handle", after=PRIORITIES, prints="90: 1"),
            Case("async def stock", after=DEGRADED, prints="{'_id': 7} [{'_id': 7}]"),
        ),
    ),
}


def certificates(folder: Path) -> None:
    """Write the files of TLS that examples name."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    authority.issue_cert("ada").private_key_and_cert_chain_pem.write_to_path(str(folder / "client.pem"))
