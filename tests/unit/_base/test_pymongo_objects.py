"""Objects of PyMongo's classes are accepted wherever motorlite has a class of the same name."""

from __future__ import annotations

import warnings
from typing import Any

import pymongo
import pymongo.auth_oidc
import pymongo.event_loggers
import pymongo.monitoring
import pytest
from pymongo.collation import Collation
from pymongo.driver_info import DriverInfo
from pymongo.operations import SearchIndexModel
from pymongo.read_concern import ReadConcern
from pymongo.server_api import ServerApi, ServerApiVersion

import motorlite
from motorlite import operations as requests
from motorlite import read_preferences
from motorlite._base.arguments import is_like
from motorlite._connection.auth.oidc import check_result
from motorlite._observe.publishing import make_publishers
from motorlite._operations.statements import statement_of
from motorlite._options.options import client_options
from motorlite.auth_oidc import OIDCCallbackResult
from motorlite.write_concern import WriteConcern
from tests.support.fake_core import batch, fake_client

FILTER = {"_id": 1}
SET = {"$set": {"x": 1}}
MORE: dict[str, Any] = {"collation": {"locale": "en"}, "hint": [("x", pymongo.DESCENDING)], "namespace": "d.c"}


def both(name: str, *args: Any, **kwargs: Any) -> Any:
    """A request of PyMongo, and motorlite's with the same arguments."""
    made = [getattr(lib, name)(*args, **kwargs) for lib in (pymongo, requests)]
    return pytest.param(*made, id=f"{name}-{len(kwargs)}")


REQUESTS = [
    both("InsertOne", {"x": 1}),
    both("InsertOne", {"x": 1}, namespace="d.c"),
    both("UpdateOne", FILTER, SET),
    both("UpdateOne", FILTER, SET, True, array_filters=[{"e.x": 1}], sort={"x": 1}, **MORE),
    both("UpdateMany", FILTER, [{"$set": {"x": 1}}]),
    both("UpdateMany", FILTER, SET, True, array_filters=[{"e.x": 1}], **MORE),
    both("ReplaceOne", FILTER, {"x": 1}),
    both("ReplaceOne", FILTER, {"x": 1}, True, sort={"x": 1}, **MORE),
    both("DeleteOne", FILTER),
    both("DeleteOne", FILTER, **MORE),
    both("DeleteMany", FILTER),
    both("DeleteMany", FILTER, **MORE),
]


@pytest.mark.parametrize(("theirs", "ours"), REQUESTS)
def test_write_requests(theirs: Any, ours: Any) -> None:
    found = requests.as_request(theirs)
    assert found == ours
    assert type(found) is type(ours)
    assert statement_of(theirs) == statement_of(ours)


def test_every_kind_of_request() -> None:
    assert {type(case.values[1]) for case in REQUESTS} == set(requests._KINDS)


def test_what_is_wrong_in_a_request_of_pymongo() -> None:
    request = pymongo.UpdateOne(FILTER, SET, collation=Collation("en", strength=2))
    assert statement_of(request)[1]["collation"] == {"locale": "en", "strength": 2}
    with pytest.raises(TypeError, match="collation"):
        statement_of(pymongo.UpdateOne(FILTER, SET, collation=3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="update operator"):
        statement_of(pymongo.UpdateOne(FILTER, {"x": 1}))


@pytest.mark.anyio
async def test_bulk_write_gives_documents_an_id() -> None:
    client, core = fake_client()
    core.reply({"ok": 1, "n": 1}, {"ok": 1, "n": 1, "nModified": 1})
    document: dict[str, Any] = {"x": 1}
    result = await client.d.c.bulk_write([pymongo.InsertOne(document), pymongo.UpdateOne(FILTER, SET)])  # type: ignore[list-item]
    assert (result.inserted_count, result.modified_count) == (1, 1)
    assert "_id" in document
    assert [sent.name for sent in core.executor.sent] == ["insert", "update"]


@pytest.mark.anyio
async def test_index_models() -> None:
    client, core = fake_client()
    collection: Any = client.d.c
    theirs = pymongo.IndexModel([("x", pymongo.ASCENDING), ("y", pymongo.TEXT)], collation=Collation("en"))
    ours = motorlite.IndexModel([("x", 1), ("y", "text")], collation={"locale": "en"})
    assert await collection.create_indexes([theirs]) == await collection.create_indexes([ours])
    core.reply(*[{"ok": 1, "indexesCreated": [{"id": "1", "name": "n"}]}] * 3)
    arguments = ({"mappings": {"dynamic": True}}, "n", "search")
    await collection.create_search_index(SearchIndexModel(*arguments))
    await collection.create_search_indexes([SearchIndexModel(*arguments)])
    await collection.create_search_indexes([motorlite.SearchIndexModel(*arguments)])
    first, second, one, several, same = (sent.command["indexes"] for sent in core.executor.sent)
    assert first == second
    assert one == several == same


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (pymongo.ReadPreference.PRIMARY, read_preferences.Primary()),
        (pymongo.ReadPreference.PRIMARY_PREFERRED, read_preferences.PrimaryPreferred()),
        (pymongo.ReadPreference.SECONDARY, read_preferences.Secondary()),
        (pymongo.ReadPreference.SECONDARY_PREFERRED, read_preferences.SecondaryPreferred()),
        (
            pymongo.read_preferences.Nearest([{"dc": "ny"}, {}], max_staleness=120),
            read_preferences.Nearest([{"dc": "ny"}, {}], max_staleness=120),
        ),
    ],
    ids=lambda value: type(value).__module__.partition(".")[0] + "." + type(value).__name__,
)
@pytest.mark.anyio
async def test_read_preferences(theirs: Any, ours: Any) -> None:
    client, core = fake_client()
    database: Any = client.get_database("d", read_preference=theirs)
    assert database.read_preference == ours
    assert type(database.read_preference) is type(ours)
    assert database.c.with_options(read_preference=theirs).read_preference == ours
    assert client_options(read_preference=theirs).read_preference == ours
    core.reply({"ok": 1}, batch([]))
    await database.command("ping", read_preference=theirs)
    await database.cursor_command("find", "c", read_preference=theirs).to_list()
    assert [sent.operation.read_preference for sent in core.executor.sent] == [ours, ours]


@pytest.mark.parametrize(
    ("theirs", "ours", "other"),
    [
        (pymongo.WriteConcern(2, wtimeout=10, j=True), motorlite.WriteConcern(2, wtimeout=10, j=True), WriteConcern(2)),
        (ReadConcern("local"), motorlite.ReadConcern("local"), motorlite.ReadConcern("majority")),
        (
            Collation("en", strength=2),
            motorlite.collation.Collation("en", strength=2),
            motorlite.collation.Collation("en"),
        ),
        (pymongo.ReadPreference.PRIMARY, read_preferences.Primary(), read_preferences.Nearest()),
        (
            pymongo.read_preferences.Secondary([{"dc": "ny"}], max_staleness=120),
            read_preferences.Secondary([{"dc": "ny"}], max_staleness=120),
            read_preferences.Secondary([{"dc": "ny"}]),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_say_the_same_are_equal(theirs: Any, ours: Any, other: Any) -> None:
    assert ours == theirs
    assert theirs == ours
    assert other != theirs
    assert theirs != other
    assert ours != other
    assert ours != pymongo.IndexModel("x")


def test_a_hedge_warns_only_once() -> None:
    with pytest.warns(DeprecationWarning, match="hedge"):
        theirs: Any = pymongo.read_preferences.Nearest(hedge={"enabled": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_preferences.as_read_preference(theirs).document == theirs.document


def test_concerns() -> None:
    client, _ = fake_client()
    theirs: Any = {
        "read_concern": ReadConcern("majority"),
        "write_concern": pymongo.WriteConcern(2, wtimeout=10, j=True),
    }
    for found in (client.get_database("d", **theirs), client.d.c.with_options(**theirs)):
        assert found.read_concern == motorlite.ReadConcern("majority")
        assert found.write_concern == WriteConcern(2, wtimeout=10, j=True)
    unacknowledged: Any = pymongo.WriteConcern(0)
    assert not client.d.with_options(write_concern=unacknowledged).write_concern.acknowledged
    defaults: Any = {"read_concern": ReadConcern(), "write_concern": pymongo.WriteConcern()}
    assert client.d.with_options(**defaults).write_concern.is_server_default


@pytest.mark.parametrize("name", ["read_concern", "write_concern", "read_preference"])
@pytest.mark.parametrize("value", [3, "majority", pymongo.IndexModel("x")], ids=repr)
def test_what_is_none_of_them(name: str, value: Any) -> None:
    client, _ = fake_client()
    with pytest.raises(TypeError, match=f"^{name} must be a .*, not "):
        client.d.with_options(**{name: value})


def test_objects_among_the_client_options() -> None:
    options = client_options(
        driver=DriverInfo("odm", "1.0", None), server_api=ServerApi(ServerApiVersion.V1, strict=True)
    )
    assert options.driver_info == motorlite.DriverInfo("odm", "1.0")
    assert options.server_api == motorlite.ServerApi("1", strict=True)
    client, core = fake_client()
    theirs: Any = DriverInfo("odm", "1.0")
    client.append_metadata(theirs)
    assert core.driver_infos == [motorlite.DriverInfo("odm", "1.0")]
    wrong: Any = ("odm", "1.0", None)
    with pytest.raises(TypeError, match=r"driver_info must be a DriverInfo, not .*"):
        client.append_metadata(wrong)


def test_how_they_are_recognised() -> None:
    class Mine(pymongo.IndexModel):
        pass

    class UpdateOne:
        pass

    assert is_like(Mine("x"), requests.IndexModel)
    assert is_like(requests.IndexModel("x"), requests.IndexModel)
    for other in (pymongo.UpdateMany(FILTER, SET), UpdateOne(), pymongo.UpdateOne):
        assert not is_like(other, requests.UpdateOne)


# --- listeners ---

LOGGERS = [
    kind for name, kind in vars(pymongo.event_loggers).items() if isinstance(kind, type) and name.endswith("Logger")
]


@pytest.mark.parametrize("kind", LOGGERS)
def test_a_listener_is_called_for_its_events_alone(kind: type[Any], caplog: pytest.LogCaptureFixture) -> None:
    (base,) = (each for each in kind.__mro__ if each.__module__ == "pymongo.monitoring" and each.__name__[0] != "_")
    (listener,) = client_options(event_listeners=[kind()]).event_listeners
    publishers = make_publishers([listener], logging_enabled=lambda _: False)
    expected = {"CommandListener": "command", "ConnectionPoolListener": "pool"}.get(base.__name__, "topology")
    assert [name for name in ("command", "pool", "topology") if getattr(publishers, name)] == [expected]


# --- MONGODB-OIDC ---


class Callback(pymongo.auth_oidc.OIDCCallback):
    def fetch(self, context: Any) -> pymongo.auth_oidc.OIDCCallbackResult:
        return pymongo.auth_oidc.OIDCCallbackResult("token", 10, "refresh")


def test_oidc_callback() -> None:
    callback = Callback()
    options = client_options(authMechanism="MONGODB-OIDC", authMechanismProperties={"OIDC_CALLBACK": callback})
    assert options.credentials is not None
    assert options.credentials.mechanism_properties["OIDC_CALLBACK"] is callback
    result = check_result(callback.fetch(None))
    assert result == OIDCCallbackResult("token", 10, "refresh")
    assert "token" not in repr(result).partition("(")[2]
