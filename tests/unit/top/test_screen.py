"""Sections on a terminal."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

from rich.console import Console

from motorlite._execution.watching import Followed, Watch
from motorlite.exporters._snapshots import client_snapshot, program_snapshot
from motorlite.top._model import MOST_ROWS
from motorlite.top._screen import screen
from tests.unit.exporters import snapshots

FACTS = {"pid": 7, "program": "shop.py", "motorlite": "1.2.3"}


def text(snapshot: dict[str, Any], width: int = 140) -> str:
    console = Console(width=width, file=StringIO(), color_system=None)
    console.print(screen(None, snapshot))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def test_a_screen() -> None:
    watch = Watch()
    Followed(watch, "find", "shop", "[bold]", 0.0).succeeded(5.0)
    client = client_snapshot(1, "orders", snapshots.FULL, watch.report(5.0))
    shown = text(json.loads(program_snapshot(FACTS, 5.0, [client])))
    assert shown.startswith("motorlite top   shop.py   pid 7   motorlite 1.2.3")
    for title in ("client 1: orders", "operations per second", "phases", "servers and their pools", "limits"):
        assert title in shown
    assert "shop.[bold]" in shown, "a name is no markup"


def test_names_cannot_move_the_cursor() -> None:
    watch = Watch()
    Followed(watch, "find", "shop", "a\x1b[2J\nb", 0.0).succeeded(5.0)
    client = client_snapshot(1, "\x1b[Horders", snapshots.FULL, watch.report(5.0))
    shown = text(json.loads(program_snapshot({**FACTS, "program": "\x1b[2Jshop"}, 5.0, [client])))
    assert "\x1b" not in shown
    assert shown.startswith(r"motorlite top   \x1b[2Jshop   pid 7")
    assert r"shop.a\x1b[2J\nb" in shown
    assert r"client 1: \x1b[Horders" in shown


def test_rows_that_are_left_out_are_counted() -> None:
    watch = Watch()
    for number in range(MOST_ROWS + 2):
        Followed(watch, f"command{number}", "shop", None, 0.0).succeeded(0.001)
    client = client_snapshot(1, "orders", snapshots.FULL, watch.report(5.0))
    assert "and 2 more" in text(json.loads(program_snapshot(FACTS, 5.0, [client])))


def test_a_program_without_a_client() -> None:
    assert "no client has begun an operation yet" in text(json.loads(program_snapshot(FACTS, 5.0, [])))


def test_a_narrow_terminal() -> None:
    client = client_snapshot(1, "orders", snapshots.FULL, Watch().report(5.0))
    shown = text(json.loads(program_snapshot(FACTS, 5.0, [client])), width=60)
    assert max(map(len, shown.splitlines())) <= 60


def test_numbers_are_whole_where_the_terminal_is_narrow() -> None:
    watch = Watch()
    for _ in range(1234):
        Followed(watch, "find", "shop", "parts", 0.0).succeeded(0.0004)
    client = client_snapshot(1, "orders", snapshots.FULL, watch.report(5.0))
    before = client_snapshot(1, "orders", snapshots.FULL, Watch().report(4.0))
    older, newer = (json.loads(program_snapshot(FACTS, time, [each])) for time, each in ((4.0, before), (5.0, client)))
    console = Console(width=80, file=StringIO(), color_system=None)
    console.print(screen(older, newer))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    (operations,) = (line.split() for line in lines if line.startswith(" find"))
    assert operations[:2] == ["find", "1,234"]
    assert operations[-2:] == ["0.5", "ms"]


def test_what_is_empty_says_so() -> None:
    client = client_snapshot(1, "orders", snapshots.client(servers={}), Watch().report(5.0))
    shown = text(json.loads(program_snapshot(FACTS, 5.0, [client])))
    # Phases have the sum of all of them.
    assert shown.count("none") == 5
