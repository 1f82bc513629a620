"""Pure: what a row of the table of options says, and how a value is checked by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from motorlite._options.values import Unusable
from motorlite.errors import InvalidOptionType, InvalidOptionValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._options.values import Parser


class Values(NamedTuple):
    """A kind of value: its parser, and the allowed values in words, for messages and the documentation."""

    parser: Parser
    allowed: str


@dataclass(frozen=True, slots=True)
class Option:
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
