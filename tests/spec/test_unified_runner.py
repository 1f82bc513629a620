"""The runner itself, where no public suite exercises it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from motorlite.errors import AutoReconnect, BulkWriteError, NotPrimaryError, OperationFailure
from motorlite.monitoring import CommandStartedEvent
from tests.spec import suites
from tests.spec.unified import features, requirements, schema
from tests.spec.unified.entities import EntityMap
from tests.spec.unified.errors import check_error
from tests.spec.unified.events import check_events
from tests.spec.unified.logs import check_messages
from tests.spec.unified.matching import MISSING, Matcher
from tests.spec.unified.operations import client, collection, cursor, database, session
from tests.spec.unified.outcomes import BadTest, Failed, SkipKind, Skipped

MATCHER = Matcher(EntityMap())


def matches(expected: Any, actual: Any, *, is_root: bool = False) -> bool:
    try:
        MATCHER.match(expected, actual, "it", is_root=is_root)
    except Failed:
        return False
    return True


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, 1.0),
        (1, Int64(1)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": {"$$exists": False}}, {}),
        ({"a": {"$$exists": True}}, {"a": None}),
        ({"a": {"$$type": ["int", "long"]}}, {"a": 3}),
        ({"a": {"$$type": "long"}}, {"a": 2**40}),
        ({"a": {"$$unsetOrMatches": 1}}, {}),
        ({"a": {"$$lte": 2}}, {"a": 1.5}),
        ({"a": {"$$matchAsDocument": {"b": 1}}}, {"a": '{"b": 1}'}),
        ({"a": {"$$matchAsRoot": {"b": 1}}}, {"a": {"b": 1, "c": 2}}),
        ({"$$type": "objectId"}, ObjectId()),
    ],
)
def test_values_that_match(expected: Any, actual: Any) -> None:
    assert matches(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        (1, True),
        (1, 1.5),
        (1, "1"),
        (1, MISSING),
        (None, MISSING),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"$$exists": False}}, {"a": None}),
        ({"a": {"$$exists": True}}, {}),
        ({"a": {"$$type": "int"}}, {"a": True}),
        ({"a": {"$$type": "int"}}, {"a": Int64(1)}),
        ({"a": {"$$type": "string"}}, {}),
        ({"a": {"$$unsetOrMatches": 1}}, {"a": 2}),
        ({"a": {"$$lte": 2}}, {"a": 2.1}),
        ({"a": {"$$matchAsDocument": {"b": 1}}}, {"a": '{"b": 1, "c": 2}'}),
    ],
)
def test_values_that_do_not_match(expected: Any, actual: Any) -> None:
    assert not matches(expected, actual)


def test_only_a_root_document_may_have_further_fields() -> None:
    assert matches({"a": {"b": 1}}, {"a": {"b": 1}, "c": 2}, is_root=True)
    assert not matches({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, is_root=True)


@pytest.mark.parametrize(
    "expected",
    [{"$$unknown": 1}, {"$$type": "number of some kind"}, {"$$matchesEntity": "nobody"}, {"$$lte": "x"}],
)
def test_a_malformed_operator_is_told(expected: Any) -> None:
    with pytest.raises(BadTest):
        MATCHER.match(expected, 1, "it")


def test_names_of_entities_are_unique() -> None:
    entities = EntityMap()
    entities.add("one", 1)
    with pytest.raises(BadTest, match="already"):
        entities.add("one", 2)
    with pytest.raises(BadTest, match="no entity"):
        entities.get("two")
    with pytest.raises(BadTest, match="not a Client"):
        entities.client("one")
    with pytest.raises(BadTest, match="cannot be saved"):
        entities.save_result("none", None)


SERVER_ERROR = OperationFailure("text", 11, {"ok": 0, "errmsg": "Text", "code": 11, "codeName": "Name"})


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ({"isClientError": True}, AutoReconnect("closed")),
        ({"isClientError": True}, TypeError("x")),
        ({"isClientError": False}, SERVER_ERROR),
        ({"isClientError": False}, NotPrimaryError("x", {"ok": 0, "code": 10107})),
        ({"errorCode": 11, "errorCodeName": "NAME", "errorContains": "TEXT"}, SERVER_ERROR),
        ({"errorResponse": {"code": 11}}, SERVER_ERROR),
        ({"errorLabelsOmit": ["Label"]}, SERVER_ERROR),
    ],
)
def test_errors_that_match(expected: dict[str, Any], error: Exception) -> None:
    check_error(expected, error, MATCHER)


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        ({"isClientError": False}, AutoReconnect("closed")),
        ({"isClientError": True}, SERVER_ERROR),
        ({"isTimeoutError": True}, SERVER_ERROR),
        ({"errorCode": 12}, SERVER_ERROR),
        ({"errorCodeName": "Other"}, SERVER_ERROR),
        ({"errorContains": "other"}, SERVER_ERROR),
        ({"errorLabelsContain": ["Label"]}, SERVER_ERROR),
        ({"errorResponse": {"code": 12}}, SERVER_ERROR),
        ({"expectResult": {"insertedCount": 0}}, SERVER_ERROR),
        ({"errorCode": 65}, BulkWriteError({"writeErrors": [{"code": 11000, "errmsg": "x"}]})),
    ],
)
def test_errors_that_do_not_match(expected: dict[str, Any], error: Exception) -> None:
    with pytest.raises(Failed):
        check_error(expected, error, MATCHER)


def test_an_unknown_expectation_of_an_error_is_told() -> None:
    with pytest.raises(BadTest):
        check_error({"isGood": True}, SERVER_ERROR, MATCHER)


def started(name: str) -> CommandStartedEvent:
    return CommandStartedEvent({name: 1}, name, "admin", 1, 1, ("localhost", 27017))


def test_the_number_and_the_order_of_events_count() -> None:
    expected = [{"commandStartedEvent": {"commandName": "ping"}}, {"commandStartedEvent": {"command": {"find": 1}}}]
    expectation: dict[str, Any] = {"client": "client0", "events": expected}
    check_events(expectation, [started("ping"), started("find")], MATCHER)
    for events in ([started("ping")], [started("find"), started("ping")], [started("ping"), started("find")] * 2):
        with pytest.raises(Failed):
            check_events(expectation, events, MATCHER)
    check_events({**expectation, "ignoreExtraEvents": True}, [started("ping"), started("find")] * 2, MATCHER)


def log_record(data: dict[str, Any], name: str = "motorlite.command") -> logging.LogRecord:
    record = logging.LogRecord(name, logging.DEBUG, "", 1, "text", (), None)
    record.__dict__["motorlite"] = data
    return record


def test_log_messages_are_compared() -> None:
    expected = {"level": "debug", "component": "command", "data": {"message": "A"}}
    expectation: dict[str, Any] = {"client": "client0", "messages": [expected]}
    check_messages(expectation, [log_record({"message": "A", "b": 1})], MATCHER)
    for records in ([], [log_record({"message": "B"})], [log_record({"message": "A"}, "motorlite.topology")]):
        with pytest.raises(Failed):
            check_messages(expectation, records, MATCHER)
    noise = log_record({"message": "B"})
    with pytest.raises(Failed, match="expected 1 log messages, found 2"):
        check_messages(expectation, [noise, log_record({"message": "A"})], MATCHER)
    ignoring = {**expectation, "ignoreMessages": [{**expected, "data": {"message": "B"}}]}
    check_messages(ignoring, [noise, log_record({"message": "A"})], MATCHER)


class Facts:
    """A deployment, as far as requirements look at it."""

    version = (6, 0, 5)
    topology = "replicaset"
    has_auth = False
    parameters = {"number": 1, "flag": True, "authenticationMechanisms": ["SCRAM-SHA-256"]}  # noqa: RUF012  # read only


@pytest.mark.parametrize(
    "requirement",
    [
        {},
        {"minServerVersion": "6.0", "maxServerVersion": "6.0.5"},
        {"topologies": ["single", "replicaset"], "auth": False, "serverless": "forbid"},
        {"csfle": True},
        {"csfle": {"minLibmongocryptVersion": "1.8"}},
        {"serverParameters": {"number": 1.0, "flag": True}, "authMechanism": "scram-sha-256"},
    ],
)
def test_requirements_that_are_met(requirement: dict[str, Any]) -> None:
    requirements.check([{"minServerVersion": "99"}, requirement], Facts())  # type: ignore[arg-type]  # a stand-in


@pytest.mark.parametrize(
    ("requirement", "kind"),
    [
        ({"minServerVersion": "6.0.6"}, SkipKind.SERVER),
        ({"maxServerVersion": "6.0.4"}, SkipKind.SERVER),
        ({"topologies": ["single"]}, SkipKind.SERVER),
        ({"auth": True}, SkipKind.SERVER),
        ({"serverless": "require"}, SkipKind.SERVER),
        ({"csfle": {"minLibmongocryptVersion": "99.0"}}, SkipKind.ENCRYPTION),
        ({"csfle": False}, SkipKind.ENCRYPTION),
        ({"serverParameters": {"flag": 1}}, SkipKind.SERVER),
        ({"serverParameters": {"other": True}}, SkipKind.SERVER),
        ({"authMechanism": "MONGODB-OIDC"}, SkipKind.SERVER),
    ],
)
def test_requirements_that_are_not_met(requirement: dict[str, Any], kind: SkipKind) -> None:
    with pytest.raises(Skipped) as skipped:
        requirements.check([requirement], Facts())  # type: ignore[arg-type]  # a stand-in
    assert skipped.value.kind is kind


@pytest.mark.parametrize("name", ["sharded", "sharded-replicaset"])
def test_the_shard_of_a_sharded_cluster_is_a_replica_set(name: str) -> None:
    facts: Any = Facts()
    with pytest.raises(Skipped):
        requirements.check([{"topologies": [name]}], facts)
    facts.topology = "sharded"
    requirements.check([{"topologies": [name]}], facts)


@pytest.mark.parametrize("text", ["2.0", "1.99", "one", ""])
def test_an_unsupported_version_is_refused(text: str) -> None:
    with pytest.raises(schema.InvalidFile):
        schema.check_version({"schemaVersion": text})


def test_features_are_found_in_nested_operations() -> None:
    content = {"createEntities": [{"session": {"id": "s", "sessionOptions": {"snapshot": True}}}]}
    inner = {"name": "find", "object": "collection0", "arguments": {"rawData": True}}
    definitions = [{"collection": {"id": "collection0"}}]
    test = {
        "operations": [
            {"name": "createEntities", "object": "testRunner", "arguments": {"entities": definitions}},
            {"name": "loop", "object": "testRunner", "arguments": {"operations": [inner]}},
            {"name": "withTransaction", "object": "s", "arguments": {"callback": [inner]}},
        ]
    }
    found = set(features.used(content, test))
    assert {"sessionOptions.snapshot", "session.withTransaction", "collection.find", "arguments.rawData"} <= found


def test_what_is_pending_does_not_exist_yet() -> None:
    """A change that builds it takes it off the list."""
    kinds: dict[str, Any] = {
        "client": client.OPERATIONS,
        "collection": collection.OPERATIONS,
        "cursor": cursor.OPERATIONS,
        "database": database.OPERATIONS,
        "session": session.OPERATIONS,
    }
    known = {f"{kind}.{name}" for kind, operations in kinds.items() for name in operations}
    assert not known & set(suites.load().features)
