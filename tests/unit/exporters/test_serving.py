"""The thread of the live view: who may read, and what a reader that does not read costs."""

from __future__ import annotations

import json
import os
import socket
import stat
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from motorlite import AsyncMongoClient
from motorlite._execution.watching import Watch
from motorlite._options.options import client_options
from motorlite.exporters import Live, _serving, _sockets, live
from motorlite.exporters._serving import MOST_READERS, Server, again, name_of
from motorlite.stats import ClientStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from motorlite._options.options import ClientOptions

INTERVAL = 0.02


class Core:
    """A client that says how often it was asked."""

    def __init__(self, size: int = 0) -> None:
        self.is_watched = False
        self.retries = {"x" * size: 1}

    @property
    def options(self) -> ClientOptions:
        return client_options("mongodb://db.example/?appName=shop")

    def stats(self) -> ClientStats:
        return ClientStats({}, 1.0, 1.0, self.retries, {}, 0)

    def watch(self) -> dict[str, Any] | None:
        self.is_watched = True
        return Watch().report(0.0)

    def end_watch(self) -> None:
        self.is_watched = False


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "view.sock")


@contextmanager
def serving(path: str, core: Core, **settings: float) -> Iterator[Server]:
    server = Server(path, INTERVAL, **settings)
    server.show(core)
    try:
        yield server
    finally:
        server.close()
        assert not server._thread.is_alive()
        assert not os.path.exists(path)


def until(condition: Callable[[], object]) -> None:
    end = time.perf_counter() + 10
    while not condition():
        assert time.perf_counter() < end
        time.sleep(0.005)


def read(sock: socket.socket, lines: int = 1) -> list[dict[str, Any]]:
    with sock.makefile("rb") as stream:
        return [json.loads(stream.readline()) for _ in range(lines)]


def test_a_client_is_followed_while_there_is_a_reader(path: str) -> None:
    core = Core()
    with serving(path, core) as server:
        assert not core.is_watched
        with _sockets.connect(path) as one, _sockets.connect(path) as other:
            assert [line["clients"][0]["name"] for line in read(one, 3)] == ["shop"] * 3
            assert read(other)[0]["pid"] == os.getpid()
            assert core.is_watched
            assert len(server._readers) == 2
        until(lambda: not server._readers)
        until(lambda: not core.is_watched)
        with _sockets.connect(path) as one:
            read(one)
            assert core.is_watched
    assert not core.is_watched


def test_a_reader_that_does_not_read_is_dropped(path: str) -> None:
    core = Core(size=2_000_000)  # more than a socket takes
    with serving(path, core, patience=0.2) as server, _sockets.connect(path) as lazy, _sockets.connect(path) as keen:
        until(lambda: len(server._readers) == 2)
        (first, _) = server._readers.values()
        until(lambda: first.left)
        line = first.left.obj
        read(keen, 5)
        assert first.left.obj is line, "no second snapshot is kept for it"
        with keen.makefile("rb") as stream:
            while len(server._readers) == 2:
                stream.readline()
        assert lazy.recv(1)
        assert read(keen)


def test_too_many_readers_are_turned_away(path: str) -> None:
    with serving(path, Core()) as server:
        readers = [_sockets.connect(path) for _ in range(MOST_READERS)]
        until(lambda: len(server._readers) == MOST_READERS)
        with _sockets.connect(path) as further:
            further.settimeout(10)
            assert further.recv(1) == b""
        for reader in readers:
            read(reader)
            reader.close()


def test_another_user_gets_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = Core()
    with serving(path, core) as server:
        with monkeypatch.context() as patch:
            patch.setattr(_sockets, "is_of_this_user", lambda peer: False)
            with pytest.raises(PermissionError, match="runs as another user"):
                _sockets.connect(path)
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(path)
                stranger.settimeout(10)
                assert stranger.recv(1) == b""
        assert not server._readers
        assert not core.is_watched


def test_a_user_is_known_by_the_credentials_of_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        assert _sockets.is_of_this_user(one)
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        # What root may read anyway it may see here.
        assert _sockets.is_of_this_user(one) is (mine == 0)
        monkeypatch.delattr(socket, "SO_PEERCRED")
        assert _sockets.is_of_this_user(one), "the permissions of the file have to do"


# --- the file ---


def test_the_permissions_of_the_socket(path: str) -> None:
    with serving(path, Core()):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_path_that_is_taken(path: str, tmp_path: Path) -> None:
    with serving(path, Core()), pytest.raises(FileExistsError, match="another program has its socket"):
        Server(path)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileExistsError, match="is no socket"):
        Server(str(tmp_path / "file"))
    with pytest.raises(FileNotFoundError):
        Server(str(tmp_path / "nowhere" / "view.sock"))


def test_a_path_that_a_killed_program_left(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with serving(path, Core()), _sockets.connect(path) as reader:
        assert read(reader)


def test_a_folder_that_others_may_enter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert list(_sockets.found()) == []
    folder = tmp_path / "motorlite"
    folder.mkdir(mode=0o755)
    with pytest.raises(PermissionError, match="no one else may enter"):
        live()
    with pytest.raises(PermissionError, match="no one else may enter"):
        list(_sockets.found())
    folder.chmod(0o700)
    (folder / "notes.txt").write_text("", encoding="utf-8")
    assert list(_sockets.found()) == []
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionError, match="no one else may enter"):
        live()


def test_the_folder_without_a_runtime_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert _sockets.folder().endswith(f"/motorlite-{os.geteuid()}")


# --- live ---


def test_one_view_for_each_path(path: str) -> None:
    client: AsyncMongoClient[Any] = AsyncMongoClient("mongodb://db.example")
    with live(client, path=path) as view:
        assert isinstance(view, Live)
        assert repr(view) == f"<Live at {path!r}>"
        second = live(path=path)
        assert second.path == view.path == path
        assert _serving._servers[path]._chosen is None, "now it shows all clients"
        with _sockets.connect(path) as reader:
            assert read(reader)[0]["clients"] == [], "the client has not begun"
    assert not os.path.exists(path)
    with live(path=path) as later:
        view.close()
        second.close()
        assert os.path.exists(path), "the view that was closed is another one"
        assert live(path=path)._server is later._server


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"client": 1}, "an AsyncMongoClient or None"), ({"path": 1}, "a string or None")],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        live(**arguments)


def test_what_changes_while_it_is_read_is_read_again() -> None:
    answers: list[Any] = [RuntimeError("dictionary changed size during iteration")] * 3

    def change() -> str:
        if answers:
            raise answers.pop()
        return "read"

    assert again(change) == "read"
    answers += [RuntimeError("dictionary changed size during iteration")] * 10
    with pytest.raises(RuntimeError, match="changed size"):
        again(change)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("mongodb://a.example,b.example:27018", "a.example:27017,b.example:27018"),
        ("mongodb://a.example/?appName=shop", "shop"),
        ("mongodb+srv://cluster.example.com", "cluster.example.com"),
    ],
)
def test_the_name_of_a_client(uri: str, name: str) -> None:
    assert name_of(client_options(uri)) == name
