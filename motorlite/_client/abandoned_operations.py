"""Shell: kills, in the background, operations that their callers left and that the server would not end by itself.

An operation is found among those in progress by its comment, and killed on the server that executes it. On a mongod,
neither needs a privilege: a user may see and kill operations of its own. On a mongos, both need one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.values import format_address
from motorlite._client.leftovers import Cleanup
from motorlite._observe.reachability import safe_log
from motorlite._operations.commands import RunCommand
from motorlite._wire.replies import document, documents
from motorlite.errors import PyMongoError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from motorlite._base.values import Address
    from motorlite._net.runtime import BackgroundTask

# Seconds that one command may take, including the wait for a connection.
LIMIT: Final = 5.0
# Seconds before the second look for operations that the first one missed: a busy server may not have begun with them.
PAUSE: Final = 0.5
# The operations of one server that wait to be killed, at most. Their connections close anyway, a second after their
# callers left, and servers since 4.2 then end them too.
MOST: Final = 1000
# The killOp commands that run at the same time on one server.
AT_ONCE: Final = 16

_logger = logging.getLogger("motorlite.client")


def in_progress(address: Address, comments: Collection[str], more: Mapping[str, Any]) -> RunCommand:
    """Return the command that lists the numbers of the server's operations with these comments.

    `more`: further fields of the command.
    """
    pipeline = [
        {"$currentOp": {"allUsers": False}},
        {"$match": {"command.comment": {"$in": list(comments)}}},
        {"$project": {"opid": 1, "comment": "$command.comment"}},
    ]
    return _on(address, {"aggregate": 1, "pipeline": pipeline, "cursor": {"batchSize": MOST + 1}, **more})


def kill(address: Address, opid: Any, more: Mapping[str, Any]) -> RunCommand:
    """Return the command that kills one operation. On a mongos, `opid` also names the shard."""
    return _on(address, {"killOp": 1, "op": opid, **more})


def _on(address: Address, command: Mapping[str, Any]) -> RunCommand:
    # Sent to secondaries too.
    return RunCommand("admin", command, selector=address, read_preference=ReadPreference.PRIMARY_PREFERRED)


@dataclass(eq=False, repr=False)
class AbandonedOperations(Cleanup):
    """The abandoned operations of one client."""

    is_strict: bool = False
    # The comments of operations to kill, and the task that does. A server is listed while a task serves it.
    _waiting: dict[Address, set[str]] = field(default_factory=dict)
    _tasks: dict[Address, BackgroundTask] = field(default_factory=dict)
    # How many servers are being asked at this moment.
    _looks: int = 0
    _is_stopped: bool = False
    _has_complained: bool = False

    @property
    def _exception(self) -> Mapping[str, Any]:
        """The stable API has neither $currentOp nor killOp, so a client that declares it strictly excepts them."""
        return {"apiStrict": False} if self.is_strict else {}

    def kill(self, address: Address, comment: str) -> None:
        """Kill the operation with this comment soon, together with others of its server."""
        if self._is_stopped:
            return
        waiting = self._waiting.get(address)
        if waiting is None:
            waiting = self._waiting[address] = set()
            self._tasks[address] = self.spawn(self._serve, address, name="kill of abandoned operations")
        if len(waiting) < MOST:
            waiting.add(comment)

    @property
    def is_busy(self) -> bool:
        """Whether there are operations to kill, apart from those that were looked for and are looked for again."""
        return self._looks > 0 or any(self._waiting.values())

    def stop(self) -> None:
        """Accept no more, because the client is closing."""
        self._is_stopped = True

    def cancel(self) -> None:
        """Leave the rest to the server, which since 4.2 ends reads whose connection closes."""
        for task in self._tasks.values():
            task.cancel()

    async def _serve(self, address: Address) -> None:
        waiting = self._waiting[address]
        missed: set[str] = set()
        try:
            while waiting or missed:
                comments, is_last = (waiting.copy(), False) if waiting else (missed, True)
                waiting.clear()
                self._looks += 1
                try:
                    found = await self._kill(address, comments)
                finally:
                    self._looks -= 1
                missed = set() if is_last else missed | (comments - found)
                if missed and not waiting:
                    await self.sleep(PAUSE)
        except PyMongoError as error:
            self._complain(address, error)
        finally:
            del self._waiting[address], self._tasks[address]

    async def _kill(self, address: Address, comments: set[str]) -> set[str]:
        """Kill the operations with these comments that are in progress. Return the comments found."""
        reply = await self.run(in_progress(address, comments, self._exception), LIMIT)
        found = documents(document(reply, "cursor"), "firstBatch")
        left = iter(found)
        from anyio import create_task_group

        # A server that has much to kill is slow, so that one after the other would be too late for most of them.
        async with create_task_group() as group:
            for _ in found[:AT_ONCE]:
                group.start_soon(self._kill_each, address, left)
        return {operation.get("comment") for operation in found}

    async def _kill_each(self, address: Address, operations: Iterator[Mapping[str, Any]]) -> None:
        try:
            for operation in operations:
                await self.run(kill(address, operation.get("opid"), self._exception), LIMIT)
        except PyMongoError as error:
            self._complain(address, error)

    def _complain(self, address: Address, error: PyMongoError) -> None:
        """Log the first failure: a cause that lasts would otherwise fill the log."""
        if self._has_complained or self._is_stopped:
            return
        self._has_complained = True
        safe_log(
            _logger,
            logging.WARNING,
            "an abandoned operation on %s could not be killed (further failures are not logged): %s",
            format_address(address),
            error,
        )
