"""This project's own suites, and the extensions of the unified format that they use (spec-tests/EXTENSIONS.md)."""

from __future__ import annotations

import copy
import json
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from jsonschema.validators import validator_for

from motorlite.errors import OperationFailure
from motorlite.monitoring import RetryEvent
from tests.spec import __main__ as command
from tests.spec.unified import extensions, schema
from tests.spec.unified.entities import EntityMap
from tests.spec.unified.events import check_events, matches
from tests.spec.unified.matching import Matcher
from tests.spec.unified.outcomes import BadTest, Failed
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OWN = specifications.REPOSITORY / "spec-tests" / "suites"
FILES = sorted(OWN.rglob("*.json"))
MATCHER = Matcher(EntityMap())
NO_DATA = specifications.not_run()
needs_public_schema = pytest.mark.skipif(NO_DATA is not None, reason=str(NO_DATA))


def content_of(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def name_of(file: Path) -> str:
    return file.relative_to(OWN).as_posix()


# --- the files ---


def test_there_are_files_with_and_without_extensions() -> None:
    assert {extensions.declared(content_of(file)) is None for file in FILES} == {True, False}
    declared = [extensions.declared(content_of(file)) or frozenset() for file in FILES]
    assert frozenset().union(*declared) == extensions.names()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_own_files_are_valid(file: Path) -> None:
    content = content_of(file)
    schema.check_version(content)
    schema.check(content)


@needs_public_schema
@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_own_files_follow_the_public_schema_of_their_version(file: Path) -> None:
    """Those without extensions as it is, the others with nothing but the extensions that they declare."""
    content, base = content_of(file), specifications.root()
    assert base is not None
    public = json.loads((base / "unified-test-format" / f"schema-{content['schemaVersion']}.json").read_text())
    declared = extensions.declared(content)
    own = public if declared is None else extensions.extended(public, declared)
    assert list(validator_for(own)(own).iter_errors(content)) == []
    assert bool(list(validator_for(public)(public).iter_errors(content))) is (declared is not None)


EXPECTATIONS = ("expectEvents", "assertEventCount", "expectError", "expectResult")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_descriptions_are_unique_and_every_test_expects_something(file: Path) -> None:
    tests = content_of(file)["tests"]
    assert len({test["description"] for test in tests}) == len(tests)
    for test in tests:
        text = json.dumps(test)
        # What the client refuses to send publishes no event of a command.
        assert any(word in text for word in EXPECTATIONS), test["description"]


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_every_client_of_a_file_is_used(file: Path) -> None:
    content = content_of(file)
    tests = json.dumps(content["tests"])
    used: set[str] = set()
    # Collections come after their databases, and these after their clients.
    for kind, entity in reversed([next(iter(entity.items())) for entity in content["createEntities"]]):
        name = entity["id"]
        if name in used or any(f'"{key}": "{name}"' in tests for key in ("client", "object")):
            used |= {name} | {entity[owner] for owner in ("client", "database") if owner in entity}
        elif kind == "client":
            pytest.fail(f"{name} is not used")


# --- what is refused ---


def valid() -> dict[str, Any]:
    """A file that uses every extension."""
    find = {"name": "find", "object": "collection", "arguments": {"filter": {}}}
    event = {"operationRetryEvent": {"willRetry": True, "tokens": {"$$exists": False}}}
    client = {
        "id": "client",
        "observeEvents": ["operationRetryEvent"],
        "overloadRetry": {"jitter": 0},
        "waitQueue": {"strategy": "queue", "maxDepth": 5},
    }
    client |= {"retryStrategy": {"delayMS": 5}, "retryBudget": {"capacity": 10}, "limits": {"concurrencyLimit": {}}}
    later = {
        "client": "client",
        "event": {"commandFailedEvent": {}},
        "failPoint": {"configureFailPoint": "failCommand", "mode": "off"},
    }
    deadline = {"deadlineMS": 100, "operations": [find], "expectExceeded": False}
    return {
        "description": "own",
        "schemaVersion": "1.10",
        "extensions": sorted(extensions.names()),
        "createEntities": [{"client": client}],
        "tests": [
            {
                "description": "one",
                "operations": [
                    {"name": "withDeadline", "object": "testRunner", "arguments": deadline},
                    {"name": "failPointOnEvent", "object": "testRunner", "arguments": later},
                ],
                "expectEvents": [{"client": "client", "eventType": "retry", "events": [event]}],
            }
        ],
    }


def client_of(content: dict[str, Any]) -> Any:
    return content["createEntities"][0]["client"]


def deadline_of(content: dict[str, Any]) -> Any:
    return content["tests"][0]["operations"][0]


def later_of(content: dict[str, Any]) -> Any:
    return content["tests"][0]["operations"][1]


def event_of(content: dict[str, Any]) -> Any:
    return content["tests"][0]["expectEvents"][0]["events"][0]


Change: TypeAlias = "Callable[[dict[str, Any]], Any]"

# Refused wherever the runner is.
WRONG: dict[str, Change] = {
    "no extension declared": lambda content: content.pop("extensions"),
    "one extension not declared": lambda content: content["extensions"].remove("deadlines"),
    "an extension declared, and not used": lambda content: client_of(content).pop("overloadRetry"),
    "an unknown extension": lambda content: content["extensions"].append("retryEvent"),
    "an unknown kind of strategy": lambda content: client_of(content)["retryStrategy"].update(failFast=True),
    "no strategy": lambda content: client_of(content).update(retryStrategy={}),
    "a delay in the past": lambda content: client_of(content)["retryStrategy"].update(delayMS=-1),
    "a budget without a capacity": lambda content: client_of(content)["retryBudget"].pop("capacity"),
    "a budget below nothing": lambda content: client_of(content)["retryBudget"].update(perServer=-1),
    "an unknown rule": lambda content: event_of(content)["operationRetryEvent"].update(rule="policy"),
    "an unknown number": lambda content: client_of(content)["overloadRetry"].update(tokensCapacity=1),
    "a capacity of nothing": lambda content: client_of(content)["overloadRetry"].update(tokenCapacity=0),
    "a random factor above 1": lambda content: client_of(content)["overloadRetry"].update(jitter=1.5),
    "an unknown strategy": lambda content: client_of(content)["waitQueue"].update(strategy="hope"),
    "a queue without a strategy": lambda content: client_of(content)["waitQueue"].pop("strategy"),
    "a queue that is too deep": lambda content: client_of(content)["waitQueue"].update(maxDepth=10_001),
    "no numbers": lambda content: client_of(content).update(overloadRetry={}),
    "an unknown field of an event": lambda content: event_of(content)["operationRetryEvent"].update(retries=1),
    "an unknown reason": lambda content: event_of(content)["operationRetryEvent"].update(reason="overloaded"),
    "an unknown refusal": lambda content: event_of(content)["operationRetryEvent"].update(refusal="attempt"),
    "another event": lambda content: event_of(content).update(retryEvent={}),
    "an unknown argument": lambda content: deadline_of(content)["arguments"].update(timeoutMS=1),
    "no deadline": lambda content: deadline_of(content)["arguments"].pop("deadlineMS"),
    "a deadline in the past": lambda content: deadline_of(content)["arguments"].update(deadlineMS=0),
    "no operations": lambda content: deadline_of(content)["arguments"].update(operations=[]),
    "an unknown argument of a later fail point": lambda content: later_of(content)["arguments"].update(count=1),
    "a later fail point without an event": lambda content: later_of(content)["arguments"].pop("event"),
    "two events": lambda content: later_of(content)["arguments"]["event"].update(commandStartedEvent={}),
    "a later fail point without a mode": lambda content: later_of(content)["arguments"]["failPoint"].pop("mode"),
    "an operation without an object": lambda content: deadline_of(content)["arguments"]["operations"][0].pop("object"),
}
# Refused by the public schema, with or without the extensions.
WRONG_FOR_THE_PUBLIC: dict[str, Change] = {
    "a misspelt event": lambda content: client_of(content)["observeEvents"].append("operationRetriedEvent"),
    "a misspelt kind of event": lambda content: content["tests"][0]["expectEvents"][0].update(eventType="retries"),
    "extensions elsewhere": lambda content: content["tests"][0].update(extensions=["deadlines"]),
    "a misspelt field of a client": lambda content: client_of(content).update(overloadRetries={"jitter": 0}),
    "a deadline with a result": lambda content: deadline_of(content).update(expectResult=1),
    "an unknown field of a nested operation": lambda content: deadline_of(content)["arguments"]["operations"][0].update(
        expectResults=[]
    ),
}


@pytest.fixture
def no_public_schema(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(schema, "_newest", lambda: (schema.NEWEST_KNOWN, None))
    schema._validator.cache_clear()
    yield
    schema._validator.cache_clear()


def test_a_file_with_every_extension_is_valid() -> None:
    schema.check(valid())


@pytest.mark.usefixtures("no_public_schema")
def test_a_file_with_every_extension_is_valid_without_the_public_schema() -> None:
    schema.check(valid())


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused(change: Change) -> None:
    content = copy.deepcopy(valid())
    change(content)
    with pytest.raises(schema.InvalidFile):
        schema.check(content)


@pytest.mark.usefixtures("no_public_schema")
@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_without_the_public_schema(change: Change) -> None:
    content = copy.deepcopy(valid())
    change(content)
    with pytest.raises(schema.InvalidFile):
        schema.check(content)


@needs_public_schema
@pytest.mark.parametrize("change", WRONG_FOR_THE_PUBLIC.values(), ids=WRONG_FOR_THE_PUBLIC)
def test_what_the_public_schema_knows_is_refused(change: Change) -> None:
    content = copy.deepcopy(valid())
    change(content)
    with pytest.raises(schema.InvalidFile):
        schema.check(content)


@pytest.mark.parametrize(
    "data",
    [None, [], "x", {"client": {"observeEvents": 1}}, {"client": 1}, {"eventType": "retry", "events": 1}, {"event": 1}],
)
def test_files_of_any_shape_are_looked_at(data: Any) -> None:
    assert extensions.used(data) == frozenset()
    assert extensions.declared(data) is None


def test_extensions_that_are_no_list_are_refused() -> None:
    for value in ("deadlines", {"deadlines": True}, [["deadlines"]], None):
        with pytest.raises(schema.InvalidFile):
            schema.check({**valid(), "extensions": value})


def test_a_schema_that_has_the_extension_already_is_told() -> None:
    public: dict[str, Any] = {"properties": {"extensions": {}}, "definitions": {}}
    with pytest.raises(LookupError, match="already"):
        extensions.extended(public, [])
    with pytest.raises(LookupError):
        extensions.extended({"properties": {}, "definitions": {}}, ["retryEvents"])


# --- events ---


def retried(**fields: Any) -> RetryEvent:
    values: dict[str, Any] = {
        "permitted": True,
        "reason": "temporary failure",
        "rule": "specification",
        "refusal": None,
        "delay": 0.1,
        "attempt": 1,
        "tokens": 2.5,
        "address": ("localhost", 27017),
        "error": OperationFailure("text"),
        "deprioritized": False,
    }
    return RetryEvent("find", 7, **{**values, **fields})


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({}, {}),
        (
            {
                "commandName": "find",
                "willRetry": True,
                "reason": "temporaryFailure",
                "attempt": 1,
                "deprioritized": False,
            },
            {},
        ),
        ({"delayMS": 100, "tokens": 2.5, "refusal": {"$$exists": False}}, {}),
        ({"tokens": {"$$exists": False}}, {"tokens": inf}),
        ({"reason": "overload"}, {"reason": "overload"}),
        ({"reason": "retryableError"}, {"reason": "retryable error"}),
        ({"reason": "connectionLostInFlight"}, {"reason": "connection lost in flight"}),
        ({"reason": "unknown", "refusal": "notRetryable"}, {"reason": "unknown", "refusal": "not retryable"}),
        ({"rule": "overloadPolicy"}, {"rule": "overload policy"}),
        ({"rule": {"$$exists": False}}, {"rule": None}),
        ({"refusal": "tokens"}, {"refusal": "tokens"}),
    ],
)
def test_retry_events_that_match(fields: dict[str, Any], event: dict[str, Any]) -> None:
    assert matches({"operationRetryEvent": fields}, retried(**event), MATCHER)


@pytest.mark.parametrize(
    "fields",
    [
        {"commandName": "insert"},
        {"willRetry": False},
        {"reason": "overload"},
        {"rule": "strategy"},
        {"refusal": "attempts"},
        {"attempt": 2},
        {"delayMS": 0.1},
        {"delayMS": {"$$lte": 99}},
        {"tokens": 2},
        {"tokens": {"$$exists": False}},
        {"deprioritized": True},
    ],
)
def test_retry_events_that_do_not_match(fields: dict[str, Any]) -> None:
    assert not matches({"operationRetryEvent": fields}, retried(), MATCHER)


def test_fields_of_other_events_are_not_those_of_retry_events() -> None:
    with pytest.raises(BadTest, match="not known"):
        matches({"operationRetryEvent": {"command": {}}}, retried(), MATCHER)


def test_the_number_of_retry_events_counts() -> None:
    expectation: dict[str, Any] = {"client": "client0", "eventType": "retry", "events": [{"operationRetryEvent": {}}]}
    check_events(expectation, [retried()], MATCHER)
    for events in ([], [retried(), retried()]):
        with pytest.raises(Failed):
            check_events(expectation, events, MATCHER)


# --- running ---

OVERLOADED = {
    "configureFailPoint": "failCommand",
    "mode": {"times": 2},
    "data": {
        "failCommands": ["ping"],
        "errorCode": 462,
        "errorLabels": ["SystemOverloadedError", "RetryableError"],
    },
}
PING = {"name": "runCommand", "object": "database", "arguments": {"commandName": "ping", "command": {"ping": 1}}}
# Much longer than any deadline below.
WAIT = {"name": "wait", "object": "testRunner", "arguments": {"ms": 20_000}}
ONCE = {**OVERLOADED, "mode": {"times": 1}}
FAIL_POINT = {
    "name": "failPoint",
    "object": "testRunner",
    "arguments": {"client": "client", "failPoint": OVERLOADED},
}


def within(milliseconds: int, *operations: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    all_arguments = {"deadlineMS": milliseconds, "operations": list(operations), **arguments}
    return {"name": "withDeadline", "object": "testRunner", "arguments": all_arguments}


def run(folder: Path, operations: list[dict[str, Any]], expected: list[dict[str, Any]], backend: str) -> int:
    client = {
        "id": "client",
        "observeEvents": ["operationRetryEvent"],
        "overloadRetry": {"tokenCapacity": 1.5, "baseBackoffMS": 10, "maxBackoffMS": 4, "jitter": 0.5},
    }
    content = {
        "description": "own",
        "schemaVersion": "1.10",
        "extensions": sorted(extensions.used(operations) | {"retryEvents", "overloadRetry"}),
        "createEntities": [
            {"client": client},
            {"database": {"id": "database", "client": "client", "databaseName": "motorlite_test_own"}},
        ],
        "tests": [
            {
                "description": "one",
                "operations": operations,
                "expectEvents": [{"client": "client", "eventType": "retry", "events": expected}],
            }
        ],
    }
    path = folder / "own.json"
    path.write_text(json.dumps(content))
    return command.main([str(path), "--backend", backend, "--topology", "single"])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("operations", "status"),
    [
        ([within(10_000, PING)], 0),
        ([within(20, WAIT, expectExceeded=True)], 0),
        ([within(20, WAIT)], 1),
        ([within(10_000, PING, expectExceeded=True)], 1),
        ([within(10_000, within(20, WAIT, expectExceeded=True), PING)], 0),
        ([within(20, within(10_000, WAIT), expectExceeded=True)], 0),
        ([within(20, within(10_000, WAIT, expectExceeded=True), expectExceeded=False)], 1),
        ([within(10_000, {**PING, "expectResult": {"ok": 2}})], 1),
    ],
)
def test_deadlines(operations: list[dict[str, Any]], status: int, backend: str, tmp_path: Path) -> None:
    assert run(tmp_path, operations, [], backend) == status


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([{"willRetry": True, "tokens": 0.5, "delayMS": 2}, {"willRetry": False, "refusal": "tokens"}], 0),
        ([{"willRetry": True, "tokens": 0.5, "delayMS": 4}, {"willRetry": False, "refusal": "tokens"}], 1),
        ([{"willRetry": True}], 1),
    ],
)
def test_the_numbers_reach_the_client(events: list[dict[str, Any]], status: int, backend: str, tmp_path: Path) -> None:
    operations = [FAIL_POINT, {**PING, "expectError": {"errorCode": 462}}]
    assert run(tmp_path, operations, [{"operationRetryEvent": fields} for fields in events], backend) == status


def later(event: dict[str, Any], **fail_point: Any) -> dict[str, Any]:
    arguments = {"client": "client", "event": {"operationRetryEvent": event}, "failPoint": {**OVERLOADED, **fail_point}}
    return {"name": "failPointOnEvent", "object": "testRunner", "arguments": arguments}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("operation", "status"),
    [
        (later({"attempt": 1}, data={"failCommands": ["ping"], "errorCode": 8}), 0),
        (later({"attempt": 2}, data={"failCommands": ["ping"], "errorCode": 8}), 1),
        (later({"attempt": 1}, mode="sometimes"), 1),
    ],
    ids=["set before the retry", "the event is not published", "the server refuses"],
)
def test_fail_points_on_events(operation: dict[str, Any], status: int, backend: str, tmp_path: Path) -> None:
    operations = [{**FAIL_POINT, "arguments": {"client": "client", "failPoint": ONCE}}, operation]
    expected = [{"willRetry": True, "reason": "overload"}, {"willRetry": False, "reason": "unknown"}]
    if status:
        # Without the second fail point the operation succeeds.
        operations, expected = [*operations, PING], expected[:1]
    else:
        operations.append({**PING, "expectError": {"errorCode": 8}})
    assert run(tmp_path, operations, [{"operationRetryEvent": fields} for fields in expected], backend) == status
