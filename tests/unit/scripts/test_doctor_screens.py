"""The pictures of docs/doctor.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from scripts import doctor_screens
from scripts.doctor_screens import picture, shown, with_password

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_screens, "ASSETS", tmp_path)
    picture("bad", "mongodb://u:hunter2@x@h/", "mongodb://u:…@h/")
    svg = (tmp_path / "bad.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(svg)
    assert "connection&#160;string" in svg
    assert "hunter2" not in svg
    assert "url(http" not in svg, "it is read offline"
    # The two texts of a row: a mark, which is moved instead of preceded by spaces, and what was found.
    (mark,) = re.findall(r'x="([\d.]+)" y="[\d.]+" textLength="([\d.]+)"[^>]*>ERROR<', svg)
    assert [round(float(each) / doctor_screens.CHARACTER) for each in mark] == [4, 5]


def test_passwords_in_uris() -> None:
    uri = "mongodb://motorlite:pass%2Fword@127.0.0.1:27017/?x=y"
    assert shown(uri) == "mongodb://motorlite:…@127.0.0.1:27017/?x=y"
    assert with_password(uri, "guess") == "mongodb://motorlite:guess@127.0.0.1:27017/?x=y"


def test_the_pictures_of_the_page_show_no_password() -> None:
    for name in ("doctor-good", "doctor-bad"):
        svg = (doctor_screens.ASSETS / f"{name}.svg").read_text(encoding="utf-8")
        assert "guess" not in svg
        assert "password&#160;***" in svg
