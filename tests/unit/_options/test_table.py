"""The rows of the options, and what is written about options elsewhere: types, signatures, documentation."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from bson.codec_options import DatetimeConversion

from motorlite._options import keywords
from motorlite._options import options as options_module
from motorlite._options.credentials import Credentials
from motorlite._options.keywords import ClientKeywords
from motorlite._options.options import ClientOptions, client_options
from motorlite._options.parts import SRV, ProxyOptions, TLSOptions
from motorlite._options.table import ALIASES, BY_NAME, DEPRECATED, OPTIONS, default_setting, value_of
from motorlite._options.tracing import TracingOptions
from motorlite.driver_info import DriverInfo
from motorlite.encryption_options import AutoEncryptionOpts
from motorlite.errors import ConfigurationError, InvalidOptionType
from motorlite.monitoring import CommandListener
from motorlite.overload import CircuitBreaker, ConcurrencyLimit, RateLimit, WaitQueue
from motorlite.read_preferences import Nearest, ServerMode
from motorlite.retry import OverloadRetry, RetryBudget, RetryStrategy, SpecificationRetry
from motorlite.server_api import ServerApi
from tests.unit._options.options_document import FILE, default_text, document

if TYPE_CHECKING:
    from motorlite._options.row import Option

DOCUMENTS: Final = Path(__file__).resolve().parents[3] / "docs"
# Fields of `ClientOptions` that are made of several options, or of none.
MADE: Final = {
    *("seeds", "srv", "database", "max_adaptive_retries", "retry_budget", "enable_overload_retargeting", "tls"),
    *("credentials", "compressors", "read_concern", "write_concern", "read_preference", "codec_options", "proxy"),
    *("overload_policy", "explicit", "refusals"),
}
# Imported for type checkers only.
CLASSES: Final[tuple[Any, ...]] = (
    *(
        AutoEncryptionOpts,
        Callable,
        CircuitBreaker,
        ConcurrencyLimit,
        DriverInfo,
        Mapping,
        OverloadRetry,
        RateLimit,
        RetryBudget,
    ),
    *(SRV, Credentials, ProxyOptions, RetryStrategy, ServerApi, TLSOptions, TracingOptions, WaitQueue),
)
NAMES: Final[dict[str, Any]] = {"Address": tuple[str, int | None], **{kind.__name__: kind for kind in CLASSES}}
TYPES: Final = get_type_hints(ClientOptions, vars(options_module) | NAMES)
# Those of keyword arguments, whose annotations name what only type checkers import.
_IN_KEYWORDS: Final = {"DatetimeConversion": DatetimeConversion, "Sequence": Sequence, "ServerMode": ServerMode}
KEYWORDS: Final = {
    name: eval(kind.__forward_arg__, vars(keywords) | NAMES | _IN_KEYWORDS | {"datetime": datetime})
    for name, kind in ClientKeywords.__annotations__.items()
}
# Parameters of the client that are options too.
PARAMETERS: Final = frozenset({"document_class", "tz_aware", "connect", "type_registry"})
TYPED: Final = [option for option in OPTIONS if option.name not in PARAMETERS]
# Values of many types. Text is left out: it is accepted for numbers too, as in connection strings.
VALUES: Final = (
    *(None, True, 7, 5000, 1500.5, ["zlib"], {"a": "b"}, ("a", "b"), print, object()),
    *(OverloadRetry(), SpecificationRetry(), RetryBudget(), CircuitBreaker(), RateLimit(rate=1), ConcurrencyLimit()),
    *(WaitQueue("queue"), DriverInfo("a"), ServerApi("1"), Nearest(), TracingOptions(), UTC),
    *(DatetimeConversion.DATETIME_MS, [CommandListener()], {"a": RateLimit(rate=1)}),
)
WITH_FIELD: Final = [option for option in OPTIONS if option.field]


def fits(value: Any, kind: Any) -> bool:
    """Whether a type of `ClientOptions` allows `value`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(fits(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin is Callable or kind is Callable:
        return callable(value)
    # True is not a number, and an integer is not a number of seconds.
    return type(value) is kind if kind in (bool, int, float, NoneType) else isinstance(value, origin or kind)


def by_name(option: Option) -> str:
    return option.name


def test_every_field_is_of_one_option_or_made_here() -> None:
    mine = [option.field for option in WITH_FIELD]
    assert len(mine) == len(set(mine))
    assert {field.name for field in fields(ClientOptions)} - MADE == set(mine)
    assert not MADE & set(mine)


@pytest.mark.parametrize("option", WITH_FIELD, ids=by_name)
def test_a_default_has_the_type_of_its_field(option: Option) -> None:
    value = default_setting(option.name)
    assert fits(value, TYPES[option.field]), (value, TYPES[option.field])
    assert getattr(client_options(), option.field) == value


@pytest.mark.parametrize("option", [option for option in WITH_FIELD if option.unit == "ms"], ids=by_name)
def test_milliseconds_become_seconds(option: Option) -> None:
    assert getattr(client_options(**{option.name: 1500}), option.field) == 1.5


@pytest.mark.parametrize("option", OPTIONS, ids=by_name)
def test_a_default_passes_its_own_check(option: Option) -> None:
    if option.default is not None:
        given = option.parse(option.default)
        assert given == option.value({})
        assert option.value({option.name: given}) == given


@pytest.mark.parametrize("option", OPTIONS, ids=by_name)
def test_none(option: Option) -> None:
    """None is refused, the default, or no limit."""
    if option.if_none == "refused":
        with pytest.raises(InvalidOptionType, match=f"^{option.name} must be "):
            option.parse(None)
    elif option.if_none == "default":
        assert value_of(option.name, {option.name: option.parse(None)}) == value_of(option.name, {})
    else:
        assert option.setting({option.name: option.parse(None)}) == option.setting({option.name: 0})


def test_a_name_means_one_option() -> None:
    names = [*BY_NAME, *ALIASES, *DEPRECATED]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert set(ALIASES.values()) | set(DEPRECATED.values()) <= set(BY_NAME)


def test_an_alias_is_a_keyword_and_a_former_name_is_not() -> None:
    assert client_options(ssl=True).tls is not None
    with pytest.raises(ConfigurationError, match="unknown option 'wtimeout'"):
        client_options(wtimeout=5)


def literals(kind: Any) -> set[str]:
    """The words of a type."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {word for each in get_args(kind) for word in literals(each)}


def test_every_option_has_the_type_of_a_keyword_argument() -> None:
    names = [option.name for option in TYPED]
    further = [name for option in TYPED for name in (*option.aliases, *option.renamed)]
    assert set(KEYWORDS) == {*names, *further}
    for option in TYPED:
        same = (option.name, *option.aliases, *option.renamed)
        assert {str(KEYWORDS[name]) for name in same} == {str(KEYWORDS[option.name])}


@pytest.mark.parametrize("option", TYPED, ids=by_name)
def test_types_allow_what_the_rows_accept(option: Option) -> None:
    for value in VALUES:
        try:
            option.parse(value)
        except (InvalidOptionType, AttributeError):
            accepted = False
        except ConfigurationError:
            continue  # a wrong value of a right type
        else:
            accepted = True
        # CodecOptions checks time zones, and a listener may be PyMongo's, so their types say less, or more.
        if option.name not in ("tzinfo", "event_listeners"):
            assert accepted == accepts(value, KEYWORDS[option.name]), value


@pytest.mark.parametrize("option", TYPED, ids=by_name)
def test_the_words_of_a_type_are_those_of_the_row(option: Option) -> None:
    words = literals(KEYWORDS[option.name])
    for word in words:
        assert option.parse(word) is not None
    listed = re.search("one of ('.*')", option.values.allowed)
    if listed is not None and option.name != "compressors":
        assert words == set(re.findall("'(.*?)'", listed[1]))
    else:
        assert words == set()


def accepts(value: Any, kind: Any) -> bool:
    """Like `fits`, for what type checkers accept: an integer is a number, and items have types too."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(accepts(value, each) for each in arguments)
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is Any:
        return True
    if origin is Sequence:
        return isinstance(value, list | tuple) and all(accepts(item, arguments[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(accepts(item, arguments[1]) for item in value.values())
    return fits(value, kind)


def test_a_meaning_is_a_sentence() -> None:
    assert [option.name for option in OPTIONS if not option.meaning.endswith(".")] == []


def test_the_page_of_options_is_up_to_date() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "run: python -m tests.unit._options.options_document"


def test_the_page_about_overload_has_the_same_defaults() -> None:
    """Its lines are ``| `a`, `b` | the default of both | ...`` or ``| `a`, `b` | that of a, that of b | ...``."""
    tables = re.findall(
        r"\| default \| meaning \|\n\|[-|]+\n((?:\|.*\n)+)", (DOCUMENTS / "overload.md").read_text("utf-8")
    )
    found = []
    for line in "".join(tables).splitlines():
        listed, texts, *_ = line.strip("| ").split(" | ")
        names, defaults = re.findall(r"`(\w+)`", listed), texts.split(", ")
        for name, text in zip(names, defaults * len(names) if len(defaults) == 1 else defaults, strict=True):
            assert text == default_text(BY_NAME[name.lower()]), name
        found += names
    assert {"maxAdaptiveRetries", "retryWrites"} <= set(found)
