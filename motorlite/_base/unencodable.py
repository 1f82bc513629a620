"""Pure: says which value of a document BSON cannot hold, and what to write instead. Only after encoding has failed."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from types import CoroutineType
from typing import Any, Final

import bson
from bson.raw_bson import RawBSONDocument

from motorlite._base.values import cut

# Characters of the value that the message repeats.
_SHOWN: Final = 100
# Deeper documents cannot be encoded at all.
_MAX_DEPTH: Final = 200
# Errors whose text is their only argument.
_PLAIN: Final = (bson.errors.InvalidDocument, OverflowError, TypeError, ValueError)
# What the functions that encode documents have in common: their name and these arguments.
_ENCODER: Final = "encode"
_ARGUMENTS: Final = frozenset({"document", "codec_options"})
_LARGEST: Final = 2**63
# What to write instead of a value, by its class.
_INSTEAD: Final[Mapping[str, str]] = {
    "builtins.set": "a list",
    "builtins.frozenset": "a list",
    "datetime.date": "a datetime.datetime",
    "datetime.time": "a datetime.datetime or a str",
    "datetime.timedelta": "its total_seconds()",
    "decimal.Decimal": "a bson.Decimal128",
}


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
        frame = trace.tb_frame
        if frame.f_code.co_name == _ENCODER and set(frame.f_locals) >= _ARGUMENTS:
            found = frame.f_locals
        trace = trace.tb_next
    return None if found is None else _locate(found["document"], found["codec_options"])


def _locate(document: Any, codec_options: Any) -> str | None:
    path: list[str] = []
    value = document
    for _ in range(_MAX_DEPTH):
        for key, item in _items(value):
            where = ".".join(path) or "the document"
            if not isinstance(key, str):
                return f"the key {key!r} of {where} must be a str; write {str(key)!r}"
            if "\0" in key:
                return f"the key {key!r} of {where} must not contain the null character"
            if not _is_encodable(item, codec_options):
                path.append(key)
                value = item
                break
        else:
            break
    if not path:
        return None
    if isinstance(value, Mapping | list):
        return f"the cause is the value of {'.'.join(path)}"  # not shown: most of its content is fine
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
    if any((kind.__module__, kind.__qualname__) == ("uuid", "UUID") for kind in type(value).__mro__):
        return 'make the client with uuidRepresentation="standard", or write bson.Binary.from_uuid(...)'
    if isinstance(value, enum.Enum):
        return "write its value"
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if kind in _INSTEAD:
        return f"write {_INSTEAD[kind]}"
    for method in ("model_dump", "tolist"):
        if callable(getattr(value, method, None)):
            return f"write the result of its {method}()"
    is_known = isinstance(value, str | bytes | int | float | Mapping)
    return "" if is_known else "register a codec in CodecOptions(type_registry=...), or write a type that BSON has"
