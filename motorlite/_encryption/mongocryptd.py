"""Shell: mongocryptd, a process beside the application that marks the fields of commands that need encryption."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument

from motorlite._encryption.inner import inner_client
from motorlite._net.processes import start_detached
from motorlite._options.options import client_options
from motorlite._wire.documents import decode_details
from motorlite.errors import AutoReconnect, NetworkTimeout, PyMongoError
from motorlite.retry import RetryAction, RetryStrategy

if TYPE_CHECKING:
    from motorlite._api.handles import AsyncMongoClient
    from motorlite._client.dependencies import Dependencies
    from motorlite.encryption_options import AutoEncryptionOpts
    from motorlite.retry import RetryReason, RetryRequest

# Milliseconds (client-side encryption specification, "mongocryptd"). It answers at once, or has to be started.
_SELECTION_TIMEOUT: Final = 10_000
# Seconds between two attempts to reach it while it starts.
_PAUSE: Final = 0.1
# Leaves each document of a command or reply as it is. (A dict would not: `bson` makes references of some.)
_EXACT: Final = CodecOptions(document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_MS)


class _UntilItListens(RetryStrategy):
    """For commands to a mongocryptd that was just started again, and that the client may still take for available."""

    __slots__ = ()

    scope: Literal["adds", "decides"] = "decides"

    @property
    def budget(self) -> None:
        """It adds nothing to an overload."""

    def retry_after(self, request: RetryRequest, reason: RetryReason) -> RetryAction:
        """Try again for as long as server selection would wait."""
        is_over = request.elapsed * 1000 >= _SELECTION_TIMEOUT
        return RetryAction.no_retry() if is_over else RetryAction.with_duration(_PAUSE)


class Mongocryptd:
    """The mongocryptd of one client."""

    def __init__(self, options: AutoEncryptionOpts, world: Dependencies) -> None:
        self._options = options
        chosen = client_options(options.mongocryptd_uri, serverSelectionTimeoutMS=_SELECTION_TIMEOUT)
        # Its commands have the values that are to be encrypted.
        self._client: AsyncMongoClient[Any] = inner_client(chosen, world._replace(is_observed=False))
        self._was_started = options.mongocryptd_bypass_spawn
        # How often it was started.
        self._starts = 0

    async def mark(self, database: str, command: bytes) -> bytes:
        """Return the command with marks where it needs encryption.

        Raises:
            PyMongoError: mongocryptd cannot be reached, or rejects the command.
        """
        if not self._was_started:
            await self._start()
        document, starts = dict(RawBSONDocument(command, _EXACT)), self._starts
        try:
            return await self._marked(database, document)
        except NetworkTimeout:
            raise  # it is slow, but runs: a second one would find its port taken
        except AutoReconnect:
            if self._options.mongocryptd_bypass_spawn:
                raise
        # It ends when it was idle for a while. One that still runs has the port, so that a second one ends at once.
        if self._starts == starts:  # else another command, which was lost at the same time, has started it
            await self._start()
        return await self._marked(database, document, _UntilItListens())

    async def _marked(self, database: str, document: dict[str, Any], strategy: RetryStrategy | None = None) -> bytes:
        marking = self._client[database].with_options(retry_strategy=strategy)
        try:
            reply = await marking.command(document, codec_options=_EXACT)
        except PyMongoError as error:
            decode_details(error)
            error.may_have_been_executed = False  # of the application's command, which was only looked at
            raise
        return bytes(reply.raw)

    async def _start(self) -> None:
        self._was_started = True
        self._starts += 1
        core, command = self._client._core, self._options.mongocryptd_command
        core.enter()
        try:
            is_found = await core.runtime.run_in_thread(partial(start_detached, command))
        except BaseException:
            # Perhaps the thread has not even begun, so the next command starts it.
            self._was_started = False
            raise
        if not is_found:
            warnings.warn(
                f"{command[0]} is not on PATH, so nothing marks what has to be encrypted: install it, or set "
                "crypt_shared_lib_path",
                RuntimeWarning,
                stacklevel=2,
            )

    async def close(self, grace: float) -> None:
        """Close the connections; commands in flight get `grace` seconds. The process ends by itself when it is idle."""
        await self._client.close(grace)
