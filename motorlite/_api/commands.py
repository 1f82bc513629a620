"""Shell: user-defined commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson.codec_options import DEFAULT_CODEC_OPTIONS, CodecOptions

from motorlite._api.constants import CursorType
from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.limits import CursorLimits
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._base.arguments import converted, instance, server_milliseconds
from motorlite._operations.reads.aggregate import waits_for_data
from motorlite._operations.run_command import RunCommand, RunCursorCommand
from motorlite.errors import AutoReconnect, OperationFailure
from motorlite.read_preferences import ReadPreference, as_read_preference

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._api.typings import TimeoutMode
    from motorlite._client.core import Core
    from motorlite._execution.call import Call
    from motorlite.read_preferences import ServerMode


class UserCommand:
    """One user-defined command, with its codec options and the errors that it accepts."""

    __slots__ = (
        "_allowed_errors",
        "_check",
        "_codec_options",
        "_database",
        "_document",
        "_has_own_preference",
        "_read_preference",
    )

    def __init__(
        self,
        database: str,
        document: dict[str, Any],
        *,
        read_preference: ServerMode | None = None,
        codec_options: CodecOptions[Any] | None = None,
        check: bool = True,
        allowed_errors: Sequence[str | int] | None = None,
    ) -> None:
        if read_preference is not None:
            read_preference = converted("read_preference", read_preference, as_read_preference)
        if codec_options is not None:
            instance("codec_options", codec_options, CodecOptions)
        self._database = database
        self._document = document
        # Run command specification: the database's read preference does not apply.
        self._read_preference = read_preference or ReadPreference.PRIMARY
        self._has_own_preference = read_preference is not None
        self._codec_options = codec_options
        self._check = check
        self._allowed_errors = allowed_errors or ()

    async def execute(self, core: Core, call: Call) -> dict[str, Any] | Mapping[str, Any]:
        """Execute the command and return the server's reply."""
        options = self._codec_options or DEFAULT_CODEC_OPTIONS
        operation = RunCommand(
            self._database,
            self._document,
            selector=self._read_preference,
            read_preference=self._read_preference,
            codec_options=options,
        )
        operation.has_own_preference = self._has_own_preference
        try:
            return await core.executor.execute(operation, call)
        except (OperationFailure, AutoReconnect) as error:
            details = self._reply_of(error)
            if details is None:
                raise
            return details

    def _reply_of(self, error: OperationFailure | AutoReconnect) -> Mapping[str, Any] | None:
        """Return the reply behind `error` if the caller asked for it, else None."""
        details = error.details
        if details.get("ok") == 0:
            # A malformed reply may have unhashable values here, which a set lookup rejects.
            both = (details.get("code"), details.get("errmsg"))
            known = [one for one in both if isinstance(one, int) or type(one) is str]
            if not self._check or any(one in self._allowed_errors for one in known):
                return details
        return None


def cursor_of_command(
    core: Core,
    settings: Settings,
    database: str,
    document: dict[str, Any],
    session: AsyncClientSession | None,
    *,
    read_preference: ServerMode | None,
    codec_options: CodecOptions[Any] | None,
    cursor_type: int | None,
    comment: Any,
    batch_size: int,
    max_await_time_ms: float | None,
    timeout_ms: float | None,
    timeout_mode: TimeoutMode | None,
) -> AsyncCommandCursor[Any]:
    """Create the cursor of a command (run command specification, "runCursorCommand")."""
    if read_preference is not None:
        read_preference = converted("read_preference", read_preference, as_read_preference)
    if codec_options is not None:
        instance("codec_options", codec_options, CodecOptions)
    if max_await_time_ms is not None:
        max_await_time_ms = converted("max_await_time_ms", max_await_time_ms, server_milliseconds)
    if cursor_type is None:
        is_tailable, is_await_data = bool(document.get("tailable")), bool(document.get("awaitData"))
    else:
        is_tailable = cursor_type != CursorType.NON_TAILABLE
        is_await_data = cursor_type == CursorType.TAILABLE_AWAIT
    if waits_for_data(document.get("pipeline")):
        is_tailable = is_await_data = True
    limits = CursorLimits(
        settings.timeout, timeout_ms, timeout_mode, is_tailable=is_tailable, is_await_data=is_await_data
    )
    preference = read_preference or ReadPreference.PRIMARY
    options = codec_options or settings.codec_options

    def make() -> RunCursorCommand:
        operation = RunCursorCommand(
            database,
            document,
            selector=preference,
            read_preference=preference,
            codec_options=options,
            time_limit=limits.time_limit,
        )
        operation.has_own_preference = read_preference is not None
        return operation

    get_more = GetMoreOptions(
        batch_size=batch_size,
        comment=comment,
        is_await_data=is_await_data or max_await_time_ms is not None,
        is_endless=is_tailable,
        max_await_time_ms=max_await_time_ms,
        read_preference=preference,
    )
    return AsyncCommandCursor(core, session, limits, options, get_more, settings.call_options, make)
