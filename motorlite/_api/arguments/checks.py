"""Pure: checks of the arguments of methods.

Methods whose arguments become a command pass on others as fields of the command, as PyMongo does, unless a name looks
misspelt.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from motorlite._base import arguments
from motorlite._base.arguments import converted, text
from motorlite.errors import InvalidName
from motorlite.write_concern import WriteConcern

if TYPE_CHECKING:
    from collections.abc import Mapping

# By name, for all methods. Of the options without a check, `session` and `timeoutMode` are checked where they are used,
# and others by the server.
_CHECKS: Final[arguments.Checks] = {
    **dict.fromkeys(("maxTimeMS", "maxAwaitTimeMS"), arguments.server_milliseconds),
    **dict.fromkeys(("allowDiskUse", "bypassDocumentValidation", "capped", "dropTarget", "explain"), arguments.boolean),
    **dict.fromkeys(("authorizedCollections", "authorizedDatabases", "nameOnly"), arguments.boolean),
    **dict.fromkeys(("batchSize", "limit", "skip"), arguments.count),
    **dict.fromkeys(("expireAfterSeconds", "max"), arguments.integer),
    **dict.fromkeys(("changeStreamPreAndPostImages", "filter", "let", "storageEngine"), arguments.mapping),
    **dict.fromkeys(("indexOptionDefaults", "timeseries", "validator"), arguments.mapping),
    **dict.fromkeys(("validationAction", "validationLevel", "viewOn"), arguments.text),
    "collation": arguments.collation_document,
    "hint": arguments.hint_value,
    "pipeline": arguments.mappings,
    "prefetch": arguments.zero_or_one,
    "timeoutMS": arguments.milliseconds,
}


@cache
def checks_of(kind: Any) -> arguments.Checks:
    """Return the checks of the options in a TypedDict."""
    return {name: _CHECKS.get(name, arguments.anything) for name in kind.__optional_keys__}


def given_options(
    method: str, kind: type[Mapping[str, Any]], options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a method that are in the TypedDict `kind`, checked, and further fields of the command.

    Raises:
        TypeError, ValueError: See `arguments.checked`.
    """
    further: dict[str, Any] = {}
    return arguments.checked(method, options, checks_of(kind), further), further


@cache
def _snake_case(name: str) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


def for_operation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as keyword arguments of an operation, whose names are those of the server in snake case."""
    return {_snake_case(name): value for name, value in options.items()}


def optional(name: str, value: Any, check: arguments.Check) -> Any:
    """What `check` makes of an argument, unless it is None; see `arguments.converted`."""
    return None if value is None else converted(name, value, check)


def given_write_concern(further: dict[str, Any], usual: WriteConcern) -> WriteConcern:
    """Return the write concern among fields of the command, from which it is taken out, or else the usual one.

    Raises:
        TypeError, ValueError: It is not valid.
    """
    return WriteConcern(**further.pop("writeConcern")) if "writeConcern" in further else usual


# The names of databases and collections. What is sent is the text of a name: `str(...)` of a member of an enumeration
# of strings is the name of the member.

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
    return str.__str__(name)


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
    return str.__str__(name)
