"""Pure: the methods that random programs call, with what makes their arguments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.differential.arguments import (
    ARRAY_FILTERS,
    BOOLEAN,
    COLLATION,
    COMMENT,
    CONCERN_OF_READS,
    CONCERN_OF_WRITES,
    COUNT,
    CURSOR_TYPE,
    HINT,
    INDEX_KEYS,
    INDEX_OPTIONS,
    LET,
    MILLISECONDS,
    PREFERENCE,
    PROJECTION,
    SORT,
    codec_options,
    index_model,
    many,
    namespaced_request,
    pipeline,
    query,
    replacement,
    request,
    update,
)
from tests.differential.values import key, one_of, reference, scalar, stored, text, value, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.differential.values import Choice, Maker


@dataclass(frozen=True)
class Method:
    """A method to call.

    Attributes:
        call: How to call it, with `{}` for the arguments.
        positional: What makes its positional arguments.
        named: What makes its keyword arguments, each of which may be left out.
        has_session: Whether it takes `session`.
        weight: How often it is called, in relation to the others.
    """

    call: str
    positional: tuple[Maker, ...] = ()
    named: Mapping[str, Maker] = field(default_factory=dict)
    has_session: bool = True
    weight: int = 3

    def make(self, rng: Random, session: str = "") -> str:
        """A call; one in twelve has an argument of a wrong type or value."""
        parts = [("", make(rng)) for make in self.positional]
        share = rng.choice((0.0, 0.1, 0.3))
        parts += [(name, make(rng)) for name, make in self.named.items() if rng.random() < share]
        if rng.random() < 0.08:
            _spoil(rng, parts, tuple(self.named))
        if session and self.has_session:
            parts.append(("session", session))
        arguments = ", ".join(f"{name}={_patient(name, text)}" if name else text for name, text in parts)
        # The call may have further arguments.
        return self.call.replace("{}" if arguments or "{}, " not in self.call else "{}, ", arguments, 1)


# Time limits of servers, and those that a server may reach.
LIMITS: Final = ("maxTimeMS", "max_time_ms", "max_commit_time_ms")
SHORT: Final = {"1": "60_001", "5": "60_005", "1.5": "60_001.5", "Int64(1)": "Int64(60_001)"}


def _patient(name: str, text: str) -> str:
    """An argument; a time limit that says the same about a library whatever the server's load is."""
    return SHORT.get(text, text) if name in LIMITS else text


def _spoil(rng: Random, parts: list[tuple[str, str]], names: tuple[str, ...]) -> None:
    chance = rng.random()
    if chance < 0.04:
        # Of the arguments that are there, one may have that name.
        parts[:] = [part for part in parts if part[0] != "noSuchOption"] + [("noSuchOption", "1")]
    elif chance < 0.07 and parts:
        del parts[rng.randrange(len(parts))]
    elif parts and (chance < 0.5 or not names):
        position = rng.randrange(len(parts))
        parts[position] = (parts[position][0], wrong(rng))
    elif names:
        name = rng.choice(names)
        parts[:] = [part for part in parts if part[0] != name] + [(name, wrong(rng))]


COMMENTED: Final[dict[str, Maker]] = {"comment": COMMENT}
BYPASS: Final[dict[str, Maker]] = {"bypass_document_validation": BOOLEAN}
MATCHING: Final[dict[str, Maker]] = {"collation": COLLATION, "hint": HINT, "let": LET, **COMMENTED}
UPDATING: Final[dict[str, Maker]] = {"upsert": BOOLEAN, **BYPASS, **MATCHING}
FIND: Final[dict[str, Maker]] = {
    "projection": PROJECTION,
    "skip": COUNT,
    "limit": COUNT,
    "no_cursor_timeout": BOOLEAN,
    "cursor_type": CURSOR_TYPE,
    "sort": SORT,
    "allow_partial_results": BOOLEAN,
    "batch_size": COUNT,
    "collation": COLLATION,
    "return_key": BOOLEAN,
    "show_record_id": BOOLEAN,
    "hint": HINT,
    "max_time_ms": MILLISECONDS,
    "comment": COMMENT,
    "allow_disk_use": BOOLEAN,
    "let": LET,
}
FIND_ONE: Final = {name: make for name, make in FIND.items() if name not in ("limit", "batch_size", "cursor_type")}
AND_MODIFY: Final[dict[str, Maker]] = {
    "projection": PROJECTION,
    "sort": SORT,
    "hint": HINT,
    "let": LET,
    "comment": COMMENT,
    "maxTimeMS": MILLISECONDS,
    "collation": COLLATION,
}
RETURNING: Final[dict[str, Maker]] = {
    "upsert": BOOLEAN,
    "return_document": one_of("ReturnDocument.BEFORE", "ReturnDocument.AFTER", "'after'"),
    **AND_MODIFY,
}
AGGREGATE: Final[dict[str, Maker]] = {
    "allowDiskUse": BOOLEAN,
    "maxTimeMS": MILLISECONDS,
    "batchSize": COUNT,
    "collation": COLLATION,
    "hint": HINT,
    "let": LET,
    "comment": COMMENT,
    "bypassDocumentValidation": BOOLEAN,
}
BOUNDED: Final = {name: FIND[name] for name in ("projection", "limit", "sort", "return_key", "collation")}

CRUD: Final = (
    Method("await coll.insert_one({})", (stored,), {**BYPASS, **COMMENTED}, weight=8),
    Method("await coll.insert_many({})", (many(stored, 4),), {"ordered": BOOLEAN, **BYPASS, **COMMENTED}, weight=8),
    Method(
        "await coll.update_one({})",
        (query, update),
        {**UPDATING, "array_filters": ARRAY_FILTERS, "sort": SORT},
        weight=8,
    ),
    Method("await coll.update_many({})", (query, update), {**UPDATING, "array_filters": ARRAY_FILTERS}, weight=6),
    Method("await coll.replace_one({})", (query, replacement), {**UPDATING, "sort": SORT}, weight=6),
    Method("await coll.delete_one({})", (query,), MATCHING, weight=4),
    Method("await coll.delete_many({})", (query,), MATCHING, weight=4),
    Method("await coll.find({}).to_list()", (query,), FIND, weight=14),
    Method("await coll.find_one({})", (query,), FIND_ONE, weight=8),
    Method("[raw async for raw in coll.find_raw_batches({})]", (query,), FIND, weight=3),
    Method("await (await coll.aggregate({})).to_list()", (pipeline,), AGGREGATE, weight=8),
    Method("[raw async for raw in await coll.aggregate_raw_batches({})]", (pipeline,), AGGREGATE, weight=2),
    Method(
        "await coll.distinct({})",
        (key,),
        {"filter": query, "comment": COMMENT, "hint": HINT, "collation": COLLATION, "maxTimeMS": MILLISECONDS},
        weight=4,
    ),
    Method(
        "await coll.count_documents({})",
        (query,),
        {
            "skip": COUNT,
            "limit": COUNT,
            "hint": HINT,
            "collation": COLLATION,
            "maxTimeMS": MILLISECONDS,
            "comment": COMMENT,
        },
        weight=4,
    ),
    Method(
        "await coll.estimated_document_count({})",
        (),
        {"comment": COMMENT, "maxTimeMS": MILLISECONDS},
        has_session=False,
        weight=2,
    ),
    Method(
        "await coll.find_one_and_update({})", (query, update), {**RETURNING, "array_filters": ARRAY_FILTERS}, weight=6
    ),
    Method("await coll.find_one_and_replace({})", (query, replacement), RETURNING, weight=5),
    Method("await coll.find_one_and_delete({})", (query,), AND_MODIFY, weight=4),
    Method(
        "await coll.bulk_write({})",
        (many(request, 6),),
        {"ordered": BOOLEAN, **BYPASS, **COMMENTED, "let": LET},
        weight=10,
    ),
    Method(
        "await client.bulk_write({})",
        (many(namespaced_request, 5),),
        {"ordered": BOOLEAN, "verbose_results": BOOLEAN, **BYPASS, **COMMENTED, "let": LET},
        weight=4,
    ),
    Method("await coll.find({}, min={'n': 0}, max={'n': 3}, hint='n_1').to_list()", (query,), BOUNDED, weight=1),
    Method("await coll.find({}, min=[('n', 0)], hint=[('n', 1)]).to_list()", (query,), weight=1),
    Method(
        "sorted(await coll.find({}).explain())",
        (query,),
        {name: FIND[name] for name in ("sort", "hint", "limit", "projection")},
        weight=1,
    ),
)
# Reads of several batches.
WITHOUT_SIZE: Final = {name: make for name, make in FIND.items() if name not in ("batch_size", "cursor_type")}
AGGREGATE_WITHOUT_SIZE: Final = {name: make for name, make in AGGREGATE.items() if name != "batchSize"}
BROAD: Final = one_of("{}", "{'_id': {'$gte': 2}}", "{'n': {'$lt': 2}}")
FEW_STAGES: Final = one_of("[]", "[{'$match': {'n': {'$lt': 2}}}]", "[{'$set': {'z': '$a'}}]", "[{'$unwind': '$l'}]")
BATCHES: Final = (
    Method("await coll.find({}, batch_size=2).to_list()", (BROAD,), WITHOUT_SIZE),
    Method("await coll.find({}, batch_size=5).to_list()", (BROAD,), WITHOUT_SIZE),
    Method("await coll.find({}).batch_size(3).limit(7).to_list()", (BROAD,), WITHOUT_SIZE),
    Method("[raw async for raw in coll.find_raw_batches({}, batch_size=4)]", (BROAD,), WITHOUT_SIZE, weight=2),
    Method("await (await coll.aggregate({}, batchSize=5)).to_list()", (FEW_STAGES,), AGGREGATE_WITHOUT_SIZE),
    Method(
        "[raw async for raw in await coll.aggregate_raw_batches({}, batchSize=3)]",
        (FEW_STAGES,),
        AGGREGATE_WITHOUT_SIZE,
        weight=1,
    ),
    Method(
        "await (await db.cursor_command('find', 'coll', batchSize=3, {})).to_list()",
        (),
        {"comment": COMMENT, "filter": BROAD},
        weight=1,
    ),
)
CHAINS: Final[tuple[tuple[str, Choice], ...]] = (
    ("sort", one_of("'_id'", "'_id', -1", "[('n', 1)]", "{'n': -1}", "'n', 'x'", "[]", "5", "None")),
    ("limit", COUNT),
    ("skip", COUNT),
    ("batch_size", COUNT),
    ("max_time_ms", MILLISECONDS),
    ("hint", HINT),
    ("comment", COMMENT),
    ("collation", COLLATION),
    ("min", one_of("[('_id', 1)]", "[('n', 0)]")),
    ("max", one_of("[('_id', 3)]", "[('n', 3)]")),
    ("where", one_of("'this.n == 1'", "Code('this.n > v', {'v': 1})", "5")),
    ("allow_disk_use", BOOLEAN),
    ("max_await_time_ms", MILLISECONDS),
    ("add_option", one_of("16", "64", "128", "2", "'x'")),
    ("remove_option", one_of("16", "64")),
)


def chained(rng: Random, session: str = "") -> str:
    """A cursor that methods change before it is read."""

    def link(name: str, make: Choice) -> str:
        made = wrong(rng) if rng.random() < 0.05 else make if isinstance(make, str) else make(rng)
        return f".{name}({_patient(name, made)})"

    links = "".join(link(name, make) for name, make in rng.choices(CHAINS, k=rng.randint(1, 3)))
    reading = rng.choice((".to_list()", ".to_list()", ".to_list(2)", ".distinct('n')", ".clone().to_list()"))
    return f"await coll.find({query(rng)}{', session=' + session if session else ''}){links}{reading}"


CODECS: Final[dict[str, Maker]] = {"codec_options": codec_options}
OPTIONS: Final[dict[str, Maker]] = {
    **CODECS,
    "read_preference": PREFERENCE,
    "write_concern": CONCERN_OF_WRITES,
    "read_concern": CONCERN_OF_READS,
}
NAME: Final = one_of(
    "'coll'", "'other'", "'new'", "'a.b'", "'é'", "'a$b'", "''", "'.a'", "'a..b'", "'system.x'", "'x' * 300", "'a\\0b'"
)
NEW: Final = one_of("'new'", "'new'", "'new'", NAME)
COMMANDS: Final = one_of(
    *(
        "'ping'",
        "{'ping': 1}",
        "SON([('ping', 1)])",
        "'count', 'coll'",
        "'noSuchCommand'",
        "'count', 'coll', query={'n': 1}",
    ),
    *("'distinct', 'coll', key='n'", "{'find': 'coll', 'batchSize': 1}", "'find', 'coll', sort={'_id': 1}", "''"),
    *("'insert', 'coll', documents=[{'_id': 9}]", "'update', 'coll', updates=[{'q': {}, 'u': {'$set': {'n': 1}}}]"),
    *("'aggregate', 'coll', pipeline=[], cursor={}", "'drop', 'none'", "'buildInfo', 2"),
    *(
        "'findAndModify', 'coll', query={}, update={'$inc': {'n': 1}}",
        "'delete', 'coll', deletes=[{'q': {}, 'limit': 1}]",
    ),
)
OF_COMMANDS: Final[dict[str, Maker]] = {
    "read_preference": PREFERENCE,
    "codec_options": codec_options,
    "check": BOOLEAN,
    "allowable_errors": one_of("[26, 59]", "['x']", "[]", "[59]"),
    "comment": COMMENT,
    "maxTimeMS": MILLISECONDS,
}
CURSOR_COMMANDS: Final = one_of(
    *(
        "'find', 'coll'",
        "{'find': 'coll', 'batchSize': 1}",
        "'aggregate', 'coll', pipeline=[], cursor={'batchSize': 1}",
        "'ping'",
    ),
    *("'listIndexes', 'coll'", "SON([('find', 'coll'), ('filter', {'n': 1})])", "'listIndexes', 'none'"),
)
FACTS: Final = (
    Method("coll.with_options({})", (), OPTIONS, has_session=False, weight=2),
    Method("db.get_collection({})", (NAME,), OPTIONS, has_session=False, weight=2),
    Method("db.with_options({})", (), OPTIONS, has_session=False, weight=1),
    Method("await coll.with_options({}).find_one()", (), OPTIONS, has_session=False, weight=4),
    Method("await coll.with_options({}).find({'n': {'$lt': 5}}).to_list()", (), CODECS, has_session=False, weight=4),
    Method("await coll.with_options({}).insert_many([{'n': 5}, {'n': 6}])", (), OPTIONS, has_session=False, weight=4),
    Method(
        "await coll.with_options({}).update_many({}, {'$set': {'z': 1}}, upsert=True)",
        (),
        OPTIONS,
        has_session=False,
        weight=3,
    ),
    Method("await db.command({})", (COMMANDS,), OF_COMMANDS, weight=6),
    Method(
        "await (await db.cursor_command({})).to_list()",
        (CURSOR_COMMANDS,),
        {
            "codec_options": codec_options,
            "read_preference": PREFERENCE,
            "comment": COMMENT,
            "max_await_time_ms": MILLISECONDS,
        },
        weight=3,
    ),
    Method(
        "await (await db.aggregate({})).to_list()",
        (
            one_of(
                "[{'$documents': [{'a': 1}]}]", "[{'$listLocalSessions': {}}, {'$limit': 0}]", "[]", "[{'$match': {}}]"
            ),
        ),
        AGGREGATE,
        weight=2,
    ),
    Method("await db.dereference({})", (reference,), {"comment": COMMENT}, weight=2),
    Method("await coll.index_information({})", (), COMMENTED, weight=2),
    Method("await (await coll.list_indexes({})).to_list()", (), COMMENTED, weight=2),
    Method("await coll.options({})", (), COMMENTED, weight=1),
    Method(
        "sorted(await db.list_collection_names({}))",
        (),
        {"filter": one_of("{'name': 'coll'}", "{'type': 'view'}", "{}"), **COMMENTED},
        weight=2,
    ),
    Method("await client.list_database_names({}) is not None", (), COMMENTED, weight=1),
    Method(
        "[each['name'] for each in await (await client.list_databases(filter={'name': db.name}, {})).to_list()]",
        (),
        {"nameOnly": BOOLEAN, "authorizedDatabases": BOOLEAN, **COMMENTED},
        weight=1,
    ),
)
CREATION: Final[dict[str, Maker]] = {
    "capped": BOOLEAN,
    "size": one_of("4096", "0", "'x'"),
    "max": one_of("2", "-1"),
    "validator": one_of("{'a': {'$type': 'string'}}", "{'$bad': 1}", "{}"),
    "validationLevel": one_of("'strict'", "'off'", "'bad'"),
    "validationAction": one_of("'error'", "'warn'"),
    "viewOn": one_of("'coll'"),
    "pipeline": pipeline,
    "collation": COLLATION,
    "timeseries": one_of("{'timeField': 't'}", "{'timeField': 1}"),
    "expireAfterSeconds": one_of("3600", "-1"),
    "clusteredIndex": one_of("{'key': {'_id': 1}, 'unique': True}", "{}"),
    "changeStreamPreAndPostImages": one_of("{'enabled': True}", "{}"),
    "storageEngine": one_of("{'wiredTiger': {}}", "{'bad': {}}"),
    "indexOptionDefaults": one_of("{'storageEngine': {'wiredTiger': {}}}"),
    "comment": COMMENT,
    "check_exists": BOOLEAN,
    **OPTIONS,
}
DEFINITIONS: Final = (
    Method("await db.create_collection({})", (NEW,), CREATION, weight=6),
    Method(
        "await coll.create_index({})",
        (INDEX_KEYS,),
        {**INDEX_OPTIONS, "comment": COMMENT, "maxTimeMS": MILLISECONDS},
        weight=6,
    ),
    Method(
        "await coll.create_indexes({})",
        (many(index_model, 3),),
        {"comment": COMMENT, "commitQuorum": one_of("'majority'", "1", "'x'"), "maxTimeMS": MILLISECONDS},
        weight=4,
    ),
    Method(
        "await coll.drop_index({})",
        (one_of("'n_1'", "[('n', 1)]", "'none'", "'_id_'", "'*'", "{'n': 1}", INDEX_KEYS),),
        COMMENTED,
        weight=3,
    ),
    Method("await coll.drop_indexes({})", (), COMMENTED, weight=2),
    Method("await coll.drop({})", (), COMMENTED, weight=2),
    Method("await db.drop_collection({})", (one_of("'coll'", "'none'", "coll", "db.none", NAME),), COMMENTED, weight=2),
    Method("await coll.rename({})", (NEW,), {"dropTarget": BOOLEAN, "comment": COMMENT}, weight=3),
    Method("await client.drop_database({})", (one_of("db", "db.name"),), COMMENTED, weight=1),
    Method(
        "sorted([(each['name'], each['type'], str(each['options'])) async for each in await db.list_collections({})])",
        (),
        {"filter": one_of("{'name': 'new'}", "{'type': 'view'}"), **COMMENTED},
        weight=3,
    ),
    Method(
        "(await db.validate_collection({}))['valid']",
        (one_of("'coll'", "coll", "'none'"),),
        {"scandata": BOOLEAN, "full": BOOLEAN, "background": BOOLEAN, "comment": COMMENT},
        weight=1,
    ),
    Method(
        "await db.new.insert_many([{'_id': 1, 'a': 1, 't': datetime(2020, 1, 1)}, {'_id': 2, 'a': 'x'}], {})",
        (),
        {"ordered": BOOLEAN, **BYPASS},
        weight=3,
    ),
    Method("await db.new.find({}).to_list()", (query,), FIND, weight=2),
    Method("await db.get_collection('new', {}).find_one()", (), OPTIONS, has_session=False, weight=1),
    Method("await coll.index_information({})", weight=3),
)
GRID: Final = (
    Method(
        "await bucket.upload_from_stream({})",
        (text, one_of("b''", "b'abc'", "bytes(1000)", "b'x' * 20", "5", "'text'")),
        {"chunk_size_bytes": one_of("3", "16", "255 * 1024", "0", "1.5"), "metadata": one_of("{'a': 1}", value)},
        weight=6,
    ),
    Method(
        "await bucket.upload_from_stream_with_id({})",
        (scalar, text, one_of("b''", "b'abcdefgh'", "bytes(300)")),
        {"chunk_size_bytes": one_of("5", "100"), "metadata": one_of("{'a': 1}", value)},
        weight=4,
    ),
    Method("await (await bucket.open_download_stream({})).read()", (scalar,), weight=3),
    Method(
        "await (await bucket.open_download_stream_by_name({})).read()",
        (text,),
        {"revision": one_of("0", "-1", "1", "-2", "5")},
        weight=5,
    ),
    Method(
        "[(each.filename, each.length, each.chunk_size, each.metadata) async for each in bucket.find({})]",
        (one_of("{}", "{'filename': 'a'}", query),),
        {"skip": COUNT, "limit": COUNT, "sort": SORT, "batch_size": COUNT, "no_cursor_timeout": BOOLEAN},
        weight=3,
    ),
    Method("await bucket.delete({})", (scalar,), weight=2),
    Method("await bucket.delete_by_name({})", (text,), weight=2),
    Method("await bucket.rename({})", (scalar, text), weight=1),
    Method("await bucket.rename_by_name({})", (text, text), weight=2),
    Method(
        "await db.fs.chunks.find(None, {'_id': 0, 'n': 1, 'data': 1}).sort('n').to_list()", has_session=False, weight=1
    ),
)
TRANSACTION: Final[dict[str, Maker]] = {
    "read_concern": CONCERN_OF_READS,
    "write_concern": CONCERN_OF_WRITES,
    "read_preference": PREFERENCE,
    "max_commit_time_ms": MILLISECONDS,
}
SESSION: Final = Method(
    "(s := client.start_session({}))",
    (),
    {
        "causal_consistency": BOOLEAN,
        "snapshot": BOOLEAN,
        "default_transaction_options": one_of(
            "TransactionOptions()",
            "TransactionOptions(max_commit_time_ms=60_000)",
            "TransactionOptions(ReadConcern('snapshot'))",
        ),
    },
    has_session=False,
)
START: Final = Method("await s.start_transaction({})", (), TRANSACTION, has_session=False)
WATCH: Final = Method(
    "(c := await {target}.watch({}))",
    (
        one_of(
            "[]",
            "[{'$match': {'operationType': 'insert'}}]",
            "[{'$project': {'fullDocument': 1, 'operationType': 1, 'ns': 1}}]",
            "[{'$bad': 1}]",
        ),
    ),
    {
        "full_document": one_of("'updateLookup'", "'default'", "'whenAvailable'", "'bad'"),
        "full_document_before_change": one_of("'off'", "'whenAvailable'", "'required'"),
        "max_await_time_ms": one_of("5", "10", "-1"),
        "batch_size": COUNT,
        "collation": COLLATION,
        "comment": COMMENT,
        "show_expanded_events": BOOLEAN,
        "start_at_operation_time": one_of("Timestamp(2**32 - 2, 1)", "5", "Timestamp(1, 1)"),
        "resume_after": one_of("{'_data': '00'}", "{}", "{'a': 1}"),
    },
)
