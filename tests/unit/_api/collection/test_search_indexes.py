"""Search indexes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from bson.codec_options import CodecOptions

from motorlite import ReadConcern, ReadPreference, SearchIndexModel, WriteConcern
from motorlite.errors import ConfigurationError, InvalidOperation, OperationFailure
from tests.support.fake_core import FakeCore, batch, next_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from motorlite import AsyncCollection

pytestmark = pytest.mark.anyio

NOT_FOUND = {"ok": 0, "code": 26, "errmsg": "ns not found"}
NO_SUCH_INDEX = {"ok": 0, "code": 27, "errmsg": "index not found"}
DEFINITION = {"mappings": {"dynamic": False}}


def created(*names: str) -> dict[str, Any]:
    return {"ok": 1, "indexesCreated": [{"id": name, "name": name} for name in names]}


@pytest.fixture(params=["usual settings", "other settings"])
def coll(request: pytest.FixtureRequest, coll: AsyncCollection[Any]) -> AsyncCollection[Any]:
    """What a collection says about reading and writing does not matter to search indexes."""
    if request.param == "usual settings":
        return coll
    options = CodecOptions[Any](document_class=OrderedDict)
    return coll.with_options(options, ReadPreference.SECONDARY, WriteConcern(w=0), ReadConcern("majority"))


async def test_create_search_index(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply(created("mine"), created("default"), created("typed"))
    assert await coll.create_search_index(SearchIndexModel(DEFINITION, "mine"), comment="c", maxTimeMS=5) == "mine"
    assert core.last.command == {
        "createSearchIndexes": "things",
        "indexes": [{"definition": DEFINITION, "name": "mine"}],
        "comment": "c",
        "maxTimeMS": 5,
    }
    assert await coll.create_search_index({"definition": {}}, maxTimeMS=5, timeoutMS=40) == "default"
    assert core.last.command == {"createSearchIndexes": "things", "indexes": [{"definition": {}}]}
    assert core.last.deadline.timeout == 0.04
    await coll.create_search_index({"definition": {}, "name": "typed", "type": "vectorSearch"})
    assert core.last.command["indexes"] == [{"definition": {}, "name": "typed", "type": "vectorSearch"}]


async def test_wrong_models(coll: AsyncCollection[Any], core: FakeCore) -> None:
    models: list[Any] = ["a", {}, {"name": "mine"}, [SearchIndexModel({})], None]
    for wrong in models:
        with pytest.raises(TypeError, match=r"^model must be a SearchIndexModel, or a mapping with `definition`"):
            await coll.create_search_index(wrong)
    with pytest.raises(TypeError, match="definition must be a mapping"):
        await coll.create_search_index({"definition": 5})
    lists: list[Any] = ["a", ["a"], SearchIndexModel({}), [{"definition": {}}], {}]
    for several in lists:
        with pytest.raises(TypeError, match=r"^models must be a list of SearchIndexModel"):
            await coll.create_search_indexes(several)
    assert core.executor.sent == []


async def test_create_search_indexes(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply(created("a", "b"), created())
    models = [SearchIndexModel(DEFINITION, "a"), SearchIndexModel({}, "b")]
    assert await coll.create_search_indexes(models, None, "c", maxTimeMS=5) == ["a", "b"]
    assert core.last.command == {
        "createSearchIndexes": "things",
        "indexes": [{"definition": DEFINITION, "name": "a"}, {"definition": {}, "name": "b"}],
        "comment": "c",
        "maxTimeMS": 5,
    }
    assert await coll.create_search_indexes(()) == []
    assert core.last.command == {"createSearchIndexes": "things", "indexes": []}


async def test_a_collection_must_be_there_for_a_new_index(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply(NOT_FOUND)
    with pytest.raises(OperationFailure) as caught:
        await coll.create_search_index({"definition": {}})
    assert caught.value.code == 26


async def test_update_search_index(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply({"ok": 1}, {"ok": 1}, NOT_FOUND, NO_SUCH_INDEX)
    await coll.update_search_index("mine", DEFINITION, comment="c", maxTimeMS=5)
    assert core.last.command == {
        "updateSearchIndex": "things",
        "name": "mine",
        "definition": DEFINITION,
        "comment": "c",
        "maxTimeMS": 5,
    }
    await coll.update_search_index("mine", {}, maxTimeMS=5, timeoutMS=40)
    assert core.last.command == {"updateSearchIndex": "things", "name": "mine", "definition": {}}
    await coll.update_search_index("mine", {})
    with pytest.raises(OperationFailure) as caught:
        await coll.update_search_index("mine", {})
    assert caught.value.code == 27


async def test_drop_search_index(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply({"ok": 1}, {"ok": 1}, NOT_FOUND, NO_SUCH_INDEX)
    await coll.drop_search_index("mine", comment="c", maxTimeMS=5)
    assert core.last.command == {"dropSearchIndex": "things", "name": "mine", "comment": "c", "maxTimeMS": 5}
    await coll.drop_search_index("mine", maxTimeMS=5, timeoutMS=40)
    assert core.last.command == {"dropSearchIndex": "things", "name": "mine"}
    await coll.drop_search_index("mine")
    with pytest.raises(OperationFailure) as caught:
        await coll.drop_search_index("mine")
    assert caught.value.code == 27


async def test_list_search_indexes(coll: AsyncCollection[Any], core: FakeCore) -> None:
    core.reply(batch([{"name": "a"}], 7), next_batch([{"name": "b"}]), batch([]))
    found = await coll.list_search_indexes(comment="c", batchSize=1, maxTimeMS=5).to_list()
    assert found == [{"name": "a"}, {"name": "b"}]
    assert core.executor.sent[0].command == {
        "aggregate": "things",
        "pipeline": [{"$listSearchIndexes": {}}],
        "cursor": {"batchSize": 1},
        "comment": "c",
        "maxTimeMS": 5,
    }
    assert core.executor.sent[1].command == {"getMore": 7, "collection": "things", "batchSize": 1, "comment": "c"}
    operation = core.executor.sent[0].operation
    assert operation.selector == operation.read_preference == ReadPreference.PRIMARY
    assert operation.codec_options.document_class is dict
    cursor = await coll.list_search_indexes("mine", maxTimeMS=5, timeoutMS=40)
    assert await cursor.to_list() == []
    assert core.last.command == {
        "aggregate": "things",
        "pipeline": [{"$listSearchIndexes": {"name": "mine"}}],
        "cursor": {},
    }
    assert core.last.deadline.timeout == 0.04


async def test_the_collections_timeout_counts(coll: AsyncCollection[Any], core: FakeCore) -> None:
    coll = coll.with_options(timeoutMS=3000)
    core.reply(batch([]), {"ok": 1})
    await coll.list_search_indexes()
    assert core.last.deadline.timeout == 3
    await coll.drop_search_index("mine")
    assert core.last.deadline.timeout == 3


async def test_sessions(coll: AsyncCollection[Any], core: FakeCore) -> None:
    """Also of a collection with w=0, whose other writes refuse them."""
    core.reply(created("a"), created("a"), {"ok": 1}, {"ok": 1}, batch([]))
    database = coll.database
    async with database.client.start_session() as session:
        await coll.create_search_index({"definition": {}}, session)
        await coll.create_search_indexes([], session)
        await coll.update_search_index("a", {}, session)
        await coll.drop_search_index("a", session)
        await coll.list_search_indexes("a", session)
        assert [sent.session for sent in core.executor.sent] == [core.last.session] * 5
        assert core.last.session is not None
    with pytest.raises(InvalidOperation, match="ended session"):
        await coll.drop_search_index("a", session)


async def test_wrong_arguments(coll: AsyncCollection[Any], core: FakeCore) -> None:
    with pytest.raises(TypeError, match=r"^name must be .*, not 5"):
        await coll.update_search_index(5, {})  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"^definition must be .*, not 5"):
        await coll.update_search_index("a", 5)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"^name must be .*, not 5"):
        await coll.drop_search_index(5)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match=r"^name must be .*, not 5"):
        coll.list_search_indexes(5)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(ConfigurationError, match="timeoutMode"):
        coll.list_search_indexes(timeoutMode="iteration")
    unknown: dict[str, Any] = {"maxTime": 3}
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "create_search_index": lambda: coll.create_search_index({"definition": {}}, **unknown),
        "create_search_indexes": lambda: coll.create_search_indexes([], **unknown),
        "update_search_index": lambda: coll.update_search_index("a", {}, **unknown),
        "drop_search_index": lambda: coll.drop_search_index("a", **unknown),
        "list_search_indexes": lambda: coll.list_search_indexes(**unknown),
    }
    for method, call in calls.items():
        with pytest.raises(TypeError, match=rf"^{method}\(\) has no option maxTime=3; did you mean maxTimeMS"):
            await call()
    assert core.executor.sent == []
