"""Shell: reads the default maxTimeMS of all clients of a deployment from a document there."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Any, Final

from motorlite._base.deadline import Deadline
from motorlite._execution.building import document_milliseconds
from motorlite._observe.reachability import safe_log
from motorlite._operations.contract import Call
from motorlite._operations.find import FindOne
from motorlite.errors import PyMongoError
from motorlite.read_preferences import ReadPreference

if TYPE_CHECKING:
    from motorlite._execution.building import CommandDefaults
    from motorlite._execution.executor import Executor
    from motorlite._net.runtime import Runtime

# Seconds between two looks, and for one look. A change is seen within their sum.
INTERVAL: Final = 5.0
LIMIT: Final = 4.0
ID: Final = "maxTimeMS"

_logger = logging.getLogger("motorlite.client")


class DefaultMaxTime:
    """Reads the document ``{_id: "maxTimeMS", value: N}`` while the client lives."""

    def __init__(self, namespace: str, limits: CommandDefaults, executor: Executor, runtime: Runtime) -> None:
        self._namespace = namespace
        self._limits = limits
        self._executor = executor
        self._runtime = runtime
        # The last logged text: a value that stays wrong, or a failure that lasts, is logged once.
        self._complaint = ""

    async def run(self) -> None:
        """Look again and again; run this in the background."""
        while True:
            try:
                self._learn(await self._read())
            except PyMongoError as error:
                if not error.timeout:  # the operations report that themselves
                    self._complain(f"cannot be read: {error}")
            except Exception as error:  # a document that cannot be decoded, or a bug; looking continues
                self._complain(f"cannot be read: {error!r}")
            await self._runtime.sleep(INTERVAL)

    async def _read(self) -> Any:
        database, _, collection = self._namespace.partition(".")
        preference = ReadPreference.PRIMARY_PREFERRED
        operation = FindOne[Any](database, collection, {"_id": ID}, selector=preference, read_preference=preference)
        deadline = Deadline(self._runtime.now() + LIMIT, inf, LIMIT)
        return await self._executor.execute(operation, Call(None, deadline))

    def _learn(self, document: Any) -> None:
        """Apply the document's value. A wrong one changes nothing; without a document the client's option holds."""
        if document is None:
            self._limits.read(None)
            self._complaint = ""
            return
        value = document.get("value")
        try:
            self._limits.read(document_milliseconds(value))
        except ValueError as error:
            self._complain(f"has a value that is {error}, so it is ignored: {value!r}")
        else:
            self._complaint = ""

    def _complain(self, complaint: str) -> None:
        if complaint != self._complaint:
            safe_log(_logger, logging.WARNING, "the default maxTimeMS in %s %s", self._namespace, complaint)
        self._complaint = complaint
