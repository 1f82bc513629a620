"""Which tests `make quick` runs for a change."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from scripts import quick


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["README.md", "motorlite/py.typed"], []),
        (["motorlite/_pool/state.py", "motorlite/_admission/pool_queue.py"], ["tests/unit/_pool"]),
        (["motorlite/_wire/frames.py"], ["tests/unit/_wire"]),
        (["motorlite/_connection/auth/scram.py"], ["tests/unit/_connection/auth"]),
        # A folder holds what is below it.
        (["motorlite/_connection/auth/scram.py", "motorlite/_connection/messages.py"], ["tests/unit/_connection"]),
        (["motorlite/results.py"], ["tests/unit/test_results.py"]),
        (["motorlite/event_loggers.py"], ["tests/unit/test_event_loggers.py"]),
        (["motorlite/testing/scripted.py"], ["tests/unit/testing"]),
        (["motorlite/_client/core.py"], ["tests/sim/test_connecting.py", "tests/sim/test_lifetimes.py"]),
        (["tests/unit/_pool/test_state.py", "tests/support/core.py"], ["tests/unit/_pool/test_state.py"]),
        (["scripts/quick.py"], ["tests/unit/scripts"]),
        (["motorlite/gone.py", "tests/unit/test_gone.py"], []),
    ],
)
def test_mirrored(changed: list[str], expected: list[str]) -> None:
    assert quick.mirrored(changed) == expected


def test_a_shell_is_tested_by_simulations() -> None:
    found = quick.mirrored(["motorlite/_execution/executor.py"])
    assert "tests/unit/_execution" in found
    assert "tests/sim/test_retryable_writes.py" in found


@pytest.mark.parametrize(
    ("changed", "its_own"),
    [
        ("motorlite/_operations/collections.py", "tests/unit/_operations/schema"),
        ("motorlite/_api/collection/reads.py", "tests/unit/_api/collection"),
        ("motorlite/_options/table.py", "tests/unit/_options"),
        ("motorlite/monitoring.py", "tests/unit/_observe"),
    ],
)
def test_the_registries_are_always_among_them(changed: str, its_own: str) -> None:
    found = quick.mirrored([changed])
    assert its_own in found
    for registry in quick.REGISTRIES:
        path = f"tests/{registry}"
        assert (quick.REPOSITORY / path).is_file()
        assert path in found or path.rpartition("/")[0] in found


def test_an_error_code_is_tested_by_the_rules_about_retries() -> None:
    found = quick.mirrored(["motorlite/errors.py"])
    assert {"tests/unit/test_errors.py", "tests/unit/_execution", "tests/sim/test_retryable_reads.py"} <= set(found)


def test_unit_tests_come_first() -> None:
    found = quick.mirrored(["motorlite/_retry/decision.py", "motorlite/_wire/frames.py"])
    places = [path.split("/")[1] for path in found]
    assert places == sorted(places, reverse=True)
    assert set(places) == {"unit", "sim"}


def test_everything_that_is_named_exists() -> None:
    named = {f"tests/{test}" for tests in quick.ALSO.values() for test in tests}
    assert [path for path in {*quick.ALSO, *named} if not (quick.REPOSITORY / path).exists()] == []


@pytest.mark.parametrize(
    ("name", "outputs", "expected", "runs"),
    [
        ("mypy", ["Success", "unused"], True, 1),
        ("mypy", ["Daemon crashed!", "Success"], True, 2),
        ("mypy", ["Daemon crashed!", "Daemon crashed!"], False, 2),
        ("mypy", ["a.py:1: error", "unused"], False, 1),
        ("house", ["Daemon crashed!", "Success"], False, 1),
    ],
)
def test_a_crashed_daemon_gets_another_chance(
    monkeypatch: pytest.MonkeyPatch, name: str, outputs: list[str], expected: bool, runs: int
) -> None:
    left = list(outputs)

    def perform(arguments: list[str]) -> CompletedProcess[str]:
        text = left.pop(0)
        return CompletedProcess(arguments, 0 if text == "Success" else 2, stdout="", stderr=text)

    monkeypatch.setattr(quick, "perform", perform)
    assert quick.run(name, []) is expected
    assert len(outputs) - len(left) == runs


def test_every_package_has_tests() -> None:
    packages = [
        path for path in (quick.REPOSITORY / "motorlite").iterdir() if path.is_dir() and path.name != "__pycache__"
    ]
    without = [
        path.name
        for path in packages
        if not quick.mirrored([f"motorlite/{path.name}/anything.py"]) and list(path.glob("[a-z]*.py"))
    ]
    assert without == []


def test_the_commands() -> None:
    assert "unit" not in quick.commands([])
    assert quick.commands(["tests/unit/_pool"])["unit"][-3:] == ["-m", "not slow", "tests/unit/_pool"]
    assert "tests/test_architecture.py" in quick.commands([])["house"]
