"""Every Python block of README and documentation is run, against real servers, in a process of its own.

`PAGES` lists the pages whose blocks need more than that. What is not Python is checked by tests/test_code_blocks.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

from tests.live.clients import NO_WORD_ABOUT_SLOW_STEPS
from tests.support.block_checks import statements
from tests.support.code_blocks import LOCAL, REPOSITORY, Block, Program, blocks, documents, programs
from tests.support.documented_programs import PAGES, PYTEST, certificates

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from motorlite.testing import LocalServer

USUAL: Final = PAGES[""]
PROGRAMS: Final = [
    pytest.param(program, id=program.name) for page in documents() for program in programs(page, PAGES.get(page, USUAL))
]
FIRST: Final = programs("README.md", PAGES.get("README.md", USUAL))[0]
# Pages whose programs a newcomer runs, one after the other and against the same server: each has to succeed a second
# time, also when the database is as README's program left it.
AGAIN: Final = (
    "README.md",
    "docs/index.md",
    "docs/install.md",
    "docs/tutorial.md",
    "docs/tutorial-trio.md",
    "docs/change-streams.md",
    "docs/documents.md",
    "docs/events.md",
    "docs/gridfs.md",
    "docs/overload.md",
    "docs/timeouts.md",
    "docs/transactions.md",
    "docs/troubleshooting.md",
)
TWICE: Final = [program for page in AGAIN for program in programs(page, PAGES.get(page, USUAL))]
FILES: Final = {page: [block for block in blocks(page) if block.file] for page in documents()}
RUN: Final = f"{NO_WORD_ABOUT_SLOW_STEPS}\nimport runpy; runpy.run_path('program.py', run_name='__main__')"
KEPT: Final = ("admin", "config", "local", "motorlite_test_")


@pytest.fixture
def empty(replica_set: LocalServer) -> Iterator[LocalServer]:
    """A replica set of our own; what a program leaves there is dropped."""
    yield replica_set
    listed = replica_set.command({"listDatabases": 1, "nameOnly": True})["databases"]
    # Those of other tests go away with the server: to drop hundreds of them takes half a minute.
    for name in [entry["name"] for entry in listed if not entry["name"].startswith(KEPT)]:
        replica_set.command({"dropDatabase": 1}, name)


def run(folder: Path, uri: str, *arguments: str, strict: bool = True) -> subprocess.CompletedProcess[str]:
    """Run Python as a reader does; if `strict`, with warnings as errors and in development mode."""
    # A program of pytest finds no configuration in its folder.
    plugin = "-o asyncio_default_fixture_loop_scope=function"
    set_here = {"PYTHONPATH": str(REPOSITORY), "MONGODB_URI": uri, "NO_COLOR": "1", "PYTEST_ADDOPTS": plugin}
    return subprocess.run(
        [sys.executable, *(("-W", "error", "-X", "dev") if strict else ()), *arguments],
        cwd=folder,
        env=os.environ | set_here,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(program: Program, empty: LocalServer, tmp_path: Path) -> None:
    if "beanie" in program.text:
        pytest.importorskip("beanie", reason="no release of Beanie permits Python 3.14 or later")
    if "tlsCAFile" in program.text:
        certificates(tmp_path)
    name = "test_program.py" if program.is_for_pytest else "program.py"
    (tmp_path / name).write_text(LOCAL.sub(empty.uri, program.text), encoding="utf-8")
    done = run(
        tmp_path, empty.uri, *(PYTEST if program.is_for_pytest else ("-c", RUN)), strict=not program.is_for_motor
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if program.printed is not None:
        assert done.stdout.splitlines() == list(program.printed)
    assert program.words in done.stdout
    if not program.is_for_motor:
        assert re.fullmatch(program.logged, done.stderr), done.stderr
    if program in TWICE:
        (tmp_path / "first.py").write_text(LOCAL.sub(empty.uri, FIRST.text), encoding="utf-8")
        assert run(tmp_path, empty.uri, "first.py").returncode == 0
        again = run(tmp_path, empty.uri, "-c", RUN)
        assert again.returncode == 0, again.stderr
        assert program.printed is None or again.stdout == done.stdout


@pytest.mark.parametrize("page", [page for page, found in FILES.items() if found])
def test_files(page: str, empty: LocalServer, tmp_path: Path) -> None:
    how = PAGES[page]
    for block in FILES[page]:
        write(block, tmp_path, empty.uri)
    assert how.commands
    for command in how.commands:
        done = run(tmp_path, empty.uri, *command)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout, f"{command} shows nothing"


def write(block: Block, folder: Path, uri: str) -> None:
    assert block.file is not None
    target = folder / block.file
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(LOCAL.sub(uri, block.text), encoding="utf-8")


def test_all_pages_that_need_more_exist() -> None:
    assert PAGES.keys() - {""} <= set(documents())


def test_every_case_belongs_to_one_block() -> None:
    for page, how in PAGES.items():
        for case in how.cases:
            found = [block.name for block in blocks(page) if case.mark in block.text]
            assert len(found) == 1, (page, case.mark, found)


def test_statements_for_the_shell(empty: LocalServer) -> None:
    found = [block for page in documents() for block in blocks(page) if block.language == "javascript"]
    assert found
    for block in found:
        for database, command in statements(block.text):
            assert empty.command(command, database)["n"] == 1
    # Where the last one says that there is no limit.
    found_there = empty.command({"find": "cmongo_settings"}, "config")["cursor"]["firstBatch"]
    empty.command({"drop": "cmongo_settings"}, "config")
    assert found_there == [{"_id": "maxTimeMS", "value": 0}]
