"""The thread of the live view: who may read, and what a reader that does not read costs."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import threading
import time
from contextlib import contextmanager
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

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


def test_a_program_without_file_descriptors_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server = Server.__new__(Server)
    for number, expected in ((errno.EMFILE, 1), (errno.ECONNABORTED, 1), (errno.ENOBUFS, 2)):
        listener = mock.Mock()
        listener.accept.side_effect = OSError(number, "no")
        server._listener = listener
        assert server._accept(1.0) == inf, "no snapshot is due"
        assert len(pauses) == expected


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


def test_a_socket_that_cannot_be_opened_leaves_no_file(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(PermissionError):
        _sockets.listen(path)
    assert os.listdir(os.path.dirname(path)) == []


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


@pytest.mark.parametrize(
    ("spec", "arguments", "name"),
    [
        (SimpleNamespace(name="shop.__main__"), [], "-m shop"),
        (None, ["/srv/shop.py", "secret"], "shop.py"),
        (None, [""], "python"),
        (None, [], "python"),
    ],
)
def test_the_name_of_a_program(spec: object, arguments: list[str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    monkeypatch.setattr(sys, "argv", arguments)
    assert _serving.program() == name


def test_a_snapshot_that_cannot_be_made_is_left_out(path: str) -> None:
    class Changing(Core):
        tries = 0

        def stats(self) -> ClientStats:
            self.tries += 1
            if self.tries <= 2 * _serving._TRIES:
                raise RuntimeError("dictionary changed size during iteration")
            return super().stats()

    core = Changing()
    with serving(path, core), _sockets.connect(path) as reader:
        assert read(reader)[0]["clients"]
    assert core.tries > 2 * _serving._TRIES


def test_what_a_reader_says_is_ignored(path: str) -> None:
    with serving(path, Core()) as server, _sockets.connect(path) as reader:
        reader.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert len(read(reader, 3)) == 3
        assert len(server._readers) == 1


def test_a_reader_that_leaves_what_it_was_sent(path: str) -> None:
    """The kernel reports a reset instead of the end."""
    with serving(path, Core()) as server:
        reader = _sockets.connect(path)
        until(lambda: server._readers)
        time.sleep(2 * INTERVAL)
        reader.close()
        until(lambda: not server._readers)


def test_a_reader_that_has_gone_takes_nothing() -> None:
    one, other = socket.socketpair()
    other.close()
    with one:
        reader = _serving.Reader(one, 0.0)
        reader.left = memoryview(b"x")
        assert not reader.send(1.0)


# --- forks ---


class NoThread:
    """In a forked child the threads of the parent do not exist."""

    def __init__(self, **_arguments: object) -> None:
        pass

    def start(self) -> None:
        pass

    def join(self, _timeout: float) -> None:
        pass


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Makes this process look like a child."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(threading, "Thread", NoThread)

    def become(pid: int) -> None:
        monkeypatch.setattr(os, "getpid", lambda: pid)

    yield become
    for server in tuple(_serving._servers.values()):
        server.close()


def test_a_child_opens_a_socket_of_its_own(child: Callable[[int], None], tmp_path: Path) -> None:
    server = _serving.serve(None, None)
    first, listener = server.path, server._listener
    child(4711)
    server.close()
    assert os.path.exists(first), "it belongs to the parent"
    _serving._after_fork()
    assert server.path == str(tmp_path / "motorlite" / "4711.sock")
    assert listener.fileno() == -1
    assert os.path.exists(first)
    _serving._close_all()
    assert not os.path.exists(server.path)
    os.unlink(first)


def test_a_child_leaves_a_path_that_was_chosen_to_the_parent(child: Callable[[int], None], path: str) -> None:
    server = _serving.serve(None, path)
    child(4711)
    _serving._after_fork()
    assert path not in _serving._servers
    assert server._listener.fileno() == -1
    assert os.path.exists(path)


def test_a_child_that_may_not_open_a_socket_goes_on(child: Callable[[int], None], tmp_path: Path) -> None:
    _serving.serve(None, None)
    (tmp_path / "motorlite").chmod(0o755)
    child(4711)
    _serving._after_fork()
    assert None not in _serving._servers


def test_the_sockets_that_are_found_are_those_of_programs_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with serving(_sockets.own_path(), Core()) as server:
        killed = tmp_path / "motorlite" / "1.sock"
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(killed))
        assert dict(_sockets.found()) == {os.getpid(): server.path}
        assert not killed.exists()

        def refuse(_path: str) -> socket.socket:
            raise PermissionError

        monkeypatch.setattr(_sockets, "connect", refuse)
        assert dict(_sockets.found()) == {os.getpid(): server.path}, "one that cannot be asked may be running"
