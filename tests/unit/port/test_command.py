"""The command line: exit statuses, folders, files that are no Python, encodings and line endings."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.port._command import main

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = "from pymongo import AsyncMongoClient\n"
AFTER = "from motorlite import AsyncMongoClient\n"
BY_HAND = "import pymongo\npymongo.has_c()\n"


def test_it_lists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    file.write_text(BEFORE)
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{file}:1: write: from pymongo import AsyncMongoClient -> from motorlite import AsyncMongoClient",
        "1 file: 1 difference, --write changes 1",
    ]
    assert file.read_text() == BEFORE


def test_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    file.write_text(BEFORE)
    file.chmod(0o755)
    assert main(["--write", "--quiet", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 file: 1 difference, 1 changed in 1 file\n"
    assert file.read_text() == AFTER
    assert file.stat().st_mode & 0o777 == 0o755
    assert main(["--write", str(file)]) == 0
    assert capsys.readouterr().out == "1 file: 0 differences, 0 changed in 0 files\n"
    assert os.listdir(tmp_path) == ["a.py"]


def test_what_is_left_by_hand_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text(BEFORE + BY_HAND)
    assert main(["--write", str(tmp_path)]) == 1
    assert "1 by hand" in capsys.readouterr().out
    assert main([str(tmp_path)]) == 1
    assert "1 difference, 1 by hand" in capsys.readouterr().out


def test_the_synchronous_api_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("from pymongo import MongoClient\n")
    assert main([str(tmp_path)]) == 0
    assert "1 of the synchronous API, which stay with PyMongo" in capsys.readouterr().out


def test_folders_of_others_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (".venv", ".git", "__pycache__", "build", "deep/site-packages", "env3"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.py").write_text(BEFORE)
    (tmp_path / "env3" / "pyvenv.cfg").touch()
    (tmp_path / "notes.txt").write_text(BEFORE)
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "0 files: 0 differences\n"


def test_folders_that_are_packages_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("build", "env"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(BEFORE)
    assert main([str(tmp_path)]) == 1
    assert "2 files: 2 differences" in capsys.readouterr().out


def test_scripts_without_an_ending_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run").write_text(f"#!/usr/bin/env python3\n{BEFORE}")
    (tmp_path / "shell").write_text(f"#!/bin/sh\n{BEFORE}")
    (tmp_path / "binary").write_bytes(b"\xff\x00" * 400)
    assert main(["--write", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("1 file: 1 difference, 1 changed in 1 file\n")
    assert (tmp_path / "run").read_text() == f"#!/usr/bin/env python3\n{AFTER}"


def test_files_that_are_no_python_do_not_stop_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("import pymongo\nprint 'two'\n")
    (tmp_path / "b.py").write_bytes(b"# -*- coding: none-such -*-\nimport pymongo\n")
    (tmp_path / "c.py").write_bytes(b"import pymongo\nx = '\xff'\n")
    (tmp_path / "d.py").write_text(BEFORE)
    (tmp_path / "e.py").symlink_to(tmp_path / "nothing")
    (tmp_path / "f.py").write_text("import pymongo\n\x0cx = 1\n")
    (tmp_path / "g.py").write_text(f"import pymongo\nx = {' + '.join('y' * 2000)}\n")
    (tmp_path / "h.py").write_text(f"import pymongo\nx = {' + '.join('y' * 380)}\n")
    (tmp_path / "i.py").write_bytes(b"import pymongo\nx = 'a\0b'\n")
    (tmp_path / "j.py").write_bytes(b"import pymongo\n\0\n")
    (tmp_path / "k.py").write_text("import pymongo\nx = '\\N{NO SUCH CHARACTER}'\n")
    assert main(["--write", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert sorted(line.partition(": ")[0] for line in output.err.splitlines()) == [
        str(tmp_path / f"{n}.py") for n in "abcefghij"
    ]
    assert "9 files not read" in output.out
    assert (tmp_path / "d.py").read_text() == AFTER
    # LibCST takes what this version of Python does not.
    assert (tmp_path / "k.py").read_text().startswith("import motorlite\n")


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbffrom pymongo import TEXT\n",
        "# -*- coding: latin-1 -*-\nfrom pymongo import TEXT\nx = 'ü'\n".encode("latin-1"),
        b"from pymongo import TEXT\r\nx = 1\r\n",
        b"from pymongo import TEXT\nx = 1\r\n",
        b"from pymongo import TEXT",
        b"if 1:\n\tfrom pymongo import TEXT\n\t\t# a comment\n\tpass   \n\n\n",
    ],
)
def test_everything_else_stays(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(content)
    assert main(["--write", str(tmp_path)]) == 0
    assert file.read_bytes() == content.replace(b"pymongo", b"motorlite")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text(BEFORE)
    (tmp_path / "a.py").symlink_to("real.txt")
    assert main(["--write", str(tmp_path)]) == 0
    assert (tmp_path / "a.py").is_symlink()
    assert (tmp_path / "real.txt").read_text() == AFTER


def test_a_file_is_whole_if_it_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.py"
    file.write_text(BEFORE)

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    assert main(["--write", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.err == f"{file}: cannot be written: No space left on device\n"
    assert "0 changed in 0 files" not in output.err
    assert file.read_text() == BEFORE
    assert os.listdir(tmp_path) == ["a.py"]


def test_a_file_that_was_edited_in_the_meantime_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody saves b.py while the command writes a.py."""
    edited = BEFORE + "edited = True\n"
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text(BEFORE)
    replace = os.replace

    def replaced(source: str, target: Path) -> None:
        replace(source, target)
        if target.name == "a.py":
            (tmp_path / "b.py").write_text(edited)

    monkeypatch.setattr("os.replace", replaced)
    assert main(["--write", "--quiet", str(tmp_path)]) == 1
    output = capsys.readouterr()
    assert output.err == (
        f"{tmp_path / 'b.py'}: cannot be written: it was edited after it was read; run the command again\n"
    )
    assert output.out == "3 files: 3 differences, 2 changed in 2 files, 1 file not read or not written\n"
    assert [(tmp_path / name).read_text() for name in ("a.py", "b.py", "c.py")] == [AFTER, edited, AFTER]
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py", "c.py"]
    # The next run has nothing in its way.
    assert main(["--write", "--quiet", str(tmp_path)]) == 0
    assert (tmp_path / "b.py").read_text() == AFTER + "edited = True\n"


def test_a_file_that_is_read_only_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.py"
    file.write_text(BEFORE)
    file.chmod(0o444)
    assert main(["--write", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"{file}: cannot be written: it is read-only\n"
    assert file.read_text() == BEFORE


def test_what_a_syntax_error_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.py").write_text("import pymongo\nprint 'two'\nx = 1\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path / 'a.py'}: cannot be read: line 2: Missing parentheses")


def test_notebooks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ipynb").write_text('{"cells": [{"source": ["from motor.motor_asyncio import AsyncIOMotorClient"]}]}')
    (tmp_path / "b.ipynb").write_text('{"cells": [{"source": ["import motorlite"]}]}')
    assert main([str(tmp_path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / 'a.ipynb'}: cannot be read: it is a notebook")
    assert main([str(tmp_path / "a.ipynb")]) == 1
    assert main([str(tmp_path / "b.ipynb")]) == 0


def test_a_pipe_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "a.py")
    (tmp_path / "b.pyw").write_text(BEFORE)
    assert main([str(tmp_path)]) == 1
    assert "1 file: 1 difference" in capsys.readouterr().out


def test_a_reader_that_stops_does_not_stop_the_changes(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(BEFORE)
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "motorlite.port", "--write", str(tmp_path)]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(tmp_path / name).read_text() for name in ("a.py", "b.py")] == [AFTER, AFTER]


def test_a_terminal_that_lacks_characters(tmp_path: Path) -> None:
    (tmp_path / "ü.py").write_text(BEFORE)
    command = [sys.executable, "-m", "motorlite.port", str(tmp_path)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\\xfc.py:1: write: " in done.stdout


# --- large programs ---


@pytest.mark.parametrize(
    "expression",
    [" + ".join("y" * 20_000), "y" + ".a()" * 20_000, "(" * 5000 + "y" + ")" * 5000, "not " * 20_000 + "y"],
    ids=["sum", "calls", "parentheses", "not"],
)
def test_an_expression_without_end_takes_no_time(
    expression: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LibCST's parser takes minutes for the first of these, and overflows the stack at others."""
    (tmp_path / "a.py").write_text(f"import pymongo\nx = {expression}\n")
    (tmp_path / "b.py").write_text(BEFORE)
    start = time.process_time()
    assert main(["--write", str(tmp_path)]) == 1
    assert time.process_time() - start < 10
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / 'a.py'}: cannot be read: ")
    assert "too deeply" in line or "too many nested" in line
    assert (tmp_path / "b.py").read_text() == AFTER


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.py").write_text(BEFORE)
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: 6.0 * next(times))
    assert main(["--quiet", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        *(f"motorlite.port: read {number} of 3 files" for number in range(3)),
        *(f"motorlite.port: compared {number} of 3 files" for number in range(3)),
    ]


def test_a_terminal_has_one_line_of_progress(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text(BEFORE)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: 0.2 * next(times))
    assert main([str(tmp_path)]) == 1
    clear = "\r\x1b[K"
    lines = [f"{clear}motorlite.port: {what} 0 of 1 files" for what in ("read", "compared")]
    assert terminal.getvalue() == "".join(lines) + clear
    assert capsys.readouterr().out.endswith("1 file: 1 difference, --write changes 1\n")


# --- wrong use ---


def test_a_path_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing")]) == 2
    assert "no such file or folder" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "status"), [([], 2), (["--wrong", "."], 2), (["--help"], 0)])
def test_usage(arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == status
    output = capsys.readouterr()
    assert "python -m motorlite.port" in output.out + output.err


def test_without_the_extra(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_libcst(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "libcst":
            raise ImportError(name)
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_libcst)
    assert main([str(tmp_path)]) == 2
    assert "pip install 'motorlite[port]'" in capsys.readouterr().err


def test_it_is_a_module(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BEFORE + f"x = {' + '.join('y' * 900)}\n")
    command = [sys.executable, "-m", "motorlite.port", "--quiet", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "1 file: 1 difference, --write changes 1\n")
    # A slow machine shows the progress.
    assert not [line for line in done.stderr.splitlines() if " compared " not in line]
