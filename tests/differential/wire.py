"""Net: the commands that programs send, as their transports write them.

Both libraries write a command in the task that runs the program, or in a child of it, so a context variable says which
program it belongs to. What a driver sends in the background belongs to none, and is not compared.
"""

from __future__ import annotations

import struct
from asyncio import selector_events
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

import bson
from bson import CodecOptions, Int64, Regex
from bson.codec_options import DatetimeConversion

from motorlite._net.on_asyncio.stream import AsyncioStream
from tests.differential.outcomes import Names, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite._net.runtime import Parts

# The messages of the step that is running.
MESSAGES: Final[ContextVar[list[bytes] | None]] = ContextVar("messages", default=None)
OP_MSG: Final = 2013
# The commands of establishing a connection, at the beginning of a message after its flags.
ESTABLISHING: Final = ("hello", "isMaster", "ismaster", "saslStart", "saslContinue")
# Fields of commands, and of statements in them, that mean the same when they are left out, with these values.
DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    # PyMongo sends these, at least in some commands; and omits a comment that is false.
    "multi": (False,),
    "upsert": (False,),
    "new": (False,),
    "nameOnly": (False,),
    "showExpandedEvents": (False,),
    # No limit; PyMongo omits that of a commit.
    "maxTimeMS": (0,),
    "comment": (None,),
    # motorlite sends these. Of find, PyMongo omits whatever is empty; old servers require the query of distinct.
    "query": ({},),
    "let": ({},),
    "collation": ({},),
    "projection": ({},),
    "sort": ({},),
    "hint": ({}, ""),
}
# Numbers of any type: servers read them alike.
NUMBERS: Final = ("batchSize", "limit", "skip", "maxTimeMS", "size")
STATEMENTS: Final = ("updates", "deletes", "ops")
# The collections of GridFS end with these.
GRID: Final = (".files", ".chunks")


class Fields(dict[str, Any]):
    """A document that keeps what a dictionary would lose: a key's second value."""

    def __setitem__(self, key: str, value: Any) -> None:
        while key in self:
            key += " again"
        super().__setitem__(key, value)


OPTIONS: Final = CodecOptions[Any](document_class=Fields, datetime_conversion=DatetimeConversion.DATETIME_MS)


@contextmanager
def tap() -> Iterator[None]:
    """Keep what the selector event loop's transports write, and motorlite to sockets, while a step is running."""
    kind: Any = selector_events._SelectorSocketTransport  # type: ignore[attr-defined]  # where most messages pass
    to_transport, to_socket = kind.write, AsyncioStream.start_exchange

    def write(self: Any, data: bytes) -> None:
        messages = MESSAGES.get()
        if messages is not None:
            messages.append(bytes(data))
        to_transport(self, data)

    def start_exchange(self: AsyncioStream, data: bytes | Parts, until: float) -> Any:
        messages = MESSAGES.get()
        if messages is not None:
            messages.append(data if isinstance(data, bytes) else data.joined())
        token = MESSAGES.set(None)  # the transport may get the rest of the message
        try:
            return to_socket(self, data, until)
        finally:
            MESSAGES.reset(token)

    with mock.patch.object(kind, "write", write), mock.patch.object(AsyncioStream, "start_exchange", start_exchange):
        yield


def command(message: bytes, names: Names) -> tuple[Any, ...] | None:
    """The command in a message: its flags, and pairs of field and value. None if it establishes a connection.

    The items of a document sequence become an array, as in command events: how a driver divides a command between
    the two does not change it.

    Raises:
        ValueError: The message is not what the specification of OP_MSG describes.
    """
    length, _, _, code = struct.unpack_from("<iiii", message)
    if length != len(message):
        raise ValueError(f"a message of {len(message)} bytes says {length}")
    if code != OP_MSG:
        return None
    (flags,) = struct.unpack_from("<I", message, 16)
    document: dict[str, Any] = {}
    position = 20
    while position < length:
        section = message[position]
        (size,) = struct.unpack_from("<i", message, position + 1)
        content = message[position + 1 : position + 1 + size]
        if section:
            name, _, items = content[4:].partition(b"\0")
            document[name.decode()] = bson.decode_all(items, OPTIONS)
        else:
            document |= bson.decode(content, OPTIONS)
        position += 1 + size
    first = next(iter(document))
    if first in ESTABLISHING:
        return None
    hidden = "getMore" if first == "getMore" else "cursors" if first == "killCursors" else ""
    if hidden:
        document[hidden] = "a cursor"
        names.used.add("cursor id")
    return (flags, shown(_canonical(document, names), names))


def _canonical(document: dict[str, Any], names: Names) -> dict[str, Any]:
    """A command without what makes no difference to a server: defaults, and the order of all fields but the first."""
    made = _without_defaults(document, names)
    if str(next(iter(document.values()), "")).endswith(GRID):
        _compare_plainly(made)
    for name in STATEMENTS:
        if isinstance(made.get(name), list):
            made[name] = [_without_defaults(each, names) for each in made[name]]
    if isinstance(made.get("pipeline"), list):
        made["pipeline"] = [_stage(each, names) for each in made["pipeline"]]
    if isinstance(made.get("explain"), dict):
        made["explain"] = _canonical(made["explain"], names)
    for name in ("cursor", "writeConcern"):
        if isinstance(made.get(name), dict):
            made[name] = {key: _number(key, made[name][key]) for key in sorted(made[name])}
    made.pop("$clusterTime", None)
    if made.get("singleBatch"):
        made.pop("batchSize", None)
    if "delete" in made:
        made.pop("bypassDocumentValidation", None)
    return made


def _compare_plainly(command: dict[str, Any]) -> None:
    """Let queries of GridFS say nothing but the value where it needs no operator, its indexes leave out defaults, and
    the fields of its files have one order.
    """
    if str(command.get("insert", "")).endswith(".files"):
        command["documents"] = [dict(sorted(each.items())) for each in command["documents"]]
    for index in command.get("indexes", ()):
        if index.get("unique") is False:
            del index["unique"]
    for place, name in ((command, "filter"), *((each, "q") for key in STATEMENTS for each in command.get(key, ()))):
        if isinstance(place.get(name), dict):
            # `Fields` would keep both.
            dict.__setitem__(place, name, {key: _plain(value) for key, value in place[name].items()})


def _plain(value: Any) -> Any:
    if not isinstance(value, dict) or list(value) != ["$eq"] or isinstance(value["$eq"], dict | Regex):
        return value
    return value["$eq"]


def _stage(stage: Any, names: Names) -> Any:
    """A stage; the options of a change stream are like the fields of a command."""
    if not isinstance(stage, dict) or not isinstance(stage.get("$changeStream"), dict):
        return stage
    options = stage["$changeStream"]
    kept = [name for name in sorted(options) if options[name] not in DEFAULTS.get(name, ())]
    names.used.update(set(options) - set(kept))
    return {**stage, "$changeStream": {name: options[name] for name in kept}}


def _without_defaults(document: dict[str, Any], names: Names) -> dict[str, Any]:
    if not document:
        return document
    first, *others = document
    kept = [name for name in others if document[name] not in DEFAULTS.get(name, ()) and not _is_empty(name, document)]
    names.used.update(set(others) - set(kept))
    return {name: _number(name, document[name]) for name in (first, *sorted(kept))}


def _is_empty(name: str, document: dict[str, Any]) -> bool:
    """Whether it is a comment that PyMongo does not send in some commands."""
    return name == "comment" and not document[name]


def _number(name: str, value: Any) -> Any:
    return int(value) if name in NUMBERS and type(value) in (Int64, float) and value == value // 1 else value
