"""Pure: random arguments of methods: filters, updates, pipelines, options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.differential.values import (
    REPRESENTATIONS,
    document,
    identifier,
    key,
    number,
    one_of,
    pick,
    regex,
    scalar,
    stored,
    text,
    value,
)

if TYPE_CHECKING:
    from random import Random

    from tests.differential.values import Maker

BOOLEAN: Final = one_of("True", "False")


def condition(rng: Random) -> str:
    operator = rng.choice(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"))
    return pick(
        rng,
        (
            lambda r: f"{{'{operator}': {scalar(r)}}}",
            lambda r: f"{{'$in': [{scalar(r)}, {scalar(r)}]}}",
            lambda r: f"{{'$nin': [{regex(r)}]}}",
            lambda r: f"{{'$not': {{'$exists': {r.choice(('True', '0', '1'))}}}}}",
            lambda r: f"{{'$type': {r.choice((repr('string'), '16', repr('number'), repr('bad'), '-1', '99'))}}}",
            lambda r: f"{{'$elemMatch': {{'a': {scalar(r)}}}}}",
            lambda r: f"{{'$regex': {text(r)}, '$options': 'i'}}",
            lambda r: f"{{'$size': {number(r)}}}",
            lambda r: f"{{'$mod': [2, {r.choice('012')}]}}",
            "{'$bad': 1}",
        ),
    )


def simple_filter(rng: Random) -> str:
    return pick(
        rng,
        (
            "{}",
            "{}",
            lambda r: f"{{'_id': {identifier(r)}}}",
            lambda r: f"{{'_id': {identifier(r)}}}",
            lambda r: f"{{'_id': {{'$gt': {identifier(r)}}}}}",
            lambda r: f"{{'n': {number(r)}}}",
            lambda r: f"{{{key(r)}: {condition(r)}}}",
            lambda r: f"{{{key(r)}: {value(r)}}}",
        ),
    )


def query(rng: Random) -> str:
    if rng.random() < 0.8:
        return simple_filter(rng)
    return pick(
        rng,
        (
            lambda r: f"{{'$or': [{simple_filter(r)}, {simple_filter(r)}]}}",
            lambda r: f"{{'$and': [{simple_filter(r)}], {key(r)}: {scalar(r)}}}",
            "{'$expr': {'$eq': ['$n', '$$v']}}",
            "{'$expr': {'$gt': ['$n', 1]}}",
            "{'$where': Code('this.n == 1')}",
            "{'$comment': 'c', 'n': 1}",
            "{'$or': []}",
            "{'$bad': 1}",
            "SON([('n', 1), ('_id', {'$gt': 0})])",
            "RawBSONDocument(b'\\x0c\\0\\0\\0\\x10n\\0\\x01\\0\\0\\0\\0')",
            document,
        ),
    )


def update(rng: Random) -> str:
    if rng.random() < 0.5:
        path = rng.choice(("n", "a", "b", "a.b", "l.0", "l.$", "l.$[]", "l.$[x].a", "_id"))
        return f"{{'$set': {{{path!r}: {value(rng)}}}}}"
    return pick(
        rng,
        (
            lambda r: f"{{'$inc': {{'n': {number(r)}}}}}",
            lambda r: f"{{'$unset': {{{key(r)}: ''}}}}",
            lambda r: f"{{'$push': {{'l': {value(r)}}}}}",
            lambda r: (
                f"{{'$push': {{'l': {{'$each': [{scalar(r)}, 2], '$slice': {r.randrange(-3, 3)}, '$sort': 1}}}}}}"
            ),
            lambda r: f"{{'$addToSet': {{'l': {scalar(r)}}}, '$setOnInsert': {{'c': {value(r)}}}}}",
            lambda r: f"{{'$pull': {{'l': {condition(r)}}}}}",
            lambda r: f"{{'$rename': {{'a': {key(r)}}}}}",
            lambda r: f"[{{'$set': {{'a': {scalar(r)}}}}}, {{'$unset': 'b'}}]",
            "[{'$set': {'n': '$$v'}}]",
            "[{'$replaceWith': {'n': 5}}]",
            lambda r: f"{{'$set': {document(r)}}}",
            lambda r: f"SON([('$set', {{'n': {number(r)}}}), ('$inc', {{'n': 1}})])",
            "{'$bit': {'n': {'or': 4}}, '$mul': {'x': 2}, '$min': {'n': 0}}",
            lambda r: f"{{'$set': {{}}, {key(r)}: 1}}",
            lambda r: f"{{{key(r)}: {scalar(r)}}}",
            *(
                "{}",
                "[]",
                "{'$bad': 1}",
                "RawBSONDocument(b'\\x17\\0\\0\\0\\x03$set\\0\\x0c\\0\\0\\0\\x10n\\0\\x07\\0\\0\\0\\0\\0')",
            ),
        ),
    )


def replacement(rng: Random) -> str:
    return stored(rng) if rng.random() < 0.9 else update(rng)


def stage(rng: Random) -> str:
    return pick(
        rng,
        (
            lambda r: f"{{'$match': {query(r)}}}",
            lambda r: f"{{'$project': {{{key(r)}: {r.choice('01')}}}}}",
            "{'$sort': {'_id': 1}}",
            "{'$group': {'_id': '$n', 'k': {'$sum': 1}}}, {'$sort': {'_id': 1}}",
            lambda r: f"{{'$addFields': {{'z': {{'$literal': {value(r)}}}}}}}",
            lambda r: f"{{'$limit': {number(r)}}}",
            "{'$unwind': '$l'}",
            "{'$count': 'k'}",
            "{'$lookup': {'from': 'other', 'localField': '_id', 'foreignField': '_id', 'as': 'o'}}",
            "{'$facet': {'a': [{'$count': 'k'}]}}",
            "{'$set': {'v': '$$v'}}",
            "{'$bad': 1}",
            value,
        ),
    )


def pipeline(rng: Random) -> str:
    stages = [stage(rng) for _ in range(rng.randrange(4))]
    if rng.random() < 0.08:
        stages.append(rng.choice(("{'$out': 'other'}", "{'$merge': {'into': 'other'}}", "{'$merge': 'other'}")))
    return f"[{', '.join(stages)}]"


SORT_PAIRS: Final = one_of(
    "[('_id', 1)]", "[('_id', -1)]", "[('n', -1), ('_id', 1)]", "{'n': 1, '_id': -1}", "SON([('_id', -1)])"
)
SORT: Final = one_of(
    SORT_PAIRS, SORT_PAIRS, SORT_PAIRS, "[('_id', '1')]", "['_id']", "[('n', {'$meta': 'textScore'})]", "[]", "{}"
)
PROJECTION: Final = one_of(
    *(
        "{'n': 1}",
        "{'_id': 0}",
        "['n', 'l']",
        "[]",
        "{'n': 1, 'a': 0}",
        "{'l': {'$slice': 1}}",
        "{'k': '$n'}",
        "('a',)",
    ),
    *("{'l': {'$elemMatch': {'a': 1}}}", "{'l.$': 1}", "{}", "{'v': '$$v'}", "{'a'}", "SON([('a', True)])"),
)
HINT: Final = one_of(
    "'_id_'",
    "[('_id', 1)]",
    "{'_id': 1}",
    "[('n', 1)]",
    "'n_1'",
    "SON([('n', 1)])",
    "'none'",
    "{'$natural': -1}",
    "[('$natural', 1)]",
)
COLLATION: Final = one_of(
    "Collation('en')",
    "Collation(locale='en', strength=2)",
    "Collation('sv', caseFirst=CollationCaseFirst.UPPER, numericOrdering=True)",
    "{'locale': 'en'}",
    "{'locale': 'en', 'strength': 1}",
    "{'locale': 'xx'}",
    "{}",
    "Collation('en', backwards=True, alternate='shifted', maxVariable='space')",
)
COMMENT: Final = one_of("'c'", "{'a': 1}", value)
LET: Final = one_of(
    "{'v': 1}", "{'v': 5}", "{'v': 1}", "{'v': {'$literal': 1}}", "{}", "{'$v': 1}", "SON([('v', 2)])", document
)
ARRAY_FILTERS: Final = one_of(
    "[{'x.a': 1}]", "[{'x': {'$gt': 1}}]", "[{'x': 1}]", "[]", "[{'y': 1}]", "[{}]", "({'x.a': 1},)"
)
COUNT: Final = one_of(*("0", "1", "2", "3", "100") * 4, "Int64(2)", "2**31", "2**40", "-1", "True", "1.0")
MILLISECONDS: Final = one_of(
    *("60_000", "100_000", "2**31 - 1", "0", "Int64(50_000)") * 4, "60_000.5", "2**31", "-1", "True"
)
CURSOR_TYPE: Final = one_of("CursorType.NON_TAILABLE", "CursorType.EXHAUST", "0", "99", "CursorType.NON_TAILABLE")
CONCERN_OF_WRITES: Final = one_of(
    *(
        "WriteConcern()",
        "WriteConcern(1)",
        "WriteConcern('majority')",
        "WriteConcern(w=1, j=True)",
        "WriteConcern(1, wtimeout=5000)",
    ),
    *("WriteConcern(w='tag')", "WriteConcern(w=5, wtimeout=10)", "WriteConcern(j=False)"),
)
CONCERN_OF_READS: Final = one_of(
    "ReadConcern()",
    "ReadConcern('local')",
    "ReadConcern('majority')",
    "ReadConcern('available')",
    "ReadConcern('bad')",
    "ReadConcern('linearizable')",
)
PREFERENCE: Final = one_of(
    *("ReadPreference.PRIMARY", "ReadPreference.PRIMARY_PREFERRED", "ReadPreference.SECONDARY_PREFERRED", "Nearest()"),
    *("SecondaryPreferred(max_staleness=90)", "Nearest([{'a': 'b'}, {}])", "PrimaryPreferred(tag_sets=[{'a': 'b'}])"),
)


def codec_options(rng: Random) -> str:
    chosen = {
        "document_class": rng.choice(("dict", "SON", "RawBSONDocument", "SON")),
        "tz_aware": rng.choice(("True", "False")),
        "uuid_representation": f"UuidRepresentation.{rng.choice(REPRESENTATIONS)}",
        "unicode_decode_error_handler": rng.choice(("'strict'", "'replace'", "'ignore'")),
        "datetime_conversion": f"DatetimeConversion.DATETIME{rng.choice(('', '_MS', '_CLAMP', '_AUTO'))}",
    }
    names = rng.sample(sorted(chosen), rng.randrange(1, 4))
    zone = (
        ", tzinfo=timezone(timedelta(hours=2))"
        if chosen["tz_aware"] == "True" and "tz_aware" in names and rng.random() < 0.5
        else ""
    )
    return f"CodecOptions({', '.join(f'{name}={chosen[name]}' for name in sorted(names))}{zone})"


def many(make: Maker, most: int) -> Maker:
    """A list of up to `most`."""
    return lambda rng: f"[{', '.join(make(rng) for _ in range(rng.randint(min(1, most), most)))}]"


def request(rng: Random, namespace: str = "") -> str:
    """A request of a bulk write."""
    options: dict[str, Maker] = {"collation": COLLATION, "hint": HINT}
    of_updates: dict[str, Maker] = {**options, "upsert": BOOLEAN, "array_filters": ARRAY_FILTERS}
    with_sort: dict[str, Maker] = {"sort": SORT}
    kind, positional, named = rng.choice(
        (
            ("InsertOne", (stored,), {}),
            ("UpdateOne", (query, update), of_updates | with_sort),
            ("UpdateMany", (query, update), of_updates),
            ("ReplaceOne", (query, replacement), options | {"upsert": BOOLEAN} | with_sort),
            ("DeleteOne", (query,), options),
            ("DeleteMany", (query,), options),
        )
    )
    parts = [make(rng) for make in positional]
    parts += [f"{name}={named[name](rng)}" for name in named if rng.random() < 0.15]
    return f"{kind}({', '.join([*parts, *([namespace] if namespace else [])])})"


def namespaced_request(rng: Random) -> str:
    return request(rng, rng.choice(("namespace=db.name + '.coll'", "namespace=db.name + '.other'")))


def index_model(rng: Random) -> str:
    options = index_options(rng)
    return f"IndexModel({pick(rng, (INDEX_KEYS,))}{', ' + options if options else ''})"


INDEX_KEYS: Final = one_of(
    *(
        "'a'",
        "[('a', 1)]",
        "[('a', -1), ('b', 1)]",
        "['a', ('b', -1)]",
        "{'a': 1}",
        "[('a', 'hashed')]",
        "[('a', 'text')]",
    ),
    *(
        "[('$**', 1)]",
        "[('a', 'bad')]",
        "[('a', 0)]",
        "[('a', 1.0)]",
        "SON([('b', 1)])",
        "[('a', Int64(1))]",
        "[('l', '2d')]",
        "'_id'",
    ),
)
INDEX_OPTIONS: Final[dict[str, Maker]] = {
    "name": one_of("'i'", "'n_1'", "'x' * 200", "''"),
    "unique": BOOLEAN,
    "sparse": BOOLEAN,
    "hidden": BOOLEAN,
    "background": BOOLEAN,
    "expireAfterSeconds": one_of("3600", "-1", "2**40", "1.5", "'x'"),
    "partialFilterExpression": one_of("{'a': {'$gt': 1}}", "{'a': {'$bad': 1}}", "{}"),
    "collation": COLLATION,
    "default_language": one_of("'german'", "'xx'"),
    "wildcardProjection": one_of("{'a': 1}", "{}"),
    "bits": one_of("20", "99"),
    "weights": one_of("{'a': 2}"),
    "noSuchOption": one_of("1"),
}


def index_options(rng: Random) -> str:
    names = rng.sample(sorted(INDEX_OPTIONS), rng.choice((0, 0, 1, 1, 2)))
    return ", ".join(f"{name}={INDEX_OPTIONS[name](rng)}" for name in names)
