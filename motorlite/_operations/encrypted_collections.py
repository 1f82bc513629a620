"""Pure: the collections and the index behind a collection with encrypted fields (queryable encryption)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite._base.wire_versions import V7_0
from motorlite._operations.collections import Create, Drop
from motorlite._operations.indexes import CreateIndexes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._operations.contract import Operation
    from motorlite.write_concern import WriteConcern

ENCRYPTED_FIELDS: Final = "encryptedFields"
# The server keeps the tokens of a document in this field.
_SAFE_CONTENT: Final = "__safeContent__"


def state_collections(name: str, fields: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the two collections that hold the state of queries."""
    return fields.get("escCollection", f"enxcol_.{name}.esc"), fields.get("ecocCollection", f"enxcol_.{name}.ecoc")


def creation(
    database: str, name: str, options: Mapping[str, Any], write_concern: WriteConcern
) -> tuple[list[Operation[Any]], list[Operation[Any]]]:
    """Return the operations before and after the creation of a collection with these `options`."""
    clustered = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}
    # MongoDB 6.0 has an earlier form of queryable encryption, which is incompatible.
    needs = ((ENCRYPTED_FIELDS, V7_0),)
    before: list[Operation[Any]] = [
        Create(database, state, options=clustered, write_concern=write_concern, needs=needs)
        for state in state_collections(name, options[ENCRYPTED_FIELDS])
    ]
    index = {"key": {_SAFE_CONTENT: 1}, "name": f"{_SAFE_CONTENT}_1"}
    return before, [CreateIndexes(database, name, [index], write_concern=write_concern)]


def removal(database: str, name: str, fields: Mapping[str, Any], write_concern: WriteConcern) -> list[Operation[Any]]:
    """Return the operations before a collection with these encrypted fields is dropped."""
    return [Drop(database, state, write_concern=write_concern) for state in state_collections(name, fields)]
