"""Pure: the options of a client: parsers of their values, and what a row of the table says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from motorlite._base.arguments import is_like
from motorlite._base.values import is_encodable
from motorlite.errors import ConfigurationError, InvalidOptionType, InvalidOptionValue
from motorlite.read_preferences import MODES, ServerMode, as_read_preference

# Parsers for the values of client options, in connection strings (text) and as keyword arguments.
#
# A parser converts a value to its normal form. For a value that is not allowed it raises TypeError or ValueError
# without a message, or `Unusable` with one. In a connection string these become a warning and the option is ignored;
# for a keyword argument they become an exception. `ConfigurationError` is for values that must raise even in a
# connection string.

Parser: TypeAlias = Callable[[object], Any]

COMPRESSORS: Final = ("snappy", "zlib", "zstd")
MAX_INT32: Final = 2**31 - 1
MAX_APP_NAME_BYTES: Final = 128
MAX_PROXY_CREDENTIAL_BYTES: Final = 255
# Of `tracing`, which most clients have neither as an option nor in their environment.
ENABLED_VARIABLE: Final = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_ENABLED"
LENGTH_VARIABLE: Final = "OTEL_PYTHON_INSTRUMENTATION_MONGODB_QUERY_TEXT_MAX_LENGTH"
TRACING_VARIABLES: Final = (ENABLED_VARIABLE, LENGTH_VARIABLE)

# Compiled when they are needed, which is rare.
_INTEGER = r"[+-]?[0-9]+"
_SERVICE_NAME = r"(?=.*[A-Za-z])[A-Za-z0-9]+(-[A-Za-z0-9]+)*"
_NAMESPACE = r'[^/\\ ."$\0]+\.[^.$\0][^$\0]*'
_NUMBER = r"[+-]?[0-9]+(\.[0-9]+)?"

_URI_PROPERTIES = frozenset(
    {
        "AWS_SESSION_TOKEN",
        "CANONICALIZE_HOST_NAME",
        "ENVIRONMENT",
        "SERVICE_HOST",
        "SERVICE_NAME",
        "SERVICE_REALM",
        "TOKEN_RESOURCE",
    }
)
_OBJECT_PROPERTIES = frozenset({"ALLOWED_HOSTS", "AWS_CREDENTIAL_PROVIDER", "OIDC_CALLBACK", "OIDC_HUMAN_CALLBACK"})
_CANONICALIZE = {
    "none": "none",
    "forward": "forward",
    "forwardAndReverse": "forwardAndReverse",
    # The older, boolean values.
    "true": "forwardAndReverse",
    "false": "none",
}


class Unusable(ValueError):
    """Why a value is not allowed, phrased to follow the option's name. The message never repeats a possible secret."""


def boolean(value: object) -> bool:
    """Parse a bool, or the words true and false."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise TypeError
    if value not in ("true", "false"):
        raise ValueError
    return value == "true"


def text(value: object) -> str:
    """Parse a non-empty string."""
    found = any_text(value)
    if not found:
        raise ValueError
    return found


def any_text(value: object) -> str:
    """Parse a string, possibly empty. A lone surrogate is not allowed: no message can hold it."""
    if not isinstance(value, str):
        raise TypeError
    if not is_encodable(value):
        raise Unusable("cannot be encoded as UTF-8")
    return value


def app_name(value: object) -> str:
    """Parse a name of at most 128 bytes (handshake specification, "client.application.name")."""
    name = text(value)
    if len(name.encode()) > MAX_APP_NAME_BYTES:
        raise ValueError
    return name


def proxy_credential(value: object) -> str | None:
    """Parse at most 255 bytes (RFC 1929). An empty string means no credential (SOCKS5 support specification)."""
    credential = any_text(value)
    if len(credential.encode()) > MAX_PROXY_CREDENTIAL_BYTES:
        raise ValueError
    return credential or None


def service_name(value: object) -> str:
    """Parse a RFC 6335, section 5.1, name of up to 62 characters (initial DNS seedlist discovery, "srvServiceName")."""
    name = text(value)
    if len(name) > 62 or not re.fullmatch(_SERVICE_NAME, name):
        raise ValueError
    return name


def namespace(value: object) -> str:
    """Parse the name of a database and a collection with a dot between them."""
    name = text(value)
    if not re.fullmatch(_NAMESPACE, name):
        raise ValueError
    return name


def one_of(*words: str) -> Parser:
    """Return a parser for one of `words`."""

    def parse(value: object) -> str:
        word = text(value)
        if word not in words:
            raise ValueError
        return word

    return parse


def instance_of(kind: type[object]) -> Parser:
    """Return a parser for an instance of a class."""

    def parse(value: object) -> object:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return parse


def auto_encryption(value: object) -> object:
    """Parse an AutoEncryptionOpts."""
    # Imported with the first client that has the option.
    from motorlite.encryption_options import AutoEncryptionOpts

    return instance_of(AutoEncryptionOpts)(value)


def integer(least: int, most: int = MAX_INT32) -> Parser:
    """Return a parser for an integer in a range (URI options specification: 32 bits unless stated otherwise)."""

    def parse(value: object) -> int:
        if isinstance(value, str):
            if not re.fullmatch(_INTEGER, value):
                raise ValueError
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError
        if not least <= value <= most:
            raise ValueError
        return value

    return parse


def milliseconds(least: int) -> Parser:
    """Return a parser for a duration. As in PyMongo, connection strings and keyword arguments may have a fraction."""

    def parse(value: object) -> int | float:
        if isinstance(value, str):
            if not re.fullmatch(_NUMBER, value):
                raise ValueError
            value = float(value) if "." in value else int(value)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError
        if not least <= value <= MAX_INT32:  # also refuses NaN
            raise ValueError
        return value

    return parse


def max_staleness(value: object) -> int:
    """Parse -1 or a positive number of seconds. The lower bound depends on the deployment and is checked later."""
    seconds: int = integer(-1)(value)
    if seconds == 0:
        raise ValueError
    return seconds


def write_concern_w(value: object) -> int | str:
    """Parse a number of members, or a word."""
    if isinstance(value, str) and value and not re.fullmatch(_INTEGER, value):
        return any_text(value)
    members: int = integer(0)(value)
    return members


def read_preference(value: object) -> ServerMode | str:
    """Parse the name of a mode, or a whole read preference."""
    return one_of(*MODES)(value) if isinstance(value, str) else as_read_preference(value)


def read_preference_tags(value: object) -> list[dict[str, str]]:
    """Parse tag sets: ``"dc:ny,rack:1"``, mappings, or a list of these. Empty text matches all members."""
    items = value if isinstance(value, (list, tuple)) else [value]
    if not items:
        raise ValueError
    return [_tag_set(item) for item in items]


def _tag_set(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {any_text(name): any_text(tag) for name, tag in value.items()}
    return dict(_pairs(any_text(value)))


def compressors(value: object) -> list[str]:
    """Parse names of compressors in order of preference."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise TypeError
    found = list(dict.fromkeys(any_text(name).strip() for name in names))
    if not set(found).issubset(COMPRESSORS):
        raise ValueError
    return found


def event_listeners(kinds: tuple[type[object], ...]) -> Parser:
    """Return a parser for a sequence of listeners."""

    def parse(value: object) -> tuple[object, ...]:
        if not isinstance(value, Sequence) or not all(any(is_like(item, kind) for kind in kinds) for item in value):
            raise TypeError
        return tuple(value)

    return parse


def function(value: object) -> object:
    """Parse a callable that is not a coroutine function."""
    if not callable(value) or iscoroutinefunction(value):
        raise TypeError
    return value


def mechanism_properties(value: object) -> dict[str, Any]:
    """Parse ``"NAME:value,NAME:value"`` or a mapping, with names in any case (authentication specification).

    A connection string cannot contain objects, nor `ALLOWED_HOSTS`, which guards the human callback.
    """
    if isinstance(value, str):
        allowed = _URI_PROPERTIES
        items: Iterable[tuple[Any, Any]] = _pairs(value)
    elif isinstance(value, Mapping):
        allowed = _URI_PROPERTIES | _OBJECT_PROPERTIES
        items = value.items()
    else:
        raise TypeError
    properties: dict[str, Any] = {}
    for name, item in items:
        key = any_text(name).upper()
        if key == "ALLOWED_HOSTS" and key not in allowed:
            # The author of a connection string must not choose which hosts may receive a person's token.
            raise ConfigurationError("ALLOWED_HOSTS must be passed as an argument, not in the connection string")
        if key not in allowed:
            if key in _OBJECT_PROPERTIES:
                raise Unusable(f"has {key}, which must be passed as an argument")
            like = suggestion(key, {known: known for known in allowed})
            raise Unusable(f"has the unknown name {name!r}{like or ';'} known are {', '.join(sorted(allowed))}")
        if key == "CANONICALIZE_HOST_NAME":
            properties[key] = _canonicalize(item)
        elif key == "ALLOWED_HOSTS":
            if not isinstance(item, list | tuple):
                raise TypeError
            properties[key] = tuple(text(host) for host in item)
        else:
            properties[key] = item if key in _OBJECT_PROPERTIES else text(item)
    return properties


def suggestion(name: str, known: Mapping[str, str]) -> str:
    """Return a clause that suggests values of `known` whose keys are similar to `name`, or an empty string."""
    from difflib import get_close_matches

    names = [known[match] for match in get_close_matches(name, known, n=3, cutoff=0.7)]
    return f"; did you mean {' or '.join(names)}?" if names else ""


def _canonicalize(value: object) -> str:
    word = str(value).lower() if isinstance(value, bool) else value
    if not isinstance(word, str) or word not in _CANONICALIZE:
        raise ConfigurationError(f"CANONICALIZE_HOST_NAME must be one of {', '.join(_CANONICALIZE)}, not {value!r}")
    return _CANONICALIZE[word]


def _pairs(value: str) -> Iterable[tuple[str, str]]:
    """Yield the pairs of ``name:value,name:value``. A value may contain colons but no commas."""
    for part in value.split(",") if value else ():
        name, colon, item = part.partition(":")
        if not name or not colon:
            raise ValueError
        yield name, item


# What a row of the table of options says, and how a value is checked by it.


class Values(NamedTuple):
    """A kind of value: its parser, and the allowed values in words, for messages and the documentation."""

    parser: Parser
    allowed: str


class Option(NamedTuple):
    """A client option.

    Attributes:
        name: Its documented name.
        values: The allowed values.
        meaning: What it does, for the documentation.
        default: The default, as a keyword argument would have it; None: not set.
        field: Its field of `ClientOptions`; empty if a field is made of several options.
        unit: The unit of numbers. A field is in seconds if its option is in milliseconds.
        if_none: The meaning of None as a keyword argument. A field in seconds has None for no limit.
        aliases: Further names.
        former: Deprecated names in connection strings, in lower case.
        renamed: Deprecated names there and of keyword arguments.
        is_in_uri: Whether connection strings may have it.
        is_secret: Whether messages omit the value.
    """

    name: str
    values: Values
    meaning: str
    default: Any = None
    field: str = ""
    unit: Literal["", "ms", "s"] = ""
    if_none: Literal["refused", "default", "no limit"] = "refused"
    aliases: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()
    is_in_uri: bool = True
    is_secret: bool = False

    def parse(self, value: object) -> Any:
        """Return the value in its normal form; None stands for the default, 0 for no limit.

        Raises:
            ConfigurationError: The value is not allowed (`InvalidOptionType` or `InvalidOptionValue` where a
                connection string only warns).
        """
        if value is None and self.if_none != "refused":
            return 0 if self.if_none == "no limit" else None
        try:
            return self.values.parser(value)
        except TypeError:
            raise InvalidOptionType(self._problem(value)) from None
        except Unusable as error:
            raise InvalidOptionValue(f"{self.name} {error}") from None
        except ValueError:
            raise InvalidOptionValue(self._problem(value)) from None

    def value(self, options: Mapping[str, Any]) -> Any:
        """Return the parsed value in `options` (by documented name), or the default."""
        value = options.get(self.name)
        return self.values.parser(self.default) if value is None and self.default is not None else value

    def setting(self, options: Mapping[str, Any]) -> Any:
        """Return the value of its field of `ClientOptions`."""
        value = self.value(options)
        if self.unit != "ms" or value is None:
            return value
        return None if value == 0 and self.if_none == "no limit" else float(value / 1000)

    def _problem(self, value: object) -> str:
        shown = "the given value (not shown)" if self.is_secret else repr(value)
        return f"{self.name} must be {self.values.allowed}, not {shown}"


def keyword_option(
    name: str, values: Values, meaning: str, default: object = None, field: str = "", *, is_secret: bool = False
) -> Option:
    """Return an option that connection strings cannot have."""
    return Option(name, values, meaning, default, field, "", "default", is_in_uri=False, is_secret=is_secret)
