"""Pure: what a step returns or raises, in a form that is equal for equal outcomes only, types included."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import bson
from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument

from tests.differential.values import LITERAL_ID
from tests.live.oracle import LABELS, RESULTS, UUIDS, attribute, classes

# How a database is called in what is compared; the real names are as long, so that no length differs.
DATABASE: Final = "differential_00_x"
# Fields whose values no two runs have in common, in commands, replies and errors: only their presence is compared.
REASONS: Final[dict[str, str]] = {
    "lsid": "sessions are shared by all programs that run at the time",
    "txnNumber": "a server session counts the transactions of all its users",
    "$clusterTime": "the time of the server, as far as the client has heard of it",
    "afterClusterTime": "the time of the server",
    "startAtOperationTime": "the time of the server, unless the program sets it",
    "atClusterTime": "the time of the snapshot, which the server chooses",
    "operationTime": "the time of the server",
    "opTime": "the time of the server",
    "clusterTime": "the time of a change",
    "wallTime": "the time of a change",
    "_data": "a resume token has the time of a change",
    "uploadDate": "the time of an upload",
    "electionId": "every replica set elects its own",
    "uuid": "of a collection, which the server generates",
    "collectionUUID": "the same, in a change",
    "$recordId": "the server counts the documents of a collection, those of earlier programs too",
    "cursor id": "the server generates the ids of cursors",
    "object id": "drivers and servers generate ids; equal ones must be equal for both",
}
# An ObjectId that no program has, and the shortest text that may hold one, a UUID, or the name of a database.
GENERATED: Final = re.compile(rf"\b(?!{LITERAL_ID})[0-9a-f]{{24}}\b")
# What differs in the messages of servers: times, and the numbers of transactions.
TIMES: Final = re.compile(r"Timestamp\(\d+, \d+\)|(?<=txnNumber: )\d+|(?<=transaction number )\d+|(?<=number is )\d+")
SHORTEST: Final = len(DATABASE)
EXACT: Final = (bool, int, str, Int64, Decimal128, Timestamp, MinKey, MaxKey, DatetimeMS, type(None))


@dataclass
class Names:
    """The names of one run: that of its database, and the ids that drivers and servers have generated.

    Attributes:
        database: The name of the database of this run, as long as `DATABASE`.
        ids: The position of each generated id among those that were seen.
        used: Those of `REASONS` that applied.
    """

    database: str
    ids: dict[ObjectId, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def text(self, text: str) -> str:
        """Text with what is different in each run replaced."""
        if len(text) < SHORTEST:
            return text
        return TIMES.sub("time", GENERATED.sub("generated", UUIDS.sub("uuid", text.replace(self.database, DATABASE))))

    def data(self, data: bytes) -> bytes:
        return data.replace(self.database.encode(), DATABASE.encode())

    def id(self, value: ObjectId) -> str:
        text = str(value)
        if text.startswith(LITERAL_ID):
            return text
        self.used.add("object id")
        return f"generated {self.ids.setdefault(value, len(self.ids))}"


@dataclass(frozen=True)
class Raised:
    """An exception.

    Attributes:
        name: The name of its class.
        classes: The names of its public classes, itself first.
        facts: What else there is to compare: code, details, labels, timeout.
        message: Its text, which need not be equal.
    """

    name: str
    classes: tuple[str, ...]
    facts: tuple[Any, ...]
    message: str

    def __repr__(self) -> str:
        return f"{self.name}{list(self.facts) if any(self.facts) else ''}: {self.message}"


@dataclass(frozen=True)
class Step:
    """What one step of a program did: what it returned or raised, and the commands that it sent."""

    outcome: Any
    commands: tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """The first step of a program with which the libraries differ.

    Attributes:
        position: Of the step in the program.
        step: Its text.
        theirs: What PyMongo did.
        ours: What motorlite did.
    """

    position: int
    step: str
    theirs: Step
    ours: Step

    @property
    def is_of_wire(self) -> bool:
        """Whether only the commands differ."""
        return is_same(self.theirs.outcome, self.ours.outcome)

    @property
    def signature(self) -> tuple[Any, ...]:
        """What stays the same while the program shrinks."""
        return (self.is_of_wire, *(signature(side.outcome) for side in (self.theirs, self.ours)))


def shown(value: Any, names: Names) -> Any:
    """`value` as nested tuples of plain values, with the name of its type wherever types could be confused."""
    kind = type(value)
    if kind is str:
        return names.text(value)
    if kind in EXACT:
        return value if value is None or kind is bool else (kind.__name__, repr(value) if kind is Timestamp else value)
    if kind is float:
        return ("float", repr(value))
    if kind in (list, tuple):
        return (kind.__name__, *(shown(each, names) for each in value))
    if kind is ObjectId:
        return ("ObjectId", names.id(value))
    if isinstance(value, RawBSONDocument):
        return ("RawBSONDocument", len(value.raw), *_items(value, names))
    if isinstance(value, Mapping):
        return (kind.__name__, *_items(value, names))
    return _other(value, names)


def _items(value: Mapping[str, Any], names: Names) -> tuple[Any, ...]:
    return tuple((shown(key, names), _field(key, each, names)) for key, each in value.items())


def _field(key: Any, value: Any, names: Names) -> Any:
    if key == "op" and isinstance(value, Mapping):
        # As in `DEFAULTS` of the wire: they are left out, or in another order.
        return tuple(sorted((name, repr(shown(each, names))) for name, each in value.items() if each is not False))
    is_cursor = key == "id" and type(value) is Int64 and value != 0
    if not is_cursor and key not in REASONS:
        return shown(value, names)
    names.used.add("cursor id" if is_cursor else key)
    return None


def _other(value: Any, names: Names) -> Any:
    kind = type(value).__name__.lstrip("_")
    if kind.endswith("ChangeStream"):
        return "ChangeStream"  # one class serves collections, databases and the cluster
    if kind in RESULTS:
        return (kind, *(shown(attribute(value, name), names) for name in RESULTS[kind]))
    if isinstance(value, Code):
        return ("Code", str(value), shown(value.scope, names))
    if isinstance(value, Binary):
        return ("Binary", value.subtype, names.data(bytes(value)))
    if isinstance(value, bytes):
        return _bytes(value, names)
    if isinstance(value, DBRef):
        return ("DBRef", shown(value.as_doc(), names))
    if isinstance(value, Regex):
        return ("Regex", value.pattern, value.flags)
    if isinstance(value, datetime):
        return ("datetime", repr(value))
    if isinstance(value, re.Pattern):
        return ("Pattern", value.pattern, value.flags)
    if hasattr(value, "full_name") and hasattr(value, "codec_options"):
        options = (value.read_preference, value.write_concern, value.read_concern)
        return (kind, names.text(value.full_name), repr(value.codec_options), *(shown(each, names) for each in options))
    # Representations are in own words; the documents of concerns, preferences and models are for the server.
    document = None if kind == "InsertOne" else getattr(value, "document", None)
    return (kind, shown(dict(sorted(document.items())) if isinstance(document, dict) else document, names))


def _bytes(value: bytes, names: Names) -> Any:
    """Bytes, or the documents that they are: a batch may have ids that a server has generated."""
    try:
        documents = bson.decode_all(value, bson.CodecOptions(document_class=RawBSONDocument)) if value else []
    except Exception:
        documents = []
    if not documents:
        return ("bytes", names.data(value))
    return ("bytes", *(shown(each, names) for each in documents))


def raised(error: Exception, names: Names) -> Raised:
    """What there is to compare of an exception."""
    kinds = tuple(classes(error))
    details = getattr(error, "details", None)
    labels = tuple(label for label in LABELS if getattr(error, "has_error_label", bool)(label))
    facts = (getattr(error, "code", None), shown(details, names), labels, getattr(error, "timeout", None))
    return Raised(type(error).__name__, kinds, facts if "PyMongoError" in kinds else (), names.text(str(error))[:300])


def signature(outcome: Any) -> tuple[Any, ...]:
    """The class and the code of an exception, or that there was none."""
    return (outcome.name, outcome.facts[:1]) if isinstance(outcome, Raised) else ("value",)


def is_same(theirs: Any, ours: Any) -> bool:
    """Whether what catches their exception catches ours, or the values are equal."""
    if isinstance(theirs, Raised) and isinstance(ours, Raised):
        return set(theirs.classes) <= set(ours.classes) and theirs.facts == ours.facts
    return type(theirs) is type(ours) and bool(theirs == ours)
