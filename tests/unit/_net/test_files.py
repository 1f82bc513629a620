from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from motorlite._net.host import read_text, utc_date

if TYPE_CHECKING:
    from pathlib import Path


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
    text = utc_date()
    assert re.fullmatch(r"\d{8}T\d{6}Z", text)
    assert before <= datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) <= datetime.now(UTC)
