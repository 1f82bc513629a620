"""Bulk writes of a client: on a facade of MongoDB 8.0 in front of a real server, as PyMongo does them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.live.oracle import Cases, Oracle, same_outcome
from tests.support.mongos.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio

CASES = Cases()
SET = {"$set": {"x": 1}}


@pytest.fixture(scope="module")
def new_server(replica_set: LocalServer) -> Iterator[Cluster]:
    """What calls itself MongoDB 8.0."""
    with Cluster(replica_set, has_bulk_writes=True) as found:
        yield found
        assert not found.failures


@pytest.fixture(scope="module")
def new_oracle(replica_set: LocalServer, new_server: Cluster) -> Iterator[Oracle]:
    with Oracle(replica_set, new_server.uri_of_one) as found:
        yield found


async def contents(db: Any) -> Any:
    return {name: await db[name].find(sort=[("_id", 1)]).to_list() for name in "ab"}


def models(db: Any, lib: Any) -> list[Any]:
    """One model of each kind, and their options."""
    a, b = f"{db.name}.a", f"{db.name}.b"
    operations = lib.operations
    insensitive = {"locale": "en", "strength": 2}
    return [
        *(operations.InsertOne({"_id": number, "name": "AaBb"[number % 4]}, namespace=a) for number in range(8)),
        operations.InsertOne({"_id": 1, "list": [1, 5, 9]}, b),
        operations.UpdateOne({"_id": 0}, SET, namespace=a),
        operations.UpdateOne({"_id": 0}, SET, namespace=a),
        operations.UpdateOne({"_id": 90}, SET, upsert=True, namespace=b),
        operations.UpdateOne({"name": "A"}, [{"$set": {"y": "$name"}}], namespace=a, sort={"_id": -1}),
        operations.UpdateMany({"name": "b"}, SET, collation=insensitive, namespace=a, hint="_id_"),
        operations.UpdateMany(
            {"_id": 1}, {"$set": {"list.$[big]": 0}}, array_filters=[{"big": {"$gt": 4}}], namespace=b
        ),
        operations.ReplaceOne({"_id": 2}, {"z": 3}, namespace=a),
        operations.ReplaceOne({"_id": 91}, {"z": 4}, upsert=True, namespace=b),
        operations.DeleteOne({"name": "a"}, namespace=a, collation=insensitive, hint={"_id": 1}),
        operations.DeleteMany({"_id": {"$gte": 7}}, namespace=a),
    ]


@CASES.add
async def counts(db: Any, lib: Any) -> Any:
    return [await db.client.bulk_write(models(db, lib)), await contents(db)]


@CASES.add
async def single_results(db: Any, lib: Any) -> Any:
    return [await db.client.bulk_write(models(db, lib), verbose_results=True), await contents(db)]


@CASES.add
async def generated_ids(db: Any, lib: Any) -> Any:
    documents: list[dict[str, Any]] = [{"x": 1}, {"x": 2, "_id": 5}]
    inserts = [lib.operations.InsertOne(document, f"{db.name}.a") for document in documents]
    result = await db.client.bulk_write(inserts, verbose_results=True)
    inserted = [each.inserted_id for each in result.insert_results.values()]
    assert inserted == [document["_id"] for document in documents]
    return [documents, result]


@CASES.add
async def variables(db: Any, lib: Any) -> Any:
    await db.a.insert_many([{"_id": 1}, {"_id": 2}])
    query = {"$expr": {"$eq": ["$_id", "$$two"]}}
    update = lib.operations.UpdateOne(query, SET, namespace=f"{db.name}.a")
    return [await db.client.bulk_write([update], let={"two": 2}, comment={"for": "a test"}), await contents(db)]


def with_errors(db: Any, lib: Any) -> list[Any]:
    operations, name = lib.operations, f"{db.name}.a"
    return [
        operations.InsertOne({"_id": 1}, name),
        operations.InsertOne({"_id": 1}, name),
        operations.UpdateOne({"_id": 1}, {"$inc": {"_id": 1}}, namespace=name),
        operations.InsertOne({"_id": 2}, name),
    ]


def counts_of(result: Any) -> Any:
    names = ("inserted_count", "matched_count", "modified_count", "deleted_count", "upserted_count")
    single = ("insert_results", "update_results", "delete_results") if result.has_verbose_results else ()
    return [getattr(result, name) for name in (*names, *single)]


def errors_of(error: Any) -> list[Any]:
    """The write errors, and which operations they name. PyMongo shows a namespace by its position in the command."""
    return [{**found, "op": list(found["op"].items())[1:]} for found in error.write_errors]


@CASES.add
async def errors(db: Any, lib: Any) -> Any:
    found = []
    for ordered in (True, False):
        for verbose in (False, True):
            await db.a.drop()
            try:
                await db.client.bulk_write(with_errors(db, lib), ordered=ordered, verbose_results=verbose)
            except lib.errors.ClientBulkWriteException as error:
                found += [error.code, error.error, error.verbose, errors_of(error)]
                found += [error.write_concern_errors, counts_of(error.partial_result), error.details.keys()]
            found.append(await contents(db))
    return found


@CASES.add
async def concern_errors(db: Any, lib: Any) -> Any:
    concern = lib.WriteConcern(w=5, wtimeout=1)
    return await db.client.bulk_write(with_errors(db, lib)[:1], write_concern=concern)


@CASES.add
async def unacknowledged(db: Any, lib: Any) -> Any:
    concern = lib.WriteConcern(w=0)
    result = await db.client.bulk_write(with_errors(db, lib)[:1], ordered=False, write_concern=concern)
    return [result.acknowledged, result.has_verbose_results]


@CASES.add
async def in_a_transaction(db: Any, lib: Any) -> Any:
    await db.create_collection("a")
    await db.create_collection("b")
    session = db.client.start_session()
    async with session:
        await session.start_transaction()
        inserts = with_errors(db, lib)[:1] + with_errors(db, lib)[3:]
        result = await db.client.bulk_write(inserts, session=session, verbose_results=True)
        before = await contents(db)
        await session.commit_transaction()
    return [result, before, await contents(db)]


@pytest.mark.parametrize("name", CASES)
async def test_same_as_pymongo(new_server: Cluster, database_name: str, new_oracle: Oracle, name: str) -> None:
    await same_outcome(CASES[name], new_server.uri_of_one, database_name, new_oracle)
