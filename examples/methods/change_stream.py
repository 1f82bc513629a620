"""`parts` is an `AsyncCollection`; change streams need a replica set or a sharded cluster."""

from __future__ import annotations

from motorlite import AsyncCollection


async def close(parts: AsyncCollection) -> None:
    stream = await parts.watch()
    try:
        print(await stream.try_next())
        # > None
    finally:
        await stream.close()  # `async with stream:` does the same


async def next(parts: AsyncCollection) -> None:
    async with await parts.watch() as stream:
        await parts.delete_one({"_id": 1})
        change = await stream.next()  # waits for it; `async for change in stream` repeats it
        print(change["operationType"], change["documentKey"])
        # > delete {'_id': 1}


async def to_list(parts: AsyncCollection) -> None:
    async with await parts.watch() as stream:
        await parts.insert_many([{"_id": 4}, {"_id": 5}])
        print([change["documentKey"]["_id"] for change in await stream.to_list(2)])
        # > [4, 5]


async def try_next(parts: AsyncCollection) -> None:
    async with await parts.watch() as stream:
        while (change := await stream.try_next()) is not None:
            print(change["operationType"])
        print(stream.resume_token is not None)  # worth storing, even if nothing has changed
        # > True
