"""Pure: checks callers' arguments and normalizes hints, sorts, projections and index keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, ItemsView, Iterable, Mapping, MutableMapping, Sequence
from inspect import currentframe
from types import CoroutineType
from typing import Any, Final, TypeAlias, cast

from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import cut

IndexKeys: TypeAlias = Sequence[str | tuple[str, int | str | Mapping[str, Any]]] | Mapping[str, Any]
"""Keys with directions: a mapping, or a sequence of names and (name, direction) pairs."""

Bounds: TypeAlias = Sequence[tuple[str, Any]] | Mapping[str, Any]
"""Values for the keys of an index, in their order: a mapping, or a sequence of (name, value) pairs."""

Hint: TypeAlias = str | IndexKeys
"""An index by its name or by its keys."""

Pipeline: TypeAlias = Sequence[Mapping[str, Any]]
"""The stages of an aggregation or of an update."""

ASCENDING = 1

Check: TypeAlias = Callable[[Any], Any]
"""Returns a value in the form that the command needs; raises WrongType or WrongValue."""

Checks: TypeAlias = Mapping[str, Check]
"""The options of a method by name."""

_PACKAGE: Final = __name__.partition(".")[0]
# Characters of a wrong value that an error repeats.
_SHOWN = 200
# BSON integers are smaller.
_TOO_LONG = 2**63
# Floats represent every integer up to this one.
_LARGEST = 2.0**53
# How far up the stack, at most, the method is whose options are checked.
_FRAMES: Final = 6
# How similar to an option a name must be to count as a typo, where it could also be a field of the command.
_MISSPELT: Final = 0.8
# Fields of commands that the driver changes or reads.
_CONCERNS: Final = ("readConcern", "writeConcern")
_PAIRS: Final = "a mapping or a list of (name, direction) pairs"
# Words that people write for a direction.
_DIRECTIONS: Final = {"asc": 1, "ascending": 1, "1": 1, "desc": -1, "descending": -1, "-1": -1}


DOCUMENTS: Final = (MutableMapping, RawBSONDocument)
"""What can be inserted: it can receive an _id, or is a RawBSONDocument."""


class WrongType(TypeError):
    """A value of a wrong type; says what is allowed (``"an integer"``), and perhaps what to write instead."""


class WrongValue(ValueError):
    """A wrong value of the right type; says what is allowed (``"an integer of at least 0"``)."""


def checked(
    method: str, options: Mapping[str, Any], checks: Checks, further: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the options that are not None, each in the form that the command needs.

    Args:
        method: The public method.
        options: Its options.
        checks: The known options, with their checks.
        further: Receives options that are not known, unless their names look misspelt: fields of the command, which the
            server checks. None: no other options are allowed.

    Raises:
        TypeError: `method` has no such option, or a value has the wrong type.
        ValueError: A value is wrong.
    """
    found = {}
    for name, value in options.items():
        check = checks.get(name)
        if check is not None:
            if value is not None:
                found[name] = converted(name, value, check)
        elif further is not None and name in _CONCERNS:
            further[name] = converted(name, value, mapping)
        elif further is None or similar(name, {*checks, *_parameters(method)}, _MISSPELT):
            raise _no_option(method, name, value, checks)
        else:
            further[name] = value
    return found


def _no_option(method: str, name: str, value: object, checks: Checks) -> TypeError:
    known = sorted({*checks, *_parameters(method)})
    near = similar(name, known)
    hint = f"; did you mean {near}?" if near else f" (allowed: {', '.join(known)})"
    return TypeError(f"{method}() has no option {name}={cut(repr(value), _SHOWN)}{hint}")


def _parameters(method: str) -> Sequence[str]:
    """Return the parameters of the public method, which called the function that checks its options."""
    frame = currentframe()
    for _ in range(_FRAMES):
        frame = frame and frame.f_back
        if frame is not None and frame.f_code.co_name == method:
            code = frame.f_code
            return code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    return ()


def outside() -> int:
    """Return the `stacklevel` with which the caller of this function warns at the line that called the driver."""
    level, frame = 0, currentframe()
    while frame and frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


def similar(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the name in `known` that `name` most likely means, if any. ``maxPoolSize`` is max_pool_size.

    `least` is how similar it must be, from 0 to 1.
    """
    from difflib import get_close_matches

    comparable = {each.lower().replace("_", ""): each for each in known}
    near = get_close_matches(name.lower().replace("_", ""), comparable, 1, least)
    return comparable[near[0]] if near else None


def converted(name: str, value: Any, check: Check) -> Any:
    """What `check` makes of `value`. Its errors get the name of the argument, and the value."""
    try:
        return check(value)
    except WrongType as error:
        raise TypeError(wrong(name, value, *error.args)) from None
    except WrongValue as error:
        raise ValueError(wrong(name, value, *error.args)) from None
    except (TypeError, ValueError) as error:
        if str(error).startswith(f"{name} "):
            raise
        raise type(error)(f"{name}: {error}") from None


def wrong(name: str, value: object, allowed: str, instead: str = "") -> str:
    """The message of an error about one argument. `instead` says what to write (``"write [1]"``)."""
    if isinstance(value, CoroutineType):
        instead = "await it first"
    elif hasattr(type(value), "__anext__"):
        instead = "read it first, as with `await cursor.to_list()`"
    return f"{name} must be {allowed}, not {cut(repr(value), _SHOWN)}{instead and '; '}{instead}"


def located(error: TypeError | ValueError, where: str) -> TypeError | ValueError:
    """Return `error` with the place of the value that it is about."""
    # Those of an application's own mapping may take other arguments.
    return type(error)(f"{where}: {error}") if type(error) in (TypeError, ValueError) else error


def instance(name: str, value: Any, kind: type, allowed: str | None = None) -> None:
    """Raise TypeError unless `value` is a `kind`."""
    if not isinstance(value, kind):
        raise TypeError(wrong(name, value, allowed or f"an instance of {kind.__name__}"))


# --- checks ---


def anything(value: Any) -> Any:
    """Accept any value; BSON encoding checks it."""
    return value


def integer(value: Any) -> int:
    """Check an integer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongType("an integer")
    return value


def count(value: Any) -> int:
    """Check a non-negative integer."""
    if integer(value) < 0:
        raise WrongValue("an integer of at least 0")
    return int(value)


def positive(value: Any) -> int:
    """Check a positive integer."""
    if integer(value) < 1:
        raise WrongValue("an integer of at least 1")
    return int(value)


def zero_or_one(value: Any) -> int:
    """Check 0 or 1."""
    if integer(value) not in (0, 1):
        raise WrongValue("0 or 1")
    return int(value)


def milliseconds(value: Any) -> int | float:
    """Check a duration in milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType("a number of milliseconds")
    if not value >= 0:
        raise WrongValue("a number of milliseconds of at least 0")
    return value


def seconds(value: Any) -> int | float:
    """Check a duration in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType("a number of seconds")
    if not value >= 0:
        raise WrongValue("a number of seconds of at least 0")
    return value


def server_milliseconds(value: Any) -> int:
    """Return a duration for the server, which requires whole milliseconds."""
    if milliseconds(value) >= _TOO_LONG:
        raise WrongValue("a number of milliseconds below 2**63")
    return int(value)


def boolean(value: Any) -> bool:
    """Check True or False."""
    if not isinstance(value, bool):
        raise WrongType("True or False")
    return value


def text(value: Any) -> str:
    """Check a string."""
    if not isinstance(value, str):
        raise WrongType("a string")
    return value


def mapping(value: Any) -> Mapping[str, Any]:
    """Check a mapping."""
    if not isinstance(value, Mapping):
        raise WrongType("a mapping", _as_mapping(value))
    return value


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Check a list of mappings."""
    if isinstance(value, Mapping):
        raise WrongType("a list of mappings", f"write {cut(repr([value]), _SHOWN)}")
    if not isinstance(value, list | tuple):
        raise WrongType("a list of mappings")
    for position, item in enumerate(value):
        if not isinstance(item, Mapping):
            raise WrongType("a list of mappings", wrong(f"item {position}", item, "a mapping"))
    return list(value)


# --- checks by name, for what is checked often ---


def check_mapping(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a mapping."""
    # The usual type first: isinstance with the abstract class takes several times as long.
    if type(value) is not dict and not isinstance(value, Mapping):
        raise TypeError(wrong(option, value, "a mapping", _as_mapping(value)))


def _as_mapping(value: object) -> str:
    """Say which mapping `value` was probably meant to be."""
    if isinstance(value, ObjectId):
        return f"write {{'_id': {value!r}}}"
    if isinstance(value, str) and re.fullmatch("[0-9a-fA-F]{24}", value):
        return f"write {{'_id': ObjectId({value!r})}}"
    if isinstance(value, list | tuple) and value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        return "write dict(...) around it"
    return ""


def check_document(option: str, value: object) -> None:
    """Raise TypeError unless `value` can be inserted."""
    if not isinstance(value, DOCUMENTS):
        instead = "insert_many() takes a list of documents" if isinstance(value, list | tuple) else ""
        allowed = "a dict, another mutable mapping or a RawBSONDocument"
        raise TypeError(wrong(option, value, allowed, instead))


def check_boolean(option: str, value: object) -> None:
    """Raise TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(wrong(option, value, "True or False"))


def check_string(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a string."""
    if not isinstance(value, str):
        raise TypeError(wrong(option, value, "a string"))


def check_word(option: str, value: object, words: Collection[object], allowed: str) -> None:
    """Raise an error unless `value` is one of `words`."""
    if value not in words:
        kind = ValueError if isinstance(value, str) else TypeError
        raise kind(wrong(option, value, allowed))


def check_integer(option: str, value: object) -> None:
    """Raise TypeError unless `value` is an integer. True and False are not."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(wrong(option, value, "an integer"))


def check_number(option: str, value: object, noun: str, *kinds: type[float]) -> None:
    """Raise an error unless `value` is one of `kinds` and non-negative, finite and not above 2**53."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError(f"{option} must be a non-negative {noun}, not {value!r}")
    # The comparison is also false for NaN and infinities.
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{option} must be a non-negative {noun}, at most 2**53, not {value!r}")


def check_items(option: str, value: object, allowed: str) -> None:
    """Raise TypeError unless `value` can be a list of documents or requests: a mapping or a text is only one item."""
    if not isinstance(value, Iterable) or isinstance(value, Mapping | str | bytes):
        raise TypeError(wrong(option, value, allowed))


def check_list(option: str, value: object) -> None:
    """Raise TypeError unless `value` is a list."""
    if not isinstance(value, list):
        raise TypeError(wrong(option, value, "a list"))


def check_replacement(replacement: object) -> None:
    """Check a replacement by its first key only (CRUD specification, "Update vs. Replace Validation")."""
    check_mapping("replacement", replacement)
    if isinstance(replacement, RawBSONDocument):
        return  # reading a key would decode the whole document; the server checks it
    first = next(iter(replacement), "")  # type: ignore[call-overload]  # checked to be a mapping above
    if isinstance(first, str) and first.startswith("$"):
        raise ValueError(
            f"replacement must not begin with an update operator, but begins with {first!r}: write the fields of the "
            "new document, or use a method that updates"
        )


def check_update(update: object) -> None:
    """Check an update document or a pipeline (CRUD specification, "Update vs. Replace Validation")."""
    if type(update) is not dict and not isinstance(update, (Mapping, list)):
        raise TypeError(wrong("update", update, "a mapping or a list of stages"))
    if not update:
        raise ValueError(f"update must not be empty, but is {update!r}; write {{'$set': {{...}}}}")
    if not isinstance(update, list):
        first = next(iter(update))
        if not (isinstance(first, str) and first.startswith("$")):
            raise ValueError(
                f"update must begin with an update operator, but begins with {first!r}: write "
                f"{{'$set': {{{first!r}: ...}}}}, or use a method that replaces"
            )


def collation_document(collation: object) -> Mapping[str, Any] | None:
    """Return a collation in command form, from a mapping or an object with a `document`."""
    if collation is None or isinstance(collation, Mapping):
        return collation
    document = getattr(collation, "document", None)
    if isinstance(document, Mapping) and "locale" in document:  # a concern, say, has none
        return document
    raise TypeError(wrong("collation", collation, "a Collation, a mapping or None"))


def index_pairs(keys: Hint, direction: int | str | None = None) -> list[tuple[str, Any]]:
    """Return `keys` (a name, a mapping, or a sequence of names and pairs) as (name, direction) pairs."""
    if direction is not None:
        if not isinstance(keys, str):
            raise TypeError(f"a direction goes with one key name, not with {type(keys).__name__}")
        return [(keys, direction)]
    if isinstance(keys, str):
        return [(keys, ASCENDING)]
    if isinstance(keys, Mapping):
        return list(keys.items())
    # PyMongo accepts them, and libraries pass the items of its `IndexModel.document["key"]`.
    if isinstance(keys, ItemsView):
        return list(keys)
    if not isinstance(keys, (list, tuple)):
        raise TypeError(wrong("keys", keys, "a name, a mapping or a list of (name, direction) pairs"))
    return [(item, ASCENDING) if isinstance(item, str) else item for item in keys]


def index_document(keys: IndexKeys, option: str | None = None, *, are_bounds: bool = False) -> dict[str, Any]:
    """Return the `keys` of an index, a sort or a hint as an ordered document.

    `option`: the name of the argument; None where `converted` adds it to the error. `are_bounds`: the keys have values
    of any type, not directions.
    """
    if isinstance(keys, str) or not isinstance(keys, (list, tuple, Mapping, ItemsView)):
        raise WrongType(_PAIRS) if option is None else TypeError(wrong(option, keys, _PAIRS))
    if not keys:
        raise ValueError(f"the list of keys must not be empty; write [('name', {ASCENDING})]")
    document: dict[str, Any] = {}
    for pair in index_pairs(keys):
        try:
            name, direction = pair
        except TypeError:
            raise TypeError(_no_pair(keys, pair)) from None
        except ValueError:  # too many values, or too few
            raise ValueError(_no_pair(keys, pair)) from None
        if not isinstance(name, str):
            raise TypeError(f"the name of a key must be a str, not {name!r}")
        if not (are_bounds or isinstance(direction, (int, Mapping))):
            _check_word(f"the direction of {name!r}", direction)
        document[name] = direction
    return document


def bounds_document(bounds: Bounds) -> dict[str, Any]:
    """Return the bounds of an index, a mapping or pairs of names and values, as an ordered document."""
    return index_document(bounds, are_bounds=True)


def _check_word(what: str, direction: object) -> None:
    """Check a direction that is no number: the kind of an index."""
    allowed = "1, -1, '2d' or the like"
    if not isinstance(direction, str):
        raise TypeError(wrong(what, direction, allowed))
    meant = _DIRECTIONS.get(direction.lower())
    if meant is not None:
        raise ValueError(wrong(what, direction, allowed, f"write {meant}"))


def _no_pair(keys: Any, wrong_pair: object) -> str:
    message = f"expected a name or a (name, direction) pair, not {wrong_pair!r}"
    if not isinstance(keys, Mapping) and len(keys) == 2 and isinstance(keys[0], str) and keys[1] is wrong_pair:
        message += f"; write [({keys[0]!r}, {wrong_pair!r})]"
    return message


def index_name(keys: IndexKeys) -> str:
    """The default name of an index (index management specification).

    A field that appears twice is twice in the name, as in that of PyMongo: else the server would find another name.
    """
    return "_".join(f"{name}_{direction}" for name, direction in index_pairs(keys))


def hint_value(hint: Hint | None) -> str | dict[str, Any] | None:
    """Return a hint in command form."""
    return hint if hint is None or isinstance(hint, str) else index_document(hint, "hint")


def fields_document(fields: Mapping[str, Any] | Iterable[str], option: str = "projection") -> Mapping[str, Any]:
    """Return a projection in command form: a mapping unchanged, names as inclusions."""
    if isinstance(fields, Mapping):
        return fields
    allowed = "a mapping or a list of names"
    if isinstance(fields, str):
        raise TypeError(wrong(option, fields, allowed, f"write [{fields!r}]"))
    if not isinstance(fields, Iterable):
        raise TypeError(wrong(option, fields, allowed))
    names = list(fields)
    for position, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(wrong(option, names, allowed, f"item {position} is {name!r}"))
    return dict.fromkeys(names, 1)


# The base class of read concerns and write concerns.


class Concern:
    """An immutable concern. Its document is built once, because every command reads it.

    Attributes:
        document: The document sent to the server; empty for the server's default. Shared: do not change it.
        is_server_default: Whether `document` is empty and so not sent.
    """

    __slots__ = ("document", "is_server_default")

    def __init__(self, document: dict[str, Any]) -> None:
        self.document: Final = document
        self.is_server_default: Final = not document

    def __eq__(self, other: object) -> bool:
        if is_like(other, type(self)):  # PyMongo's has a document too
            return self.document == cast("Concern", other).document
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.document.items()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.document.items())
        return f"{type(self).__name__}({fields})"


# Recognises objects of PyMongo's classes, which the driver accepts, without importing PyMongo.


def is_like(value: Any, kind: type[Any]) -> bool:
    """Whether `value` is an instance of `kind`, or of PyMongo's class with the same name.

    PyMongo is always installed (`bson` is part of it), and object mappers pass its requests, models and listeners.
    """
    return isinstance(value, kind) or any(
        base.__name__ == kind.__name__ and base.__module__.partition(".")[0] == "pymongo"
        for base in type(value).__mro__
    )


# Checks of public configuration values: numbers, durations (``"500ms"``) and sizes (``"10MB"``).

# Compiled when they are needed, which is rare.
_DURATION: Final = r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m)"
_SIZE: Final = r"([0-9]+(?:\.[0-9]+)?)\s*(B|KB|MB|GB)"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0}
# Powers of two: "10MB" is 10,485,760 bytes.
_BYTES: Final = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}


def duration(name: str, value: object, most: float) -> float:
    """Return a duration in seconds: a number, or a text such as ``"5s"``, ``"500ms"`` or ``"1m"``.

    Raises:
        TypeError: `value` is neither a number nor a text.
        ValueError: it is not above 0 and at most `most` seconds, or a text without a known unit.
    """
    allowed = f'a duration above 0 and at most {most:g} s (seconds, or a text such as "5s" or "500ms")'
    seconds: object = value
    if isinstance(value, str):
        found = re.fullmatch(_DURATION, value.strip())
        if found is None:
            raise ValueError(wrong(name, value, allowed))
        seconds = float(found[1]) * _SECONDS[found[2]]
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(wrong(name, value, allowed))
    # The comparison is also false for NaN.
    if not 0 < seconds <= most:
        raise ValueError(wrong(name, value, allowed))
    return float(seconds)


def size(name: str, value: object, most: int) -> int:
    """Return a size in bytes: an integer, or a text such as ``"10MB"`` (in powers of 1024: B, KB, MB, GB).

    Raises:
        TypeError: `value` is neither an integer nor a text.
        ValueError: it is not above 0 and at most `most` bytes, or a text without a known unit.
    """
    allowed = f'a size above 0 and at most {most} bytes (an integer, or a text such as "10MB")'
    number: object = value
    if isinstance(value, str):
        found = re.fullmatch(_SIZE, value.strip())
        if found is None:
            raise ValueError(wrong(name, value, allowed))
        number = int(float(found[1]) * _BYTES[found[2]])
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(wrong(name, value, allowed))
    if not 0 < number <= most:
        raise ValueError(wrong(name, value, allowed))
    return number


def check_whole(name: str, value: Any, least: int, most: int) -> None:
    """Raise unless `value` is an integer from `least` to `most`."""
    allowed = f"an integer from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(wrong(name, value, allowed))
    if not least <= value <= most:
        raise ValueError(wrong(name, value, allowed))


def check_above(name: str, value: Any, most: float, *, above: float = 0, unit: str = "a number") -> None:
    """Raise unless `value` is a number above `above`, and at most `most`. NaN and infinities are refused."""
    allowed = f"{unit} above {above:g}, at most {most:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(wrong(name, value, allowed))
    # The comparison is also false for NaN.
    if not above < value <= most:
        raise ValueError(wrong(name, value, allowed))
