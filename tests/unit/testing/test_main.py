"""The arguments and errors of ``python -m motorlite.testing``, without servers."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from motorlite.testing import LocalServer, ServerNotFound
from motorlite.testing.__main__ import main, parse
from motorlite.testing.server.mongod_processes import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator


class Started(LocalServer):
    """Stands in for a running server."""

    def __init__(self) -> None:
        self.uri = "mongodb://127.0.0.1:27017/?replicaSet=rs0"
        self.version = "6.0.5"


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """Take back the handlers that the command installs."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start_with(monkeypatch: pytest.MonkeyPatch, error: BaseException | None = None) -> list[Any]:
    """Record the arguments of `LocalServer.start`, which raises `error` or starts a server that is interrupted."""
    started: list[Any] = []

    @contextmanager
    def start(*arguments: Any, **more: Any) -> Iterator[Started]:
        started.append((arguments, more))
        if error is not None:
            raise error
        yield Started()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN

    monkeypatch.setattr(LocalServer, "start", start)
    return started


def test_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    started = start_with(monkeypatch, KeyboardInterrupt())
    for arguments in ([], ["--port", "4000", "--nodes", "3", "--auth", "--tls"], ["--standalone"]):
        assert main(arguments) == 0
    assert started == [
        (("replicaset",), {"nodes": 1, "auth": False, "tls": False, "port": 27017}),
        (("replicaset",), {"nodes": 3, "auth": True, "tls": True, "port": 4000}),
        (("standalone",), {"nodes": 1, "auth": False, "tls": False, "port": 27017}),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "0"], "--port must be from 1 to 65535"),
        (["--port", "65534", "--nodes", "3"], "--port must be from 1 to 65533"),
        (["--port", "http"], "invalid int value: 'http'"),
        (["--nodes", "0"], "--nodes must be from 1 to 7"),
        (["--nodes", "8"], "--nodes must be from 1 to 7"),
        (["--standalone", "--nodes", "2"], "leave out --standalone"),
        (["--stand"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(arguments)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("usage: python -m motorlite.testing ")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PortUnavailable("port 1 cannot be used: busy"), "port 1 cannot be used: busy; choose another one with --port"),
        (ServerNotFound("there is none"), "there is none"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
    ],
)
def test_errors_are_said_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    start_with(monkeypatch, error)
    assert main([]) == 1
    assert capsys.readouterr() == ("", f"{said}\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    start_with(monkeypatch)
    # In the place of waiting.
    monkeypatch.setattr("select.select", lambda *_: signal.raise_signal(number))
    assert main([]) == 0
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
    assert capsys.readouterr() == (
        "MongoDB 6.0.5, replica set of 1 member\n"
        "mongodb://127.0.0.1:27017/?replicaSet=rs0\n"
        "Ctrl-C ends it and removes its data\n",
        "",
    )


def test_an_interrupt_that_python_discards_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)

    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    start_with(monkeypatch)
    monkeypatch.setattr("select.select", lambda *_: str(Interrupted()))
    assert main([]) == 0
    assert unraisable
