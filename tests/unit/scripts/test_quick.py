"""Which tests `make quick` runs for a change."""

from __future__ import annotations

import pytest

from scripts import quick


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (["README.md", "motorlite/py.typed"], []),
        (["motorlite/_pool/state.py", "motorlite/_pool/queue.py"], ["tests/unit/_pool"]),
        (["motorlite/_wire/frames.py"], ["tests/unit/_wire"]),
        (["motorlite/_connection/auth/scram.py"], ["tests/unit/_connection/auth"]),
        # A folder holds what is below it.
        (["motorlite/_connection/auth/scram.py", "motorlite/_connection/messages.py"], ["tests/unit/_connection"]),
        (["motorlite/results.py"], ["tests/unit/test_results.py"]),
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
