"""Pure: random programs, each made from a seed and its number alone."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from tests.differential import methods
from tests.differential.arguments import (
    BOOLEAN,
    CONCERN_OF_READS,
    CONCERN_OF_WRITES,
    COUNT,
    PREFERENCE,
    codec_options,
    index_model,
    request,
)
from tests.differential.methods import Method, chained
from tests.differential.values import document, one_of, text, value

STANDALONE: Final = "standalone"
REPLICA_SET: Final = "replica set"

# Documents that most programs begin with, so that filters, sorts and hints find something.
FIRST: Final = (
    "await coll.insert_many([{'_id': i, 'n': i % 3, 'l': [i, {'a': i}], 'a': 'ab'[i % 2]} for i in range(4)])",
    "await coll.insert_many([{'_id': 0, 'n': 1}, {'_id': 1, 'n': 1.0, 'l': []}, {'_id': 'x', 'n': Int64(2)}])",
    "await coll.insert_one({'_id': 1, 'l': [{'a': 1}, {'a': 2}], 'a': None})",
    "await coll.insert_many([{'_id': i, 'n': -i, 'a': {'b': i}} for i in range(5)])",
)
# More than fit into a small batch.
MANY: Final = (
    "await coll.insert_many([{'_id': i, 'n': i % 3, 'a': {'b': i}, 'l': [1, {'c': 2}], 'd': datetime(2020, 1, 2)} "
    "for i in range(12)])"
)


@dataclass(frozen=True)
class Program:
    """What both libraries do: expressions, one after the other.

    Attributes:
        deployment: Where they run.
        steps: Python expressions, which may await.
        is_tame: Whether all that they change are documents of `coll` and `other`.
    """

    deployment: str
    steps: tuple[str, ...]
    is_tame: bool


def make(seed: int, number: int) -> Program:
    """Return the program with this number."""
    rng = Random(f"{seed}/{number}")
    return rng.choices(KINDS, WEIGHTS)[0](rng)


def _calls(rng: Random, table: tuple[Method, ...], count: int, session: str = "") -> list[str]:
    chosen = rng.choices(table, [method.weight for method in table], k=count)
    return [chained(rng, session) if rng.random() < 0.05 else method.make(rng, session) for method in chosen]


def _start(rng: Random, shares: tuple[float, float] = (0.12, 0.2)) -> list[str]:
    """The first steps: documents, and sometimes options of the collection, of documents or of concerns."""
    return [rng.choice(FIRST)] * (rng.random() < 0.8) + _options(rng, shares)


def _options(rng: Random, shares: tuple[float, float]) -> list[str]:
    steps: list[str] = []
    chance = rng.random()
    if chance < shares[0]:
        steps.append(f"(coll := db.get_collection('coll', codec_options={codec_options(rng)}))")
    elif chance < shares[1]:
        options = {
            "read_concern": CONCERN_OF_READS,
            "write_concern": CONCERN_OF_WRITES,
            "read_preference": PREFERENCE,
        }
        made = {name: make(rng) for name, make in options.items() if rng.random() < 0.5}
        if "majority" in made.get("read_concern", ""):
            # Such a read may not see a write that the majority has not acknowledged yet.
            made.pop("write_concern", None)
        chosen = ", ".join(f"{name}={text}" for name, text in made.items())
        steps.append(f"(coll := coll.with_options({chosen}))")
    return steps


def _where(rng: Random) -> str:
    return STANDALONE if rng.random() < 0.6 else REPLICA_SET


def _documents(rng: Random) -> Program:
    steps = _start(rng) + _calls(rng, methods.CRUD, rng.randint(1, 4))
    return Program(_where(rng), (*steps, "await coll.find().to_list()"), is_tame=True)


def _facts(rng: Random) -> Program:
    return Program(_where(rng), tuple(_start(rng) + _calls(rng, methods.FACTS, rng.randint(1, 4))), is_tame=True)


def _definitions(rng: Random) -> Program:
    steps = _start(rng) + _calls(rng, methods.DEFINITIONS, rng.randint(1, 4))
    return Program(_where(rng), tuple(steps), is_tame=False)


def _files(rng: Random) -> Program:
    options = rng.choice(
        ("", "", ", chunk_size_bytes=4", ", bucket_name='fs'", ", disable_md5=True", f", {value(rng)}")
    )
    steps = [
        f"(bucket := gridfs.AsyncGridFSBucket(db{options}))",
        "await bucket.upload_from_stream_with_id(1, 'a', b'abcdefgh')",
    ]
    return Program(_where(rng), (*steps, *_calls(rng, methods.GRID, rng.randint(1, 4))), is_tame=False)


def _session(rng: Random) -> Program:
    steps = [
        *_start(rng),
        methods.SESSION.make(rng),
        *_calls(rng, methods.CRUD + methods.FACTS, rng.randint(1, 3), "s"),
    ]
    steps += _calls(rng, methods.CRUD, 1)
    return Program(_where(rng), tuple(steps), is_tame=True)


def _transaction(rng: Random) -> Program:
    """Only the session writes until the transaction ends: others would wait for it."""
    steps = [*_start(rng, (0.1, 0.5)), methods.SESSION.make(rng)]
    for _ in range(rng.randint(1, 2)):
        if rng.random() < 0.2:
            call = methods.CRUD[0].make(rng, "s").removeprefix("await ")
            options = methods.START.make(rng)[len("await s.start_transaction(") : -1]
            steps.append(f"await s.with_transaction(lambda s: {call}{', ' + options if options else ''})")
            continue
        steps += [methods.START.make(rng), *_calls(rng, methods.CRUD, rng.randint(0, 3), "s")]
        ends = ("await s.commit_transaction()", "await s.commit_transaction()", "await s.abort_transaction()")
        steps += rng.choices(ends, k=rng.choice((1, 1, 2)))
    steps += ["await s.end_session()", "s.in_transaction, s.has_ended", "await coll.find().to_list()"]
    return Program(REPLICA_SET if rng.random() < 0.9 else STANDALONE, tuple(steps), is_tame=True)


def _steps_of_cursor(rng: Random) -> Program:
    opening = rng.choice((methods.CRUD[7], methods.CRUD[7], methods.CRUD[10]))
    call = opening.make(rng).removeprefix("await ").removesuffix(".to_list()")
    if opening is methods.CRUD[10]:
        call = call.removeprefix("(").removesuffix(")")
    actions = (
        *(
            "await c.next()",
            "await c.next()",
            "await c.to_list()",
            "await c.to_list(2)",
            "await c.try_next()",
            "c.alive",
        ),
        *(
            "await c.close()",
            "await c.rewind()",
            "c.rewind()",
            "c.collection.name",
            "c.retrieved",
            "c.address is None",
            "c.cursor_id == 0",
        ),
        *(
            "c.sort('n')",
            "c.limit(1)",
            "c.batch_size(2)",
            "[each async for each in c]",
            "c.session",
            "len(await c.clone().to_list())",
        ),
    )
    return Program(
        _where(rng),
        (*_start(rng), f"(c := {call})", *rng.choices(actions, k=rng.randint(1, 5)), "await c.close()"),
        is_tame=True,
    )


def _batches(rng: Random) -> Program:
    """Reads that need several batches, of which one may be in a transaction."""
    where = _where(rng)
    steps = [MANY, *_options(rng, (0.4, 0.6))]
    chance = rng.random()
    session = "s" if chance < 0.5 else ""
    if session:
        steps.append(methods.SESSION.make(rng))
    if chance < 0.2 and where == REPLICA_SET:
        steps.append(methods.START.make(rng))
    steps += _calls(rng, methods.BATCHES, rng.randint(1, 3), session)
    return Program(where, tuple(steps), is_tame=True)


def _changes(rng: Random) -> Program:
    target = rng.choice(("coll", "coll", "db"))
    watching = methods.WATCH.make(rng).replace("{target}", target)
    actions = ("await c.try_next()", "await c.try_next()", "await c.next()", "c.alive", "c.resume_token is None")
    calls = _calls(rng, methods.CRUD[:6], 2)
    # Something to return, or `next` would wait for ever.
    calls.append("await coll.insert_many([{'n': i} for i in range(5)])")
    steps = [
        FIRST[0],
        watching,
        *calls,
        *rng.choices(actions, k=rng.randint(1, 3)),
        "await c.close()",
        "await c.try_next()",
    ]
    return Program(REPLICA_SET, tuple(steps), is_tame=True)


def _values(rng: Random) -> Program:
    """Values alone: requests, options and their representation."""
    makers = (
        lambda: request(rng),
        lambda: index_model(rng),
        lambda: Method(
            "WriteConcern({})",
            (),
            {"w": COUNT, "j": BOOLEAN, "wtimeout": COUNT, "fsync": BOOLEAN},
        ).make(rng),
        lambda: Method("ReadConcern({})", (text,)).make(rng),
        lambda: Method("Collation({})", (text,), {"strength": COUNT, "caseLevel": BOOLEAN}).make(rng),
        lambda: Method("Nearest({})", (), {"tag_sets": one_of("[{}]", "[]", "{}"), "max_staleness": COUNT}).make(rng),
        lambda: Method("TransactionOptions({})", (), methods.TRANSACTION).make(rng),
        lambda: Method("SearchIndexModel({})", (document,), {"name": text, "type": text}).make(rng),
    )
    return Program(STANDALONE, tuple(rng.choice(makers)() for _ in range(3)), is_tame=True)


KINDS: Final = (
    *(_documents, _facts, _definitions, _files, _session),
    *(_transaction, _steps_of_cursor, _changes, _values, _batches),
)
WEIGHTS: Final = (44, 16, 6, 3, 8, 8, 5, 1, 4, 8)
