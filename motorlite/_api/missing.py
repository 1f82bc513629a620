"""Pure: the names of a handle's attributes in messages, above all those that a handle lacks."""

from __future__ import annotations

from types import FunctionType
from typing import Final

from motorlite._base.arguments import similar

# The modules whose classes are parts of a single public class.
_PARTS: Final = tuple(f"motorlite._api.{name}" for name in ("client", "collection.", "database"))

# What the methods became that PyMongo had before version 4, or before version 3, where similarity would mislead.
_FORMER: Final = {
    **dict.fromkeys(("group", "inline_map_reduce", "map_reduce"), "aggregate"),
    **dict.fromkeys(("initialize_ordered_bulk_op", "initialize_unordered_bulk_op"), "bulk_write"),
    "collection_names": "list_collection_names",
    "count": "count_documents",
    "database_names": "list_database_names",
    "find_and_modify": "find_one_and_update",
    "remove": "delete_many",
    "save": "replace_one",
}


def not_callable(kind: str, owner: type, name: str, taken_for: str) -> str:
    """Return the message for the call of a method that `owner` lacks, so that its name was taken for something else."""
    methods = [each for each in dir(owner) if each[0] != "_" and callable(getattr(owner, each))]
    near = _FORMER[name] if _FORMER.get(name) in methods else similar(name, methods)
    hint = f"; did you mean {near}()?" if near else ""
    return f"{owner.__name__} has no method {name!r}{hint} ({kind} is not callable: the name was taken for {taken_for})"


def name_after(owner: type) -> None:
    """Name the methods of a public class after it, not after the parts that define them: Python's messages have them.

    What several classes share keeps its name.
    """
    for part in owner.__mro__:
        if part.__module__.startswith(_PARTS):
            for value in vars(part).values():
                if isinstance(value, FunctionType):
                    value.__qualname__ = f"{owner.__name__}.{value.__name__}"


def no_attribute(owner: str, name: str, instead: str) -> AttributeError:
    """Return the error for an attribute that `owner` lacks. `instead` is a clause that suggests a replacement."""
    return AttributeError(f"{owner} has no attribute {name!r}{instead}")
