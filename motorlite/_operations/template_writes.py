"""Pure: writes of one document without options, whose commands differ in one field only."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import estimated_size
from motorlite._operations.common import add_write_concern
from motorlite._operations.contract import Command, Template, named_collection
from motorlite._operations.single_writes import Delete, Insert, Update
from motorlite._operations.statements import is_multi
from motorlite._topology.selection import WRITABLE
from motorlite.write_concern import DEFAULT_WRITE_CONCERN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson.codec_options import CodecOptions

    from motorlite._base.values import Document, ServerFacts
    from motorlite.write_concern import WriteConcern


MANY_FIELDS: Final = 1000
"""A copy of a document with more fields than that, which puts its `_id` first, is avoided."""
_new = object.__new__


class _FromTemplate:
    """What operations with a template have in common."""

    __slots__ = ()

    name: str
    template: Template
    varying: list[Any]

    @property
    def collection_name(self) -> str | None:
        return named_collection(self.template.command.document)

    def size_hint(self) -> int:
        return estimated_size(self.varying)

    def command(self, facts: ServerFacts) -> Command:
        template = self.template
        document = template.command.document.copy()
        document[template.varying] = self.varying
        if "writeConcern" in document:
            # Time limits change it.
            document["writeConcern"] = dict(document["writeConcern"])
        return Command(self.name, document)


class TemplateInsert(_FromTemplate, Insert):
    """`Insert` without options. Made by `TemplateWrites`, so it has no constructor of its own.

    Retry: retryable write.
    """

    __slots__ = ("template", "varying")

    template: Template
    is_acknowledged = is_retryable = True


class TemplateLargeInsert(TemplateInsert):
    """`TemplateInsert` of a document with many fields, which is encoded already. `bson` puts its `_id` first.

    Retry: retryable write.
    """

    __slots__ = ("whole",)

    whole: Document

    def command(self, facts: ServerFacts) -> Command:
        command, whole = super().command(facts), self.whole
        command.document["documents"] = [{"_id": whole["_id"], **whole}]
        return command


class TemplateUpdate(_FromTemplate, Update):
    """`Update` without options but those of its statement. Made by `TemplateWrites`.

    Retry: retryable write; not with `multi`.
    """

    __slots__ = ("template", "varying")

    template: Template
    is_acknowledged = True


class TemplateDelete(_FromTemplate, Delete):
    """`Delete` without options but those of its statement. Made by `TemplateWrites`.

    Retry: retryable write; not with a limit of 0 (deleteMany).
    """

    __slots__ = ("template", "varying")

    template: Template
    is_acknowledged = True


_Change = TypeVar("_Change", TemplateUpdate, TemplateDelete)


class TemplateWrites:
    """Makes the writes of a collection that have no options but those of their statements.

    Attributes:
        are_possible: Whether its writes are acknowledged; otherwise the methods must not be called.
    """

    __slots__ = ("_codec_options", "_database", "_delete", "_insert", "_update", "are_possible")

    def __init__(
        self,
        database: str,
        collection: str,
        *,
        codec_options: CodecOptions[Any] = DEFAULT_CODEC_OPTIONS,
        write_concern: WriteConcern = DEFAULT_WRITE_CONCERN,
    ) -> None:
        self.are_possible: bool = write_concern.acknowledged
        self._database = database
        self._codec_options = codec_options
        self._insert = _template("insert", collection, "documents", write_concern)
        self._update = _template("update", collection, "updates", write_concern)
        self._delete = _template("delete", collection, "deletes", write_concern)

    # Calling the classes would take twice as long as these methods.

    def insert(self, document: Mapping[str, Any]) -> TemplateInsert:
        """Return the operation that inserts a document, which has its `_id` first, or more than `MANY_FIELDS`."""
        operation: TemplateInsert
        if type(document) is dict and len(document) > MANY_FIELDS:
            large: TemplateLargeInsert = _new(TemplateLargeInsert)
            large.whole = document
            operation, document = large, RawBSONDocument(bson.encode(document, codec_options=self._codec_options))
        else:
            operation = _new(TemplateInsert)
        operation.database = self._database
        operation.selector = WRITABLE
        operation.read_preference = None
        operation.codec_options = self._codec_options
        operation.template = self._insert
        operation.varying = [document]
        return operation

    def update(self, statement: Document) -> TemplateUpdate:
        """Return the operation for one statement of `update_statement` or `replace_statement`."""
        return self._changing(_new(TemplateUpdate), self._update, statement)

    def delete(self, statement: Document) -> TemplateDelete:
        """Return the operation for one statement of `delete_statement` without a hint."""
        return self._changing(_new(TemplateDelete), self._delete, statement)

    def _changing(self, operation: _Change, template: Template, statement: Document) -> _Change:
        operation.database = self._database
        operation.selector = WRITABLE
        operation.read_preference = None
        operation.codec_options = self._codec_options
        operation.is_retryable = not is_multi(statement)
        operation.template = template
        operation.varying = [statement]
        return operation


@lru_cache(1000)
def _template(name: str, collection: str, varying: str, write_concern: WriteConcern) -> Template:
    """Return the template of a command, which many handles may share."""
    document: Document = {name: collection, "ordered": True, varying: []}
    add_write_concern(document, write_concern)
    return Template(Command(name, document), varying)
