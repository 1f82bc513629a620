"""The README's examples are run, each in a process of its own, against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS

if TYPE_CHECKING:
    from motorlite.testing import LocalServer

README: Final = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES: Final = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
LOCAL: Final = "mongodb://localhost:27017"

USE_THE_DEADLINE: Final = """
import asyncio

async def use(uri):
    async with motorlite.AsyncMongoClient(uri) as client:
        await client.shop.orders.insert_one({"open": True})
        found = await orders(client)
        assert found, found
        await report(client)
        await client.drop_database("shop")

asyncio.run(use("mongodb://localhost:27017"))
"""
WATCH_A_RETRY: Final = """
import asyncio

async def use():
    Watch().retry(RetryEvent("find", 1, permitted=True, reason="overload", refusal=None, delay=0.1, attempt=1,
                             tokens=999.0, address=None, error=ValueError(), deprioritized=False))
    async with client:
        print(await client.admin.command("ping"))

asyncio.run(use())
"""
# What is run after an example, and what is then printed.
RUNS: Final = {
    "insert_many": ("", "{'_id': 3, 'name': 'part 3', 'stock': 23}"),
    "motorlite.timeout(2)": (USE_THE_DEADLINE, "1000.0 of 1000 retry tokens left"),
    "class Watch": (WATCH_A_RETRY, "find failed (overload), next in 0.100 s"),
    "WaitQueue(": ("", " operations waited for a connection"),
    "failpoints.overload": ("", "mongodb://127.0.0.1:"),
    "proxy.black_hole": ("", "mongodb://127.0.0.1:"),
}


def test_every_example_is_run() -> None:
    for example in EXAMPLES:
        assert sum(mark in example for mark in RUNS) == 1, example


@pytest.mark.parametrize("mark", RUNS)
def test_example(mark: str, replica_set: LocalServer) -> None:
    (example,) = (text for text in EXAMPLES if mark in text)
    more, expected = RUNS[mark]
    # A database of the suite's own: the server may be somebody's.
    source = (
        (NO_WORD_ABOUT_SLOW_STEPS + example + more)
        .replace(LOCAL, replica_set.uri)
        .replace("shop", "motorlite_test_readme")
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", source],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert not done.stderr
