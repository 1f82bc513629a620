from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from asyncio import CancelledError
from contextlib import nullcontext
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.errors import AutoReconnect, InvalidOperation
from motorlite.testing.journal import Begun, Ended, Journal, as_line, from_line, operations, read

if TYPE_CHECKING:
    from pathlib import Path

    from motorlite.testing.journal import Outcome

BEGUN = Begun(3, 1, "insert", {"collection": "a", "ids": ["ä\n", 2]}, 1.5)
ENDED = Ended(3, "unknown", {"applied": [2]}, 2.25)


@pytest.mark.parametrize("entry", [BEGUN, ENDED])
def test_a_line_is_the_entry(entry: Any) -> None:
    assert from_line(as_line(entry)) == entry
    assert "\n" not in as_line(entry)


@pytest.mark.parametrize("line", ["[1]", "{}", '[1,"perhaps",{},2]', '[1,2,"count",[],3]'])
def test_a_line_that_is_no_entry(line: str) -> None:
    with pytest.raises(ValueError, match="not an entry"):
        from_line(line)


def test_entries_have_times_and_numbers_of_their_own() -> None:
    journal = Journal(count(10).__next__, first=7)
    process = journal.new_process()
    operation = journal.begin(process, "transfer", source=1, id="t")
    journal.end(operation, "ok", value=4)
    journal.observe(journal.new_process(), "change", stream="s")
    assert journal.entries == [
        Begun(7, 7, "transfer", {"source": 1, "id": "t"}, 10),
        Ended(7, "ok", {"value": 4}, 11),
        Begun(8, 8, "change", {"stream": "s"}, 12),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (AutoReconnect("lost"), "unknown"),
        (InvalidOperation("refused"), "failed"),
        (ValueError("of another"), "unknown"),
        (CancelledError(), "unknown"),
    ],
)
def test_a_block_is_an_operation(error: BaseException | None, outcome: Outcome) -> None:
    if isinstance(error, AutoReconnect):
        error.may_have_been_executed = True
    journal = Journal(count(10).__next__)
    with (
        nullcontext() if error is None else pytest.raises(type(error)),
        journal.operation(5, "count", counter="c") as result,
    ):
        assert journal.entries == [Begun(0, 5, "count", {"counter": "c"}, 10)]
        result["value"] = 1
        if error is not None:
            raise error
    assert journal.entries[1:] == [Ended(0, outcome, {"value": 1}, 11)]


def test_a_file_is_continued_and_its_torn_line_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(lambda: 1.0, path) as journal:
        journal.begin(journal.new_process(), "count", counter="c")
    with path.open("a") as file:
        file.write('[0,"ok",{"val')
    assert read(path) == journal.entries
    with Journal(lambda: 2.0, path) as second:
        assert second.entries == journal.entries
        assert second.new_process() == 1
        assert second.begin(1, "count", counter="c") == 1
    assert read(path) == second.entries


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_text("hello\ntorn")
    with pytest.raises(ValueError, match="Expecting value"):
        Journal(lambda: 1.0, path)
    assert path.read_text() == "hello\ntorn"


def test_a_detail_that_json_cannot_hold_is_not_written(tmp_path: Path) -> None:
    with Journal(lambda: 1.0, tmp_path / "journal") as journal, pytest.raises(TypeError):
        journal.begin(0, "count", counter=object())
    assert journal.entries == read(tmp_path / "journal") == []
    in_memory = Journal(lambda: 1.0)
    with pytest.raises(TypeError):
        in_memory.begin(0, "count", counter=object())
    assert in_memory.entries == []


def test_an_entry_for_which_there_is_no_room_leaves_no_torn_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "journal", os.write

    def full(file: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "no space left")
        return write(file, data[:20])

    with Journal(lambda: 1.0, path) as journal:
        journal.begin(0, "count", counter="c")
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(OSError, match="no space left"):
                journal.begin(0, "count", counter="d")
        assert len(journal.entries) == 1
        journal.begin(0, "count", counter="e")
    assert read(path) == journal.entries


def test_it_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys\nfrom motorlite.testing.journal import Journal\n"
        "journal = Journal(lambda: 1.0, sys.argv[1])\njournal.begin(0, 'count', counter='c')\nos.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "journal")], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [entry.id for entry in read(tmp_path / "journal")] == [0]


def test_operations_join_their_entries() -> None:
    first = Begun(4, 2, "count", {"counter": "c"}, 1)
    late, open_ended = operations([BEGUN, first, ENDED, Begun(5, 3, "count", {}, 1.7)])[1:]
    assert operations([BEGUN, first])[0].begun == first
    assert (late.kind, late.outcome, late.begin, late.end) == ("insert", "unknown", 1.5, inf)
    assert late.details == BEGUN.details
    assert late.result == {"applied": [2]}
    assert late.entries == (BEGUN, ENDED)
    assert (open_ended.outcome, open_ended.end, open_ended.result) == ("unknown", inf, {})
    assert operations([first, Ended(4, "failed", {}, 9)])[0].end == 9


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([BEGUN, BEGUN], "two entries like"),
        ([BEGUN, ENDED, ENDED], "two entries like"),
        ([ENDED], "no beginning for"),
        ([BEGUN, Ended(3, "ok", {}, 1)], "no beginning for"),
        ([Begun(1, 1, "change", {}, 1), Ended(1, "ok", {}, 2)], "no beginning for"),
    ],
)
def test_a_journal_that_contradicts_itself(entries: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        operations(entries)
