"""Compares what happened with what a test expects (Unified Test Format, "Evaluating Matches")."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import json_util
from bson.binary import Binary
from bson.code import Code
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from tests.spec.unified.outcomes import BadTest, Failed

if TYPE_CHECKING:
    from collections.abc import Callable

_INT32: Final = range(-(2**31), 2**31)


class _Missing:
    """Stands for a value that does not exist."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_int32(value: Any) -> bool:
    return _is_number(value) and isinstance(value, int) and not isinstance(value, Int64) and value in _INT32


def _is_long(value: Any) -> bool:
    return isinstance(value, Int64) or (_is_number(value) and isinstance(value, int) and value not in _INT32)


def _kind(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def _is_code(value: Any, has_scope: bool) -> bool:
    return isinstance(value, Code) and (value.scope is not None) is has_scope


# By the names of the query operator $type.
TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "double": _kind(float),
    "string": lambda value: isinstance(value, str) and not isinstance(value, Code),
    "object": _kind(Mapping, DBRef),
    "array": _kind(list),
    "binData": _kind(bytes, Binary),
    "objectId": _kind(ObjectId),
    "bool": _kind(bool),
    "date": _kind(datetime.datetime),
    "null": lambda value: value is None,
    "regex": _kind(Regex, re.Pattern),
    "javascript": lambda value: _is_code(value, has_scope=False),
    "javascriptWithScope": lambda value: _is_code(value, has_scope=True),
    "int": _is_int32,
    "long": _is_long,
    "decimal": _kind(Decimal128),
    "number": lambda value: _is_number(value) or isinstance(value, Decimal128),
    "timestamp": _kind(Timestamp),
    "minKey": _kind(MinKey),
    "maxKey": _kind(MaxKey),
}


def operator_of(expected: Any) -> str | None:
    """The special operator that an expected value is, or None."""
    if isinstance(expected, Mapping) and len(expected) == 1:
        (name,) = expected
        if isinstance(name, str) and name.startswith("$$"):
            return name
    return None


class Entities(Protocol):
    """What expectations refer to by name."""

    def value(self, name: str) -> Any: ...

    def session(self, name: str) -> Any: ...


class Matcher:
    """Compares values; every failure says where."""

    def __init__(self, entities: Entities) -> None:
        self._entities = entities
        self._operators: Mapping[str, Callable[[Any, Any, str, bool], None]] = {
            "$$exists": self._exists,
            "$$type": self._type,
            "$$matchesEntity": self._matches_entity,
            "$$matchesHexBytes": self._matches_hex_bytes,
            "$$unsetOrMatches": self._unset_or_matches,
            "$$sessionLsid": self._session_lsid,
            "$$lte": self._lte,
            "$$matchAsDocument": self._match_as_document,
            "$$matchAsRoot": self._match_as_root,
        }

    def match(self, expected: Any, actual: Any, where: str, *, is_root: bool = False) -> None:
        """Compare a value with what is expected.

        Args:
            expected: The value in the test, with operators.
            actual: The value; `MISSING` for none.
            where: What the value is, for the message.
            is_root: Whether a document may have further fields.

        Raises:
            Failed: They do not match.
            BadTest: The expectation is malformed, or needs an entity that there is not.
        """
        name = operator_of(expected)
        if name is not None:
            if name not in self._operators:
                raise BadTest(f"{where}: unknown operator {name}")
            self._operators[name](expected[name], actual, where, is_root)
        elif actual is MISSING:
            raise Failed(f"{where}: expected {expected!r}, found nothing")
        elif isinstance(expected, Mapping):
            self._match_document(expected, actual, where, is_root)
        elif isinstance(expected, list):
            self.match_list(expected, actual, where)
        elif not _are_equal(expected, actual):
            raise Failed(f"{where}: expected {expected!r}, found {actual!r}")

    def match_list(self, expected: list[Any], actual: Any, where: str, *, is_root: bool = False) -> None:
        """Compare a list; with `is_root` its elements may have further fields."""
        if not isinstance(actual, list):
            raise Failed(f"{where}: expected the list {expected!r}, found {actual!r}")
        if len(expected) != len(actual):
            raise Failed(f"{where}: expected {len(expected)} elements, found {len(actual)}: {actual!r}")
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            self.match(one, other, f"{where}[{index}]", is_root=is_root)

    def _match_document(self, expected: Mapping[str, Any], actual: Any, where: str, is_root: bool) -> None:
        if isinstance(actual, DBRef):
            actual = actual.as_doc()
        if not isinstance(actual, Mapping):
            raise Failed(f"{where}: expected the document {expected!r}, found {actual!r}")
        for key, value in expected.items():
            self.match(value, actual.get(key, MISSING), f"{where}.{key}")
        extra = [key for key in actual if key not in expected]
        if extra and not is_root:
            raise Failed(f"{where}: unexpected fields {extra}; found {actual!r}, expected {expected!r}")

    # --- operators ---

    def _exists(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        if not isinstance(argument, bool):
            raise BadTest(f"{where}: $$exists takes true or false, not {argument!r}")
        if (actual is not MISSING) is not argument:
            raise Failed(f"{where}: expected {'a value' if argument else 'no value'}, found {actual!r}")

    def _type(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        names = argument if isinstance(argument, list) else [argument]
        if unknown := [name for name in names if name not in TYPES]:
            raise BadTest(f"{where}: unknown types {unknown}")
        if actual is MISSING or not any(TYPES[name](actual) for name in names):
            raise Failed(f"{where}: expected the type {' or '.join(names)}, found {actual!r}")

    def _matches_entity(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        self.match(self._entities.value(argument), actual, where, is_root=is_root)

    def _matches_hex_bytes(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        try:
            expected = bytes.fromhex(argument)
        except (TypeError, ValueError) as error:
            raise BadTest(f"{where}: {argument!r} are not hex bytes") from error
        if actual != expected:
            raise Failed(f"{where}: expected the bytes {expected!r}, found {actual!r}")

    def _unset_or_matches(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        if actual is not MISSING:
            self.match(argument, actual, where, is_root=is_root)

    def _session_lsid(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        expected = self._entities.session(argument).lsid
        # In an attribute of a span, it is the UUID as text.
        if actual != (str(expected["id"].as_uuid()) if isinstance(actual, str) else expected):
            raise Failed(f"{where}: expected the id of session {argument!r}, {expected!r}, found {actual!r}")

    def _lte(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        if not _is_number(argument):
            raise BadTest(f"{where}: $$lte takes a number, not {argument!r}")
        if not _is_number(actual) or actual > argument:
            raise Failed(f"{where}: expected at most {argument!r}, found {actual!r}")

    def _match_as_document(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        if not isinstance(actual, str):
            raise Failed(f"{where}: expected a document as Extended JSON, found {actual!r}")
        try:
            document = json_util.loads(actual)
        except ValueError as error:
            raise Failed(f"{where}: {actual!r} is not Extended JSON") from error
        if not isinstance(document, Mapping):
            raise Failed(f"{where}: expected a document as Extended JSON, found {actual!r}")
        self.match(argument, document, where)

    def _match_as_root(self, argument: Any, actual: Any, where: str, is_root: bool) -> None:
        if not isinstance(argument, Mapping):
            raise BadTest(f"{where}: $$matchAsRoot takes a document, not {argument!r}")
        self.match(argument, actual, where, is_root=True)


def _are_equal(expected: Any, actual: Any) -> bool:
    if _is_number(expected) and _is_number(actual):
        return bool(expected == actual)
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, bytes) and isinstance(actual, bytes):
        return expected == actual and getattr(expected, "subtype", 0) == getattr(actual, "subtype", 0)
    return bool(expected == actual)
