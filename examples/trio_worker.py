"""A worker on trio: several tasks take jobs from a collection, and share one client.

    python -m examples.trio_worker "mongodb://localhost:27017/?replicaSet=rs0"

Each job is a document such as ``{"numbers": [1, 2, 3]}`` in ``work.jobs``. A task takes the oldest one for a minute,
works on it, and stores the result:

- Two tasks never take the same job: taking it is one update of one document. If the primary fails meanwhile, the driver
  repeats the update, and the server recognises the repetition (retryable writes).
- A result is stored once, and only by the task that holds the job at that time.
- The work itself may be done twice: a worker that is killed leaves its job, and another one takes it after the minute.
  Effects outside of the database, such as a mail, must bear that.

SIGTERM ends the worker after the jobs that it has begun.
"""

from __future__ import annotations

import logging
import signal
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import trio
from bson import ObjectId

from motorlite import ASCENDING, AsyncCollection, AsyncMongoClient, ReturnDocument
from motorlite.errors import PyMongoError

Document = dict[str, Any]
Jobs = AsyncCollection[Document]

TASKS = 4
LEASE = timedelta(minutes=1)
IDLE_SECONDS = 0.5
# After an error. The driver itself has then tried for as long as `timeoutMS`.
ERROR_SECONDS = 1.0

log = logging.getLogger("worker")


async def take(jobs: Jobs) -> Document | None:
    """Take the oldest job that no worker has; None if there is none."""
    now = datetime.now(UTC)
    return await jobs.find_one_and_update(
        {"result": None, "leased_until": {"$not": {"$gt": now}}},
        {"$set": {"lease": ObjectId(), "leased_until": now + LEASE}, "$inc": {"taken": 1}},
        sort=[("_id", ASCENDING)],
        return_document=ReturnDocument.AFTER,
    )


async def store(jobs: Jobs, job: Document, result: int) -> bool:
    """Store a result; False if the job has taken too long and is another task's by now."""
    change = {"$set": {"result": result}, "$unset": {"lease": 1, "leased_until": 1}, "$inc": {"stored": 1}}
    updated = await jobs.update_one({"_id": job["_id"], "lease": job["lease"]}, change)
    return updated.modified_count == 1


async def work(job: Document) -> int:
    """The work: the sum of some numbers, slowly."""
    await trio.sleep(0.02)
    return sum(job["numbers"])


async def run_task(jobs: Jobs, stopping: trio.Event) -> None:
    """Take jobs, one after the other."""
    while not stopping.is_set():
        try:
            job = await take(jobs)
            if job is not None:
                if not await store(jobs, job, await work(job)):
                    log.warning("job %s took longer than %s", job["_id"], LEASE)
                continue
        except PyMongoError as error:
            # One task's error is no reason to end the others. The job is taken again when its lease has ended.
            log.warning("no database: %s", error)
            await _pause(ERROR_SECONDS, stopping)
        else:
            await _pause(IDLE_SECONDS, stopping)


async def _pause(seconds: float, stopping: trio.Event) -> None:
    with trio.move_on_after(seconds):
        await stopping.wait()


async def stop_on_signal(stopping: trio.Event, *, task_status: trio.TaskStatus[None]) -> None:
    """Wait for SIGTERM or Ctrl-C, and then let the tasks finish."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            stopping.set()
            return


async def main(uri: str) -> None:
    async with AsyncMongoClient[Document](uri, timeoutMS=20_000, w="majority") as client:
        jobs = client.work.jobs
        await jobs.create_index([("result", ASCENDING), ("_id", ASCENDING)])
        stopping = trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_on_signal, stopping)
            for _ in range(TASKS):
                nursery.start_soon(run_task, jobs, stopping)
            log.info("ready")
    log.info("stopped")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    trio.run(main, sys.argv[1] if len(sys.argv) > 1 else "mongodb://localhost:27017")
