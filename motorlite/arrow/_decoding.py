"""Shell: decodes batches of documents to Arrow tables with pymongoarrow, in slices that a thread works through."""

from __future__ import annotations

from collections.abc import Mapping
from time import sleep
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pymongoarrow.context import PyMongoArrowContext

from motorlite._base.arguments import wrong
from motorlite.arrow._extra import Schema
from motorlite.arrow._inference import Inference
from motorlite.arrow._types import fieldless, fitted, widened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bson.codec_options import CodecOptions

# Bytes. The decoder keeps Python's global lock during a slice, so the event loop waits for its end: a few milliseconds.
SLICE: Final = 32 * 1024
# Bytes of documents that are decoded into one table. Where a field turns from int32 into int64, the decoder converts
# what the table has so far, value by value and in one go.
PIECE: Final = 256 * 1024


class Stopped(Exception):
    """The scan has ended, so nothing needs the rest of a batch. Never leaves the thread's caller."""


def schema_of(schema: Any) -> Schema | None:
    """Return pymongoarrow's schema for what a caller may pass as one.

    Raises:
        TypeError: It is no schema.
        ValueError: A type in it is not supported.
    """
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, pa.Schema):
        return Schema.from_arrow(schema)
    if isinstance(schema, Mapping):
        return Schema(schema)
    raise TypeError(wrong("schema", schema, "a pymongoarrow.api.Schema, a pyarrow.Schema, or a mapping of types"))


def pieces(batch: bytes, start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Split BSON documents, one after the other, into pieces of at most `size` bytes, or of one document."""
    position = start
    while position < end:
        after = position + int.from_bytes(batch[position : position + 4], "little")
        if after - start > size and position > start:
            yield start, position
            start = position
        position = after
    if start < end:
        yield start, end


class Decoder:
    """Decodes the batches of one scan. One thread at a time uses it; `stop` may be called from another one.

    Args:
        schema: The fields and their types; None infers them.
        codec_options: The collection's, for its time zone.
        allow_invalid: Whether values of another type than the schema's become null, instead of an error.
    """

    def __init__(self, schema: Schema | None, codec_options: CodecOptions[Any], *, allow_invalid: bool) -> None:
        self._schema = schema
        self._codec_options = codec_options
        self._allow_invalid = allow_invalid
        self._is_stopped = False
        self._known: Any = pa.schema([]) if schema is None else schema.to_arrow()

    def stop(self) -> None:
        """End a `decode` that runs in a thread whose caller was cancelled, after its slice."""
        self._is_stopped = True

    def decode(self, batch: bytes) -> Any:
        """Return the documents of a batch as a table of one chunk.

        Its fields are those of the schema or, without one, of all documents so far.
        """
        return self.joined([self._piece(batch, *piece) for piece in pieces(batch, 0, len(batch), PIECE)])

    def joined(self, tables: list[Any]) -> Any:
        """Return one table of one chunk with the rows of several, and with all fields that are known now."""
        return self.listed(tables).combine_chunks()

    def listed(self, tables: list[Any]) -> Any:
        """Return one table with the rows of several, without a copy of those that have all fields."""
        if not len(self._known):
            return fieldless(sum(table.num_rows for table in tables))
        # pandas needs a chunk of each column. Arrow's empty_table() has no extension types inside documents and lists.
        empty = fitted(fieldless(0), self._known)
        return pa.concat_tables([empty, *(fitted(table, self._known) for table in tables)])

    def _piece(self, batch: bytes, start: int, end: int) -> Any:
        if self._schema is None:
            return self._inferred(batch, start, end)
        context = PyMongoArrowContext(
            self._schema, codec_options=self._codec_options, allow_invalid=self._allow_invalid
        )
        self._feed(context, batch, start, end)
        return context.finish()

    def _inferred(self, batch: bytes, start: int, end: int) -> Any:
        while True:
            known = self._known
            inference = Inference(known, self._codec_options)
            try:
                self._feed(inference, batch, start, end)
            except TypeError:
                # In a field of dates, the decoder takes no value of another type, unless it knew the field before.
                self._learn(inference.finish())
                if self._known == known:
                    raise
            else:
                columns = inference.finish()
                self._learn(columns)
                return pa.table(columns) if columns else fieldless(sum(1 for _ in pieces(batch, start, end, 0)))

    def _learn(self, columns: dict[str, Any]) -> None:
        kinds = dict(zip(self._known.names, self._known.types, strict=True))
        for name, column in columns.items():
            kinds[name] = widened(kinds.get(name, pa.null()), column.type, name)
        self._known = pa.schema(list(kinds.items()))

    def _feed(self, context: PyMongoArrowContext | Inference, batch: bytes, start: int, end: int) -> None:
        for first, last in pieces(batch, start, end, SLICE):
            if self._is_stopped:
                raise Stopped
            context.process_bson_stream(batch[first:last])
            # Hand over the lock now: otherwise the event loop waits 5 ms more, at each read of its socket.
            sleep(0)
