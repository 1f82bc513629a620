from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import bson
import pytest

from motorlite._wire import op_msg
from motorlite._wire.frames import FrameReader
from motorlite.errors import OperationFailure, ProtocolError
from motorlite.testing.server import local_commands
from motorlite.testing.server.local_commands import (
    Access,
    CommandConnection,
    Credential,
    run_command,
    state,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from motorlite._base.values import Document

    Answer = Callable[[Document], bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.sock"


@contextmanager
def answering(path: Path, answer: Answer) -> Iterator[None]:
    """A server on a Unix domain socket, for one connection, that sends what `answer` makes of a command."""

    def serve() -> None:
        connection, _ = listener.accept()
        reader = FrameReader()
        with connection:
            while count := connection.recv_into(reader.buffer()):
                reader.received(count)
                while (frame := reader.next_frame()) is not None:
                    reply = answer(bson.decode(op_msg.parse(frame).body))
                    if not reply:
                        return
                    connection.sendall(reply)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            thread.join(20)


def reply(document: dict[str, Any]) -> bytes:
    return op_msg.encode(1, bson.encode(document))


def test_commands_over_one_connection(path: Path) -> None:
    with (
        # It accepts no second connection.
        answering(path, lambda command: reply({"ok": int("ping" in command), "command": command})),
        CommandConnection((str(path), None), Access()) as connection,
    ):
        for number in (1, 2):
            got = connection.run({"ping": number}, "data")
            assert got["command"] == {"ping": number, "$db": "data"}
        with pytest.raises(OperationFailure):
            connection.run({"pong": 1}, "data")
        assert connection.run({"ping": 3}, "data")["ok"] == 1


@pytest.mark.parametrize(
    ("credential", "missing"), [(None, "reply to buildInfo"), (Credential("u", "p"), "authenticate the user")]
)
def test_what_takes_too_long_is_named(path: Path, credential: Credential | None, missing: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(TimeoutError) as caught:
            run_command((str(path), None), {"buildInfo": 1}, "admin", Access(credential=credential), timeout=0.05)
        assert str(caught.value) == f"{path} did not {missing} within 0.05 s"


def test_an_error_reply_is_the_drivers_error(path: Path) -> None:
    answer = {"ok": 0, "code": 13, "errmsg": "not allowed", "errorLabels": ["RetryableError"]}
    with answering(path, lambda _: reply(answer)), pytest.raises(OperationFailure, match="not allowed") as caught:
        run_command((str(path), None), {"ping": 1}, "data", Access())
    assert caught.value.code == 13
    assert caught.value.error_labels == frozenset({"RetryableError"})


@pytest.mark.parametrize(
    ("answer", "error"), [(b"", ConnectionResetError), (b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError)]
)
def test_what_is_no_answer_is_an_error(path: Path, answer: bytes, error: type[Exception]) -> None:
    with answering(path, lambda _: answer), pytest.raises(error):
        run_command((str(path), None), {"ping": 1}, "data", Access())


def test_a_connection_that_is_closed_is_no_state(path: Path) -> None:
    with answering(path, lambda _: b""):
        assert state((str(path), None), Access()) == {}


@pytest.mark.parametrize("nonce_is_continued", [True, False])
def test_a_server_that_does_not_know_the_password_is_not_believed(path: Path, nonce_is_continued: bool) -> None:
    seen: list[str] = []

    def answer(command: Document) -> bytes:
        seen.append(next(iter(command)))
        if "saslStart" in command:
            nonce = command["payload"].decode().rpartition("r=")[2] if nonce_is_continued else "another"
            challenge = f"r={nonce}more,s=c2FsdA==,i=4096".encode()
            return reply({"ok": 1, "conversationId": 1, "payload": challenge, "done": False})
        return reply({"ok": 1, "conversationId": 1, "payload": b"v=d3Jvbmc=", "done": True})

    with answering(path, answer), pytest.raises(ProtocolError, match="did not prove"):
        run_command((str(path), None), {"ping": 1}, "data", Access(credential=Credential("u", "p")))
    assert "ping" not in seen


def test_waiting_in_vain_ends_with_what_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_commands, "MAX_LOOKS", 3)
    monkeypatch.setattr(local_commands, "LOOK_SECONDS", 0)
    looks = iter(range(10))
    with pytest.raises(TimeoutError, match="waiting for godot"):
        wait_until(lambda: next(looks) > 5, "godot")
    assert next(looks) == 3
