"""Pure: says which value of a document BSON cannot hold, and what to write instead. Only after encoding has failed."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Iterator, Mapping
from decimal import Decimal
from types import CoroutineType
from typing import Any, Final

import bson
from bson.codec_options import DEFAULT_CODEC_OPTIONS
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import cut
from motorlite._wire import documents

# Characters of the value that the message repeats.
_SHOWN: Final = 100
# Deeper documents cannot be encoded at all.
_MAX_DEPTH: Final = 200
# Errors whose text is their only argument.
_PLAIN: Final = (bson.errors.InvalidDocument, OverflowError, TypeError, ValueError)
_ENCODING: Final = (documents.encode.__code__, bson.encode.__code__)
_LARGEST: Final = 2**63


def explain(error: Exception) -> None:
    """Add to the text of `error`, raised while a document was encoded, which value it is about.

    `bson` names the value but not its field, and for some mistakes not even the value. An error of another origin
    stays as it is.
    """
    if type(error) not in _PLAIN or len(error.args) != 1:
        return
    found = _document_of(error)
    if found is not None and found not in error.args[0]:
        error.args = (f"{error.args[0]}; {found}", *error.args[1:])


def _document_of(error: Exception) -> str | None:
    """Return what `_locate` says about the document that was being encoded; its frame still has it."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code in _ENCODING:
            found = trace.tb_frame.f_locals
        trace = trace.tb_next
    if found is None:
        return None
    return _locate(found["document"], found.get("codec_options", DEFAULT_CODEC_OPTIONS))


def _locate(document: Any, codec_options: Any) -> str | None:
    path: list[str] = []
    value = document
    for _ in range(_MAX_DEPTH):
        for key, item in _items(value):
            if not isinstance(key, str):
                where = ".".join(path) or "the document"
                return f"the key {key!r} of {where} must be a str; write {str(key)!r}"
            if not _is_encodable(item, codec_options):
                path.append(key)
                value = item
                break
        else:
            break
    if not path:
        return None
    hint = _instead(value)
    return f"the value of {'.'.join(path)} is {cut(repr(value), _SHOWN)}{hint and '; '}{hint}"


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping) and not isinstance(value, RawBSONDocument):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))


def _is_encodable(value: Any, codec_options: Any) -> bool:
    try:
        bson.encode({"v": value}, codec_options=codec_options)
    except Exception:  # codecs of user types may raise anything
        return False
    return True


def _instead(value: Any) -> str:
    """Say what to write instead of `value`."""
    if isinstance(value, type):
        return f"write {value.__name__}(...), an instance of the class"
    if isinstance(value, CoroutineType):
        return "await it first"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return "write a str or a bson.Decimal128"
    for kind, instead in _INSTEAD.items():
        if isinstance(value, kind):
            return f"write {instead}"
    for method in ("model_dump", "tolist"):
        if callable(getattr(value, method, None)):
            return f"write the result of its {method}()"
    is_known = isinstance(value, str | bytes | int | float | Mapping)
    return "" if is_known else "register a codec in CodecOptions(type_registry=...), or write a type that BSON has"


_INSTEAD: Final[Mapping[Any, str]] = {
    set: "a list",
    frozenset: "a list",
    datetime.date: "a datetime.datetime",
    datetime.time: "a datetime.datetime or a str",
    datetime.timedelta: "its total_seconds()",
    Decimal: "a bson.Decimal128",
    enum.Enum: "its value",
}
