"""Pure: formats documents and errors for log records, truncated to a maximum length (logging specification)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from bson.binary import Binary, UuidRepresentation
from bson.code import Code

from motorlite._base.values import cut
from motorlite.errors import OperationFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


DEFAULT_MAX_LENGTH: Final = 1000
# The first variable with a valid value takes precedence.
LENGTH_VARIABLES: Final = ("MOTORLITE_LOG_MAX_DOCUMENT_LENGTH", "MONGODB_LOG_MAX_DOCUMENT_LENGTH")


def max_document_length(environment: Mapping[str, str]) -> int:
    """Return the maximum length configured in the environment, in code points; invalid values are ignored."""
    for name in LENGTH_VARIABLES:
        value = environment.get(name, "").strip()
        if value.isascii() and value.isdigit():
            return int(value)
    return DEFAULT_MAX_LENGTH


def extended_json(document: Mapping[str, Any], limit: int = DEFAULT_MAX_LENGTH) -> str:
    """Format `document` as relaxed Extended JSON, truncated to `limit` characters.

    The cost depends on the text shown, not on the size of the document ("Performance Considerations").
    """
    pieces: list[str] = []
    length = 0
    for piece in _pieces(document, limit + 1):
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            break
    return cut("".join(pieces), limit)


def error_text(error: BaseException, limit: int = DEFAULT_MAX_LENGTH) -> str:
    """Return the type and message of `error`. The message may contain a server's reply, so it is truncated as well."""
    return cut(f"{type(error).__name__}: {error}", limit)


def short_error_text(error: BaseException, limit: int = DEFAULT_MAX_LENGTH) -> str:
    """As `error_text`, but show only code, name and labels of a server's reply, which reveal no data."""
    if not isinstance(error, OperationFailure):
        return error_text(error, limit)
    facts = [f"code {error.code}"]
    if name := (error.details or {}).get("codeName"):
        facts.append(str(name))
    facts += sorted(error.error_labels)
    return cut(f"{type(error).__name__}: {', '.join(facts)}", limit)


def _pieces(value: Any, enough: int) -> Iterator[str]:
    """Yield the JSON text of `value` in pieces, either all of it or at least `enough` characters."""
    if isinstance(value, str) and not isinstance(value, Code):
        yield _text(value[:enough])
    elif isinstance(value, bytes) and len(value) > enough:
        # Base64 encodes three bytes as four characters: cut at a multiple of three, the text is a prefix of the whole.
        yield _scalar(Binary(value[: 3 * enough], getattr(value, "subtype", 0)))
    elif isinstance(value, Mapping):
        members = (_member(str(name), item, enough) for name, item in value.items())
        yield from _joined("{", members, "}")
    elif isinstance(value, list | tuple):
        yield from _joined("[", (_pieces(item, enough) for item in value), "]")
    else:
        yield _scalar(value)


def _member(name: str, value: Any, enough: int) -> Iterator[str]:
    yield _text(name) + ": "
    yield from _pieces(value, enough)


def _joined(opening: str, items: Iterable[Iterator[str]], closing: str) -> Iterator[str]:
    yield opening
    for index, item in enumerate(items):
        if index:
            yield ", "
        yield from item
    yield closing


def _text(value: str) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


@cache
def _formatter() -> Callable[[Any], str]:
    from bson.json_util import JSONMode, JSONOptions, dumps

    # Native UUIDs are shown whatever the client's representation: logging must not reject them.
    options = JSONOptions(json_mode=JSONMode.RELAXED, uuid_representation=UuidRepresentation.STANDARD)
    return partial(dumps, json_options=options, ensure_ascii=False, default=repr)


def _scalar(value: Any) -> str:
    try:
        return _formatter()(value)
    except (TypeError, ValueError, OverflowError):
        # For example a date out of range. Values that the codec accepts must not fail here.
        return _text(repr(value))
