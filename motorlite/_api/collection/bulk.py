"""Shell: the batch loop of bulk writes. All commands share one deadline, one operation id and one session."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from motorlite._execution.call import Call
from motorlite._operations.writes.bulk_batch import BATCHES
from motorlite._operations.writes.bulk_merge import is_long, merge
from motorlite._operations.writes.bulk_result import BulkResult
from motorlite._operations.writes.slices import ITEMS, release
from motorlite._sessions.session import Session
from motorlite.errors import BulkWriteExecutionTimeout, PyMongoError
from motorlite.results import BulkWriteResult
from motorlite.write_concern import DEFAULT_WRITE_CONCERN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.settings import Settings
    from motorlite._api.turns import Turns
    from motorlite._client.core import Core
    from motorlite._operations.writes.bulk_batch import BulkBatch
    from motorlite._operations.writes.bulk_runs import Run


class BulkWrite:
    """The state shared by all batches of a bulk write.

    `options` are the command's options: `bypass_document_validation`, `let`, `comment`.
    """

    __slots__ = (
        "_core",
        "_has_begun",
        "_has_written",
        "_is_ordered",
        "_name",
        "_names",
        "_options",
        "_settings",
        "_turns",
        "_write_concern",
    )

    def __init__(
        self,
        core: Core,
        settings: Settings,
        names: tuple[str, str],
        turns: Turns,
        *,
        name: str,
        is_ordered: bool,
        options: Mapping[str, Any],
    ) -> None:
        self._core = core
        # The name of the operation, for its events.
        self._name = name
        self._settings = settings
        self._write_concern = settings.write_concern
        # The names of the database and the collection.
        self._names = names
        self._turns = turns
        # A command was sent, or at least tried.
        self._has_begun = False
        # A command was sent with success.
        self._has_written = False
        self._is_ordered = is_ordered
        self._options = options

    async def execute(self, runs: Sequence[Run], call: Call) -> dict[str, Any] | None:
        """Send all batches. An ordered bulk write stops at its first error.

        Returns:
            The merged results of the batches, or None for an unacknowledged write.

        Raises:
            BulkWriteError: A write failed, or its write concern was not satisfied.
            Exception: A command failed as a whole, or could not be encoded; `partial_result` describes the writes
                before it.
        """
        # One deadline and one operation id for all commands.
        operation_id = self._core.new_operation_id()
        if call.session is not None and call.session.in_transaction:
            self._write_concern = DEFAULT_WRITE_CONCERN  # only its commit has one
        call = Call(call.session, call.deadline, operation_id, call.options)
        with self._core.executor.published(self._name, *self._names, operation_id, call.session):
            return await self._execute_runs(runs, call)

    async def _execute_runs(self, runs: Sequence[Run], call: Call) -> dict[str, Any] | None:
        result = BulkResult(ordered=self._is_ordered)
        # One implicit session serves all batches. The first batch acquires its server session.
        # Unacknowledged writes have no session (driver sessions specification).
        is_acknowledged = self._write_concern.acknowledged
        implicit = Session(is_implicit=True) if call.session is None and is_acknowledged else None
        call = Call(call.session or implicit, call.deadline, call.operation_id, call.options)
        try:
            for run in runs:
                await self._execute_run(run, result, call)
                if not result.can_continue:
                    break
            for run in runs:
                if len(run.statements) > ITEMS:
                    await self._turns.compute(release(run.statements), is_limited=False)
        except Exception as failure:
            # Not only driver errors: bson may refuse a document of a later batch after other documents were written.
            if is_acknowledged:
                vars(failure)["partial_result"] = BulkWriteResult(result.details, True)
            if not isinstance(failure, PyMongoError):
                await self._core.checkpoint()  # of bson: perhaps before anything was waited for
            elif self._has_written:
                failure.reached_server = True  # the call did, if not its newest command
            raise
        finally:
            if implicit is not None and implicit.server_session is not None:
                self._core.executor.release(implicit)
        error = result.error
        if error is not None:
            if isinstance(error, BulkWriteExecutionTimeout):
                # Of the newest command, the server's limit was what remained of the client's.
                error.client_limit = None if call.deadline.timeout == inf else call.deadline.timeout
                error.server_limit = error.client_limit or self._core.default_max_time or None
            try:
                raise error
            finally:
                del error
        return result.details if is_acknowledged else None

    async def _execute_run(self, run: Run, result: BulkResult, call: Call) -> None:
        start = 0
        while start < len(run.statements) and result.can_continue:
            batch = BATCHES[run.kind](
                *self._names,
                run,
                start,
                ordered=self._is_ordered,
                codec_options=self._settings.codec_options,
                write_concern=self._write_concern,
                **self._options,
            )
            batch.is_continuation, self._has_begun = self._has_begun, True
            await self._turns.compute(batch.prepare())
            reply = await self._execute_batch(batch, call)
            self._has_written = True
            self._turns.restart()
            if reply is not None:
                if is_long(reply):
                    await self._turns.compute(merge(result, run, start, reply), is_limited=False)
                else:
                    result.merge(run, start, reply)
            start += batch.count

    async def _execute_batch(self, batch: BulkBatch, call: Call) -> Mapping[str, Any] | None:
        return await self._core.executor.execute(batch, call)
