"""Files that no list names: what they need is seen from what is in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spec import __main__ as command
from tests.spec import suites
from tests.spec.files import TestFile
from tests.spec.own_files import (
    UNIFIED,
    URI,
    listed,
    needs_data,
    records_of,
    sdam,
    sdam_monitoring,
    unified,
    write,
)
from tests.spec.unified import changes, judge, members
from tests.spec.unified.cases import Case, cases_of
from tests.spec.unified.contention import Contention
from tests.spec.unified.environment import Environment
from tests.spec.unified.operations import cursor as cursor_operations
from tests.spec.unified.outcomes import BadTest, Failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.spec.unified.environment import Topology


def outcomes(content: Mapping[str, Any], folder: Path, *, status: int) -> list[str]:
    """How the tests of a file end, on each backend."""
    found = records_of(write(folder / "own.json", content), status=status, report_file=folder / "records")
    return [record["outcome"] for record in found]


# --- discovery ---


@pytest.mark.parametrize("make", [sdam, sdam_monitoring])
def test_a_possible_primary_is_unknown(make: Any, tmp_path: Path) -> None:
    """Only single-threaded drivers guess."""
    standalone = json.dumps(make("Standalone"))
    wrong = standalone.replace('"type": "Standalone"', '"type": "PossiblePrimary"')
    assert set(outcomes(json.loads(wrong), tmp_path, status=command.FAILED)) == {"failed"}
    text = json.dumps(make("Unknown"))
    content = json.loads(text.replace('"type": "Unknown"', '"type": "PossiblePrimary"'))
    # The server does not answer.
    content["phases"][0]["responses"] = []
    outcome = content["phases"][0]["outcome"]
    if "events" in outcome:
        del outcome["events"][3:]
    else:
        outcome["topologyType"] = "Single"
    assert set(outcomes(content, tmp_path, status=0)) == {"passed"}


# --- pools ---

POOL_OPTIONS = {"maxPoolSize": 50, "minPoolSize": 5, "maxIdleTimeMS": 100, "waitQueueTimeoutMS": 7}


def cmap(options: Mapping[str, Any], created: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "style": "unit",
        "description": "one",
        "poolOptions": options,
        "operations": [{"name": "clear"}],
        "events": [{"type": "ConnectionPoolCreated", "address": 42, "options": created}],
    }


@pytest.mark.parametrize(
    ("options", "created"),
    [
        (POOL_OPTIONS, POOL_OPTIONS),
        # Those of the test itself are none of the pool's.
        ({**POOL_OPTIONS, "appName": "x", "backgroundThreadIntervalMS": -1}, POOL_OPTIONS),
        (POOL_OPTIONS, {"maxPoolSize": 50}),
        (POOL_OPTIONS, {"maxPoolSize": 42, "minPoolSize": "42"}),
        (POOL_OPTIONS, 42),
        ({"maxConnecting": 3}, {"maxConnecting": 3}),
        ({}, {}),
    ],
)
def test_a_pool_is_created_with_the_options_of_the_test(
    options: Mapping[str, Any], created: Any, tmp_path: Path
) -> None:
    assert outcomes(cmap(options, created), tmp_path, status=0) == ["passed", "passed"]


@pytest.mark.parametrize("created", [{"maxPoolSize": 51}, {"maxConnecting": 42}, {"maxConnecting": 2}, [50]])
def test_a_pool_is_created_with_no_other_options(created: Any, tmp_path: Path) -> None:
    assert outcomes(cmap(POOL_OPTIONS, created), tmp_path, status=command.FAILED) == ["failed", "failed"]


@pytest.mark.parametrize("data", [{"errorCode": 91}, {"closeConnection": True}])
@pytest.mark.parametrize(("mode", "error"), [({"times": 1}, None), ("alwaysOn", {"type": "PoolClearedError"})])
def test_a_fail_point_is_used_up(mode: Any, error: Any, data: Mapping[str, Any], tmp_path: Path) -> None:
    """The one handshake that fails clears the pool; the second one is made after it is ready again."""
    content: dict[str, Any] = {
        "version": 1,
        "style": "integration",
        "description": "one",
        "failPoint": {
            "configureFailPoint": "failCommand",
            "mode": mode,
            "data": {"failCommands": ["isMaster", "hello"], **data},
        },
        "operations": [
            {"name": "ready"},
            {"name": "start", "target": "thread1"},
            {"name": "checkOut", "thread": "thread1"},
            {"name": "waitForEvent", "event": "ConnectionCheckOutFailed", "count": 1},
            {"name": "ready"},
            {"name": "checkOut"},
        ],
        "events": [
            {"type": "ConnectionCheckOutFailed"},
            *([{"type": "ConnectionCheckedOut"}] if error is None else []),
        ],
        "ignore": [
            "ConnectionPoolCreated",
            "ConnectionPoolReady",
            "ConnectionPoolCleared",
            "ConnectionCreated",
            "ConnectionReady",
            "ConnectionClosed",
            "ConnectionCheckOutStarted",
        ],
    }
    status = 0 if error is None else command.FAILED
    assert set(outcomes(content, tmp_path, status=status)) == {"passed" if error is None else "failed"}


# --- how many members a replica set has ---

ONLY_REPLICA_SETS = [{"topologies": ["replicaset"]}]
OPERATION = {"name": "find", "object": "c", "arguments": {"filter": {}}}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, 1),
        ({"operations": [{**OPERATION, "arguments": {"readPreference": {"mode": "secondary"}}}]}, 3),
        ({"operations": [{**OPERATION, "arguments": {"readPreference": {"mode": "Secondary"}}}]}, 3),
        ({"operations": [{**OPERATION, "arguments": {"readPreference": {"mode": "secondaryPreferred"}}}]}, 1),
        # What a command is expected to carry asks no secondary for anything.
        ({"expectEvents": [{"command": {"$readPreference": {"mode": "secondary"}}}]}, 1),
        ({"operations": [{**OPERATION, "arguments": {"writeConcern": {"w": 2}}}]}, 3),
        ({"operations": [{**OPERATION, "arguments": {"writeConcern": {"w": 1}}}]}, 1),
        # No set has as many: the error is what is meant.
        ({"operations": [{**OPERATION, "arguments": {"writeConcern": {"w": 50}}}]}, 1),
        ({"operations": [{"name": "waitForPrimaryChange", "object": "testRunner"}]}, 3),
        ({"operations": [{**OPERATION, "arguments": {"command": {"replSetStepDown": 20}}}]}, 3),
        ({"expectEvents": [{"newDescription": {"type": "RSSecondary"}}]}, 3),
        ({"expectEvents": [{"topologyDescriptionChangedEvent": {}}]}, 1),
        ({"expectEvents": [{"topologyDescriptionChangedEvent": {}}], "runOnRequirements": ONLY_REPLICA_SETS}, 3),
        ({"runOnRequirements": ONLY_REPLICA_SETS}, 1),
    ],
)
def test_the_members_that_a_test_needs(fields: Mapping[str, Any], expected: int, tmp_path: Path) -> None:
    content = {**UNIFIED, "tests": [{"description": "one", "operations": [OPERATION], **fields}]}
    (case,) = cases(write(tmp_path / "own.json", content))
    assert case.members == expected


@pytest.mark.parametrize(
    "entity",
    [
        {"client": {"id": "c", "uriOptions": {"readPreference": "secondary"}}},
        {"collection": {"id": "c", "collectionOptions": {"readPreference": {"mode": "secondary"}}}},
    ],
)
def test_the_members_that_entities_need(entity: Mapping[str, Any], tmp_path: Path) -> None:
    content = {**unified(1), "createEntities": [entity]}
    (case,) = cases(write(tmp_path / "own.json", content))
    assert case.members == members.SEVERAL
    content = {**UNIFIED, "tests": [{"description": "one", "operations": [{"arguments": {"entities": [entity]}}]}]}
    (case,) = cases(write(tmp_path / "own.json", content))
    assert case.members == members.SEVERAL


# --- which topologies a test runs on ---

ALL: tuple[Topology, ...] = ("single", "replicaset", "sharded", "load-balanced")
REAL = ("single", "replicaset")
FACADES = ("sharded", "load-balanced")
TWO_MONGOS = {"client": {"id": "c", "useMultipleMongoses": True}}


@pytest.mark.parametrize(
    ("topologies", "entity", "expected"),
    [
        (None, {}, REAL),
        (["sharded", "single"], {}, ("single",)),
        (["sharded"], {}, ("sharded",)),
        (["sharded-replicaset"], {}, ("sharded",)),
        (["load-balanced"], {}, ("load-balanced",)),
        (["sharded", "load-balanced"], {}, FACADES),
        (None, TWO_MONGOS, (*REAL, "sharded")),
        (["replicaset", "load-balanced"], TWO_MONGOS, ("replicaset",)),
        (None, {"client": {"id": "c", "useMultipleMongoses": False}}, REAL),
    ],
)
def test_a_facade_is_used_for_what_only_it_can_show(
    topologies: list[str] | None, entity: Mapping[str, Any], expected: tuple[str, ...], tmp_path: Path
) -> None:
    requirements = {} if topologies is None else {"runOnRequirements": [{"topologies": topologies}]}
    content = {**unified(1), **requirements, "createEntities": [entity]}
    (case,) = cases(write(tmp_path / "own.json", content))
    assert tuple(case.topologies(ALL)) == expected


@pytest.mark.parametrize(
    ("lowest", "operation", "expected"),
    [
        ("8.0", "clientBulkWrite", ("sharded-8.0",)),
        ("8.0", "bulkWrite", REAL),
        ("4.4", "clientBulkWrite", REAL),
        # What came later, the facade does not have.
        ("8.2", "clientBulkWrite", REAL),
    ],
)
def test_bulk_writes_of_a_client_run_on_a_facade_of_their_own(
    lowest: str, operation: str, expected: tuple[str, ...], tmp_path: Path
) -> None:
    content = {**unified(1), "runOnRequirements": [{"minServerVersion": lowest}]}
    content["tests"][0]["operations"] = [{"name": operation, "object": "client"}]
    (case,) = cases(write(tmp_path / "own.json", content))
    assert tuple(case.topologies((*ALL, "sharded-8.0"))) == expected
    assert case.topologies(["single"]) == ["single"]


def test_files_and_the_command_line_name_further_tests_for_sharded_clusters(tmp_path: Path) -> None:
    file = write(tmp_path / "own.json", unified(1))
    for pattern, expected in (("own", (*REAL, "sharded")), ("o*", (*REAL, "sharded")), ("other", REAL)):
        (case,) = cases_of(suites_file(file, sharded=(pattern,)))
        assert tuple(case.topologies(ALL)) == expected
        assert case.topologies(["sharded"]) == ["sharded"]


def cases(file: Path) -> list[Case]:
    return list(cases_of(suites_file(file)))


def suites_file(file: Path, **fields: Any) -> TestFile:
    return TestFile(file, suites.Suite("own", str(file.parent), **fields))


def test_every_replica_set_has_the_members_that_the_command_line_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[str, int]] = []

    def start(topology: str, *, has_auth: bool, members: int) -> Any:
        started.append((topology, members))
        raise BadTest("enough was seen")

    monkeypatch.setattr(Environment, "start", start)
    file = write(tmp_path / "own.json", unified(1))
    for topology, arguments in (("replicaset", []), ("replicaset", ["--members", "3"]), ("single", ["--members", "3"])):
        with pytest.raises(BadTest, match="enough"):
            command.main([str(file), "--topology", topology, *arguments])
    assert started == [("replicaset", 1), ("replicaset", 3), ("single", 1)]
    with pytest.raises(SystemExit):
        command.main([str(file), "--members", "8"])
    assert "--members" in capsys.readouterr().err


# --- what suites.toml says of a file ---


@needs_data
def test_a_copy_of_a_file_has_its_deviations_and_skips(tmp_path: Path) -> None:
    for skip in suites.load().skips:
        assert suites.load().skip_of(f"/somewhere/{skip.file}", str(skip.test)) is skip
        assert suites.load().skip_of(f"/somewhere-{skip.file}", str(skip.test)) is None
    (deviation,) = (one for one in suites.load().deviations if "single-threaded" in one.file)
    test = {**URI, "description": deviation.test, "uri": "mongodb://a/?serverSelectionTryOnce=true", "options": {}}
    content = listed(**test, hosts=None)
    write(tmp_path / f"{deviation.file}.json", content)
    (record,) = records_of(tmp_path, status=0, report_file=tmp_path / "records")
    assert record["kind"] == "deviation"


# --- tests that are changed ---

TEST = {
    "description": "one",
    "operations": [
        {"name": "failPoint", "arguments": {"data": {"blockTimeMS": 60, "blockConnection": True}}},
        {"name": "find", "arguments": {"timeoutMS": 100, "limit": 2}},
    ],
    "expectEvents": [{"command": {"maxTimeMS": {"$$lte": 70}, "limit": 2}}, {"command": {"maxTimeMS": 5}}],
}


def test_values_are_replaced_by_their_place() -> None:
    path = "operations.0.arguments.data.blockTimeMS"
    found = changes.replaced(TEST, {path: 160, "operations.1.arguments.maxTimeMS": 7})
    assert found["operations"][0]["arguments"]["data"] == {"blockTimeMS": 160, "blockConnection": True}
    assert found["operations"][1]["arguments"] == {"timeoutMS": 100, "limit": 2, "maxTimeMS": 7}
    assert TEST["operations"][0]["arguments"]["data"]["blockTimeMS"] == 60  # type: ignore[index]


@pytest.mark.parametrize("path", ["operations.2.name", "operations.name", "nothing.name", "description.name"])
def test_a_value_without_a_place_is_told(path: str) -> None:
    with pytest.raises(BadTest, match=path):
        changes.replaced(TEST, {path: 1})


def test_all_times_are_longer() -> None:
    found = changes.slowed(TEST, 5)
    assert found["operations"][0]["arguments"]["data"] == {"blockTimeMS": 300, "blockConnection": True}
    assert found["operations"][1]["arguments"] == {"timeoutMS": 500, "limit": 2}
    assert found["expectEvents"] == [
        {"command": {"maxTimeMS": {"$$lte": 350}, "limit": 2}},
        {"command": {"maxTimeMS": 25}},
    ]
    exists = {"maxTimeMS": {"$$exists": True}, "wtimeout": {"$$type": ["int", "long"]}}
    assert changes.slowed(exists, 5) == exists
    assert changes.slowed({"$where": "sleep(2000) || true"}, 4) == {"$where": "sleep(8000) || true"}


@pytest.mark.parametrize(
    ("slower", "is_busy", "paces"),
    [((), True, [1]), ((5,), True, [1, 5]), ((5, 10), True, [1, 5, 10]), ((5,), False, [1])],
)
@pytest.mark.parametrize("ends", ["passed", "failed"])
def test_a_test_that_fails_on_a_busy_machine_has_another_chance_with_longer_times(
    slower: tuple[int, ...],
    is_busy: bool,
    paces: list[int],
    ends: judge.Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(Contention, "was_busy", is_busy)

    def judged(case: Case, environment: Environment, backend: str, slower: int) -> judge.Record:
        seen.append(slower)
        outcome = ends if slower == paces[-1] != 1 else "failed"
        return judge.Record("own", "file", "test", backend, "single", outcome, f"reason {slower}\nmore")

    monkeypatch.setattr(judge, "_judged", judged)
    environment: Any = None
    (case,) = cases_of(suites_file(write(tmp_path / "own.json", unified(1)), slower=slower))
    record = judge.judge(case, environment, "trio")
    assert seen == paces
    if len(paces) > 1 and ends == "passed":
        assert (record.outcome, record.kind) == ("passed", "pace")
        assert record.reason == f"times {paces[-1]} times as long; with those of the file: reason 1"
    else:
        assert (record.outcome, record.reason) == ("failed", f"reason {paces[-1]}\nmore")


@pytest.mark.parametrize(("stalled", "is_busy"), [(0, False), (10_000_000, True)])
def test_whether_processes_waited(stalled: int, is_busy: bool, tmp_path: Path) -> None:
    pressure = tmp_path / "cpu"
    line = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    pressure.write_text(line.format(77))
    contention = Contention(pressure)
    pressure.write_text(line.format(77 + stalled))
    assert contention.was_busy is is_busy


def test_a_kernel_that_hides_it(tmp_path: Path) -> None:
    assert Contention(tmp_path / "missing").was_busy


# --- a cursor without documents ---


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_cursor_that_has_nothing_for_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tailable cursor would go on for ever."""

    class Tailable:
        alive = True

        async def next(self) -> Any:
            raise StopAsyncIteration

    monkeypatch.setattr(cursor_operations, "_PATIENCE", 0.0)
    monkeypatch.setattr(cursor_operations, "_step_timeout", lambda cursor: None)
    with pytest.raises(Failed, match="in vain"):
        await cursor_operations._iterate_until_document_or_error(Tailable(), {})
