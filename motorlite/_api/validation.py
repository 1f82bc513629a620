"""Pure: checks of arguments; an error names the option, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

from motorlite.errors import InvalidName

Check: TypeAlias = Callable[[Any], Any]
"""Returns a value in the form that the command needs; its TypeError or ValueError says what is allowed."""

Checks: TypeAlias = Mapping[str, Check]
"""The options of a method by name."""

# BSON has no such integers.
_TOO_LONG = 2**63
_FORBIDDEN_IN_DATABASE_NAMES = frozenset(' ./\\"$\x00')


def checked(method: str, options: Mapping[str, Any], checks: Checks) -> dict[str, Any]:
    """The options that are not None, each in the form that the command needs.

    Raises:
        TypeError: `method` has no such option, or a value is of a wrong type.
        ValueError: A value is wrong.
    """
    found = {}
    for name, value in options.items():
        check = checks.get(name)
        if check is None:
            near = get_close_matches(name, checks, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            allowed = ", ".join(sorted(checks))
            raise TypeError(f"{method}() has no option {name}={value!r}{hint} (allowed: {allowed})")
        if value is not None:
            found[name] = converted(name, value, check)
    return found


def converted(name: str, value: Any, check: Check) -> Any:
    """What `check` makes of `value`; its errors get the option's name and value."""
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}={value!r} is wrong: {error}") from None


def wrong(name: str, value: Any, allowed: str) -> str:
    """The message of an error about one argument."""
    return f"{name}={value!r} is wrong; allowed: {allowed}"


def instance(name: str, value: Any, kind: type, allowed: str | None = None) -> None:
    """Refuse a `value` that is not a `kind`."""
    if not isinstance(value, kind):
        raise TypeError(wrong(name, value, allowed or f"an instance of {kind.__name__}"))


# --- checks ---


def anything(value: Any) -> Any:
    """Whatever BSON can hold."""
    return value


def integer(value: Any) -> int:
    """An integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("allowed is an integer")
    return value


def count(value: Any) -> int:
    """An integer that is not negative."""
    if integer(value) < 0:
        raise ValueError("allowed is an integer of at least 0")
    return int(value)


def positive(value: Any) -> int:
    """A positive integer."""
    if integer(value) < 1:
        raise ValueError("allowed is an integer of at least 1")
    return int(value)


def milliseconds(value: Any) -> int | float:
    """A duration in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("allowed is a number of milliseconds")
    if not value >= 0:
        raise ValueError("allowed is a number of milliseconds of at least 0")
    return value


def seconds(value: Any) -> int | float:
    """A duration in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("allowed is a number of seconds")
    if not value >= 0:
        raise ValueError("allowed is a number of seconds of at least 0")
    return value


def server_milliseconds(value: Any) -> int:
    """A duration for the server, which wants whole milliseconds."""
    if milliseconds(value) >= _TOO_LONG:
        raise ValueError("allowed is a number of milliseconds below 2**63")
    return int(value)


def boolean(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError("allowed is True or False")
    return value


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise TypeError("allowed is a string")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping."""
    if not isinstance(value, Mapping):
        raise TypeError("allowed is a mapping")
    return value


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """A list of mappings."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, Mapping) for item in value):
        raise TypeError("allowed is a list of mappings")
    return list(value)


# --- names ---


def database_name(name: Any) -> str:
    """`name`, which must be allowed for a database."""
    converted("name", name, text)
    if not name:
        raise InvalidName("a database name cannot be empty")
    found = sorted(_FORBIDDEN_IN_DATABASE_NAMES.intersection(name))
    # Users of external authentication mechanisms live in "$external".
    if found and name != "$external":
        raise InvalidName(f"a database name cannot contain {found[0]!r}: {name!r}")
    return str(name)


def collection_name(name: Any) -> str:
    """`name`, which must be allowed for a collection."""
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
