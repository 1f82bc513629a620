"""Programs that outlive the process that starts them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from motorlite._net.processes import start_detached

if TYPE_CHECKING:
    from pathlib import Path


def test_starts_a_program_with_its_arguments(tmp_path: Path) -> None:
    program, made = tmp_path / "program", tmp_path / "made"
    program.write_text('#!/bin/sh\nprintf "%s" "$1" > "$2.part" && mv "$2.part" "$2"\n')
    program.chmod(0o755)
    assert start_detached([str(program), "two words", str(made)])
    until = time.monotonic() + 20
    while not made.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert made.read_text() == "two words"


def test_says_that_there_is_no_such_program(tmp_path: Path) -> None:
    assert not start_detached([str(tmp_path / "missing")])
