"""The command line: exit statuses, folders, files that are no Python, encodings and line endings."""

from __future__ import annotations

import builtins
import io
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from motorlite.port._command import main

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = "from pymongo import AsyncMongoClient\n"
AFTER = "from motorlite import AsyncMongoClient\n"
BY_HAND = "import pymongo\npymongo.has_c()\n"


class Run(NamedTuple):
    """What the command did: its exit status, and what it printed."""

    status: int
    out: str
    err: str


class Project:
    """The files of a folder, on which the command is run."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __setitem__(self, name: str, content: str | bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def __getitem__(self, name: str) -> str:
        return (self.folder / name).read_text()

    def run(self, *arguments: str, path: str = "") -> Run:
        return Run(main([*arguments, str(self.folder / path)]), *self._capsys.readouterr())

    def run_as_a_module(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "motorlite.port", *arguments, str(self.folder)]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(command, text=True, check=False, timeout=60, **options)


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Project:
    return Project(tmp_path, capsys)


def test_it_lists(project: Project) -> None:
    project["a.py"] = BEFORE
    done = project.run()
    assert done.status == 1
    assert done.out.splitlines() == [
        f"{project.folder / 'a.py'}:1: write: from pymongo import AsyncMongoClient -> "
        "from motorlite import AsyncMongoClient",
        "1 file: 1 difference, --write changes 1",
    ]
    assert project["a.py"] == BEFORE


def test_it_writes(project: Project) -> None:
    project["a.py"] = BEFORE
    file = project.folder / "a.py"
    file.chmod(0o755)
    assert project.run("--write", "--quiet") == Run(0, "1 file: 1 difference, 1 changed in 1 file\n", "")
    assert project["a.py"] == AFTER
    assert file.stat().st_mode & 0o777 == 0o755
    assert project.run("--write", path="a.py") == Run(0, "1 file: 0 differences, 0 changed in 0 files\n", "")
    assert os.listdir(project.folder) == ["a.py"]


def test_what_is_left_by_hand_fails(project: Project) -> None:
    project["a.py"] = BEFORE + BY_HAND
    for arguments, counted in ((("--write",), "1 by hand"), ((), "1 difference, 1 by hand")):
        done = project.run(*arguments)
        assert done.status == 1
        assert counted in done.out
    project["a.py"] = "from pymongo import MongoClient\n"
    done = project.run()
    assert done.status == 0
    assert "1 of the synchronous API, which stay with PyMongo" in done.out


def test_which_files_are_read(project: Project) -> None:
    for name in (".venv", ".git", "__pycache__", "build", "deep/site-packages", "env3"):
        project[f"{name}/a.py"] = BEFORE
    project["env3/pyvenv.cfg"] = ""
    project["notes.txt"] = BEFORE
    assert project.run() == Run(0, "0 files: 0 differences\n", "")
    # Folders that are packages, and scripts without an ending.
    project["shell"] = f"#!/bin/sh\n{BEFORE}"
    project["binary"] = b"\xff\x00" * 400
    project["build/__init__.py"] = BEFORE
    project["env/__init__.py"] = BEFORE
    project["run"] = f"#!/usr/bin/env python3\n{BEFORE}"
    project["b.pyw"] = BEFORE
    # A pipe is not read.
    os.mkfifo(project.folder / "c.py")
    done = project.run("--write")
    assert done.out.endswith("5 files: 5 differences, 5 changed in 5 files\n")
    assert project["run"] == f"#!/usr/bin/env python3\n{AFTER}"


def test_files_that_are_no_python_do_not_stop_it(project: Project) -> None:
    files: dict[str, str | bytes] = {
        "a": "import pymongo\nprint 'two'\nx = 1\n",
        "b": b"# -*- coding: none-such -*-\nimport pymongo\n",
        "c": b"import pymongo\nx = '\xff'\n",
        "f": "import pymongo\n\x0cx = 1\n",
        "g": f"import pymongo\nx = {' + '.join('y' * 2000)}\n",
        "h": f"import pymongo\nx = {' + '.join('y' * 380)}\n",
        "i": b"import pymongo\nx = 'a\0b'\n",
        "j": b"import pymongo\n\0\n",
    }
    # LibCST takes what this version of Python does not.
    readable = {"d": BEFORE, "k": "import pymongo\nx = '\\N{NO SUCH CHARACTER}'\n"}
    for name, content in (files | readable).items():
        project[f"{name}.py"] = content
    (project.folder / "e.py").symlink_to(project.folder / "nothing")
    done = project.run("--write")
    assert done.status == 1
    lines = sorted(done.err.splitlines())
    assert [line.partition(": ")[0] for line in lines] == [str(project.folder / f"{name}.py") for name in "abcefghij"]
    assert ": cannot be read: line 2: Missing parentheses" in lines[0]
    assert "9 files not read" in done.out
    assert project["d.py"] == AFTER
    assert project["k.py"].startswith("import motorlite\n")


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
def test_everything_else_stays(project: Project, content: bytes) -> None:
    project["a.py"] = content
    assert project.run("--write").status == 0
    assert (project.folder / "a.py").read_bytes() == content.replace(b"pymongo", b"motorlite")


def test_a_link_stays_a_link(project: Project) -> None:
    project["real.txt"] = BEFORE
    link = project.folder / "a.py"
    link.symlink_to("real.txt")
    assert project.run("--write").status == 0
    assert link.is_symlink()
    assert project["real.txt"] == AFTER


@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_file_is_whole_if_it_cannot_be_written(
    is_read_only: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project["a.py"] = BEFORE
    file = project.folder / "a.py"

    def fail(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    if is_read_only:
        file.chmod(0o444)
    else:
        monkeypatch.setattr("os.replace", fail)
    done = project.run("--write")
    reason = "it is read-only" if is_read_only else "No space left on device"
    assert (done.status, done.err) == (1, f"{file}: cannot be written: {reason}\n")
    assert project["a.py"] == BEFORE
    assert os.listdir(project.folder) == ["a.py"]


def test_a_file_that_was_edited_in_the_meantime_stays(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody saves b.py while the command writes a.py."""
    edited = BEFORE + "edited = True\n"
    names = ("a.py", "b.py", "c.py")
    for name in names:
        project[name] = BEFORE
    replace = os.replace

    def replaced(source: str, target: Path) -> None:
        replace(source, target)
        if target.name == "a.py":
            project["b.py"] = edited

    monkeypatch.setattr("os.replace", replaced)
    assert project.run("--write", "--quiet") == Run(
        1,
        "3 files: 3 differences, 2 changed in 2 files, 1 file not read or not written\n",
        f"{project.folder / 'b.py'}: cannot be written: it was edited after it was read; run the command again\n",
    )
    assert [project[name] for name in names] == [AFTER, edited, AFTER]
    assert sorted(os.listdir(project.folder)) == list(names)
    # The next run has nothing in its way.
    assert project.run("--write", "--quiet").status == 0
    assert project["b.py"] == AFTER + "edited = True\n"


def test_notebooks_are_named(project: Project) -> None:
    project["a.ipynb"] = '{"cells": [{"source": ["from motor.motor_asyncio import AsyncIOMotorClient"]}]}'
    project["b.ipynb"] = '{"cells": [{"source": ["import motorlite"]}]}'
    for path in ("", "a.ipynb"):
        done = project.run(path=path)
        assert done.status == 1
        (line,) = done.err.splitlines()
        assert line.startswith(f"{project.folder / 'a.ipynb'}: cannot be read: it is a notebook")
    assert project.run(path="b.ipynb").status == 0


def test_a_reader_that_stops_does_not_stop_the_changes(project: Project) -> None:
    for name in ("a.py", "b.py"):
        project[name] = BEFORE
    reader, writer = os.pipe()
    os.close(reader)
    done = project.run_as_a_module("--write", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert [project[name] for name in ("a.py", "b.py")] == [AFTER, AFTER]


def test_a_terminal_that_lacks_characters(project: Project) -> None:
    project["ü.py"] = BEFORE
    done = project.run_as_a_module(env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (1, "")
    assert "\\xfc.py:1: write: " in done.stdout


# --- large programs ---


@pytest.mark.parametrize(
    "expression",
    [" + ".join("y" * 20_000), "y" + ".a()" * 20_000, "(" * 5000 + "y" + ")" * 5000, "not " * 20_000 + "y"],
    ids=["sum", "calls", "parentheses", "not"],
)
def test_an_expression_without_end_takes_no_time(expression: str, project: Project) -> None:
    """LibCST's parser takes minutes for the first of these, and overflows the stack at others."""
    project["a.py"] = f"import pymongo\nx = {expression}\n"
    project["b.py"] = BEFORE
    start = time.process_time()
    done = project.run("--write")
    assert time.process_time() - start < 10
    (line,) = done.err.splitlines()
    assert line.startswith(f"{project.folder / 'a.py'}: cannot be read: ")
    assert "too deeply" in line or "too many nested" in line
    assert (done.status, project["b.py"]) == (1, AFTER)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_says_how_far_it_is(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        project[f"{name}.py"] = BEFORE
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: 6.0 * next(times))
    assert project.run("--quiet").err.splitlines() == [
        *(f"motorlite.port: read {number} of 3 files" for number in range(3)),
        *(f"motorlite.port: compared {number} of 3 files" for number in range(3)),
    ]


def test_a_terminal_has_one_line_of_progress(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project["a.py"] = BEFORE
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    times = iter(range(100))
    monkeypatch.setattr("time.perf_counter", lambda: 0.2 * next(times))
    assert project.run().out.endswith("1 file: 1 difference, --write changes 1\n")
    clear = "\r\x1b[K"
    lines = [f"{clear}motorlite.port: {what} 0 of 1 files" for what in ("read", "compared")]
    assert terminal.getvalue() == "".join(lines) + clear


# --- wrong use ---


def test_usage(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    done = project.run(path="nothing")
    assert done.status == 2
    assert "no such file or folder" in done.err
    for arguments, status in (([], 2), (["--wrong", "."], 2), (["--help"], 0)):
        with pytest.raises(SystemExit) as raised:
            main(arguments)
        assert raised.value.code == status
        assert "python -m motorlite.port" in "".join(capsys.readouterr())


def test_without_the_extra(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without_libcst(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "libcst":
            raise ImportError(name)
        return imported(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without_libcst)
    done = project.run()
    assert done.status == 2
    assert "pip install 'motorlite[port]'" in done.err
