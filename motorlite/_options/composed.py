"""Pure: parses values with several settings in one text: ``queue,maxDepth:500,timeout:5s``.

Connection strings need this form, and keyword arguments may use it. The names are the attributes of the class, in the
spelling of connection strings or of Python.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from motorlite._options.values import Unusable, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_WORDS: Final = {"true": True, "false": False, "none": None}
# Compiled on demand, since few clients need them.
_INTEGER: Final = r"[+-]?[0-9]+"
_NUMBER: Final = r"[+-]?[0-9]+\.[0-9]+"
_DURATION: Final = r"([0-9]+(?:\.[0-9]+)?)(ms|s|m)"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}


def scalar(text: str) -> Any:
    """Return a boolean, None, a number, a duration in seconds, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(_INTEGER, text):
        return int(text)
    if re.fullmatch(_NUMBER, text):
        return float(text)
    if found := re.fullmatch(_DURATION, text):
        return float(found[1]) * _SECONDS[found[2]]
    return text


def settings(text: str, names: Iterable[str], first: str | None = None) -> dict[str, Any]:
    """Return the settings in `text` by their names in Python.

    Args:
        text: ``name:value`` pairs, separated by commas.
        names: The names that may occur, in Python's spelling.
        first: The name of a first value that has none.

    Raises:
        Unusable: A setting is unknown, occurs twice, or has no name or no value.
    """
    known = {_plain(name): name for name in names}
    found: dict[str, Any] = {}
    for position, part in enumerate(text.split(",")):
        name, colon, item = (word.strip() for word in part.partition(":"))
        if not colon and first is not None and not position:
            name, item = first, name
        elif not colon or not item:
            raise Unusable(f"has {part.strip()!r}, which is not a setting of the form name:value")
        key = known.get(_plain(name))
        if key is None:
            like = suggestion(_plain(name), {plain: camel(right) for plain, right in known.items()})
            raise Unusable(f"has the unknown setting {name!r}{like or ';'} known are {', '.join(map(camel, names))}")
        if key in found:
            raise Unusable(f"has the setting {camel(key)} twice")
        found[key] = scalar(item)
    return found


def composed(make: Callable[..., Any], text: str, first: str | None = None, names: Iterable[str] = ()) -> Any:
    """Call `make` with the settings in `text`, and return the result.

    Args:
        make: A dataclass, or a function with parameters of `names`.
        text: The settings.
        first: The name of a first value that has none.
        names: The parameters; those of a dataclass by default.

    Raises:
        Unusable: A setting is unknown, or its value is wrong.
    """
    allowed = [*names] or [field.name for field in fields(make) if field.init]  # type: ignore[arg-type]
    return checked(make, settings(text, allowed, first))


def checked(make: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return ``make(**arguments)``, and blame the option for its errors.

    Raises:
        Unusable: An argument is wrong.
    """
    try:
        return make(**arguments)
    except (TypeError, ValueError) as error:
        raise Unusable(f"is wrong: {error}") from None


def camel(name: str) -> str:
    """Return the spelling of connection strings: ``max_depth`` is ``maxDepth``."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
