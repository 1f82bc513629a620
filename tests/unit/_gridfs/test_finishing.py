"""What is done for a call that was cancelled, and when."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import anyio.lowlevel
import pytest

from motorlite._gridfs.store import LIMIT, finish, have_replies_arrived, is_cancellation
from motorlite.errors import OperationFailure
from tests.support.stored_files import stored_files

pytestmark = pytest.mark.anyio


async def test_cancellations() -> None:
    async with stored_files() as (_, _, client):
        chunks = client.db.fs.chunks
        assert is_cancellation(asyncio.CancelledError(), chunks)
        assert is_cancellation(BaseException(), chunks)
        for error in (GeneratorExit(), KeyboardInterrupt(), SystemExit(), OSError(), OperationFailure("no")):
            await client.admin.command("ping")
            assert not is_cancellation(error, chunks)
        for seconds, is_over in ((60, False), (-1, True)):
            found = []
            with anyio.move_on_after(seconds):
                found += [is_cancellation(error, chunks) for error in (OperationFailure("no"), GeneratorExit())]
                await anyio.lowlevel.checkpoint()
            assert found == [is_over, False]


async def test_it_is_neither_cancelled_nor_endless() -> None:
    async with stored_files() as (_, _, client):
        await client.admin.command("ping")
        done: list[str] = []
        error = RuntimeError("mine")

        async def work(seconds: float) -> None:
            await anyio.sleep(seconds)
            done.append("done")

        started = anyio.current_time()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await finish(client.db.fs.chunks, error, lambda: work(LIMIT - 1))
        assert done == ["done"]
        assert not hasattr(error, "__notes__")
        await finish(client.db.fs.chunks, error, lambda: work(inf))
        assert anyio.current_time() - started == pytest.approx(2 * LIMIT - 1)
        assert error.__notes__ == ["there may be chunks without a file in db.fs.chunks: 5 s were not enough"]


async def test_errors_become_notes() -> None:
    async def work() -> None:
        raise OperationFailure("not now", 5)

    async def bug() -> None:
        raise ZeroDivisionError

    async with stored_files() as (_, _, client):
        await client.admin.command("ping")
        error: Any = RuntimeError("mine")
        await finish(client.db.fs.chunks, error, work)
        assert error.__notes__ == ["there may be chunks without a file in db.fs.chunks: not now"]
        with pytest.raises(ZeroDivisionError):
            await finish(client.db.fs.chunks, error, bug)


async def test_without_a_server() -> None:
    async with stored_files() as (files, _, client):
        files.deployment.step_down(None)
        error: Any = RuntimeError("mine")
        await finish(client.db.fs.chunks, error, anyio.sleep_forever)
        assert error.__notes__[0].endswith("db.fs.chunks: no server is known that takes writes")


@pytest.mark.parametrize("limit", [None, 60_000])
@pytest.mark.parametrize(("seconds", "has_arrived"), [(0.5, True), (30, False)])
async def test_replies_to_cancelled_operations(seconds: float, has_arrived: bool, limit: int | None) -> None:
    async with stored_files() as (files, _, client):
        chunks = client.db.fs.chunks
        assert await have_replies_arrived(chunks)
        await chunks.insert_one({"files_id": 1, "n": 0})
        files.delays["insert"] = seconds
        started = anyio.current_time()
        with anyio.move_on_after(0.1):
            await chunks.insert_one({"files_id": 1, "n": 1}, timeoutMS=limit)
        assert await have_replies_arrived(chunks) is has_arrived
        if has_arrived:
            assert len(files.chunks) == 2
            assert anyio.current_time() - started == pytest.approx(0.5, abs=0.02)
        else:
            assert anyio.current_time() - started < 4
