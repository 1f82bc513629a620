"""Shell: tasks that do what the accounted operations leave out.

Cursors that are left or dropped, causally consistent sessions, and writes of many documents, which are not retryable.
"""

from __future__ import annotations

from typing import Final

from tests.torture.workload import Task

# Documents that a chore writes at once, and reads in batches.
_DOCUMENTS: Final = 5
_BATCH: Final = 2


class Chores(Task):
    """Operations without an outcome that anyone keeps."""

    limited = 0.3

    async def step(self) -> None:
        # Whatever it raises, `run` looks at it.
        await self.chance.choice((self._in_session, self._by_cursor, self._many))()

    async def _in_session(self) -> None:
        chores = self.client.chores.chores
        async with self.client.start_session() as session:
            await chores.insert_one({"_id": self.new_id(), "task": self.number}, session=session)
            for _ in range(3):
                await chores.find_one({"task": self.number}, session=session)

    async def _by_cursor(self) -> None:
        cursor = self.client.chores.chores.find({"task": self.number}, batch_size=_BATCH)
        left = self.chance.randrange(2 * _DOCUMENTS)
        async for _ in cursor:
            left -= 1
            if left < 0:
                break
        if self.chance.random() < 0.5:  # else it is dropped
            await cursor.close()

    async def _many(self) -> None:
        chores = self.client.chores.chores
        if self.chance.random() < 0.5:
            await chores.update_many({"task": self.number}, {"$inc": {"n": 1}})
            return
        await chores.insert_many([{"_id": self.new_id(), "task": self.number} for _ in range(_DOCUMENTS)])
