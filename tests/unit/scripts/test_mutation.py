"""A small project whose tests notice some mutants, and the report about them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from scripts.mutants import mutants
from scripts.mutation import KILLED, SURVIVED, TIMED_OUT, UNTESTED, Measured, equivalents, key, report, table

REPOSITORY: Final = Path(__file__).resolve().parents[3]
MODULE: Final = """
from contextlib import contextmanager

LIMIT = 3

def settle(n):
    while n:
        n = n // 2
    return n

def untested(n):
    return n * LIMIT

def is_many(n):
    return n > LIMIT

@contextmanager
def within(names):
    yield set(names)

class Base:
    def __init__(self):
        self.kind = str()

class Child(Base):
    def __init__(self):
        super().__init__()
"""
TESTS: Final = """
import pytest
from sample.code import Child, is_many, settle, within

def test_settle():
    assert settle(4) == 0

@pytest.mark.parametrize("n", [1, 4])
def test_is_many(n):
    assert is_many(n) is (n == 4)

def test_within():
    with within("ab") as found:
        assert found == {"a", "b"}

def test_child():
    assert Child().kind == ""

@pytest.mark.real_time
def test_left_out():
    assert False
"""
JUDGE: Final = """
import json, sys
from pathlib import Path
from scripts.mutation import judge
from scripts.mutants import mutants
root = Path.cwd()
tree, found = mutants((root / "sample/code.py").read_text(), "sample/code.py")
verdicts = judge(root, {"sample/code.py": tree}, found, {"cases": "test_", "cases/test_broken.py": False}, 2)
print(json.dumps([(mutant.change, verdict) for mutant, verdict in zip(found, verdicts)]))
"""


@pytest.mark.slow
@pytest.mark.real_time
def test_mutants_are_judged(tmp_path: Path) -> None:
    (tmp_path / "sample").mkdir()
    (tmp_path / "sample" / "__init__.py").touch()
    (tmp_path / "sample" / "code.py").write_text(MODULE)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "test_sample.py").write_text(TESTS)
    (tmp_path / "cases" / "test_broken.py").write_text("def test_broken():\n    assert False\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\nmarkers = real_time\n")
    done = subprocess.run(
        [sys.executable, "-c", JUDGE],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verdicts = dict(json.loads(done.stdout))
    assert verdicts == {
        # Executed at import.
        "3 -> 4": KILLED,
        "3 -> 2": SURVIVED,
        "n -> not n": KILLED,
        "n // 2 -> n / 2": SURVIVED,
        "2 -> 3": SURVIVED,
        "2 -> 1": TIMED_OUT,
        "return n -> return None": KILLED,
        "return n * LIMIT -> return None": UNTESTED,
        "n * LIMIT -> n / LIMIT": UNTESTED,
        "return n > LIMIT -> return None": KILLED,
        "n > LIMIT -> n >= LIMIT": SURVIVED,
        "n > LIMIT -> n <= LIMIT": KILLED,
        "self.kind = str() -> self.kind = None": KILLED,
        # Changed is what the decorator wraps.
        "yield set(names) -> pass": KILLED,
        # The function loses the cell of its class.
        "super().__init__() -> pass": KILLED,
    }


def test_a_mutant_meets_the_tests_that_reach_it_fastest_first() -> None:
    reached = {"a.py": {"2": [2, 1], "3": [2]}, "b.py": {"2": [0], "3": [1]}}
    measured = Measured({"elsewhere": 0.1, "fast": 1.0, "slow": 2.0}, reached)
    _, found = mutants("x = 1\ndef f(): y = True\ndef g(): y = False", "a.py")
    tests = list(measured.seconds)
    found_by = {mutant.change: [tests[position] for position in measured.reaching(mutant)] for mutant in found}
    assert found_by == {
        "1 -> 2": ["fast", "slow"],
        "1 -> 0": ["fast", "slow"],
        "True -> False": ["fast", "slow"],
        "False -> True": ["slow"],
    }


LISTED: Final = {"module": "a.py", "function": "", "line": "x = 1", "change": "1 -> 2", "reason": "It is not read."}


def test_the_table_counts_equivalent_mutants_apart() -> None:
    _, found = mutants("x = 1\ny = 1", "a.py")
    known = equivalents([LISTED])
    assert key(found[0]) in known
    rows = [row.split() for row in table(found, [SURVIVED, KILLED, SURVIVED, UNTESTED], known)]
    assert rows[1] == ["a.py", "4", "1", "0", "1", "1", "1", "25.0", "33.3"]
    assert rows[2:] == [["all", *rows[1][1:]]]


@pytest.mark.parametrize(
    ("verdicts", "gate", "is_whole", "succeeds"),
    [
        ([SURVIVED, KILLED], 50.0, True, True),
        ([SURVIVED, TIMED_OUT], 50.0, True, True),
        # Equivalent mutants count against the gate, as untested ones do.
        ([SURVIVED, KILLED], 51.0, True, False),
        ([SURVIVED, UNTESTED], 1.0, True, False),
        # The list is wrong about a mutant.
        ([KILLED, KILLED], 50.0, True, False),
        ([KILLED, KILLED], 50.0, False, False),
    ],
)
def test_the_gate(
    verdicts: list[str], gate: float, is_whole: bool, succeeds: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = mutants("x = 1", "a.py")
    assert report(found, verdicts, equivalents([LISTED]), gate=gate, is_whole=is_whole) is succeeds
    assert ("a.py:1 (import): 1 -> 0    [x = 1]" in capsys.readouterr().out) is (verdicts[1] == UNTESTED)


def test_an_entry_without_its_mutant_is_only_wrong_when_all_were_made() -> None:
    _, found = mutants("x = True", "a.py")
    for is_whole in (False, True):
        assert report(found, [KILLED], equivalents([LISTED]), gate=90.0, is_whole=is_whole) is not is_whole
