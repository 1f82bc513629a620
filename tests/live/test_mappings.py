"""Any mapping serves as a filter, an update, an option or a command, also one that is no dict or cannot change."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from motorlite import DeleteOne, IndexModel, InsertOne, UpdateOne
from motorlite.gridfs import AsyncGridFSBucket
from motorlite.read_preferences import Nearest
from tests.support.clients import make_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from motorlite.testing import LocalServer

pytestmark = pytest.mark.anyio


class Frozen(Mapping[str, Any]):
    """No dict, and it cannot change."""

    def __init__(self, of: dict[str, Any]) -> None:
        self._of = of

    def __getitem__(self, name: str) -> Any:
        return self._of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


# From Python 3.15 on there is a frozendict, which is no subclass of dict.
KINDS: Final[list[Callable[[dict[str, Any]], Any]]] = [
    Frozen,
    *([builtins.frozendict] if hasattr(builtins, "frozendict") else []),
]


@pytest.mark.parametrize("kind", KINDS)
async def test_any_mapping_will_do(
    replica_set: LocalServer, database_name: str, kind: Callable[[dict[str, Any]], Any]
) -> None:
    one, english, by_id = kind({"a": 1}), kind({"locale": "en"}), kind({"_id": 1})
    rise = kind({"$inc": kind({"a": 1})})
    async with make_client(replica_set) as client:
        database = client[database_name]
        things = await database.create_collection("things", validator=kind({}), collation=english)
        await things.create_index(kind({"a": 1}), partialFilterExpression=kind({"a": kind({"$gt": 0})}))
        await things.create_indexes([IndexModel(kind({"b": 1}))])
        await things.drop_index(kind({"b": 1}))
        await things.insert_many([{"a": 1} for _ in range(9)])
        query = things.find(one, kind({"a": 1}), sort=kind({"a": 1}), collation=english, let=one, hint=by_id)
        assert len(await query.to_list()) == 9
        assert await things.find(min=by_id, max=kind({"_id": 2})).hint(by_id).sort(by_id).to_list() == []
        assert await things.count_documents(one, hint=by_id, collation=english) == 9
        assert await things.distinct("a", one) == [1]
        assert len(await things.aggregate([kind({"$match": one})], let=one).to_list()) == 9
        assert (await things.update_one(one, rise, let=one, hint=by_id)).modified_count == 1
        assert (await things.update_many(one, [kind({"$set": kind({"a": 2})})])).modified_count == 8
        await things.update_one({}, {"$set": {"list": [0]}})
        await things.update_one({}, kind({"$set": kind({"list.$[i]": 1})}), array_filters=[kind({"i": 0})])
        await things.replace_one(kind({"a": 2}), one)
        assert await things.find_one_and_update(one, rise, projection=kind({"_id": 0}), sort=by_id) == {"a": 1}
        assert await things.find_one_and_replace(kind({"a": 2}), one) is not None
        assert await things.find_one_and_delete(one) is not None
        assert (await things.bulk_write([UpdateOne(one, rise, upsert=True), DeleteOne(one)])).upserted_count == 1
        assert await database.command(kind({"ping": 1})) == {"ok": 1} | await database.command("ping")
        assert await (await database.cursor_command(kind({"find": "things"}))).to_list()
        assert await database.list_collection_names(filter=kind({"name": "things"})) == ["things"]
        bucket = AsyncGridFSBucket(database)
        await bucket.upload_from_stream("name", b"data", metadata=one)
        assert [found.metadata async for found in bucket.find(kind({"metadata.a": 1}))] == [{"a": 1}]
        async with await things.watch([kind({"$match": one})], collation=english) as stream:
            assert await stream.try_next() is None
        assert Nearest(tag_sets=[kind({"dc": "x"})]) == Nearest(tag_sets=[{"dc": "x"}])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_inserted_gets_an_id_and_so_must_not_be_frozen(
    replica_set: LocalServer, database_name: str, kind: Callable[[dict[str, Any]], Any]
) -> None:
    async with make_client(replica_set) as client:
        things = client[database_name].things
        with pytest.raises(TypeError, match="mutable mapping"):
            await things.insert_one(kind({"a": 1}))
        with pytest.raises(TypeError, match="mutable mapping"):
            await things.bulk_write([InsertOne(kind({"a": 1}))])
        await things.insert_one(dict(kind({"a": 1, "nested": kind({"b": 1})})))
        assert await things.find_one({}, {"_id": 0}) == {"a": 1, "nested": {"b": 1}}
