"""Pure: random BSON values and documents, as the text of Python expressions.

Text, so that a case can be printed, shrunk and run again. Its names are those of `tests.live.oracle.names`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import bson

if TYPE_CHECKING:
    from random import Random

# What makes the text of an expression; a string stands for itself.
Maker = Callable[["Random"], str]
Choice = str | Maker

UUIDS: Final = ("UUID('00112233-4455-6677-8899-aabbccddeeff')", "UUID(int=0)", "UUID(int=2**128 - 1)")
REPRESENTATIONS: Final = ("STANDARD", "PYTHON_LEGACY", "JAVA_LEGACY", "CSHARP_LEGACY", "UNSPECIFIED")
# The ids of programs begin alike, which tells them from those that drivers and servers generate.
LITERAL_ID: Final = "d1ff"


def pick(rng: Random, choices: tuple[Choice, ...]) -> str:
    """The text of one of several choices."""
    chosen = rng.choice(choices)
    return chosen if isinstance(chosen, str) else chosen(rng)


def one_of(*choices: Choice) -> Maker:
    """What picks one of several choices; a choice that is named twice is twice as likely."""
    return lambda rng: pick(rng, choices)


def object_id(rng: Random) -> str:
    return f"ObjectId('{LITERAL_ID}{rng.randrange(4):020x}')"


def binary(rng: Random) -> str:
    subtype = rng.choice(
        (0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 128, 255, 256, -1) if rng.random() < 0.1 else (0, 1, 2, 5, 128)
    )
    data = rng.choice(("b''", "b'ab'", "bytes(16)", "bytes(range(16))", "bytes(300)"))
    return f"Binary({data}, {subtype})"


def uuid(rng: Random) -> str:
    text = rng.choice(UUIDS)
    if rng.random() < 0.3:
        return text
    # UNSPECIFIED raises in both.
    return f"Binary.from_uuid({text}, UuidRepresentation.{rng.choice(REPRESENTATIONS[:-1])})"


def moment(rng: Random) -> str:
    return pick(
        rng,
        (
            "datetime(2020, 1, 2, 3, 4, 5, 678000)",
            "datetime(2020, 1, 2, 3, 4, 5, 678999)",
            "datetime(1, 1, 1)",
            "datetime(9999, 12, 31, 23, 59, 59, 999999)",
            "datetime(1969, 12, 31, 23, 59, 59, 999500)",
            "datetime(2020, 1, 2, tzinfo=timezone.utc)",
            "datetime(2020, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30)))",
            "DatetimeMS(0)",
            "DatetimeMS(-1)",
            "DatetimeMS(-2**63)",
            "DatetimeMS(2**63 - 1)",
            "DatetimeMS(253402300800000)",
            "DatetimeMS(-62135596800001)",
        ),
    )


def regex(rng: Random) -> str:
    return pick(
        rng,
        (
            "Regex('^a')",
            "Regex('a.*b', 'imsx')",
            "Regex('b', 'xi')",
            "Regex('(?i)a', 0)",
            "Regex('(', 'i')",
            "Regex('', 'lu')",
            "re.compile('^a')",
            "re.compile('a', re.I | re.M | re.S | re.X)",
            "re.compile(b'a')",
            "re.compile('a', re.A)",
        ),
    )


def code(rng: Random) -> str:
    return pick(rng, ("Code('f()')", "Code('f()', {})", lambda r: f"Code('f()', {document(r, 2)})", "Code('', a=1)"))


def reference(rng: Random) -> str:
    return pick(
        rng,
        (
            "DBRef('coll', 1)",
            "DBRef('coll', 1, 'other')",
            "DBRef('coll', {'a': 1}, a=1, b='x')",
            lambda r: f"DBRef('coll', {scalar(r)}, **{{'a.b': 1}})",
            "{'$ref': 'coll', '$id': 2}",
            "{'$ref': 'coll', '$id': 2, '$db': 5}",
            "{'$ref': 1, '$id': 2}",
        ),
    )


def text(rng: Random) -> str:
    return pick(
        rng,
        ("'a'", "'b'", "'ab'", "''", "'é☃𝄞'", "'a\\0b'", "'$a'", "'x' * 300", "'\\ud800'")
        if rng.random() < 0.1
        else ("'a'", "'b'", "'ab'", "''", "'é☃𝄞'", "'a\\0b'", "'$a'"),
    )


def number(rng: Random) -> str:
    return pick(
        rng,
        (
            *map(str, range(6)),
            *("-1", "2**31 - 1", "2**31", "-2**31", "-2**31 - 1", "2**53 + 1", "2**63 - 1", "-2**63"),
            *("Int64(0)", "Int64(5)", "Int64(2**40)", "Int64(-2**63)"),
            *("0.0", "-0.0", "1.5", "2.0", "1e308", "5e-324", "float('inf')", "float('-inf')", "float('nan')"),
            *("Decimal128('1.5')", "Decimal128('NaN')", "Decimal128('-Infinity')", "Decimal128('-0E+10')"),
            "Decimal128('9.999999999999999999999999999999999E+6144')",
        ),
    )


# What no BSON type represents, or what does not fit; both libraries refuse it.
UNENCODABLE: Final = (
    *("2**63", "-2**63 - 1", "2**64", "Int64(2**63)", "object()", "{1}", "1j", "Decimal('1.5')", "DatetimeMS(2**63)"),
    *(
        "range(3)",
        "int",
        "print",
        "date(2020, 1, 2)",
        "timedelta(1)",
        "bytearray(b'a')",
        "memoryview(b'a')",
        "'a'.__iter__()",
    ),
    *("{1: 2}", "{None: 1}", "{b'a': 1}", "{'a\\0b': 1}", "MappingProxyType({'a': 1})", "coll"),
)


def raw(rng: Random) -> str:
    """A RawBSONDocument, also with keys that no dictionary could have twice."""
    fields: list[tuple[str, object]] = [
        ("_id", rng.randrange(9)),
        ("a", rng.randrange(3)),
        ("a", "x"),
        ("b.c", 1.5),
        ("$d", None),
        ("", [1]),
    ]
    chosen = rng.sample(fields, rng.randrange(4))
    body = b"".join(bson.encode({name: value})[4:-1] for name, value in chosen)
    return f"RawBSONDocument({(len(body) + 5).to_bytes(4, 'little') + body + bytes(1)!r})"


SCALARS: Final[tuple[Choice, ...]] = (
    *(number, number, text, text, "None", "True", "False", "b'bytes'"),
    *(object_id, binary, uuid, moment, regex, code, reference),
    *("Timestamp(1, 2)", "Timestamp(2**32 - 1, 0)", "Timestamp(0, 1)", "MinKey()", "MaxKey()"),
)


def scalar(rng: Random) -> str:
    return pick(rng, SCALARS)


def value(rng: Random, depth: int = 3) -> str:
    """Any value; one in a hundred cannot be encoded."""
    chance = rng.random()
    if chance < 0.01:
        return rng.choice(UNENCODABLE)
    if depth and chance < 0.1:
        return document(rng, depth - 1)
    if depth and chance < 0.2:
        items = ", ".join(value(rng, depth - 1) for _ in range(rng.randrange(4)))
        return f"[{items}]" if chance < 0.19 else f"({items},)" if items else "()"
    return scalar(rng)


def key(rng: Random) -> str:
    if rng.random() < 0.9:
        return rng.choice(("'a'", "'b'", "'c'", "'n'", "'l'"))
    return rng.choice(
        ("'a.b'", "'$a'", "''", "'é'", "'x' * 200", "'a.'", "'.a'", "'$set'", "'0'", "'_id'", "'__proto__'")
    )


def fields(rng: Random, depth: int, most: int = 4) -> str:
    return ", ".join(f"{key(rng)}: {value(rng, depth)}" for _ in range(rng.randrange(most)))


def document(rng: Random, depth: int = 2) -> str:
    """A document for a field, or one to insert."""
    chance = rng.random()
    if chance < 0.04:
        return raw(rng)
    if chance < 0.1:
        pairs = ", ".join(f"({key(rng)}, {value(rng, depth)})" for _ in range(rng.randrange(4)))
        return f"SON([{pairs}])"
    if chance < 0.103:
        return "{'a': 'x' * 70_000, 'b': [b'y' * 5_000] * 3}"
    if chance < 0.106:
        return "{str(i): i for i in range(300)}"
    return f"{{{fields(rng, depth)}}}"


def identifier(rng: Random) -> str:
    """A value for `_id`: mostly one of a few, so that documents meet."""
    return (
        rng.choice(("0", "1", "2", "3", "4"))
        if rng.random() < 0.8
        else pick(rng, (scalar, object_id, "{'a': 1}", value))
    )


def stored(rng: Random) -> str:
    """A document to insert."""
    chance = rng.random()
    if chance < 0.1:
        return document(rng)
    inner = fields(rng, 2)
    if chance < 0.2:
        return f"{{{inner}}}"
    if chance < 0.3:
        return f"{{{inner}{', ' if inner else ''}'_id': {identifier(rng)}}}"
    common = rng.choice(("'n': 1", "'n': 2", "'l': [1, 2, 3]", "'l': [{'a': 1}, {'a': 2}]", "'a': 'ab'", "'a': 1"))
    return f"{{'_id': {identifier(rng)}, {common}{', ' if inner else ''}{inner}}}"


# What is wrong for most arguments, in type or in value.
WRONG: Final = (
    *(
        "None",
        "True",
        "False",
        "0",
        "1",
        "-1",
        "5",
        "1.5",
        "-0.5",
        "2**31",
        "2**63",
        "2**64",
        "float('nan')",
        "''",
        "'x'",
        "'$x'",
        "'a.b'",
    ),
    *(
        "b'x'",
        "[]",
        "[1]",
        "['a']",
        "[None]",
        "()",
        "('a', 1)",
        "[('a', 1)]",
        "[('a',)]",
        "{}",
        "{'a': 1}",
        "{1: 2}",
        "{'$a': 1}",
        "{'a': {1}}",
    ),
    *(
        "set()",
        "object()",
        "int",
        "ObjectId",
        "Int64(1)",
        "Decimal128('1')",
        "MinKey()",
        "re.compile('a')",
        "'\\0'",
        "'é'",
    ),
    *(
        "SON()",
        "SON([('a', 1)])",
        "coll",
        "db",
        "RawBSONDocument(b'\\x05\\0\\0\\0\\0')",
        "'1'",
        "range(2)",
    ),
    *(
        "MappingProxyType({'a': 1})",
        "ReadPreference.PRIMARY",
        "WriteConcern(1)",
        "ReadConcern('local')",
        "CodecOptions()",
    ),
)


def wrong(rng: Random) -> str:
    return rng.choice(WRONG)
