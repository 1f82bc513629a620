"""The command line, on sockets of this process."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._execution.watching import Watch
from motorlite._options.options import client_options
from motorlite.exporters import _sockets
from motorlite.exporters._serving import Server
from motorlite.exporters._snapshots import VERSION
from motorlite.top import _command
from motorlite.top._command import FINE, GONE, WRONG_USAGE, TopError, main, snapshots
from tests.unit.exporters import snapshots as samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from motorlite._options.options import ClientOptions
    from motorlite.stats import ClientStats


class Core:
    """A client with something in each section."""

    @property
    def options(self) -> ClientOptions:
        return client_options("mongodb://db.example/?appName=shop")

    def stats(self) -> ClientStats:
        return samples.FULL

    def watch(self) -> dict[str, Any]:
        return Watch().report(0.0)

    def end_watch(self) -> None:
        pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's sockets, which only this user may enter."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "140")
    found = tmp_path / "motorlite"
    found.mkdir(mode=0o700)
    return found


@contextmanager
def program(path: str | None = None, *, core: Core | None = None) -> Iterator[Server]:
    """A program with a live view."""
    core = core or Core()
    server = Server(path, 0.02)
    server.show(core)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def peer(path: Path, serve: Callable[[socket.socket], None]) -> Iterator[None]:
    """What listens at a path instead of a program."""

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connections.append(connection)
            with suppress(OSError):  # a client that only looks whether the program is there has gone again
                serve(connection)

    connections: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in connections:
                connection.close()


# --- what is shown ---


def test_a_screen_of_the_only_program(capsys: pytest.CaptureFixture[str]) -> None:
    with program():
        assert main(["--once"]) == FINE
    found = capsys.readouterr()
    assert found.err == ""
    for title in ("client 1: shop", "operations per second", "servers and their pools", "slow operations"):
        assert title in found.out


@pytest.mark.parametrize("arguments", [["--once"], ["--list"], ["--json", "--once"]], ids=" ".join)
def test_an_output_that_has_no_letters_but_those_of_ascii(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Shop(Core):
        @property
        def options(self) -> ClientOptions:
            return client_options("mongodb://db.example/?appName=B%C3%BCcher")

    output = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", output)
    with program(core=Shop()):
        assert main(arguments) == FINE
    output.seek(0)
    assert r"B\xfccher" in output.read() or arguments[0] == "--json"


def test_a_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    with program():
        assert main(["--json", "--once", str(os.getpid())]) == FINE
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["version"] == VERSION
    assert json.loads(line)["clients"][0]["name"] == "shop"


def test_json_until_the_program_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "view.sock")
    with program(path) as server:
        original = _command.snapshots

        def three(where: str) -> Any:
            for number, line in enumerate(original(where)):
                yield line
                if number == 2:
                    server.close()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_command, "snapshots", three)
            assert main(["--json", "--path", path]) == GONE
    found = capsys.readouterr()
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert len(lines) >= 3
    assert [line["time"] for line in lines] == sorted({line["time"] for line in lines})
    assert "the program has ended, or closed its live view" in found.err


def test_the_screen_goes_on_until_ctrl_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    original = _command.snapshots
    shown: list[bytes] = []

    def interrupted(where: str) -> Any:
        for line in original(where):
            if len(shown) == 3:
                raise KeyboardInterrupt
            shown.append(line)
            yield line

    monkeypatch.setattr(_command, "snapshots", interrupted)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with program():
        assert main([]) == FINE
    out = capsys.readouterr().out
    assert out.count("client 1: shop") == 3
    enter, leave = "\x1b[?1049h", "\x1b[?1049l"
    assert out.index(enter) < out.rindex(leave), "the screen is one of its own"


def test_without_a_terminal_screens_are_printed_one_below_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with program() as server:
        lines = [line for line, _ in zip(snapshots(server.path), range(3), strict=False)]
    assert _command._draw(iter(lines), is_once=False) == FINE
    assert capsys.readouterr().out.count("client 1: shop") == 2


def test_a_reader_of_the_output_that_has_had_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with program(), os.fdopen(writing, "w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert main(["--json"]) == FINE
        monkeypatch.undo()
        # What is left in the buffer goes nowhere now.
        out.write("more")
        out.flush()


def test_the_module_runs() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "motorlite.top", "--list"], capture_output=True, timeout=30, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (FINE, b"", b"")


# --- which program ---


def test_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(Core):
        def watch(self) -> Any:
            return None

    with program(), program(str(folder / "4711.sock"), core=Silent()):
        assert main(["--list"]) == FINE
    lines = sorted(capsys.readouterr().out.splitlines())
    assert len(lines) == 2
    assert any(f"{os.getpid()}" in line and "  shop  " in line for line in lines)
    assert any("    4711" in line and "no client yet" in line for line in lines)


def test_a_list_without_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == FINE
    assert capsys.readouterr().out == ""


def test_a_list_with_one_that_does_not_answer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with peer(folder / "4711.sock", lambda connection: connection.sendall(b"nonsense\n")):
        assert main(["--list"]) == FINE
    assert "4711  does not answer (" in capsys.readouterr().out


def test_a_list_with_a_name_that_moves_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    class Odd(Core):
        @property
        def options(self) -> ClientOptions:
            return client_options("localhost", appname="\x1b[2Jshop")

    with program(core=Odd()):
        assert main(["--list"]) == FINE
    assert r"  \x1b[2Jshop  " in capsys.readouterr().out


def test_several_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with program(), program(str(folder / "4711.sock")):
        assert main(["--json"]) == GONE
    said = capsys.readouterr().err
    assert "name one by its process id" in said
    assert "4711" in said


def test_no_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == GONE
    assert f"no program of this user has a live view (looked in {folder})" in capsys.readouterr().err
    assert main(["--json", "4711"]) == GONE
    assert "process 4711 has no live view" in capsys.readouterr().err
    assert main(["--json", "--path", str(folder / "4711.sock")]) == GONE
    assert "there is no program at" in capsys.readouterr().err


def test_a_folder_that_others_may_enter(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o755)
    assert main(["--json"]) == GONE
    assert "no one else may enter" in capsys.readouterr().err


# --- what goes wrong ---


@pytest.mark.parametrize("arguments", [["x"], ["--path", "a", "--list"], ["1", "2"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == WRONG_USAGE


def test_without_rich(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with program():
        assert main(["--once"]) == WRONG_USAGE
        assert "pip install 'motorlite[top]'" in capsys.readouterr().err
        assert main(["--once", "--json"]) == FINE


def test_another_version(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = b'{"version": 99, "motorlite": "9.0"}\n'
    with peer(folder / "4711.sock", lambda connection: connection.sendall(line)):
        assert main(["--once"]) == GONE
    assert "version 99" in capsys.readouterr().err


def test_a_program_that_is_frozen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_command, "_TIMEOUT", 0.05)
    path = folder / "4711.sock"
    with peer(path, lambda _connection: None), pytest.raises(TopError, match="it is frozen"):
        next(snapshots(str(path)))


def test_half_a_line_is_not_shown(folder: Path) -> None:
    def serve(connection: socket.socket) -> None:
        connection.sendall(b"{}\n{")
        connection.close()

    path = folder / "4711.sock"
    with peer(path, serve):
        lines = snapshots(str(path))
        assert next(lines) == b"{}\n"
        with pytest.raises(TopError, match="has ended"):
            next(lines)


def test_a_program_that_is_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel resets what it has not read."""
    one, other = socket.socketpair()
    monkeypatch.setattr(_sockets, "connect", lambda _path: one)
    one.sendall(b"x")
    other.close()
    with pytest.raises(TopError, match="has ended"):
        next(snapshots("/run/shop.sock"))
