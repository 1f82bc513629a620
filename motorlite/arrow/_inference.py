"""Shell: decodes documents without a schema, and goes on from the types of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
import pyarrow as pa
from pymongoarrow.context import PyMongoArrowContext

from motorlite.arrow._extra import BuilderManager, Schema
from motorlite.arrow._types import empty_documents

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions

DOCUMENT: Final = ord(bson.BSONOBJ)
ARRAY: Final = ord(bson.BSONARR)


class Inference:
    """What pymongoarrow's context without a schema does, had it decoded the earlier documents too.

    pymongoarrow's own begins without any type. So the same documents would give other values, depending on where a scan
    is cut into pieces.

    Args:
        known: The fields of the earlier documents.
        codec_options: The collection's, for its time zone.
    """

    def __init__(self, known: Any, codec_options: CodecOptions[Any]) -> None:
        # The decoder makes a column of its own of a field with a dot in its name inside a document. Where it knows of
        # such a column and finds none, it fails or crashes.
        known = pa.schema([field for field in known if "." not in field.name])
        builders = PyMongoArrowContext(Schema.from_arrow(known), codec_options=codec_options).schema_map
        self._manager = BuilderManager(builders, False, codec_options.tzinfo, allow_invalid=True)

    def process_bson_stream(self, stream: bytes) -> None:
        """Decode documents.

        Raises:
            TypeError: A date was followed by a value of another type, and the field is not known yet.
        """
        self._manager.process_bson_stream(stream, len(stream))

    def finish(self) -> dict[str, Any]:
        """Return the columns. Their types are right also after an error, but not their lengths.

        Raises:
            ValueError: The decoder cannot tell a field with a dot in its name from one of a document.
        """
        try:
            return columns(self._manager.finish())
        except KeyError as error:
            raise ValueError(f"pymongoarrow cannot decode a dot in the name of a field, near {error}") from error


def columns(builders: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that pymongoarrow's builders have filled, by name.

    A builder's name is the way to its values: "a.b" for a field of documents, "a[]" for the items of lists. Unlike
    pymongoarrow's own function, this one counts documents that are all empty.
    """
    fields: dict[str, dict[str, str]] = {
        name: {} for name, builder in builders.items() if builder.type_marker == DOCUMENT
    }
    for name in builders:
        parent, _, field = name.rpartition(".")
        if parent in fields and "[" not in field:
            fields[parent][field] = name
    arrays: dict[str, Any] = {}
    # What is nested comes after what it is part of.
    for name, builder in reversed(builders.items()):
        if builder.type_marker == DOCUMENT:
            parts = {field: arrays.pop(full) for field, full in fields[name].items()}
            arrays[name] = (
                pa.StructArray.from_arrays(list(parts.values()), names=list(parts))
                if parts
                else empty_documents(len(builder))
            )
        elif builder.type_marker == ARRAY:
            items = arrays.pop(f"{name}[]", None)
            arrays[name] = pa.ListArray.from_arrays(builder.finish(), pa.nulls(0) if items is None else items)
        else:
            arrays[name] = builder.finish()
    return {name: arrays[name] for name in builders if name in arrays}
