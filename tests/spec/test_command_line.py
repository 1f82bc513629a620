"""The command line: what it runs, prints and writes, and its exit status."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.spec import __main__ as command
from tests.spec import finding, formats, report, suites
from tests.spec.files import TestFile
from tests.spec.finding import NotRun
from tests.spec.own_files import FILES, UNIFIED, needs_data, records_of, write
from tests.spec.suites import Suite
from tests.spec.unified.judge import Record
from tests.support import specifications

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def test_there_is_an_example_of_every_format() -> None:
    assert set(FILES) == {suites.UNIFIED, *formats.FORMATS}


@pytest.mark.parametrize("name", FILES)
def test_a_failure_of_any_format_is_told(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "some suite"
    for number, content in enumerate(FILES[name]):
        file = write(folder / f"{number}.json", content)
        assert TestFile(file, Suite("", "", format=None)).format == name
    options = ["--backend", "asyncio", "--topology", "single"]
    found = records_of(folder, *options, status=command.FAILED, report_file=tmp_path / "report.json")
    assert [record["outcome"] for record in found] == ["passed", "failed"]
    assert [record["suite"] for record in found] == ["some suite"] * 2
    needs_loop = name == suites.UNIFIED or formats.FORMATS[name].needs_loop
    assert {record["backend"] for record in found} == {"asyncio" if needs_loop else "-"}
    assert found[1]["reason"].startswith("Failed: "), "what was expected and what was found"
    out = capsys.readouterr().out
    assert found[1]["reason"].splitlines()[0] in out
    assert "2 tests in 2 files, 2 runs: 1 passed, 1 failed, 0 skipped" in out
    assert records_of(folder / "0.json", *options, status=0, report_file=tmp_path / "report.json") == [
        {**found[0], "seconds": pytest.approx(0, abs=60)}
    ]


# --- what is run ---


def test_backends_are_chosen(tmp_path: Path) -> None:
    write(tmp_path / "cmap.json", FILES["cmap"][0])
    write(tmp_path / "uri.json", FILES["uri-options"][0])
    for chosen, expected in (("both", ["asyncio", "trio", "-"]), ("trio", ["trio", "-"])):
        found = records_of(tmp_path, "--backend", chosen, status=0, report_file=tmp_path / "records")
        assert [record["backend"] for record in found] == expected


def test_tests_are_chosen_by_their_description(tmp_path: Path) -> None:
    tests = [{**FILES["uri-options"][0]["tests"][0], "description": name} for name in ("First", "second", "second")]
    write(tmp_path / "uri.json", {"tests": tests})
    found = records_of(tmp_path, "--match", "SECOND", status=0, report_file=tmp_path / "records")
    assert [record["test"] for record in found] == ["second", "second (2)"]
    found = records_of(tmp_path, "--match", "uri: first", status=0, report_file=tmp_path / "records")
    assert [record["test"] for record in found] == ["First"]


def test_a_file_is_run_once_however_often_it_is_named(tmp_path: Path) -> None:
    file = write(tmp_path / "uri.json", FILES["uri-options"][0])
    assert len(records_of(tmp_path, file, tmp_path, status=0, report_file=tmp_path / "records")) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"tests": [{"description": "x"}]}', "is in no format that is known"),
        ('["tests"]', "is in no format that is known"),
        ("{", "is not JSON"),
    ],
)
def test_a_file_that_cannot_be_understood_is_an_error(
    content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text(content)
    for path in (file, tmp_path):
        assert command.main([str(path)]) == command.NOT_RUN
        assert f"{file} {told}" in capsys.readouterr().err


def test_what_is_not_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "uri.json", FILES["uri-options"][0])
    assert command.main([str(file), "--match", "something else"]) == command.NOT_RUN
    assert "there is no such test" in capsys.readouterr().err
    assert command.main(["no-such-suite"]) == command.NOT_RUN
    assert "there is no no-such-suite" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert command.main([str(tmp_path / "empty")]) == command.NOT_RUN
    assert "there is no test file in" in capsys.readouterr().err


def test_a_list_of_tests_that_is_missing_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "uri-options" / "tests" / "none.json", {"tests": []})
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path))
    assert command.main(["uri-options"]) == command.FAILED
    assert "uri-options/tests/none: the file" in capsys.readouterr().out


@needs_data
@pytest.mark.parametrize(
    "fields",
    [{}, {"tests": []}, {"tests": [1]}, {"runOnRequirements": 1}, {"tests": [{"runOnRequirements": [1]}]}],
)
def test_a_malformed_unified_file_is_a_failure(fields: Mapping[str, Any], tmp_path: Path) -> None:
    file = write(tmp_path / "malformed.json", {**UNIFIED, **fields})
    arguments = [file, "--backend", "asyncio", "--topology", "single"]
    (record,) = records_of(*arguments, status=command.FAILED, report_file=tmp_path / "records")
    assert record["reason"].startswith("InvalidFile: ")


@needs_data
def test_a_part_of_a_public_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = records_of("uri-options", status=0, report_file=tmp_path / "records")
    files = {record["file"] for record in found}
    assert len(files) == len(specifications.load("uri-options/tests"))
    assert {record["suite"] for record in found} == {"uri-options"}
    assert "uri-options  -" in capsys.readouterr().out
    (deviation,) = (record for record in found if record["kind"])
    assert (deviation["kind"], deviation["outcome"]) == ("deviation", "passed")
    assert "single-threaded" in deviation["reason"]


@needs_data
def test_a_pending_suite_is_run_when_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ready,) = (one for one in suites.load().suites if one.name == "gridfs")
    pending = replace(ready, waits_for="files")
    changed = replace(suites.load(), suites=(pending,))
    monkeypatch.setattr(suites, "load", lambda: changed)
    waiting = list(finding.cases_of_suite(pending))
    assert {type(case) for case in waiting} == {NotRun}
    arguments = [pending.path, "--backend", "asyncio", "--topology", "single", "--match", "delete when"]
    found = records_of(*arguments, status=0, report_file=tmp_path / "records")
    assert found
    assert {record["backend"] for record in found} == {"asyncio"}
    assert {record["test"] for record in found} <= {case.description for case in waiting}
    assert not {record["reason"] for record in found} & {case.reason for case in waiting if isinstance(case, NotRun)}


# --- the data as a whole ---


def test_every_suite_has_a_format_that_there_is() -> None:
    known = {suites.UNIFIED, *formats.FORMATS}
    assert {suite.format for suite in suites.load().suites} <= known
    paths = [suite.path for suite in suites.load().suites]
    assert len(set(paths)) == len(paths)


@needs_data
def test_every_public_file_belongs_to_a_suite_or_is_excluded() -> None:
    base = specifications.root()
    assert base is not None
    listed = suites.load()
    forgotten = [
        file for file in base.rglob("*.json") if listed.suite_of(file).format is None and not listed.excluded_by(file)
    ]
    assert not forgotten


def test_every_own_file_belongs_to_a_suite() -> None:
    own = (suites.FOLDER / "suites").rglob("*.json")
    assert not [file for file in own if suites.load().suite_of(file).format is None]


@needs_data
def test_every_file_looks_like_the_format_of_its_suite() -> None:
    for suite in suites.load().suites:
        if suite.expects == "refusal" or suite.waits_for is not None:
            continue
        for file in finding.files_of(suite):
            assert TestFile(file.path, Suite("", "", format=None)).format == suite.format, file.path


@needs_data
def test_every_file_of_a_suite_is_counted() -> None:
    base = specifications.root()
    assert base is not None
    for suite in suites.load().suites:
        if suite.is_own or not (base / suite.path).exists():
            continue
        named = {case.file if isinstance(case, NotRun) else case.file.name for case in finding.cases_of_suite(suite)}
        inner = [one.path for one in suites.load().suites if one.path.startswith(f"{suite.path}/")]
        files = [file.relative_to(base) for file in (base / suite.path).rglob("*.json")]
        counted = [file for file in files if not any(file.is_relative_to(path) for path in inner)]
        assert len(named) == len(counted)


@needs_data
def test_every_skip_and_deviation_names_a_test() -> None:
    known = {(case.file.name, case.description) for case in finding.find() if not isinstance(case, NotRun)}
    for deviation in suites.load().deviations:
        assert (deviation.file, deviation.test) in known
        assert deviation.reason
    files = {case.file if isinstance(case, NotRun) else case.file.name for case in finding.find()}
    for skip in suites.load().skips:
        assert skip.file in files
        assert skip.reason


def test_everything_that_is_not_run_says_why() -> None:
    listed = suites.load()
    assert all(suite.waits_for is None or suite.waits_for.strip() for suite in listed.suites)
    assert all(excluded.reason.strip() for excluded in listed.excluded)


# --- a suite that is not there ---


@pytest.mark.parametrize(("reason", "outcome"), [(None, "failed"), ("it may be so", "skipped")])
def test_a_public_suite_without_files_is_told(
    reason: str | None, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other" / "tests").mkdir(parents=True)
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path))
    (found,) = finding.cases_of_suite(Suite("some", "no-such-suite/tests", may_be_missing=reason))
    assert isinstance(found, NotRun)
    assert found.record.outcome == outcome
    assert found.record.reason == reason or "no-such-suite" in found.record.reason


def run_in(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != specifications.VARIABLE} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tests that has no public data near it."""
    folder = tmp_path_factory.mktemp("away") / "motorlite"
    for name in ("tests", "spec-tests"):
        ignored = shutil.ignore_patterns("__pycache__", "specifications")
        shutil.copytree(specifications.REPOSITORY / name, folder / name, ignore=ignored)
    for name in ("motorlite", "pyproject.toml"):
        (folder / name).symlink_to(specifications.REPOSITORY / name)
    return folder


def test_without_the_public_suites_the_own_ones_remain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(specifications.VARIABLE, str(tmp_path / "nowhere"))
    found = {case.suite.name for case in finding.find()}
    assert found == {suite.name for suite in suites.load().suites if suite.is_own}
    assert found


@pytest.mark.parametrize("variable", [None, "nowhere"])
def test_without_the_public_suites_the_command_says_so(variable: str | None, checkout: Path, tmp_path: Path) -> None:
    environment = {} if variable is None else {specifications.VARIABLE: str(tmp_path / variable)}
    own = next(case for case in finding.find() if case.suite.is_own)
    arguments = (
        "--backend",
        "asyncio",
        "--topology",
        "single",
        "--match",
        own.id,
        "--report",
        str(tmp_path / "records"),
    )
    done = run_in(checkout, "tests.spec", *arguments, **environment)
    told = "public suites not run: MOTORLITE_SPECIFICATIONS"
    assert told in done.stderr
    assert told in done.stdout, "at the end again"
    assert done.returncode == command.NOT_RUN, done.stdout + done.stderr
    assert {record["suite"] for record in json.loads((tmp_path / "records").read_text())} == {own.suite.name}
    done = run_in(checkout, "tests.spec", "crud", **environment)
    assert done.returncode == command.NOT_RUN
    assert told in done.stderr
    assert "there is no crud" in done.stderr


def test_without_the_public_suites_pytest_passes_and_says_so(checkout: Path) -> None:
    files = ("tests/test_public_suites.py", "tests/spec/test_formats.py", "tests/spec/test_command_line.py")
    done = run_in(checkout, "pytest", "-q", "-p", "no:cacheprovider", "-k", "not without_the_public", *files)
    assert done.returncode == 0, done.stdout
    assert "public suites not run" in done.stdout


# --- the report ---


def test_a_test_passes_when_it_passes_wherever_it_runs() -> None:
    passed = Record("suite", "file", "test", "trio", "single", "passed")
    failed = Record("suite", "file", "test", "trio", "replicaset", "failed", "reason")
    skipped = Record("suite", "file", "test", "trio", "", "skipped", "reason", "server")
    assert report.merged([passed, skipped]) == "passed"
    assert report.merged([passed, failed]) == "failed"
    assert report.merged([skipped]) == "skipped"


def test_files_and_tests_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        Record("suite", file, test, backend, "single", "passed", seconds=0.5)
        for file, test in (("one", "a"), ("one", "b"), ("two", "a"))
        for backend in ("asyncio", "trio")
    ]
    records += [Record("waiting", "three", "c", "-", "", "skipped", "it waits", "pending")]
    report.print_table(records, sys.stdout)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[:5] == [
        ["suite", "backend", "files", "tests", "passed", "failed", "skipped", "pending", "runs", "seconds"],
        ["suite", "asyncio", "2", "3", "3", "0", "0", "0", "3", "1.5"],
        ["suite", "trio", "2", "3", "3", "0", "0", "0", "3", "1.5"],
        ["waiting", "-", "1", "1", "0", "0", "1", "1", "0", "0.0"],
        ["total", "3", "4", "3", "0", "1", "1", "6", "3.0"],
    ]
    assert ["1", "waiting:", "pending:", "it", "waits"] in lines
    assert " ".join(lines[-1]) == "4 tests in 3 files, 6 runs: 3 passed, 0 failed, 1 skipped (1 of them pending) in 3 s"
