"""Shell: the cursor of a query, with chainable setters."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from bson.code import Code

from motorlite._api.arguments.checks import optional
from motorlite._api.arguments.find_options import FIND_CHECKS, find_arguments, sort_document, unwrapped
from motorlite._api.constants import CursorType
from motorlite._api.cursors.base import BatchedCursor
from motorlite._api.cursors.server_cursor import GetMoreOptions
from motorlite._api.time_limits import CursorLimits
from motorlite._api.turns import refused
from motorlite._api.typings import DocumentT
from motorlite._base import arguments
from motorlite._base.arguments import wrong
from motorlite._operations.find import ExhaustFind, Find
from motorlite._operations.reads import Distinct
from motorlite.errors import InvalidOperation, OperationFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._api.settings import Settings
    from motorlite._api.typings import Filter, Projection
    from motorlite._client.core import Core
    from motorlite.collation import CollationLike

CursorT = TypeVar("CursorT", bound="AsyncCursor[Any]")

# The flag bits of PyMongo's `add_option`, from the old wire protocol, and their current options.
_FLAGS = {8: "oplog_replay", 16: "no_cursor_timeout", 128: "allow_partial_results"}
_TAILABLE_FLAGS = CursorType.TAILABLE_AWAIT

# Neither timeoutMS nor timeoutMode.
_NO_TIMEOUTS = (None, None)

# The query options that `distinct` uses too. Not the hint: servers before 7.1 refuse it, and PyMongo leaves it out.
_DISTINCT_OPTIONS = ("collation", "comment", "max_time_ms")


class AsyncCursor(BatchedCursor[DocumentT]):
    """The matching documents of a query, created by `AsyncCollection.find`.

    The query runs at the first step: iterate over the cursor, call `to_list`, or ``await`` the cursor, which
    runs the query and returns the cursor. Before that, the setters change the query and can be chained. Use
    ``async with`` or `close` if you may not read all documents.
    """

    __module__ = "motorlite"

    __slots__ = (
        "_collection",
        "_filter",
        "_names",
        "_projection",
        "_query",
        "_settings",
        "_timeouts",
    )

    # Whether batches are returned as they are on the wire.
    _is_raw: ClassVar[bool] = False

    def __init__(
        self,
        collection: Any,
        core: Core,
        settings: Settings,
        names: tuple[str, str],
        filter: Filter | None,
        projection: Projection | None,
        options: Mapping[str, Any],
    ) -> None:
        self._collection = collection
        self._settings = settings
        # The names of the database and the collection.
        self._names = names
        self._filter: Filter = {}
        if filter is not None:
            is_plain = type(filter) is dict
            self._filter = filter if is_plain else arguments.converted("filter", filter, arguments.mapping)
            if "$query" in self._filter:
                self._filter, options = unwrapped(self._filter, options)
        self._projection = None if projection is None else arguments.fields_document(projection)
        # The checked options of the query, by the names of PyMongo's keyword arguments.
        self._query: dict[str, Any] = {}
        get_more = GetMoreOptions(is_raw=self._is_raw, read_preference=settings.read_preference)
        if not options:
            self._timeouts, limits = _NO_TIMEOUTS, CursorLimits(settings.timeout)
            super().__init__(core, None, limits, settings.codec_options, get_more, settings.call_options)
            return
        query = self._query = arguments.checked("find", options, FIND_CHECKS)
        session = query.pop("session", None)
        # The arguments of CursorLimits, for clones.
        self._timeouts = (query.pop("timeoutMS", None), query.pop("timeoutMode", None))
        get_more.max_await_time_ms = query.pop("max_await_time_ms", None)
        get_more.prefetch = query.pop("prefetch", 0)
        _check_exhaust(query)
        super().__init__(core, session, self._make_limits(), settings.codec_options, get_more, settings.call_options)

    @property
    def _namespace(self) -> str:
        return ".".join(self._names)

    def _make_limits(self) -> CursorLimits:
        kind = self._query.get("cursor_type", CursorType.NON_TAILABLE)
        timeout_ms, mode = self._timeouts
        return CursorLimits(
            self._settings.timeout,
            timeout_ms,
            mode,
            is_tailable=_is_tailable(kind),
            is_await_data=kind == CursorType.TAILABLE_AWAIT,
        )

    # --- running the query ---

    def _first_operation(self) -> Find:
        query, get_more = self._query, self._get_more
        if not query:  # the usual one, for a fifth of the time
            return self._plain_find(get_more)
        query = dict(query)
        kind = query.pop("cursor_type", CursorType.NON_TAILABLE)
        is_tailable, is_await_data = _is_tailable(kind), kind == CursorType.TAILABLE_AWAIT
        get_more.is_exhaust = kind == CursorType.EXHAUST
        get_more.batch_size = query.get("batch_size", 0)
        get_more.limit = max(query.get("limit", 0), 0)
        get_more.comment = query.get("comment")
        get_more.is_await_data = is_await_data
        if is_tailable:
            get_more.prefetch = 0  # the next document may be far away
        self._stops_on_empty_batch = is_tailable
        find = ExhaustFind if get_more.is_exhaust else Find
        return find(
            *self._names,
            self._filter,
            projection=self._projection,
            tailable=is_tailable,
            await_data=is_await_data,
            time_limit=self._limits.time_limit,
            **find_arguments(self._settings, query),
        )

    def _plain_find(self, get_more: GetMoreOptions) -> Find:
        """Return the command of a query without options. They may have been set and removed again."""
        settings = self._settings
        get_more.is_exhaust = get_more.is_await_data = self._stops_on_empty_batch = False
        get_more.batch_size = get_more.limit = 0
        get_more.comment = None
        return Find(
            *self._names,
            self._filter,
            selector=settings.read_preference,
            read_preference=settings.read_preference,
            codec_options=settings.codec_options,
            read_concern=settings.read_concern,
            time_limit=self._limits.time_limit,
            projection=self._projection,
        )

    async def _fetch(self, is_patient: bool) -> bool:
        try:
            return await super()._fetch(is_patient)
        except OperationFailure:
            # A tailable cursor ends if the capped collection has overwritten its position.
            if not self._stops_on_empty_batch or self._cursor is None or self._cursor.has_more:
                raise
            return False

    async def explain(self, timeoutMS: float | None = None) -> Mapping[str, Any]:
        """Return the server's plan for this query, from the explain command, also after the query has run.

        `max_time_ms` of the query also limits the explain command.

        Args:
            timeoutMS: Time limit of the operation; 0 for no limit.

        Retries: overload errors only (docs/retries.md).
        """
        from motorlite._operations.reads import Explain

        call = self._collection._begin(self._session, timeoutMS) or await refused()
        return await self._core.executor.execute(Explain(self._first_operation()), call)

    async def distinct(self, key: str, timeoutMS: float | None = None) -> list[Any]:
        """Return the distinct values of a field among the matches. Ignores skip, limit and hint.

        Args:
            key: The name of the field.
            timeoutMS: Time limit of the operation; 0 for no limit.

        Retries: as a retryable read (docs/retries.md).
        """
        arguments.converted("key", key, arguments.text)
        call = self._collection._begin(self._session, timeoutMS) or await refused()
        query = {name: value for name, value in self._query.items() if name in _DISTINCT_OPTIONS}
        operation = Distinct(*self._names, key, self._filter, **find_arguments(self._settings, query))
        return await self._core.executor.execute(operation, call)

    # --- copies ---

    def clone(self) -> Self:
        """Return a new cursor with the same query, not yet run.

        It has copies of the filter, the projection and the options: what you change in them later concerns this cursor
        alone. `copy.copy` shares them.
        """
        return copy.deepcopy(self)

    def _clone(self, kind: type[CursorT], settings: Settings) -> CursorT:
        names, options = self._names, self._options()
        return kind(self._collection, self._core, settings, names, self._filter, self._projection, options)

    def _options(self) -> dict[str, Any]:
        """The options that this cursor was made with, and those that were set since."""
        timeout_ms, mode = self._timeouts
        return {
            **self._query,
            "session": self._session,
            "max_await_time_ms": self._get_more.max_await_time_ms,
            "prefetch": self._get_more.prefetch,
            "timeoutMS": timeout_ms,
            "timeoutMode": mode,
        }

    def __copy__(self) -> Self:
        made = self._clone(type(self), self._settings)
        made._is_empty = self._is_empty
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = copy.copy(self)
        made._filter = _copied(self._filter, memo)
        made._projection = _copied(self._projection, memo)
        made._query = _copied(self._query, memo)
        return made

    async def rewind(self) -> Self:
        """Close the cursor, and run its query again at the next step.

        Retries: killCursors for overload errors only (docs/retries.md).
        """
        await self.close()
        self._cursor = None
        self._is_closed = False
        self._limits = self._make_limits()
        return self

    @property
    def collection(self) -> Any:
        """The AsyncCollection that made this cursor."""
        return self._collection

    # --- setters ---

    def _check_not_started(self) -> None:
        if self._cursor is not None or self._is_closed:
            raise InvalidOperation("a query cannot be changed after it has run; use clone()")

    def _set(self, name: str, value: Any, argument: str | None = None) -> Self:
        """Set an option of the query; None removes it. `argument` is the name of the setter's argument, if another."""
        self._check_not_started()
        query = {key: each for key, each in self._query.items() if key != name}
        if value is not None:
            query[name] = arguments.converted(argument or name, value, FIND_CHECKS[name])
        _check_exhaust(query)
        self._query = query
        return self

    def __getitem__(self, index: slice) -> Self:
        """``cursor[10:20]``: skip 10 documents and return at most 10.

        Raises:
            IndexError: `index` is not a slice, or the slice has a step, a negative bound, or ends before it starts.
            InvalidOperation: The query has already run.
        """
        if not isinstance(index, slice):
            raise IndexError(  # PyMongo's error, which is no TypeError either
                f"a cursor is not a sequence: instead of cursor[{index!r}], use "
                f"`await cursor.skip({index!r}).limit(-1).next()`, or the list from `await cursor.to_list()`"
            )
        self._check_not_started()
        start, stop = index.start or 0, index.stop
        if index.step is not None or start < 0 or (stop is not None and stop < start):
            raise IndexError(wrong("a slice", index, "a start of at least 0, a stop not before it, and no step"))
        self._is_empty = stop == start
        self._set("skip", start)
        return self._set("limit", None if stop is None else stop - start)

    def skip(self, skip: int) -> Self:
        """Set the number of matches to skip."""
        return self._set("skip", skip)

    def limit(self, limit: int) -> Self:
        """Set the maximum number of documents: 0 for all, negative for a single batch, whatever the batch size."""
        self._set("limit", limit)
        self._is_empty = False
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Set the number of documents per batch; 0 lets the server choose."""
        return self._set("batch_size", batch_size)

    def sort(self, key_or_list: arguments.Hint, direction: int | str | Mapping[str, Any] | None = None) -> Self:
        """Set the order: a field and a direction, or a list of (field, direction) pairs."""
        self._check_not_started()
        keys: Any = key_or_list if direction is None else [(key_or_list, direction)]
        self._query["sort"] = arguments.converted("sort", keys, sort_document)
        return self

    def hint(self, index: arguments.Hint | None) -> Self:
        """Set the index to use, by name or by keys; None lets the server choose."""
        return self._set("hint", index, "index")

    def comment(self, comment: Any) -> Self:
        """Set a comment for the server's log and profile."""
        return self._set("comment", comment)

    def max_time_ms(self, max_time_ms: float | None) -> Self:
        """Set the query's time limit on the server, milliseconds; ignored if a timeout is set."""
        return self._set("max_time_ms", max_time_ms)

    def max_await_time_ms(self, max_await_time_ms: float | None) -> Self:
        """Set the time that the server waits for new documents, milliseconds (`CursorType.TAILABLE_AWAIT`)."""
        self._check_not_started()
        check = arguments.server_milliseconds
        self._get_more.max_await_time_ms = optional("max_await_time_ms", max_await_time_ms, check)
        return self

    def collation(self, collation: CollationLike | None) -> Self:
        """Set the collation: a Collation or its document."""
        return self._set("collation", collation)

    def min(self, spec: arguments.Bounds) -> Self:
        """Set the inclusive lower bound for the index in `hint`."""
        return self._set("min", spec)

    def max(self, spec: arguments.Bounds) -> Self:
        """Set the exclusive upper bound for the index in `hint`."""
        return self._set("max", spec)

    def max_scan(self, max_scan: int | None) -> Self:
        """Set the maximum number of documents to scan. No server that motorlite supports accepts this option."""
        return self._set("max_scan", max_scan)

    def allow_disk_use(self, allow_disk_use: bool) -> Self:
        """Set whether a sort may use temporary files (MongoDB 4.4 and later)."""
        return self._set("allow_disk_use", allow_disk_use)

    def where(self, code: str | Code) -> Self:
        """Add a JavaScript expression that documents must satisfy."""
        self._check_not_started()
        arguments.instance("code", code, str, "a string or bson.code.Code")
        self._filter = {**self._filter, "$where": code if isinstance(code, Code) else Code(code)}
        return self

    async def add_option(self, mask: int) -> Self:
        """Set flags by their old wire protocol number. Prefer the options of `find`."""
        return self._set_flags(arguments.converted("mask", mask, arguments.count), True)

    def remove_option(self, mask: int) -> Self:
        """Clear flags by their old wire protocol number; -1 for all."""
        return self._set_flags(arguments.converted("mask", mask, arguments.integer), False)

    def _set_flags(self, mask: int, is_set: bool) -> Self:
        self._check_not_started()
        for bit, name in _FLAGS.items():
            if mask & bit:
                self._set(name, is_set)
        tailable = mask & _TAILABLE_FLAGS
        if tailable:
            kind = self._query.get("cursor_type", CursorType.NON_TAILABLE)
            kind = kind | tailable if is_set else kind & ~tailable
            # Waiting for data only makes sense with a tailable cursor.
            self._set("cursor_type", kind if kind & CursorType.TAILABLE else CursorType.NON_TAILABLE)
            self._limits = self._make_limits()
        if mask & CursorType.EXHAUST:
            self._set("cursor_type", CursorType.EXHAUST if is_set else CursorType.NON_TAILABLE)
        return self


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """Return a deep copy. Dictionaries and lists become plain ones, because not every subclass can be copied."""
    if isinstance(value, dict):
        return {name: _copied(each, memo) for name, each in value.items()}
    if isinstance(value, list):
        return [_copied(each, memo) for each in value]
    return copy.deepcopy(value, memo)


def _check_exhaust(query: Mapping[str, Any]) -> None:
    if query.get("cursor_type") == CursorType.EXHAUST and query.get("limit"):
        raise InvalidOperation("a limit cannot be combined with CursorType.EXHAUST: the server streams everything")


def _is_tailable(kind: int) -> bool:
    return kind in (CursorType.TAILABLE, CursorType.TAILABLE_AWAIT)
