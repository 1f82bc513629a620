from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING

import pytest

from benchmarks.instructions import command
from benchmarks.instructions.command import Count, render
from benchmarks.instructions.counting import CountingError, Job
from benchmarks.instructions.marks import DECODE, LOOP, Part
from benchmarks.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that were counted, without counting anything."""
    jobs: list[Job] = []

    def count(job: Job) -> list[float]:
        jobs.append(job)
        return [1000.0, 1002.0]

    def parts(_job: Job) -> tuple[dict[str, Part], list[str]]:
        return {}, []

    def compiled(_root: Path) -> None:
        return None

    monkeypatch.setattr(Job, "count", count)
    monkeypatch.setattr(Job, "parts", parts)
    monkeypatch.setattr(command, "compile_driver", compiled)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    return jobs


def test_other_drivers_are_counted_once_and_this_one_for_each_commit(
    counted: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(arguments("HEAD")) == 0
    assert [job.arm for job in counted] == ["bare", "motorlite", "motorlite"]
    assert counted[1].root != ROOT
    assert not counted[1].root.exists()  # the worktree is gone
    assert counted[2].root == ROOT
    assert "working tree" in capsys.readouterr().out


def test_the_bare_protocol_only_reads_one_document(counted: list[Job]) -> None:
    assert command.run(arguments("--operation", "insert_many", "--documents", "100", "--tasks", "1")) == 0
    (job,) = counted
    assert (job.arm, job.documents, job.tasks) == ("motorlite", 100, 1)


def test_without_valgrind_nothing_is_counted(
    counted: list[Job], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert command.run(arguments()) == 1
    assert counted == []
    assert "valgrind is missing" in capsys.readouterr().err


callgrind = pytest.mark.skipif(shutil.which("vgdb") is None, reason="needs valgrind")


@callgrind
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_program_has_the_same_number_of_instructions() -> None:
    job = Job("bare", "find_one", tasks=1, documents=1, warm_up=50, each=50, samples=3)
    samples = job.count()
    assert max(samples) < min(samples) * 1.01
    assert 10_000 < min(samples) < 300_000


@callgrind
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_client_that_fails_is_an_error() -> None:
    with pytest.raises(CountingError, match="ended before it was warm"):
        Job("bare", "insert_one", tasks=1, documents=1, warm_up=5, each=5, samples=2).count()


BARE = Count("bare", "", [60_000, 64_000], {}, [])
OURS = Count("motorlite", "abc", [124_000, 124_000], {DECODE: Part(30_000, 1), LOOP: Part(99_000, 4)}, ["m:gone"])


def test_a_total_is_the_mean_of_its_samples() -> None:
    assert BARE.total == 62_000
    assert pytest.approx(2000 / 62_000) == BARE.error


def test_the_tables_have_totals_ratios_parts_and_what_is_missing() -> None:
    text = render([BARE, OURS])
    lines = [line.split() for line in text.splitlines()]
    assert ["motorlite", "abc", "124.00", "2.00", "0.00", "%"] in lines
    assert ["decode", "29.0"] in lines
    assert ["total", "124.0"] in lines
    assert "has no m:gone" in text


def test_without_the_bare_protocol_there_is_no_ratio() -> None:
    assert "  -  " in render([OURS])
    assert "by part" not in render([BARE])
