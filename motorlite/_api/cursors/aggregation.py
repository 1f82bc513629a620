"""Shell: aggregation cursors, on a collection and on a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from motorlite._api.cursors.command_cursor import AsyncCommandCursor
from motorlite._api.cursors.limits import CursorLimits
from motorlite._api.cursors.raw import AsyncRawBatchCommandCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._base import arguments
from motorlite._operations.reads.aggregate import Aggregate, AggregateWrite, has_write_stage, waits_for_data
from motorlite.errors import ConfigurationError

if TYPE_CHECKING:
    from motorlite._api.session import AsyncClientSession
    from motorlite._api.settings import Settings
    from motorlite._client.core import Core

CursorT = TypeVar("CursorT", bound=AsyncCommandCursor[Any])

# Maps the server's option names to the operation's argument names.
_ARGUMENTS = {
    "allowDiskUse": "allow_disk_use",
    "batchSize": "batch_size",
    "bypassDocumentValidation": "bypass_document_validation",
    "collation": "collation",
    "hint": "hint",
    "let": "let",
    "comment": "comment",
    "maxTimeMS": "max_time_ms",
}


def aggregation(
    core: Core,
    settings: Settings,
    names: tuple[str, str | None],
    pipeline: Any,
    session: AsyncClientSession | None,
    options: dict[str, Any],
    read: type[Aggregate] = Aggregate,
) -> AsyncCommandCursor[Any]:
    """Create the cursor of a pipeline. `options` are checked and have the server's names.

    `read` is the operation for a pipeline that does not write.

    Raises:
        TypeError: The pipeline is not a list of mappings.
        ConfigurationError: The timeout's mode conflicts with the other arguments.
    """
    return _aggregation(AsyncCommandCursor, core, settings, names, pipeline, session, options, read)


def raw_aggregation(
    core: Core,
    settings: Settings,
    names: tuple[str, str | None],
    pipeline: Any,
    session: AsyncClientSession | None,
    options: dict[str, Any],
) -> AsyncRawBatchCommandCursor:
    """Create the cursor of a pipeline that returns batches as they are on the wire. Raises like `aggregation`."""
    return _aggregation(AsyncRawBatchCommandCursor, core, settings, names, pipeline, session, options, Aggregate)


def _aggregation(
    kind: type[CursorT],
    core: Core,
    settings: Settings,
    names: tuple[str, str | None],
    pipeline: Any,
    session: AsyncClientSession | None,
    options: dict[str, Any],
    read: type[Aggregate],
) -> CursorT:
    stages = arguments.converted("pipeline", pipeline, arguments.mappings)
    is_write = has_write_stage(stages)
    mode = options.pop("timeoutMode", None)
    if is_write and mode == "iteration":
        allowed = "'cursorLifetime', because the pipeline has $out or $merge"
        raise ConfigurationError(arguments.wrong("timeoutMode", mode, allowed))
    is_endless = waits_for_data(stages)
    limits = CursorLimits(
        settings.timeout, options.pop("timeoutMS", None), mode, is_tailable=is_endless, is_await_data=is_endless
    )
    max_await_time_ms = options.pop("maxAwaitTimeMS", None)
    get_more = GetMoreOptions(
        batch_size=options.get("batchSize", 0),
        comment=options.get("comment"),
        is_await_data=max_await_time_ms is not None or is_endless,
        is_endless=is_endless,
        is_raw=issubclass(kind, AsyncRawBatchCommandCursor),
        max_await_time_ms=max_await_time_ms,
        prefetch=options.pop("prefetch", 0),
        read_preference=settings.read_preference,
    )
    keywords = {_ARGUMENTS[name]: value for name, value in options.items() if name in _ARGUMENTS}
    rest = {name: value for name, value in options.items() if name not in _ARGUMENTS}

    def make() -> Aggregate:
        given = {
            **keywords,
            "read_preference": settings.read_preference,
            "selector": settings.read_preference,
            "read_concern": settings.read_concern,
            "codec_options": settings.codec_options,
            "time_limit": limits.time_limit,
            "options": rest,
        }
        if not is_write:
            return read(*names, stages, **given)
        return AggregateWrite(*names, stages, write_concern=settings.write_concern, **given)

    return kind(core, session, limits, settings.codec_options, get_more, settings.call_options, make)
