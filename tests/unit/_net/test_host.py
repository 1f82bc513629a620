"""What the host offers: random numbers, request ids, files, the date, facts about the platform."""

from __future__ import annotations

import platform
import re
import socket
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType, MethodWrapperType
from typing import TYPE_CHECKING

import pytest

from motorlite._net import host
from motorlite._net.host import make_request_ids, next_request_id, read_environment, read_platform_facts, read_text

if TYPE_CHECKING:
    from collections.abc import Callable


# --- random numbers ---


def test_jitter() -> None:
    values = [host.jitter() for _ in range(200)]
    assert all(0 <= value < 1 for value in values)
    assert min(values) < 0.2
    assert max(values) > 0.8


def test_below() -> None:
    assert {host.below(3) for _ in range(200)} == {0, 1, 2}
    assert {host.below(1) for _ in range(10)} == {0}


def test_nonce() -> None:
    assert len(host.nonce()) == 32
    assert host.nonce() != host.nonce()


def test_session_id() -> None:
    first, second = host.session_id(), host.session_id()
    assert first != second
    assert first.subtype == 4
    assert uuid.UUID(bytes=bytes(first)).version == 4


# --- request ids ---


@pytest.mark.parametrize("next_id", [next_request_id, make_request_ids(has_gil=False)], ids=["here", "without a GIL"])
def test_request_ids_fit_and_differ_in_all_threads(next_id: Callable[[], int]) -> None:
    made: list[list[int]] = [[] for _ in range(4)]
    gate = threading.Barrier(len(made))

    def make(ids: list[int]) -> None:
        gate.wait()
        ids += [next_id() for _ in range(20_000)]

    threads = [threading.Thread(target=make, args=(ids,)) for ids in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = set().union(*made)
    assert len(found) == 80_000
    assert 0 <= min(found) <= max(found) < 2**31


def test_with_a_gil_request_ids_run_no_python_code() -> None:
    assert isinstance(make_request_ids(has_gil=True), MethodWrapperType)
    assert isinstance(make_request_ids(has_gil=False), FunctionType)


@pytest.mark.parametrize("has_gil", [True, False])
def test_request_ids_start_anew_after_the_last(monkeypatch: pytest.MonkeyPatch, has_gil: bool) -> None:
    monkeypatch.setattr(host, "_MOST_IDS", 3)
    next_id = make_request_ids(has_gil=has_gil)
    assert [next_id() for _ in range(7)] == [1, 2, 3, 1, 2, 3, 1]


# --- files, the date, sockets ---


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes("tökén\n".encode())
    assert read_text(str(path)) == "tökén\n"
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeError):
        read_text(str(path))
    with pytest.raises(OSError, match="none"):
        read_text(str(tmp_path / "none"))


def test_date() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    text = host.utc_date()
    assert re.fullmatch(r"\d{8}T\d{6}Z", text)
    assert before <= datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) <= datetime.now(UTC)


def test_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as sock:
        host.enable_keepalive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        if hasattr(socket, "TCP_KEEPIDLE"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 120
    monkeypatch.delattr(socket, "TCP_KEEPIDLE", raising=False)
    with socket.socket() as sock:
        host.enable_keepalive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


# --- the platform ---


def test_this_machine() -> None:
    facts = read_platform_facts("trio")
    assert facts.os_type == platform.system()
    assert facts.architecture == platform.machine()
    assert facts.runtime == f"{platform.python_implementation()} {platform.python_version()}"
    assert facts.backend == "trio"
    assert facts.is_docker is Path("/.dockerenv").exists()


@pytest.mark.parametrize(
    ("system", "release", "expected"),
    [
        ("Linux", {"PRETTY_NAME": "Debian 12", "VERSION_ID": "12"}, ("Linux", "Debian 12", "12")),
        ("Linux", {"PRETTY_NAME": "Arch Linux"}, ("Linux", "Arch Linux", "6.1")),
        ("Linux", None, ("Linux", None, "6.1")),
        ("Darwin", None, ("Darwin", "macOS", "14.5")),
        ("FreeBSD", None, ("FreeBSD", "FreeBSD", "6.1")),
        ("", None, ("unknown", None, "6.1")),
    ],
)
def test_other_machines(
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    release: dict[str, str] | None,
    expected: tuple[str, str | None, str],
) -> None:
    def os_release() -> dict[str, str]:
        if release is None:
            raise OSError("no os-release")
        return release

    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: "6.1")
    monkeypatch.setattr(platform, "freedesktop_os_release", os_release)
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.5", ("", "", ""), "arm64"))
    facts = read_platform_facts("asyncio")
    assert (facts.os_type, facts.os_name, facts.os_version) == expected


def test_only_the_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERCEL", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.delenv("K_SERVICE", raising=False)
    assert read_environment(["VERCEL", "K_SERVICE"]) == {"VERCEL": "1"}
