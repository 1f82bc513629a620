"""Pure: the names of databases and collections."""

from __future__ import annotations

from typing import Any

from motorlite._base.arguments import converted, text
from motorlite.errors import InvalidName

_FORBIDDEN_IN_DATABASE_NAMES = frozenset(' ./\\"$\x00')


def database_name(name: Any) -> str:
    """Return `name` if it is a valid database name."""
    converted("name", name, text)
    if not name:
        raise InvalidName("a database name cannot be empty")
    found = sorted(_FORBIDDEN_IN_DATABASE_NAMES.intersection(name))
    # Users of external authentication mechanisms are stored in "$external".
    if found and name != "$external":
        database, _, collection = name.partition(".")
        hint = f" (a collection is client[{database!r}][{collection!r}])" if "." in found and collection else ""
        raise InvalidName(f"a database name cannot contain {found[0]!r}: {name!r}{hint}")
    return str(name)


def collection_name(name: Any) -> str:
    """Return `name` if it is a valid collection name."""
    converted("name", name, text)
    if not name or ".." in name:
        raise InvalidName(f"a collection name cannot be empty or have an empty part: {name!r}")
    if name[0] == "." or name[-1] == ".":
        raise InvalidName(f"a collection name cannot start or end with a dot: {name!r}")
    if "$" in name and not name.startswith(("oplog.$main", "$cmd")):
        raise InvalidName(f"a collection name cannot contain '$': {name!r}")
    if "\x00" in name:
        raise InvalidName(f"a collection name cannot contain the null character: {name!r}")
    return str(name)
