"""What is appended as bytes is what would have been in the document, for every operation and every kind of server."""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from uuid import UUID

import bson
import pytest
from bson.binary import STANDARD, Binary
from bson.codec_options import CodecOptions, TypeEncoder, TypeRegistry
from bson.errors import InvalidDocument
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.son import SON
from bson.timestamp import Timestamp

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._base.values import ServerFacts
from motorlite._execution.building import CommandBuilder, CommandDefaults
from motorlite._execution.run import Attempt, Run
from motorlite._operations.commands import RunCommand
from motorlite._operations.contract import Call
from motorlite._operations.cursors import GetMore
from motorlite._operations.find import Find, FindFirstFacts, FindOne
from motorlite._operations.reads import Aggregate
from motorlite._sessions.session import Session, SessionPool
from motorlite._topology.topology_description import TopologyDescription
from motorlite._wire import op_msg
from motorlite.errors import ConfigurationError, DocumentTooLarge
from motorlite.read_concern import ReadConcern
from motorlite.read_preferences import Nearest, ReadPreference, ServerMode
from motorlite.topology_description import TopologyType
from tests.unit._operations.facts_table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from motorlite._operations.contract import Operation

ADDRESS = ("db1.test", 27017)


def server(**facts: Any) -> ServerFacts:
    return ServerFacts(ADDRESS, max_wire_version=25, **{"session_timeout_minutes": 30, **facts})


STANDALONE = server(is_standalone=True)
MEMBER = server()
MONGOS = server(is_mongos=True)
BALANCED = server(is_mongos=True, is_load_balanced=True, session_timeout_minutes=None)
SERVERS = {"standalone": STANDALONE, "member": MEMBER, "mongos": MONGOS, "load balancer": BALANCED}

CLUSTER_TIME = {
    "clusterTime": Timestamp(1_700_000_000, 7),
    "signature": {"hash": bytes(range(20)), "keyId": Int64(2**40)},
}
NOW = 100.0
FIRST = FindFirstFacts("db", "coll", read_preference=ReadPreference.PRIMARY)


def builder(
    cluster_time: Mapping[str, Any] | None = None,
    *,
    api: Mapping[str, Any] | None = None,
    limits: CommandDefaults | None = None,
) -> CommandBuilder:
    pool = SessionPool(lambda: Binary(bytes(range(16)), 4))
    made = CommandBuilder(pool, limits or CommandDefaults(), retry_writes=True, api_declaration=api)
    if cluster_time is not None:
        made.gossip({"$clusterTime": cluster_time})
    return made


def topology(*, is_direct: bool) -> TopologyDescription:
    return TopologyDescription(TopologyType.Single if is_direct else TopologyType.ReplicaSetWithPrimary, {})


def built(
    operation: Operation[Any],
    facts: ServerFacts = MEMBER,
    *,
    by: CommandBuilder,
    is_shown: bool,
    is_direct: bool = False,
    call: Call | None = None,
) -> tuple[dict[str, Any], bytes]:
    """The command's document and its message."""
    run = Run(operation, Call(None, NO_DEADLINE) if call is None else call)
    command, message = by.build(run, Attempt(), facts, 7, NOW, topology(is_direct=is_direct), is_shown=is_shown)
    return command.document, message if isinstance(message, bytes) else message.joined()


def sent(message: bytes) -> dict[str, Any]:
    return bson.decode(bytes(op_msg.parse(message).body))


def both_ways(
    operation: Operation[Any],
    facts: ServerFacts = MEMBER,
    cluster_time: Mapping[str, Any] | None = None,
    *,
    is_direct: bool = False,
) -> bytes:
    """The message, which must be the same whether listeners see the command or not."""
    shown, general = built(operation, facts, by=builder(cluster_time), is_shown=True, is_direct=is_direct)
    assert list(shown) == list(sent(general))
    by = builder(cluster_time)
    for _ in range(2):  # the second time, all parts are encoded already
        operation_again, session = Run(operation, Call(None, NO_DEADLINE)), by._sessions
        command, appended = by.build(
            operation_again, Attempt(), facts, 7, NOW, topology(is_direct=is_direct), is_shown=False
        )
        assert appended == general
        assert operation_again.server_session is not None
        operation_again.server_session.transaction_number = 0
        session.release(operation_again.server_session, NOW, 30)
        assert next(iter(command.document)) == command.name
    return general


PREFERENCES: list[ServerMode | None] = [
    None,
    ReadPreference.PRIMARY,
    ReadPreference.SECONDARY_PREFERRED,
    Nearest(tag_sets=[{"dc": "ü"}, {}], max_staleness=120),
]


WITH_SESSION = [row.operation for row in TABLE if row.operation.supports_sessions]


@pytest.mark.parametrize("cluster_time", [None, CLUSTER_TIME], ids=["", "cluster time"])
@pytest.mark.parametrize("facts", SERVERS.values(), ids=SERVERS)
@pytest.mark.parametrize("operation", WITH_SESSION, ids=[type(operation).__name__ for operation in WITH_SESSION])
def test_every_operation(operation: Operation[Any], facts: ServerFacts, cluster_time: Mapping[str, Any] | None) -> None:
    message = both_ways(operation, facts, cluster_time)
    document = sent(message)
    assert document["lsid"] == {"id": Binary(bytes(range(16)), 4)} or document["lsid"]["id"] == UUID(
        bytes=bytes(range(16))
    )
    assert document["$db"] == operation.database
    assert document.get("$clusterTime") == cluster_time


@pytest.mark.parametrize("preference", PREFERENCES, ids=str)
@pytest.mark.parametrize("is_direct", [False, True])
@pytest.mark.parametrize("facts", SERVERS.values(), ids=SERVERS)
def test_read_preferences(facts: ServerFacts, is_direct: bool, preference: ServerMode | None) -> None:
    both_ways(Find("db", "coll", {"x": 1}, read_preference=preference), facts, is_direct=is_direct)
    both_ways(GetMore("db", "coll", 5, address=ADDRESS, read_preference=preference), facts, is_direct=is_direct)
    if preference is not None:
        facts_of_first = FindFirstFacts("db", "coll", read_preference=preference)
        first = both_ways(facts_of_first.where({"x": 1}), facts, is_direct=is_direct)
        assert first == both_ways(
            FindOne("db", "coll", {"x": 1}, read_preference=preference), facts, is_direct=is_direct
        )


def test_preferences_that_change_from_command_to_command() -> None:
    by = builder()
    for _ in range(2):
        for mode in ("a", "b", "c"):
            preference = Nearest(tag_sets=[{"dc": mode}])
            _, message = built(Find("db", "coll", read_preference=preference), by=by, is_shown=False)
            assert sent(message)["$readPreference"] == preference.document


FILTERS: list[Any] = [
    {},
    {"_id": 7},
    {"b": 1, "_id": 2},
    {"x": {"b": 1, "_id": 2}},
    SON([("b", 1), ("_id", 2)]),
    OrderedDict([("b", 1), ("_id", 2)]),
    MappingProxyType({"b": 1, "_id": 2}),
    RawBSONDocument(bson.encode({"z": 1, "_id": 2})),
    {"x": RawBSONDocument(bson.encode({"z": 1, "_id": 2}))},
    {"$db": "other", "lsid": 1, "$clusterTime": 2},
    {"_id": ObjectId(b"123456789012"), "ü": "\0", "": ["", {}, [], None]},
    {"x": "y" * 100_000},
]


@pytest.mark.parametrize("query", FILTERS, ids=repr)
@pytest.mark.parametrize("level", [None, "majority"])
def test_filters(query: Any, level: str | None) -> None:
    concern = ReadConcern(level)
    facts = FindFirstFacts("db", "coll", read_preference=ReadPreference.PRIMARY, read_concern=concern)
    first = both_ways(facts.where(query))
    general = both_ways(FindOne("db", "coll", query, read_preference=ReadPreference.PRIMARY, read_concern=concern))
    assert first == general
    wanted = query if isinstance(query, dict) and not isinstance(query, SON | OrderedDict) else dict(query)
    assert list(sent(first)["filter"]) == list(wanted)
    both_ways(Find("db", "coll", query, read_concern=concern))
    both_ways(Aggregate("db", "coll", [{"$match": query}], read_concern=concern))


@pytest.mark.parametrize("database", ["a", "ü-\U0001f600", "$external", "x" * 200])
@pytest.mark.parametrize("collection", ["c", "a.b", "ü \U0001f600", "$cmd.sys", "0"])
def test_names(database: str, collection: str) -> None:
    facts = FindFirstFacts(database, collection, read_preference=ReadPreference.PRIMARY)
    document = sent(both_ways(facts.where({})))
    assert (document["find"], document["$db"]) == (collection, database)
    both_ways(Find(database, collection))


def test_many_databases() -> None:
    by = builder()
    for number in [*range(1100), 3]:
        _, message = built(Find(f"db{number}", "coll"), by=by, is_shown=False)
        assert sent(message)["$db"] == f"db{number}"


class UpperCase(TypeEncoder):
    python_type = type("Upper", (), {})

    def transform_python(self, value: Any) -> Any:
        return "upper"


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (CodecOptions(uuid_representation=STANDARD), UUID(int=5)),
        (CodecOptions(type_registry=TypeRegistry([UpperCase()])), UpperCase.python_type()),
        (CodecOptions(type_registry=TypeRegistry(fallback_encoder=repr)), {1, 2}),
        (CodecOptions(document_class=RawBSONDocument), 1),
        (CodecOptions(document_class=SON, tz_aware=True), 1),
    ],
)
def test_codec_options(options: CodecOptions[Any], value: Any) -> None:
    facts = FindFirstFacts("db", "coll", read_preference=ReadPreference.PRIMARY, codec_options=options)
    first = both_ways(facts.where({"x": value}), cluster_time=CLUSTER_TIME)
    assert first == both_ways(
        FindOne("db", "coll", {"x": value}, read_preference=ReadPreference.PRIMARY, codec_options=options),
        cluster_time=CLUSTER_TIME,
    )


@pytest.mark.parametrize(
    "query", [{"x": object()}, {"x": "\ud800"}, {"x": 2**64}, {1: 2}, {"x\0": 1}, {"x": UUID(int=5)}]
)
def test_what_cannot_be_encoded(query: Any) -> None:
    for operation in (FIRST.where(query), Find("db", "coll", query)):
        raised = []
        for is_shown in (False, True):
            with pytest.raises((InvalidDocument, OverflowError, ValueError)) as error:
                built(operation, by=builder(), is_shown=is_shown)
            raised.append(type(error.value))
        assert raised[0] is raised[1]


def test_a_command_that_is_too_large() -> None:
    small = server(max_bson_object_size=100, max_message_size=48_000_000)
    for operation in (FIRST.where({"x": "y" * 17_000}), Find("db", "coll", {"x": "y" * 17_000})):
        messages = set()
        for is_shown in (False, True):
            with pytest.raises(DocumentTooLarge) as error:
                built(operation, small, by=builder(), is_shown=is_shown)
            messages.add(str(error.value))
        assert len(messages) == 1


def test_fields_of_the_application_come_first() -> None:
    mine = {"ping": 1, "$db": "mine", "lsid": {"id": 5}}
    for is_shown in (False, True):
        document, message = built(RunCommand("db", mine), by=builder(), is_shown=is_shown)
        assert list(sent(message)) == list(document) == ["ping", "$db", "lsid"]
        assert document["$db"] == "db"
    # `bson` encodes an _id first, wherever it stands.
    messages = {
        built(RunCommand("db", {"ping": 1, "_id": 3}), by=builder(), is_shown=shown)[1] for shown in (False, True)
    }
    assert len(messages) == 1


def test_listeners_get_the_whole_command() -> None:
    facts = FindFirstFacts("db", "coll", read_preference=ReadPreference.SECONDARY)
    document, message = built(facts.where({"x": 1}), by=builder(CLUSTER_TIME), is_shown=True)
    assert list(document) == [
        "find",
        "filter",
        "limit",
        "singleBatch",
        "lsid",
        "$clusterTime",
        "$readPreference",
        "$db",
    ]
    assert list(document) == list(sent(message))


def test_the_cluster_time_moves_on() -> None:
    by, operation = builder(CLUSTER_TIME), Find("db", "coll")
    _, first = built(operation, by=by, is_shown=False)
    later = {**CLUSTER_TIME, "clusterTime": Timestamp(1_700_000_001, 1)}
    by.gossip({"$clusterTime": later})
    by.gossip({"$clusterTime": CLUSTER_TIME})  # older: ignored
    _, second = built(operation, by=by, is_shown=False)
    assert [sent(one)["$clusterTime"] for one in (first, second)] == [CLUSTER_TIME, later]


@pytest.mark.parametrize(
    "call",
    [
        Call(None, Deadline(NOW + 5, inf, 5.0)),
        Call(None, Deadline(inf, NOW + 5)),
        Call(None, Deadline(is_set=True)),
        Call(Session(is_implicit=False, is_causally_consistent=True), NO_DEADLINE),
        Call(Session(is_implicit=False, is_snapshot=True), NO_DEADLINE),
    ],
    ids=["timeout", "scope", "no limit", "session", "snapshot"],
)
def test_calls_that_ask_for_more(call: Call) -> None:
    if call.session is not None:
        call.session.operation_time = Timestamp(5, 5)
        call.session.cluster_time = CLUSTER_TIME
    facts = FindFirstFacts("db", "coll", read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("majority"))
    whole = []
    for is_shown in (False, True):
        if call.session is not None:
            call.session.server_session = None
        attempt = Attempt()
        attempt.description = _Description()  # type: ignore[assignment]
        run = Run(facts.where({"x": 1}), call)
        command, message = builder().build(run, attempt, MEMBER, 7, NOW, topology(is_direct=False), is_shown=is_shown)
        assert isinstance(message, bytes)
        assert list(command.document) == list(sent(message))
        whole.append(message)
    assert whole[0] == whole[1]
    document = sent(whole[0])
    if call.session is not None:
        assert len(document["readConcern"]) == 2 or document["readConcern"]["level"] == "snapshot"
        assert document["$clusterTime"] == CLUSTER_TIME
    # What the template keeps has not changed.
    assert sent(both_ways(facts.where({"x": 2})))["readConcern"] == {"level": "majority"}


class _Description:
    min_round_trip_time = 0.0


@pytest.mark.parametrize(
    ("by", "field"),
    [
        (builder(api={"apiVersion": "1"}), "apiVersion"),
        (builder(limits=CommandDefaults(5000)), "maxTimeMS"),
        (builder(limits=CommandDefaults(None, "motorlite x")), "comment"),
    ],
)
def test_clients_that_add_more(by: CommandBuilder, field: str) -> None:
    for operation in (FIRST.where({}), Find("db", "coll")):
        document, message = built(operation, by=by, is_shown=False)
        assert field in document
        assert list(document) == list(sent(message))


def test_an_implicit_session_of_a_cursor_is_kept() -> None:
    by, session = builder(), Session(is_implicit=True)
    operation = GetMore("db", "coll", 5, address=ADDRESS)
    call = Call(session, NO_DEADLINE)
    _, first = built(operation, by=by, is_shown=False, call=call)
    kept = session.server_session
    _, second = built(operation, by=by, is_shown=True, call=call)
    assert session.server_session is kept is not None
    assert first == second


def test_servers_without_sessions() -> None:
    old = server(session_timeout_minutes=None)
    for operation in (FIRST.where({}), Find("db", "coll")):
        document, message = built(operation, old, by=builder(CLUSTER_TIME), is_shown=False)
        assert list(document) == list(sent(message))
        assert "lsid" not in document
    with pytest.raises(ConfigurationError):
        built(Find("db", "c"), old, by=builder(), is_shown=False, call=Call(Session(is_implicit=False), NO_DEADLINE))
