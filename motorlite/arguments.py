"""Pure: checks of what callers pass, and the normal form of hints, sorts, projections and index keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias

from bson.raw_bson import RawBSONDocument

IndexKeys: TypeAlias = Sequence[str | tuple[str, int | str | Mapping[str, Any]]] | Mapping[str, Any]
"""Keys with directions: a mapping, or a sequence of names and (name, direction) pairs."""

Hint: TypeAlias = str | IndexKeys
"""An index by its name or by its keys."""

Pipeline: TypeAlias = Sequence[Mapping[str, Any]]
"""The stages of an aggregation or of an update."""

ASCENDING = 1


def check_mapping(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a mapping."""
    # The usual type first: asking the abstract class takes several times as long.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise TypeError(f"{option} must be a mapping, not {type(value).__name__}")


def check_document(option: str, value: object) -> None:
    """Raise TypeError unless `value` can be inserted: it can be given an _id, or is a RawBSONDocument."""
    if not isinstance(value, (MutableMapping, RawBSONDocument)):
        raise TypeError(f"{option} must be a mutable mapping or a RawBSONDocument, not {type(value).__name__}")


def check_boolean(option: str, value: object) -> None:
    """Raise TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{option} must be True or False, not {value!r}")


def check_string(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{option} must be a string, not {type(value).__name__}")


def check_list(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a list."""
    if not isinstance(value, list):
        raise TypeError(f"{option} must be a list, not {type(value).__name__}")


def check_replacement(replacement: object) -> None:
    """CRUD specification, "Update vs. Replace Validation": only the first key is looked at."""
    check_mapping("replacement", replacement)
    if isinstance(replacement, RawBSONDocument):
        return  # looking at a key would decode the whole document; the server checks it
    first = next(iter(replacement), "")  # type: ignore[call-overload]  # checked to be a mapping above
    if isinstance(first, str) and first.startswith("$"):
        raise ValueError(f"replacement must not begin with an update operator, but begins with {first!r}")


def check_update(update: object) -> None:
    """CRUD specification, "Update vs. Replace Validation"; a pipeline (a list) is an update as well."""
    if type(update) is not dict and not isinstance(update, (Mapping, list)):
        raise TypeError(f"update must be a mapping or a list of stages, not {type(update).__name__}")
    if not update:
        raise ValueError("update must not be empty")
    if not isinstance(update, list):
        first = next(iter(update))
        if not (isinstance(first, str) and first.startswith("$")):
            raise ValueError(f"update must begin with an update operator ($set ...), but begins with {first!r}")


def collation_document(collation: object) -> Mapping[str, Any] | None:
    """A collation as the commands take it, from a mapping or from an object with a `document`."""
    if collation is None or isinstance(collation, Mapping):
        return collation
    document = getattr(collation, "document", None)
    if isinstance(document, Mapping):
        return document
    raise TypeError(f"collation must be a Collation, a mapping or None, not {type(collation).__name__}")


def index_pairs(keys: Hint, direction: int | str | None = None) -> list[tuple[str, Any]]:
    """`keys` (a name, a mapping, or a sequence of names and pairs) as (name, direction) pairs."""
    if direction is not None:
        if not isinstance(keys, str):
            raise TypeError(f"a direction goes with one key name, not with {type(keys).__name__}")
        return [(keys, direction)]
    if isinstance(keys, str):
        return [(keys, ASCENDING)]
    if isinstance(keys, Mapping):
        return list(keys.items())
    if not isinstance(keys, (list, tuple)):
        raise TypeError(f"keys must be a name, a mapping or a list of (name, direction) pairs, not {keys!r}")
    return [(item, ASCENDING) if isinstance(item, str) else item for item in keys]


def index_document(keys: IndexKeys) -> dict[str, Any]:
    """`keys` of an index, a sort or a hint as an ordered document."""
    if isinstance(keys, str) or not isinstance(keys, (list, tuple, Mapping)):
        raise TypeError(f"expected a mapping or a list of (name, direction) pairs, not {keys!r}")
    if not keys:
        raise ValueError("the list of keys must not be empty")
    document: dict[str, Any] = {}
    for pair in index_pairs(keys):
        try:
            name, direction = pair
        except (TypeError, ValueError):
            raise TypeError(f"expected a name or a (name, direction) pair, not {pair!r}") from None
        if not isinstance(name, str):
            raise TypeError(f"the name of a key must be a str, not {name!r}")
        if not isinstance(direction, (str, int, Mapping)):
            raise TypeError(f"the direction of {name!r} must be 1, -1, '2d' or the like, not {direction!r}")
        document[name] = direction
    return document


def index_name(pairs: Iterable[tuple[str, Any]]) -> str:
    """The name of an index that was given none (index management specification)."""
    return "_".join(f"{name}_{direction}" for name, direction in pairs)


def hint_value(hint: Hint | None) -> str | dict[str, Any] | None:
    """A hint as the commands take it."""
    return hint if hint is None or isinstance(hint, str) else index_document(hint)


def fields_document(fields: Mapping[str, Any] | Iterable[str], option: str = "projection") -> Mapping[str, Any]:
    """A projection as the commands take it: a mapping as it is, names as inclusions."""
    if isinstance(fields, Mapping):
        return fields
    if isinstance(fields, str) or not isinstance(fields, Iterable):
        raise TypeError(f"{option} must be a mapping or a list of names, not {type(fields).__name__}")
    names = list(fields)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"{option} must be a mapping or a list of names, each a str")
    return dict.fromkeys(names, 1)
