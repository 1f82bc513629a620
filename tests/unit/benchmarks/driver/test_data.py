from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

from benchmarks.driver import data

if TYPE_CHECKING:
    from pathlib import Path


def archive(path: Path, files: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:gz") as target:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small archives like those of the specification."""
    folder = tmp_path / "data"
    folder.mkdir()
    archive(
        folder / "single_and_multi_document.tgz",
        {
            "single_and_multi_document/tweet.json": json.dumps({"text": "hi"}).encode(),
            "single_and_multi_document/gridfs_large.bin": b"x" * 100,
        },
    )
    files = {f"parallel/ldjson_multi/ldjson00{number}.txt": b"{}\n" for number in range(3)}
    files |= {f"parallel/gridfs_multi/file0{number}.txt": b"x" for number in range(3)}
    archive(folder / "parallel.tgz", files | {"parallel/ldjson_multi/._ldjson000.txt": b"?"})
    monkeypatch.setenv(data.VARIABLE, str(folder))
    return folder


def test_the_first_files_are_unpacked(place: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    data.extract(target, text_files=2, binary_files=1)
    found = data.Data(target)
    assert found.document("tweet") == {"text": "hi"}
    assert found.large_file() == b"x" * 100
    assert [path.name for path in found.text_files()] == ["ldjson000.txt", "ldjson001.txt"]
    assert [path.name for path in found.binary_files()] == ["file00.txt"]


def test_a_named_folder_is_the_only_place(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert data.folder() == place
    (place / "parallel.tgz").unlink()
    with pytest.raises(data.DataMissingError, match=data.VARIABLE):
        data.folder()


def test_without_a_name_the_places_are_tried_in_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(data.VARIABLE)
    monkeypatch.setattr(data, "PLACES", (place / "nowhere", place))
    assert data.folder() == place
