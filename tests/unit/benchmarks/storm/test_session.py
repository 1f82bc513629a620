"""A session in a file."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.storm import session as module
from benchmarks.storm.scenario import Change, Server
from benchmarks.storm.session import SessionError, load, machine, save
from tests.unit.benchmarks.storm_runs import SUSTAINED, Shape, make_run, make_session

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["s.json", "new/s.json.gz"])
def test_a_session_survives_its_file(tmp_path: Path, name: str) -> None:
    scenario = replace(
        SUSTAINED,
        servers=(Server(), Server(mode="queue", base_backoff=0.1)),
        changes=(Change(1.0, 2.0, servers=(0, 1), failure_rate=0.2),),
        tags=frozenset({"standard", "a"}),
        family="f",
    )
    session = make_session({"default": Shape(), "pymongo": Shape(share=0.7)}, scenario, seeds=2)
    save(session, tmp_path / name)
    again = load(tmp_path / name)
    assert (again.scenarios, again.arms, again.facts) == (session.scenarios, session.arms, session.facts)
    assert [record.summary for record in again.records] == [record.summary for record in session.records]
    assert [record.run.series for record in again.records] == [record.run.series for record in session.records]
    assert len(again.records[0].run.requests) == again.records[0].summary.requests


def test_of_a_sweep_only_the_figures_are_kept() -> None:
    session = make_session({"default": Shape()}, replace(SUSTAINED, family="f", point=(("load", 0.9),)), seeds=1)
    (record,) = session.records
    assert not record.run.requests
    assert record.summary.requests > 1000


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "is not a session"),
        (b'{"kind": "motorlite storm", "schema": 99}', "has schema 99; this version reads 1"),
        (b'{"kind": "motorlite storm", "schema": 1}', "is damaged"),
        (b'{"kind": "motorlite storm", "schema": 1, "scenarios": [{}]}', "is damaged"),
        (gzip.compress(json.dumps({"kind": "motorlite storm"}).encode(), mtime=0), "has schema None"),
        (gzip.compress(b"[" * 1000, mtime=0)[:20], "is not JSON"),
    ],
)
def test_a_file_that_is_no_session_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / ("s.json.gz" if data.startswith(b"\x1f\x8b") else "s.json")
    path.write_bytes(data)
    with pytest.raises(SessionError, match=message):
        load(path)


def test_groups_are_in_the_scenarios_order_and_leave_out_what_is_not_valid() -> None:
    session = make_session({"pymongo": Shape(), "default": Shape()}, seeds=2)
    for arm, reason in (("default", "too slow"), ("default", "too slow"), ("own", "too fast")):
        run = make_run(arm, seed=9)
        run.invalid = [reason]
        session.add(run)
    seed, pymongo, own = session.groups("sustained", "twin")
    assert [group.arm for group in (seed, pymongo, own)] == ["default", "pymongo", "own"]
    assert (len(seed.records), seed.left_out, seed.invalid) == (2, 2, ("too slow",))
    assert (pymongo.left_out, own.records, own.invalid) == (0, (), ("too fast",))
    assert own.estimates["share"].n == 0
    run = make_run()
    run.backend = "sockets"
    session.add(run)
    assert session.backends("sustained") == ["sockets", "twin"]
    assert session.all_groups() == [*session.groups("sustained", "sockets"), seed, pymongo, own]


def test_facts_about_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = machine("storm sustained")
    assert facts["command"] == "storm sustained"
    assert facts["date"].endswith("UTC")
    assert all(facts.values())
    monkeypatch.setattr(module, "CPUS", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A Processor @ 2 GHz\n", encoding="utf-8")
    assert machine()["cpu"].endswith(" x A Processor @ 2 GHz")
