"""The command line, and how findings are shown."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from motorlite.doctor._command import main, parse
from motorlite.doctor._finding import Finding, Severity, Step, exit_status
from motorlite.doctor._rendering import CRASHED, INTERRUPTED, Json, Plain, Rendering, Rich, make_rendering

GOOD = Finding(Step.HELLO, Severity.OK, "MongoDB 7", "", "a:1", {"version": "7"})
BAD = Finding(Step.ADDRESS, Severity.ERROR, "[red]refused", "start it", "a:1")
NOTED = Finding(Step.URI, Severity.WARNING, "doubtful", "remove it")


def shown(rendering: Rendering, *findings: Finding) -> None:
    rendering.waiting("waiting for [b]")
    for finding in findings:
        rendering.report(finding)
    rendering.end(findings, exit_status(findings))


def test_plain() -> None:
    out = io.StringIO()
    shown(Plain(out), NOTED, NOTED, BAD, GOOD)
    assert out.getvalue() == (
        "connection string\n  warning doubtful\n          -> remove it\n  warning doubtful\n          -> remove it\n"
        "addresses: a:1\n  ERROR   [red]refused\n          -> start it\n"
        "hello: a:1\n  ok      MongoDB 7\n"
        "The first step that fails: addresses (exit status 5; 2 warnings)\n"
    )


def test_health() -> None:
    out = io.StringIO()
    shown(Plain(out), GOOD, GOOD, NOTED)
    assert out.getvalue().endswith("A client with this connection string works (1 warning)\n")


def test_json() -> None:
    out = io.StringIO()
    shown(Json(out), GOOD, BAD)
    document = json.loads(out.getvalue())
    assert (document["exit_status"], document["failed_step"]) == (5, "address")
    assert document["findings"][0] == {
        "step": "hello",
        "severity": "ok",
        "server": "a:1",
        "text": "MongoDB 7",
        "advice": None,
        "facts": {"version": "7"},
    }


def test_rich_shows_progress_and_no_markup_of_servers() -> None:
    out = io.StringIO()
    shown(Rich(Console(file=out, force_terminal=True, width=100, color_system=None)), NOTED, NOTED, BAD, GOOD)
    text = out.getvalue()
    assert "waiting for [b]" in text
    assert "[red]refused" in text
    assert "→ start it" in text
    assert "exit status 5" in text


def test_a_narrow_terminal() -> None:
    out = io.StringIO()
    long = Finding(Step.HELLO, Severity.ERROR, "word " * 30, "https://" + "@" * 90, "db-with-a-long-name.example.com:1")
    shown(Rich(Console(file=out, width=40, color_system=None)), long)
    assert max(map(len, out.getvalue().splitlines())) <= 40
    assert out.getvalue().count("@") == 90


@pytest.mark.parametrize(("is_terminal", "kind"), [(True, Rich), (False, Plain)])
def test_the_output_decides(is_terminal: bool, kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    class Output(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert type(make_rendering(Output(), as_json=False)) is kind
    assert type(make_rendering(Output(), as_json=True)) is Json


def test_without_rich_it_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert type(make_rendering(io.StringIO(), as_json=False)) is Plain


@pytest.mark.parametrize(
    "arguments", [[], ["--timeout", "0", "mongodb://a"], ["--timeout", "nan", "mongodb://a"], ["a", "b"]]
)
def test_wrong_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as error:
        parse(arguments)
    assert error.value.code == 2


def test_a_wrong_uri_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("http://u:hunter2@host/\n"))
    assert main(["-", "--json"], asyncio.run) == Step.URI.value
    out = capsys.readouterr().out
    assert json.loads(out)["failed_step"] == "uri"
    assert "hunter2" not in out


def test_an_interruption_shows_what_was_found(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(coroutine: Any) -> None:
        coroutine.close()
        raise KeyboardInterrupt

    assert main(["mongodb://localhost"], interrupted) == INTERRUPTED
    assert capsys.readouterr().out == "Interrupted before the last step (exit status 130)\n"
    assert main(["mongodb://localhost", "--json"], interrupted) == INTERRUPTED
    assert json.loads(capsys.readouterr().out)["exit_status"] == INTERRUPTED


def test_a_crash_does_not_look_like_health(capsys: pytest.CaptureFixture[str]) -> None:
    def crashing(coroutine: Any) -> None:
        coroutine.close()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        main(["mongodb://localhost"], crashing)
    assert capsys.readouterr().out == "The doctor crashed before the last step (exit status 1)\n"


def test_a_reader_of_the_output_that_has_had_enough() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "motorlite.doctor", "http://host/"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == CRASHED


def test_the_module_runs() -> None:
    command = [sys.executable, "-m", "motorlite.doctor", "http://host/"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert run.returncode == Step.URI.value
    assert "a connection string begins with mongodb://" in run.stdout
    assert run.stderr == ""
