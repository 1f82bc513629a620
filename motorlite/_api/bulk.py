"""Shell: the batch loop of bulk writes: one deadline, one operation id and one session for all commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._execution.session import Session
from motorlite._operations.bulk_batch import BATCHES
from motorlite._operations.bulk_merge import is_long, merge
from motorlite._operations.bulk_result import BulkResult
from motorlite._operations.slices import ITEMS, release
from motorlite.errors import WriteConcernError
from motorlite.results import BulkWriteResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.core import CoreLike
    from motorlite._api.settings import Settings
    from motorlite._api.turns import Turns
    from motorlite._operations.bulk_batch import BulkBatch
    from motorlite._operations.bulk_runs import Run
    from motorlite.deadline import Deadline


class BulkWrite:
    """What all batches of a bulk write have in common.

    `options` are those of the command: `bypass_document_validation`, `let`, `comment`.
    """

    __slots__ = (
        "_core",
        "_deadline",
        "_is_ordered",
        "_names",
        "_operation_id",
        "_options",
        "_session",
        "_settings",
        "_turns",
    )

    def __init__(
        self,
        core: CoreLike,
        settings: Settings,
        names: tuple[str, str],
        deadline: Deadline,
        turns: Turns,
        *,
        is_ordered: bool,
        options: Mapping[str, Any],
    ) -> None:
        self._core = core
        self._settings = settings
        # Of the database and of the collection.
        self._names = names
        self._deadline = deadline
        self._turns = turns
        self._is_ordered = is_ordered
        self._options = options
        self._operation_id = core.new_operation_id()
        self._session: Session | None = None

    async def execute(self, runs: Sequence[Run], session: Session | None) -> dict[str, Any] | None:
        """Send all batches, an ordered bulk write only up to its first error.

        Returns:
            What the batches add up to, or None for an unacknowledged write.

        Raises:
            BulkWriteError: A write failed, or its write concern was not satisfied.
            Exception: A command failed as a whole, or could not be encoded; `partial_result` tells what was written
                before it.
        """
        result = BulkResult(ordered=self._is_ordered)
        # An implicit session serves all batches; it takes its server session at the first of them.
        # Unacknowledged writes have none (driver sessions specification).
        is_acknowledged = self._settings.write_concern.acknowledged
        implicit = Session(is_implicit=True) if session is None and is_acknowledged else None
        self._session = session or implicit
        try:
            for run in runs:
                await self._execute_run(run, result)
                if not result.can_continue:
                    break
            for run in runs:
                if len(run.statements) > ITEMS:
                    await self._turns.compute(release(run.statements), is_limited=False)
        except Exception as failure:
            # Not only errors of the driver: bson refuses a document of a later batch when others are written.
            if is_acknowledged:
                vars(failure)["partial_result"] = BulkWriteResult(result.details, True)
            raise
        finally:
            if implicit is not None and implicit.server_session is not None:
                self._core.executor.release(implicit)
        if result.error is not None:
            raise result.error
        return result.details if is_acknowledged else None

    async def _execute_run(self, run: Run, result: BulkResult) -> None:
        start = 0
        while start < len(run.statements) and result.can_continue:
            batch = BATCHES[run.kind](
                *self._names,
                run,
                start,
                ordered=self._is_ordered,
                codec_options=self._settings.codec_options,
                write_concern=self._settings.write_concern,
                **self._options,
            )
            await self._turns.compute(batch.prepare())
            reply = await self._execute_batch(batch)
            self._turns.restart()
            if reply is not None:
                if is_long(reply):
                    await self._turns.compute(merge(result, run, start, reply), is_limited=False)
                else:
                    result.merge(run, start, reply)
            start += batch.count

    async def _execute_batch(self, batch: BulkBatch) -> Mapping[str, Any] | None:
        executor = self._core.executor
        try:
            reply: Mapping[str, Any] | None = await executor.execute(
                batch, self._session, self._deadline, self._operation_id
            )
        except WriteConcernError:
            # Raised so that it could be retried; now it is one error among those of the bulk write.
            if batch.reply is None:
                raise
            return batch.reply
        return reply
