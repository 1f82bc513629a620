"""Search indexes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import pytest
from bson.codec_options import CodecOptions

from motorlite import ReadConcern, ReadPreference, SearchIndexModel, WriteConcern
from motorlite.errors import InvalidOperation, OperationFailure
from tests.support.fake_core import Collection, FakeCore, Sent, batch, next_batch

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.anyio

NOT_FOUND = {"ok": 0, "code": 26, "errmsg": "ns not found"}
NO_SUCH_INDEX = {"ok": 0, "code": 27, "errmsg": "index not found"}
DEFINITION = {"mappings": {"dynamic": False}}
# Each with its command.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "create_search_index": (
        lambda coll, *session, **options: coll.create_search_index(
            SearchIndexModel(DEFINITION, "mine"), *session, **options
        ),
        {"createSearchIndexes": "things", "indexes": [{"definition": DEFINITION, "name": "mine"}]},
    ),
    "create_search_indexes": (
        lambda coll, *session, **options: coll.create_search_indexes(
            [SearchIndexModel(DEFINITION, "a"), SearchIndexModel({}, "b")], *session, **options
        ),
        {
            "createSearchIndexes": "things",
            "indexes": [{"definition": DEFINITION, "name": "a"}, {"definition": {}, "name": "b"}],
        },
    ),
    "update_search_index": (
        lambda coll, *session, **options: coll.update_search_index("mine", DEFINITION, *session, **options),
        {"updateSearchIndex": "things", "name": "mine", "definition": DEFINITION},
    ),
    "drop_search_index": (
        lambda coll, *session, **options: coll.drop_search_index("mine", *session, **options),
        {"dropSearchIndex": "things", "name": "mine"},
    ),
    "list_search_indexes": (
        lambda coll, *session, **options: coll.list_search_indexes("mine", *session, **options),
        {"aggregate": "things", "pipeline": [{"$listSearchIndexes": {"name": "mine"}}], "cursor": {}},
    ),
}
every_call = pytest.mark.parametrize("name", CALLS)


def reply(sent: Sent) -> dict[str, Any]:
    """What a server says to each of them."""
    created = [{"id": index["name"], "name": index["name"]} for index in sent.command.get("indexes", ())]
    return {**batch([]), "indexesCreated": created}


@pytest.fixture(params=["usual settings", "other settings"])
def coll(request: pytest.FixtureRequest, coll: Collection) -> Collection:
    """What a collection says about reading and writing does not matter to search indexes."""
    if request.param == "usual settings":
        return coll
    options = CodecOptions[Any](document_class=OrderedDict)
    return coll.with_options(options, ReadPreference.SECONDARY, WriteConcern(w=0), ReadConcern("majority"))


@every_call
async def test_the_command(coll: Collection, core: FakeCore, name: str) -> None:
    call, command = CALLS[name]
    core.reply(reply, reply, reply)
    await call(coll, comment="c", maxTimeMS=5)
    assert core.last.command == {**command, "comment": "c", "maxTimeMS": 5}
    await call(coll, maxTimeMS=5, timeoutMS=40)
    assert core.last.command == command, "a timeout replaces the limit of the server"
    assert core.last.deadline.timeout == 0.04
    await call(coll.with_options(timeoutMS=3000))
    assert core.last.deadline.timeout == 3


@every_call
async def test_sessions(coll: Collection, core: FakeCore, name: str) -> None:
    """Also of a collection with w=0, whose other writes refuse them."""
    call, _ = CALLS[name]
    core.reply(reply)
    async with coll.database.client.start_session() as session:
        await call(coll, session)
        assert core.last.session is session._state
    with pytest.raises(InvalidOperation, match="ended session"):
        await call(coll, session)


@every_call
async def test_an_unknown_option(coll: Collection, core: FakeCore, name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) has no option maxTime=3; did you mean maxTimeMS"):
        await CALLS[name][0](coll, maxTime=3)
    assert core.executor.sent == []


async def test_creating(coll: Collection, core: FakeCore) -> None:
    core.reply(reply, reply, {"ok": 1, "indexesCreated": [{"id": "1", "name": "default"}]}, reply)
    assert await coll.create_search_index(SearchIndexModel(DEFINITION, "mine")) == "mine"
    typed = {"definition": {}, "name": "typed", "type": "vectorSearch"}
    assert await coll.create_search_index(typed) == "typed"
    assert core.last.command["indexes"] == [typed]
    assert await coll.create_search_index({"definition": {}}) == "default"
    assert await coll.create_search_indexes(()) == []
    assert core.last.command == {"createSearchIndexes": "things", "indexes": []}


@pytest.mark.parametrize(
    ("name", "answer", "code"),
    [
        # A collection must be there for a new index.
        ("create_search_index", NOT_FOUND, 26),
        ("update_search_index", NOT_FOUND, None),
        ("update_search_index", NO_SUCH_INDEX, 27),
        ("drop_search_index", NOT_FOUND, None),
        ("drop_search_index", NO_SUCH_INDEX, 27),
    ],
)
async def test_errors(coll: Collection, core: FakeCore, name: str, answer: dict[str, Any], code: int | None) -> None:
    core.reply(answer)
    if code is None:
        await CALLS[name][0](coll)
        return
    with pytest.raises(OperationFailure) as caught:
        await CALLS[name][0](coll)
    assert caught.value.code == code


async def test_list_search_indexes(coll: Collection, core: FakeCore) -> None:
    core.reply(batch([{"name": "a"}], 7), next_batch([{"name": "b"}]))
    assert await coll.list_search_indexes(comment="c", batchSize=1).to_list() == [{"name": "a"}, {"name": "b"}]
    first, second = core.executor.sent
    assert first.command["pipeline"] == [{"$listSearchIndexes": {}}]
    assert first.command["cursor"] == {"batchSize": 1}
    assert second.command == {"getMore": 7, "collection": "things", "batchSize": 1, "comment": "c"}
    assert first.operation.selector == first.operation.read_preference == ReadPreference.PRIMARY
    assert first.operation.codec_options.document_class is dict
