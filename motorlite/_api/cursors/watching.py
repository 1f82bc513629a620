"""Shell: the method `watch` of clients, databases and collections."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from bson.codec_options import TypeRegistry
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.settings import Configured
from motorlite._api.time_limits import CursorLimits
from motorlite._api.typings import DocumentT
from motorlite._base import arguments
from motorlite._base.arguments import WrongType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.cursors.change_stream import AsyncChangeStream
    from motorlite._api.session import AsyncClientSession
    from motorlite._base.arguments import Pipeline
    from motorlite.collation import CollationLike

_NO_TYPES: Final = TypeRegistry()
# Options of the stage, by the names of their arguments.
_STAGE: Final = {
    "full_document": "fullDocument",
    "full_document_before_change": "fullDocumentBeforeChange",
    "show_expanded_events": "showExpandedEvents",
}


def _timestamp(value: Any) -> Timestamp:
    if not isinstance(value, Timestamp):
        raise WrongType("a bson.timestamp.Timestamp")
    return value


_CHECKS: Final[arguments.Checks] = {
    "pipeline": arguments.mappings,
    "full_document": arguments.text,
    "full_document_before_change": arguments.text,
    "show_expanded_events": arguments.boolean,
    "resume_after": arguments.mapping,
    "start_after": arguments.mapping,
    "start_at_operation_time": _timestamp,
    "max_await_time_ms": arguments.server_milliseconds,
    "batch_size": arguments.count,
    "collation": arguments.collation_document,
    "comment": arguments.anything,
}


class Watching(Configured[DocumentT]):
    """Change streams. Subclasses say what they watch."""

    __slots__ = ()

    @property
    @abstractmethod
    def _watched(self) -> tuple[str, str | None]:
        """The database and the collection that the command of a change stream names."""

    # Further options of the $changeStream stage.
    _watched_options: Mapping[str, Any] = {}

    def watch(
        self,
        pipeline: Pipeline | None = None,
        full_document: str | None = None,
        resume_after: Mapping[str, Any] | None = None,
        max_await_time_ms: float | None = None,
        batch_size: int | None = None,
        collation: CollationLike | None = None,
        start_at_operation_time: Timestamp | None = None,
        session: AsyncClientSession | None = None,
        start_after: Mapping[str, Any] | None = None,
        comment: Any = None,
        full_document_before_change: str | None = None,
        show_expanded_events: bool | None = None,
        timeoutMS: float | None = None,
    ) -> AsyncChangeStream[dict[str, Any]]:
        """Watch the changes to a collection, to a database or, for a client, to the whole deployment.

        Returns a change stream, which opens at its first step. Unlike ``aggregate([{"$changeStream": {}}])``, it
        resumes after failures. Needs a replica set or a sharded cluster, and the read concern "majority" or none.

        Args:
            pipeline: Further stages, which select or transform changes. They must keep `_id`.
            full_document: ``"updateLookup"`` adds the current document to an update; ``"whenAvailable"`` and
                ``"required"`` add the document as the change left it.
            resume_after: Continue behind this token: `resume_token` of a stream, or the `_id` of a change.
            max_await_time_ms: How long the server waits for changes before it replies that there are none,
                milliseconds; a second by default.
            batch_size: Changes per batch.
            collation: A Collation or its document.
            start_at_operation_time: Begin with the changes at this time.
            session: The session to use.
            start_after: Like `resume_after`, and also possible behind an ``"invalidate"``.
            comment: Shown in the server's log and profile.
            full_document_before_change: ``"whenAvailable"`` and ``"required"`` add the document before the change.
            show_expanded_events: Report more kinds of changes, for example to indexes (MongoDB 6.0 and later).
            timeoutMS: Time limit of opening the stream, and then of each step; 0 for no limit.

        Raises:
            TypeError, ValueError: An argument is wrong; the message names the allowed values.

        Retries: aggregate as a retryable read; after a failed getMore, the stream may resume (docs/retries.md).

        Source: change streams specification.
        """
        options = {
            "pipeline": [] if pipeline is None else pipeline,
            "full_document": full_document,
            "full_document_before_change": full_document_before_change,
            "show_expanded_events": show_expanded_events,
            "resume_after": resume_after,
            "start_after": start_after,
            "start_at_operation_time": start_at_operation_time,
            "max_await_time_ms": max_await_time_ms,
            "batch_size": batch_size,
            "collation": collation,
            "comment": comment,
        }
        # A copy: a stream lives long, and resumes with what it was opened with.
        given = deepcopy(arguments.checked("watch", options, _CHECKS))
        return self._change_stream(given, session, timeoutMS)

    def _change_stream(
        self, given: dict[str, Any], session: AsyncClientSession | None, timeout_ms: float | None
    ) -> AsyncChangeStream[dict[str, Any]]:
        """Make the change stream. `given`: the checked options, by the names of the arguments."""
        from motorlite._api.cursors.change_stream import AsyncChangeStream
        from motorlite._operations.change_stream import Position, Watch

        settings, watched, watched_options = self._settings, self._watched, self._watched_options
        limits = CursorLimits(settings.timeout, timeout_ms, None, is_tailable=True, is_await_data=True)
        codec_options, final_options = settings.codec_options, None
        if codec_options.type_registry != _NO_TYPES:
            # Resume tokens go back to the server as they came, without passing through the application's decoders.
            final_options = codec_options
            codec_options = codec_options.with_options(document_class=RawBSONDocument)
        stage = {_STAGE[name]: given[name] for name in _STAGE if name in given}

        def make(position: Mapping[str, Any]) -> Watch:
            return Watch(
                *watched,
                [{"$changeStream": {**stage, **position, **watched_options}}, *given["pipeline"]],
                selector=settings.read_preference,
                read_preference=settings.read_preference,
                read_concern=settings.read_concern,
                codec_options=codec_options,
                time_limit=limits.time_limit,
                batch_size=given.get("batch_size"),
                collation=given.get("collation"),
                comment=given.get("comment"),
            )

        get_more = GetMoreOptions(
            batch_size=given.get("batch_size", 0),
            comment=given.get("comment"),
            is_await_data=True,
            is_endless=True,
            max_await_time_ms=given.get("max_await_time_ms"),
            read_preference=settings.read_preference,
        )
        starts = ("resume_after", "start_after", "start_at_operation_time")
        return AsyncChangeStream(
            self._core,
            session,
            limits,
            codec_options,
            get_more,
            settings.call_options,
            position=Position(*map(given.get, starts)),
            make_watch=make,
            final_options=final_options,
        )
