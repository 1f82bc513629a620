from __future__ import annotations

import platform
from pathlib import Path

import pytest

from motorlite._net.host import read_environment, read_platform_facts


def test_this_machine() -> None:
    facts = read_platform_facts("trio")
    assert facts.os_type == platform.system()
    assert facts.architecture == platform.machine()
    assert facts.runtime == f"{platform.python_implementation()} {platform.python_version()}"
    assert facts.backend == "trio"
    assert facts.is_docker is Path("/.dockerenv").exists()


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ({"PRETTY_NAME": "Debian 12", "VERSION_ID": "12"}, ("Debian 12", "12")),
        ({"PRETTY_NAME": "Arch Linux"}, ("Arch Linux", "6.1")),
        (None, (None, "6.1")),
    ],
)
def test_linux(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str] | None, expected: tuple[str | None, str]
) -> None:
    def os_release() -> dict[str, str]:
        if release is None:
            raise OSError("no os-release")
        return release

    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: "6.1")
    monkeypatch.setattr(platform, "freedesktop_os_release", os_release)
    facts = read_platform_facts("asyncio")
    assert (facts.os_name, facts.os_version) == expected


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("Darwin", ("Darwin", "macOS", "14.5")),
        ("FreeBSD", ("FreeBSD", "FreeBSD", "6.1")),
        ("", ("unknown", None, "6.1")),
    ],
)
def test_other_systems(monkeypatch: pytest.MonkeyPatch, system: str, expected: tuple[str, str | None, str]) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "release", lambda: "6.1")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.5", ("", "", ""), "arm64"))
    facts = read_platform_facts("asyncio")
    assert (facts.os_type, facts.os_name, facts.os_version) == expected


def test_only_the_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERCEL", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.delenv("K_SERVICE", raising=False)
    assert read_environment(["VERCEL", "K_SERVICE"]) == {"VERCEL": "1"}
