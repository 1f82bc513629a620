"""Shell: what is random or of this machine, made a function of the seed while a simulation runs.

`Dependencies` injects most of it. What is left are the ids that `bson` and the driver make from the operating system's
randomness, the wall clock in them, and the order of sets, which follows addresses in memory.
"""

from __future__ import annotations

import datetime
import gc
from contextlib import ExitStack, contextmanager
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import bson.objectid
from bson.binary import Binary
from bson.objectid import ObjectId

from motorlite._connection import connection, messages
from motorlite._connection.connection import Connection
from motorlite._execution import sender
from motorlite._gridfs import upload
from motorlite._net import host
from motorlite._net.on_asyncio.runtime import AsyncioRuntime, AsyncioWaiter

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from motorlite._client.core import Core
    from motorlite._net.runtime import Runtime

EPOCH: Final = 1_700_000_000.0
"""The wall clock, in seconds since 1970, when the loop's clock is 0."""


class _Waiter(AsyncioWaiter):
    """A waiter with a hash of its own."""

    __slots__ = ("_number",)

    def __init__(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        super().__init__(loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number


class SimulatedRuntime(AsyncioRuntime):
    """The runtime on asyncio, with waiters whose order in sets does not depend on addresses."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()

    def waiter(self) -> AsyncioWaiter:
        return _Waiter(self._loop, next(self._numbers))


class _Ordered(dict[Any, None]):
    """A set in the order of its additions."""

    def add(self, item: Any) -> None:
        self[item] = None

    def discard(self, item: Any) -> None:
        self.pop(item, None)

    remove = discard


def order_sets(core: Core) -> None:
    """Replace the sets of a client that has not been used yet by such that keep the order of additions."""
    setattr(core.open_cursors, "data", _Ordered())  # noqa: B010  # not in the stubs
    bind = core._bind

    def bind_and_order(runtime: Runtime) -> None:
        bind(runtime)
        setattr(core.executor, "open_transactions", _Ordered())  # noqa: B010  # which is no set

    setattr(core, "_bind", bind_and_order)  # noqa: B010


@contextmanager
def frozen(seed: int, now: Callable[[], float]) -> Iterator[None]:
    """Make ids, their times and the order of sets depend on nothing but the seed. `now` is the loop's clock."""
    chance = Random(f"ids {seed}")
    ids = count(1)

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return datetime.datetime.fromtimestamp(EPOCH + now(), tz)

    with ExitStack() as stack:

        def replace(target: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(target, name, value))

        for module in (connection, messages, sender):
            replace(module, "next_request_id", ids.__next__)
        replace(host, "session_id", lambda: Binary(chance.randbytes(16), 4))
        replace(ObjectId, "_inc", chance.randrange(2**24))
        replace(ObjectId, "_random", classmethod(lambda _: b"motor"))
        replace(bson.objectid, "time", SimpleNamespace(time=lambda: EPOCH + now()))
        replace(upload, "datetime", SimpleNamespace(datetime=Clock, UTC=datetime.UTC))
        replace(Connection, "__hash__", lambda connection: connection.id)
        gc.collect()
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
