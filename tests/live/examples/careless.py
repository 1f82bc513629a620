"""A program that leaves a task and a client behind: the tests of the examples must notice."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from motorlite import AsyncMongoClient


async def main(uri: str) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri)
    await client.admin.command("ping")
    left = asyncio.create_task(asyncio.sleep(1_000))
    await asyncio.sleep(0)
    assert not left.done()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
