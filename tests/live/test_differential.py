"""Random programs do the same with PyMongo and motorlite; `python -m tests.differential` runs as many as you like."""

from __future__ import annotations

import asyncio
import tomllib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from motorlite._api.cursors import cursor
from tests.differential import programs, wire
from tests.differential.bugs import BUGS
from tests.differential.finding import Search
from tests.differential.outcomes import REASONS as HIDDEN
from tests.differential.programs import REPLICA_SET, STANDALONE, Program, make
from tests.differential.reasons import REASONS, compare
from tests.differential.running import Arena, compiled
from tests.differential.shrinking import simpler_steps, smaller
from tests.differential.wire import DEFAULTS, tap
from tests.live.oracle import collect_what_pymongo_lost
from tests.support.planting import plant

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from motorlite.testing import LocalServer

HERE: Final = Path(__file__).parent
SEED: Final = 1
CASES: Final = 500

# For each reason, steps whose last one differs for it. Those of wrong arguments stand for many.
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "await coll.count_documents(5)": ("await coll.count_documents(5)",),
    "await coll.insert_one({}, session=5)": ("await coll.insert_one({}, session=5)",),
    "coll.with_options(write_concern={})": ("coll.with_options(write_concern={})",),
    "a limit that is not a number": ("await coll.find(limit=True).to_list()",),
    "coll.find(skip=-1)": ("coll.find(skip=-1)",),
    "AsyncMongoClient(readPreference=5)": ("await coll.aggregate([UUID(int=0), {}])",),
    "client.start_session(causal_consistency='x')": ("client.start_session(causal_consistency='x')",),
    "a commit that fails and whose write concern cannot be satisfied": (
        "await coll.insert_one({'_id': 1})",
        "(s := client.start_session())",
        "await s.start_transaction(write_concern=WriteConcern(w=5))",
        "await coll.insert_one({'_id': 1}, session=s)",
        "await s.commit_transaction()",
    ),
    "deleting files of GridFS by a name that none has": (
        "(bucket := gridfs.AsyncGridFSBucket(db))",
        "await bucket.delete_by_name('none')",
    ),
    "the documents left in a cursor when it is closed": (
        "await coll.insert_many([{}, {}])",
        "(c := await coll.aggregate([]))",
        "await c.close()",
        "c.alive",
    ),
    "deleting a file while it is uploaded": (
        "(bucket := gridfs.AsyncGridFSBucket(db))",
        "await bucket.upload_from_stream('a', b'a')",
    ),
    "a transaction whose first command cannot be encoded": (
        "await coll.insert_one({})",
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.insert_one({'a': {1}}, session=s)",
        "await coll.find({}, session=s).to_list()",
    ),
    "a cursor whose first command failed": (
        "(c := coll.find({'$or': 1}))",
        "await c.to_list()",
        "await c.to_list()",
    ),
    "changing a cursor that was closed before it ran": ("(c := coll.find())", "await c.close()", "c.sort('a')"),
    "the class of the details of an error": (
        "await coll.with_options(codec_options=CodecOptions(document_class=SON)).find_one({'$or': 1})",
    ),
    "the collation of a change stream": ("await coll.watch(collation={'locale': 'en'})",),
    "coll.find({}, 'a')": ("coll.find({}, 'a')",),
    "coll.find([])": ("coll.find([])",),
    "await coll.aggregate([], batchSize='x')": ("await (await coll.aggregate([], batchSize='1')).to_list()",),
    "an empty hint": ("await coll.insert_one({})", "await coll.find(hint='').to_list()"),
    "the direction of an index that drop_index does not find": (
        "await coll.drop()",
        "await coll.drop_index([('a', 1.0)])",
    ),
    "the definition of a search index that is no mapping": ("SearchIndexModel('a')",),
    "max_await_time_ms that is negative": ("await coll.find().max_await_time_ms(-1).to_list()",),
    "w and wtimeout that are booleans": ("WriteConcern(w=True)",),
    "drop_index of all": ("await coll.drop_index('*')",),
    "a comment that is false": ("await coll.find(comment=set()).to_list()",),
    "drop_collection of a name that cannot be": ("await db.drop_collection('a..b')",),
    "None for an option": ("await coll.find_one({}, allow_partial_results=None)",),
    "the sort of find as a name": ("await coll.find(sort='_id').to_list()",),
    "a time limit that is not whole": ("await coll.count_documents({}, maxTimeMS=60_000.5)",),
    "the hint of aggregate as pairs": ("await (await coll.aggregate([], hint=[('_id', 1)])).to_list()",),
    "bounds of an index as pairs": ("await coll.find(min=[('_id', 0)], hint=[('_id', 1)]).to_list()",),
    "bounds of an index as a mapping": ("await coll.find().min({'_id': 0}).hint({'_id': 1}).to_list()",),
    "the keys of drop_index as a mapping": ("await coll.drop_index({'n': 1})",),
    "count_documents with a limit of 0": ("await coll.count_documents({}, limit=0)",),
    "a size that is not a number": ("await db.create_collection('new', size='x')",),
    "a value that cannot be encoded in a bulk write of the client": (
        "await client.bulk_write([InsertOne({'a': {1}}, namespace=db.name + '.coll')])",
    ),
    "bypass_document_validation of deletions": (
        "await coll.bulk_write([DeleteOne({})], bypass_document_validation='x')",
    ),
    "the read preference of getMore": (
        "await coll.insert_many([{}, {}])",
        "await (await db.cursor_command({'find': 'coll', 'batchSize': 1}, read_preference=Nearest())).to_list()",
    ),
    "the class of documents in later batches of cursor_command": (
        "await coll.insert_many([{}, {}])",
        "await (await db.cursor_command({'find': 'coll', 'batchSize': 1}, "
        "codec_options=CodecOptions(document_class=SON))).to_list()",
    ),
    "the class of the documents of list_indexes": ("await (await coll.list_indexes()).to_list()",),
    "the retries of a bulk write with an UpdateMany": (
        "await coll.bulk_write([InsertOne({}), UpdateMany({}, {'$set': {'a': 1}})])",
    ),
    "a getMore that fails kills the cursor at once": (
        "await coll.insert_many([{}, {}])",
        "await (await db.cursor_command({'find': 'coll', 'batchSize': 1}, max_await_time_ms=1000)).to_list()",
    ),
    "the first batch of raw batches": ("[each async for each in await coll.aggregate_raw_batches([])]",),
    "a batch size of 1": (
        "await coll.insert_many([{}, {}, {}])",
        "await (await coll.aggregate([], batchSize=1)).to_list()",
    ),
    "the class of an upserted id": (
        "(odd := coll.with_options(codec_options=CodecOptions(document_class=SON)))",
        "await odd.update_one({'_id': {'a': 1}}, {'$set': {'b': 1}}, upsert=True)",
    ),
    "the batch size of raw batches with a limit": (
        "await coll.insert_many([{}, {}, {}, {}])",
        "[each async for each in coll.find_raw_batches({}, limit=3, batch_size=2)]",
    ),
    "the batch size of a negative limit": ("await coll.find(limit=-1, hint='none').to_list()",),
    "the id of a cursor that was closed": (
        "await coll.insert_many([{}, {}, {}])",
        "(c := coll.find(batch_size=2))",
        "await c.next()",
        "await c.close()",
        "c.cursor_id == 0",
    ),
    "two starts of a change stream": ("await coll.watch(start_at_operation_time=Timestamp(1, 1), resume_after={})",),
    "the queries of a download": (
        "(bucket := gridfs.AsyncGridFSBucket(db))",
        "await db.fs.files.insert_one({'_id': 1, 'length': 2, 'chunkSize': 2, 'uploadDate': datetime(2020, 1, 1)})",
        "await db.fs.chunks.insert_one({'files_id': 1, 'n': 0, 'data': b'ab'})",
        "await (await bucket.open_download_stream(1)).read()",
    ),
    "a key that a raw filter has twice, with a hint": (
        r"await coll.find(RawBSONDocument(b'\x17\x00\x00\x00\x02a\x00\x02\x00\x00\x00y\x00"
        r"\x02a\x00\x02\x00\x00\x00x\x00\x00'), hint='_id_').to_list()",
    ),
    "the let of a cursor that is cloned": ("await coll.find(let={'v': 1}).clone().to_list()",),
    "an exhaust cursor in a transaction": (
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.find(cursor_type=CursorType.EXHAUST, session=s).to_list()",
    ),
    "the session's time in a write that command sends": (
        "(s := client.start_session())",
        "await coll.find_one(session=s)",
        "await db.command('insert', 'coll', documents=[{}], session=s)",
    ),
    "the matched_count of an upsert whose id is None": ("await coll.replace_one({}, {'_id': None}, upsert=True)",),
    "a pipeline that is a tuple": ("await coll.aggregate(())",),
    "a wrong option of a transaction in a snapshot session": (
        "(s := client.start_session(snapshot=True))",
        "await s.start_transaction(read_concern=5)",
    ),
    "explain of a query with a limit": ("sorted(await coll.find(limit=2).explain())",),
}
# Steps with what random programs need not have.
FURTHER: Final = (
    "await coll.insert_one({'_id': 1})",
    "(c := await coll.watch())",
    "await coll.insert_one({'_id': 2})",
    "await c.next()",
    "await c.close()",
    "await coll.find({}, hint={}, let={}, collation={}, projection={}, sort={}).to_list()",
    "(s := client.start_session())",
    "await coll.find_one(session=s)",
    "await coll.find_one(session=s)",
    "[each['info']['uuid'] is not None async for each in await db.list_collections()]",
    "await (await db.list_collections(filter={'name': 'coll'})).to_list()",
    "await client.list_database_names(comment=None)",
    "await (await client.list_databases(nameOnly=False, filter={'name': db.name})).to_list()",
    "await coll.update_many({}, {'$set': {'a': 1}})",
    "await coll.count_documents({}, maxTimeMS=0)",
    "await gridfs.AsyncGridFSBucket(db).upload_from_stream('a', b'a')",
    "await (await coll.watch(start_at_operation_time=Timestamp(2**32 - 2, 1))).close()",
    "(c := await coll.watch(show_expanded_events=True))",
    "await coll.insert_one({'_id': 3})",
    "await c.next()",
    "await (await coll.watch(show_expanded_events=False)).close()",
    "await coll.find(show_record_id=True).to_list()",
    "await coll.find(hint='').to_list()",
    "(s := client.start_session(snapshot=True))",
    "await coll.find_one(session=s)",
    "await coll.find_one(session=s)",
    "await db.command('find', 'coll', batchSize=1)",
)

# For each planted bug, steps whose last one shows it.
SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "ids-as-tuple": ("await coll.insert_many([{'_id': 1}])",),
    "upsert-matches": ("await coll.bulk_write([UpdateOne({'_id': 1}, {'$set': {'a': 1}}, upsert=True)])",),
    "index-in-its-run": (
        "await coll.bulk_write([InsertOne({'_id': 1}), DeleteOne({'_id': 2}), DeleteOne({'$a': 1})])",
    ),
    "documents-of-later-batches": (
        "await coll.insert_many([{}, {}, {}])",
        "(odd := coll.with_options(codec_options=CodecOptions(document_class=SON)))",
        "await odd.find(batch_size=2).to_list()",
    ),
    "count-as-float": ("await coll.insert_one({})", "await coll.count_documents({})"),
    "duplicate-is-any-failure": (
        "await coll.insert_many([{'_id': 1, 'a': 1}, {'_id': 2, 'a': 2}])",
        "await coll.create_index('a', unique=True)",
        "await coll.find_one_and_update({'_id': 1}, {'$set': {'a': 2}})",
    ),
    "write-error-without-code": ("await coll.update_one({'$a': 1}, {'$set': {'a': 1}})",),
    "code-of-another-error": ("await coll.find_one({'$a': 1})",),
    "no-empty-array-filters": ("await coll.update_one({}, {'$set': {'a': 1}}, array_filters=[])",),
    "collation-of-one": ("await coll.delete_many({}, collation={'locale': 'en'})",),
    "bulk-sort": ("await coll.bulk_write([UpdateOne({}, {'$set': {'a': 1}}, sort={'a': 1})])",),
    "getmore-without-comment": (
        "await coll.insert_many([{}, {}, {}])",
        "await coll.find(batch_size=2, comment='a').to_list()",
    ),
    "batch-beyond-the-limit": (
        "await coll.insert_many([{}, {}, {}, {}])",
        "await coll.find(batch_size=2, limit=3).to_list()",
    ),
    "short-length": (
        "(bucket := gridfs.AsyncGridFSBucket(db))",
        "await bucket.upload_from_stream_with_id(1, 'a', b'a')",
    ),
    "session-without-time": (
        "(s := client.start_session())",
        "await coll.find_one(session=s)",
        "await coll.find_one(session=s)",
    ),
    "snapshot-moves": (
        "(s := client.start_session(snapshot=True))",
        "await coll.find_one(session=s)",
        "await coll.find_one(session=s)",
    ),
    "transaction-without-time": (
        "(s := client.start_session())",
        "await coll.find_one(session=s)",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
    ),
    "concern-in-transaction": (
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
        "await coll.with_options(read_concern=ReadConcern('local')).find_one(session=s)",
    ),
    "starts-again": (
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
        "await coll.find_one(session=s)",
    ),
    "number-used-twice": (
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
        "await s.commit_transaction()",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
    ),
    "second-commit-as-the-first": (
        "(s := client.start_session())",
        "await s.start_transaction()",
        "await coll.find_one(session=s)",
        "await s.commit_transaction()",
        "await s.commit_transaction()",
    ),
}


@pytest.fixture
def run(standalone: LocalServer, replica_set: LocalServer) -> Iterator[Callable[..., None]]:
    """Calls a coroutine function with an arena."""

    def in_arena(use: Callable[[Arena], Awaitable[None]]) -> None:
        async def main() -> None:
            async with Arena({STANDALONE: standalone, REPLICA_SET: replica_set}, workers=8) as arena:
                await use(arena)

        with warnings.catch_warnings(), tap():
            warnings.simplefilter("ignore")
            asyncio.run(main())

    yield in_arena
    collect_what_pymongo_lost()


@pytest.mark.slow
def test_random_programs(run: Callable[..., None]) -> None:
    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        await search.run(range(CASES))
        print(search.tally)
        assert [str(each) for each in search.tally.found.values()] == []
        assert search.tally.programs >= CASES
        await arena.run(Program(REPLICA_SET, FURTHER, is_tame=False), 0)
        assert set(HIDDEN) | set(DEFAULTS) <= arena.used, "a field that is always the same need not be left out"

    run(use)


@pytest.mark.slow
def test_each_reason_applies(run: Callable[..., None]) -> None:
    async def use(arena: Arena) -> None:
        found = {}
        for row, steps in EXAMPLES.items():
            difference, rows = compare(steps, *await arena.run(Program(REPLICA_SET, steps, is_tame=False), 0))
            found[row] = rows or difference
        assert found == {row: [row] for row in EXAMPLES}

    run(use)


def test_each_reason_has_a_row_and_an_example() -> None:
    behaviour = tomllib.loads((HERE / "behaviour.toml").read_text(encoding="utf-8"))
    exceptions = tomllib.loads((HERE / "exceptions.toml").read_text(encoding="utf-8"))
    known = {row["what"] for rows in behaviour.values() for row in rows} | set(exceptions["different"])
    assert {row for row, _ in REASONS} <= known
    assert {row for row, _ in REASONS} == set(EXAMPLES)


@pytest.mark.slow
def test_planted_bugs_are_differences(run: Callable[..., None]) -> None:
    async def use(arena: Arena) -> None:
        found = {}
        for name, steps in SHOWN.items():
            program = Program(REPLICA_SET, steps, is_tame=False)
            without, _ = compare(steps, *await arena.run(program, 0))
            with plant(BUGS[name]):
                difference, _ = compare(steps, *await arena.run(program, 0))
            found[name] = (without, difference and difference.position)
        assert found == {name: (None, len(steps) - 1) for name, steps in SHOWN.items()}

    run(use)


def test_each_planted_bug_is_shown() -> None:
    assert set(SHOWN) == set(BUGS)


@pytest.mark.slow
def test_a_search_finds_a_planted_bug(run: Callable[..., None]) -> None:
    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        with plant(BUGS["ids-as-tuple"]):
            assert await search.first(range(100)) is not None
        assert search.tally.programs < 100

    run(use)


@pytest.mark.slow
def test_a_program_that_cannot_run_does_not_stop_the_others(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(seed: int, number: int) -> Program:
        return Program(STANDALONE, ("await coll.find(, limit=1)",), is_tame=True) if number == 2 else make(seed, number)

    monkeypatch.setattr(programs, "make", made)

    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        await search.run(range(20))
        assert list(search.tally.broken) == [2]
        assert "SyntaxError" in search.tally.broken[2]
        assert not search.tally.is_clean
        assert search.tally.programs == 19

    run(use)


@pytest.mark.slow
def test_a_difference_of_commands_is_not_taken_for_two_faults(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both libraries raise the same, and so does a shorter call.
    monkeypatch.setattr(wire, "_compare_plainly", lambda command: None)

    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        steps = ("(bucket := gridfs.AsyncGridFSBucket(db))", "await bucket.rename(Timestamp(1, 0), 'a')")
        await search.examine(0, Program(STANDALONE, steps, is_tame=False))
        assert len(search.tally.found) == 1

    run(use)


@pytest.mark.slow
def test_a_difference_is_found_and_shrunk(run: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    # A bug that random programs found.
    monkeypatch.setattr(cursor, "_DISTINCT_OPTIONS", ("collation", "comment", "hint", "max_time_ms"))
    steps = (
        "await coll.insert_many([{'_id': i, 'n': i % 3} for i in range(4)])",
        "await coll.find_one({'n': 1})",
        "await coll.find({'n': {'$gt': Int64(0)}}, limit=5).sort('n').hint([('n', 1)]).distinct('n')",
        "await coll.find().to_list()",
    )

    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        await search.examine(0, Program(STANDALONE, steps, is_tame=True))
        (found,) = search.tally.found.values()
        assert found.program.steps in (
            ("await coll.find({}).hint('a').distinct('n')",),
            ("await coll.find().hint('a').distinct('n')",),
        )
        assert "BSON field 'distinct.hint' is an unknown field" in str(found)

    run(use)


@pytest.mark.slow
def test_two_faults_in_one_call_are_no_difference(run: Callable[..., None]) -> None:
    async def use(arena: Arena) -> None:
        search = Search(arena, SEED)
        steps = ("await coll.replace_one({}, {'$set': {}}, upsert=5)",)
        await search.examine(0, Program(STANDALONE, steps, is_tame=True))
        assert not search.tally.found

    run(use)


def test_all_steps_parse() -> None:
    # Those of programs that once did not: an argument less than the call has, or an argument twice.
    numbers = [(11, 1948), (11, 19813), (21, 79), (21, 7431), (21, 14144), (21, 16687)]
    for program in [make(*each) for each in numbers] + [make(SEED, number) for number in range(2000)]:
        for each in program.steps:
            compiled(each)


def test_a_program_has_one_number() -> None:
    assert [make(3, number) for number in range(200)] == [make(3, number) for number in range(200)]
    assert len({make(3, number) for number in range(200)}) > 190


def test_smaller_programs() -> None:
    step = "await coll.find({'a': [1, Int64(2)]}, limit=5).sort('a').to_list()"
    assert set(simpler_steps(step)) >= {
        "await coll.find({'a': [1, Int64(2)]}).sort('a').to_list()",
        "await coll.find({'a': [1, Int64(2)]}, limit=5).to_list()",
        "await coll.find({'a': [1]}, limit=5).sort('a').to_list()",
        "await coll.find({}, limit=5).sort('a').to_list()",
    }
    found = list(smaller(Program(STANDALONE, ("1", step), is_tame=True)))
    assert found[0].steps == ("1",)
    assert all(len("".join(each.steps)) < len("1" + step) for each in found)
