"""Which tests `make quick` runs for a change, and how results are counted."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from scripts import check
from scripts.check import Result

REGISTRIES = {f"tests/{registry}" for registry in check.REGISTRIES}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["README.md", "motorlite/py.typed"], []),
        (["motorlite/_pool/state.py", "motorlite/_pool/pool.py"], ["tests/unit/_pool"]),
        (["motorlite/_wire/frames.py"], ["tests/unit/_wire"]),
        (["motorlite/_connection/auth/scram.py"], ["tests/unit/_connection/auth"]),
        # A folder holds what is below it.
        (["motorlite/_connection/auth/scram.py", "motorlite/_connection/messages.py"], ["tests/unit/_connection"]),
        (["motorlite/results.py"], ["tests/unit/test_results.py"]),
        (["motorlite/monitoring.py"], ["tests/unit/_observe", "tests/unit/test_monitoring.py"]),
        (["motorlite/testing/scripted.py"], ["tests/unit/testing"]),
        (["motorlite/_client/core.py"], ["tests/sim/test_connecting.py", "tests/sim/test_lifetimes.py"]),
        (["tests/unit/_pool/test_state.py", "tests/support/core.py"], ["tests/unit/_pool/test_state.py"]),
        (["scripts/check.py"], ["tests/unit/scripts"]),
        (["motorlite/gone.py", "tests/unit/test_gone.py"], []),
    ],
)
def test_mirrored(changed: list[str], expected: list[str]) -> None:
    assert check.mirrored(changed) == expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("motorlite/_operations/collections.py", {"tests/unit/_operations", *REGISTRIES}),
        ("motorlite/_api/collection/reads.py", {"tests/unit/_api/collection", *REGISTRIES}),
        ("motorlite/_options/table.py", {"tests/unit/_options", *REGISTRIES}),
        # A shell is tested by simulations, an error code by the rules about retries.
        ("motorlite/_execution/executor.py", {"tests/unit/_execution", "tests/sim/test_retryable_writes.py"}),
        (
            "motorlite/errors.py",
            {"tests/unit/test_errors.py", "tests/unit/_execution", "tests/sim/test_retryable_reads.py"},
        ),
    ],
)
def test_also(changed: str, expected: set[str]) -> None:
    found = check.mirrored([changed, "motorlite/_wire/frames.py"])
    assert {path for path in expected if path not in found and path.rpartition("/")[0] not in found} == set()
    places = [path.split("/")[1] for path in found]
    assert places == sorted(places, reverse=True), "unit tests come first"


def test_everything_that_is_named_exists() -> None:
    named = {f"tests/{test}" for tests in check.ALSO.values() for test in tests}
    assert [path for path in {*check.ALSO, *named} if not (check.REPOSITORY / path).exists()] == []


@pytest.mark.parametrize(
    ("line", "outputs", "expected", "runs"),
    [
        ("mypy.dmypy run", ["Success", "unused"], True, 1),
        ("mypy.dmypy run", ["Daemon crashed!", "Success"], True, 2),
        ("mypy.dmypy run", ["Daemon crashed!", "Daemon crashed!"], False, 2),
        ("mypy.dmypy run", ["a.py:1: error", "unused"], False, 1),
        ("pytest", ["Daemon crashed!", "Success"], False, 1),
        ("ruff check && ruff format", ["a.py:1: error", "Success"], False, 2),
    ],
)
def test_a_crashed_daemon_gets_another_chance(
    monkeypatch: pytest.MonkeyPatch, line: str, outputs: list[str], expected: bool, runs: int
) -> None:
    left = list(outputs)

    def perform(line: str, is_quick: bool = False) -> CompletedProcess[str]:
        text = left.pop(0)
        return CompletedProcess(line, 0 if text == "Success" else 2, stdout=text)

    monkeypatch.setattr(check, "perform", perform)
    assert check.run("part", line, is_quick=True).succeeded is expected
    assert len(outputs) - len(left) == runs


def test_nothing_to_run_is_no_failure_of_a_quick_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "perform", lambda line, _is_quick: CompletedProcess(line, 5, stdout=""))
    assert check.run("unit", "pytest", is_quick=True).succeeded
    assert not check.run("unit", "pytest").succeeded


def test_the_output_of_a_quick_check_is_shown_when_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """The word with a star is a file."""
    assert check.run("one", "json.tool pyproject.tom*", is_quick=True).succeeded is False
    assert check.run("two", "json.tool spec-tests/suites/token-bucket/capacity.jso*", is_quick=True).succeeded
    out = capsys.readouterr().out
    assert "Expecting value" in out
    assert "the bucket" not in out


def test_one_line_counts_the_tests_of_all_parts() -> None:
    results = [
        Result("unit", True, 1.0, "1 failed in prose\n====== 5 passed, 1 skipped in 3.21s ======\nWrote coverage"),
        Result("sim", False, 2.0, "2 failed, 3 passed, 1 error, 4 warnings in 61.00s (0:01:01)"),
        Result("ruff", True, 0.5, "All checks passed!"),
    ]
    lines = check.summary(results, 4.0).splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == ["ok", "FAILED", "ok"]
    assert lines[-1] == "===== 2 failed, 8 passed, 1 skipped, 1 error in 4.00s ====="
    assert "=====" not in check.summary(results[2:], 1.0)


def test_every_package_has_tests() -> None:
    packages = [
        path for path in (check.REPOSITORY / "motorlite").iterdir() if path.is_dir() and path.name != "__pycache__"
    ]
    without = [
        path.name
        for path in packages
        if not check.mirrored([f"motorlite/{path.name}/anything.py"]) and list(path.glob("[a-z]*.py"))
    ]
    assert without == []


def test_the_parts_of_a_quick_check() -> None:
    assert list(check.quick_parts([])) == ["mypy", "house", "ruff"]
    found = check.quick_parts(["motorlite/_pool/state.py"])
    assert list(found) == ["mypy", "unit", "house", "ruff"]
    assert found["unit"].endswith("-m 'not slow' tests/unit/_pool")
