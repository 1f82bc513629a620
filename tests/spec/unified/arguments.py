"""Arguments of operations and options of entities, as the driver takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from motorlite import CursorType, ReadConcern, ReturnDocument, WriteConcern
from motorlite.operations import (
    DeleteMany,
    DeleteOne,
    IndexModel,
    InsertOne,
    ReplaceOne,
    SearchIndexModel,
    UpdateMany,
    UpdateOne,
)
from motorlite.read_preferences import make_read_preference, read_pref_mode_from_name
from tests.spec.unified.outcomes import BadTest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_WRITE_CONCERN: Final = {"w": "w", "journal": "j", "wtimeoutMS": "wtimeout"}
_CURSOR_TYPES: Final = {
    "nonTailable": CursorType.NON_TAILABLE,
    "tailable": CursorType.TAILABLE,
    "tailableAwait": CursorType.TAILABLE_AWAIT,
}
_RETURN_DOCUMENT: Final = {"before": ReturnDocument.BEFORE, "after": ReturnDocument.AFTER}

# The write models of `bulkWrite`, with their arguments.
_MODELS: Final[Mapping[str, tuple[Callable[..., Any], str]]] = {
    "insertOne": (InsertOne, "document"),
    "updateOne": (UpdateOne, "filter update upsert collation arrayFilters hint sort"),
    "updateMany": (UpdateMany, "filter update upsert collation arrayFilters hint"),
    "replaceOne": (ReplaceOne, "filter replacement upsert collation hint sort"),
    "deleteOne": (DeleteOne, "filter collation hint"),
    "deleteMany": (DeleteMany, "filter collation hint"),
}


def renamed(names: str) -> dict[str, str]:
    """Arguments of a test by name, separated by spaces, each with the name that the driver has for it.

    That is the same name in snake case; ``timeoutMS=timeoutMS`` and the like say another one.
    """
    pairs = (name.partition("=") for name in names.split())
    return {name: other or _snake_case(name) for name, _, other in pairs}


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def selected(given: Mapping[str, Any], names: Mapping[str, str], what: str) -> dict[str, Any]:
    """Arguments under the driver's names.

    Raises:
        BadTest: there is one that is not known.
    """
    if unknown := [name for name in given if name not in names]:
        raise BadTest(f"{what} has no argument {', '.join(unknown)}")
    return {names[name]: value for name, value in given.items()}


def write_concern(fields: Mapping[str, Any]) -> WriteConcern:
    return WriteConcern(**selected(fields, _WRITE_CONCERN, "a write concern"))


def read_concern(fields: Mapping[str, Any]) -> ReadConcern:
    return ReadConcern(**selected(fields, {"level": "level"}, "a read concern"))


def read_preference(fields: Mapping[str, Any]) -> Any:
    known = {"mode", "tagSets", "maxStalenessSeconds", "hedge"}
    if unknown := set(fields) - known:
        raise BadTest(f"a read preference has no {sorted(unknown)}")
    mode = fields["mode"]
    return make_read_preference(
        read_pref_mode_from_name(mode[0].lower() + mode[1:]),
        fields.get("tagSets"),
        fields.get("maxStalenessSeconds", -1),
    )


_OBJECTS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "readConcern": ("read_concern", read_concern),
    "readPreference": ("read_preference", read_preference),
    "writeConcern": ("write_concern", write_concern),
    "timeoutMS": ("timeoutMS", lambda value: value),
}


def converted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a database or collection.

    Raises:
        BadTest: there is one that is not known.
    """
    selected(options, dict.fromkeys(_OBJECTS, ""), "a database or collection")
    return {_OBJECTS[name][0]: _OBJECTS[name][1](value) for name, value in options.items()}


def transaction_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a transaction.

    Raises:
        BadTest: there is one that is not known.
    """
    names = renamed("readConcern writeConcern readPreference maxCommitTimeMS=max_commit_time_ms timeoutMS=timeoutMS")
    made = {name: _OBJECTS[name][1](value) if name in _OBJECTS else value for name, value in fields.items()}
    return selected(made, names, "a transaction")


def bucket_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a GridFS bucket.

    Raises:
        BadTest: there is one that is not known.
    """
    own = {"bucketName": "bucket_name", "chunkSizeBytes": "chunk_size_bytes"}
    # MD5 is not computed anyway: then this option is to have no effect.
    given = {name: value for name, value in options.items() if name != "disableMD5"}
    shared = {name: given.pop(name) for name in list(given) if name in _OBJECTS}
    return {**selected(given, own, "a bucket"), **converted(shared)}


def return_document(value: str) -> bool:
    """Which version of a document is returned.

    Raises:
        BadTest: neither Before nor After.
    """
    try:
        return _RETURN_DOCUMENT[value.lower()]
    except KeyError:
        raise BadTest(f"returnDocument is Before or After, not {value!r}") from None


def cursor_type(value: str) -> int:
    """A kind of cursor.

    Raises:
        BadTest: there is no such kind.
    """
    try:
        return _CURSOR_TYPES[value]
    except KeyError:
        raise BadTest(f"there is no cursor type {value!r}") from None


def write_models(requests: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The requests of a bulk write.

    Raises:
        BadTest: there is an unknown one.
    """
    models = []
    for request in requests:
        ((name, fields),) = request.items()
        if name not in _MODELS:
            raise BadTest(f"there is no write model {name!r}")
        make, names = _MODELS[name]
        models.append(make(**selected(fields, renamed(names), name)))
    return models


def namespaced_models(models: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The models of a client's bulk write.

    Raises:
        BadTest: there is an unknown one.
    """
    made = []
    for model in models:
        ((name, fields),) = model.items()
        rest = {key: value for key, value in fields.items() if key != "namespace"}
        (request,) = write_models([{name: rest}])
        request.namespace = fields.get("namespace")
        made.append(request)
    return made


def index_model(keys: Mapping[str, Any], options: Mapping[str, Any]) -> IndexModel:
    return IndexModel(keys, **options)


def search_index_model(fields: Mapping[str, Any]) -> SearchIndexModel:
    return SearchIndexModel(**selected(fields, renamed("definition name type"), "a search index"))
