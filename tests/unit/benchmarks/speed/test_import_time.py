from __future__ import annotations

import argparse
import subprocess
from typing import Any

import pytest

from benchmarks.speed import import_time
from benchmarks.speed.import_time import heaviest

TEXT = """import time: self [us] | cumulative | imported package
import time:       120 |        120 |   zlib
import time:      2000 |       2120 |     motorlite.errors
import time:       500 |       2620 | motorlite
"""


def test_the_heaviest_come_first() -> None:
    assert heaviest(TEXT, 2) == [("motorlite.errors", "2.0", "2.1"), ("motorlite", "0.5", "2.6")]


@pytest.mark.parametrize(("seconds", "status"), [(0.119, 0), (0.121, 1)])
def test_the_median_decides(
    seconds: float, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    class Done:
        returncode = 0
        stderr = TEXT
        stdout = f"0.1 {seconds}"

    def python(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        asked.append(arguments[-1])
        found: Any = Done()
        if arguments[-1].endswith("print(*sys.modules)"):
            found.stdout = "motorlite ssl"
        return found  # type: ignore[no-any-return]

    monkeypatch.setattr(import_time, "_python", python)
    parser = argparse.ArgumentParser()
    import_time.add_arguments(parser)
    assert import_time.run(parser.parse_args(["--rounds", "3", "--uri", "mongodb://h"])) == status
    text = capsys.readouterr().out
    assert "motorlite.errors" in text
    assert text.rstrip().splitlines()[-2].endswith(": ssl")
    # One more round than measured: the first may have written bytecode.
    assert sum("import motorlite;" in one for one in asked) == 4
    assert sum("from motorlite import AsyncMongoClient" in one and "'mongodb://h'" in one for one in asked) == 4


def test_a_program_that_aborts_after_its_figures_counts(capsys: pytest.CaptureFixture[str]) -> None:
    programs = {"aborts": "import os; print('0.25 0.5', flush=True); os.abort()", "ends": "print('0.5 1')"}
    assert import_time.measure(programs, 1) == {"aborts": [(250.0, 500.0)], "ends": [(500.0, 1000.0)]}
    said = "aborts: 2 of 2 interpreters failed after they had printed their times, which count"
    assert capsys.readouterr().out.split("\n") == [said, "", ""]


def test_a_program_that_prints_nothing_fails_the_measurement() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        import_time.measure({"aborts": "import os; os.abort()"}, 1)


def test_a_fresh_interpreter_imports_the_driver() -> None:
    found = import_time._python("-X", "importtime", "-c", "import motorlite").stderr
    assert "motorlite" in [module for module, _, _ in heaviest(found, 10_000)]
