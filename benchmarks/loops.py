"""Shell: event loops as applications use them: asyncio, uvloop and trio themselves, or anyio on top of asyncio.

anyio's backend costs motorlite something when it is loaded, since it then looks for cancel scopes. Nothing but the arm
for anyio may therefore import it.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    Work = Callable[[], Coroutine[Any, Any, None]]


class Loop(NamedTuple):
    """An event loop and what runs on it."""

    name: str
    # Runs a main program.
    run: Callable[[Work], None]
    # Runs functions at the same time, until all have returned.
    all_of: Callable[[Iterable[Work]], Coroutine[Any, Any, None]]
    # Calls a function in a thread.
    in_thread: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]
    # Waits until it is cancelled.
    forever: Work


async def _all_asyncio(works: Iterable[Work]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work())


async def _forever_asyncio() -> None:
    await asyncio.get_running_loop().create_future()


def _run_uvloop(main: Work) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def _run_trio(main: Work) -> None:
    import trio

    trio.run(main)


async def _all_trio(works: Iterable[Work]) -> None:
    import trio

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(work)


async def _thread_trio(function: Callable[[], Any]) -> Any:
    import trio

    return await trio.to_thread.run_sync(function)


async def _forever_trio() -> None:
    import trio

    await trio.sleep_forever()


def _run_anyio(main: Work) -> None:
    import anyio

    anyio.run(main)


ASYNCIO = Loop("asyncio", lambda main: asyncio.run(main()), _all_asyncio, asyncio.to_thread, _forever_asyncio)
UVLOOP = ASYNCIO._replace(name="uvloop", run=_run_uvloop)
TRIO = Loop("trio", _run_trio, _all_trio, _thread_trio, _forever_trio)
ANYIO = ASYNCIO._replace(name="anyio", run=_run_anyio)


def _run_plain(main: Work) -> None:
    coroutine = main()
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("without an event loop nothing can be waited for")


async def _all_threads(works: Iterable[Work]) -> None:
    with ThreadPoolExecutor(32) as pool:
        for done in [pool.submit(_run_plain, work) for work in works]:
            done.result()


async def _forever_thread() -> None:
    threading.Event().wait()


async def _call(function: Callable[[], Any]) -> Any:
    return function()


# No event loop: coroutines that never wait for anything, in threads where others have tasks. For blocking drivers.
THREADS = Loop("threads", _run_plain, _all_threads, _call, _forever_thread)
