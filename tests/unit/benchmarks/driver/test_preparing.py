from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.driver.preparing import Preparation
from benchmarks.driver.tasks import Scale

if TYPE_CHECKING:
    from pathlib import Path

SCALE = Scale(operations=3)


class Fake:
    """Client, database, collection and bucket in one; notes the calls."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self._name = ""

    def __getitem__(self, name: str) -> Fake:
        self._name = name
        return self

    def drop_database(self, name: str) -> None:
        self.log.append(("drop database", name))

    def drop(self) -> None:
        self.log.append(("drop", self._name))

    def create_collection(self, name: str) -> None:
        self.log.append(("create", name))

    def create_index(self, field: str) -> None:
        self.log.append(("index", field))

    def insert_many(self, documents: Any, ordered: bool = True) -> None:
        self.log.append(("insert", list(documents)))

    def upload_from_stream_with_id(self, file_id: str, name: str, data: bytes) -> None:
        self.log.append(("upload", file_id, name, data))

    def upload_from_stream(self, name: str, data: bytes) -> None:
        self.log.append(("upload", name, data))


class Data:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def document(self, name: str) -> dict[str, Any]:
        return {"name": name}

    def large_file(self) -> bytes:
        return b"large"

    def text_files(self) -> list[Path]:
        path = self._folder / "ldjson000.txt"
        path.write_text('{"a": 1}\n{"a": 2}\n')
        return [path]

    def binary_files(self) -> list[Path]:
        path = self._folder / "file00.txt"
        path.write_bytes(b"123")
        return [path]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    monkeypatch.setattr("benchmarks.driver.preparing.gridfs.GridFSBucket", lambda _database: found)
    return found


@pytest.fixture
def preparation(fake: Fake, tmp_path: Path) -> Preparation:
    return Preparation(fake, Data(tmp_path), SCALE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("find_one", [("insert", [{"name": "tweet", "_id": number} for number in (1, 2, 3)])]),
        (
            "export",
            [("insert", [{"a": 1, "file": "ldjson000.txt"}, {"a": 2, "file": "ldjson000.txt"}]), ("index", "file")],
        ),
        ("download", [("upload", "gridfstest", "gridfstest", b"large")]),
        ("multi_download", [("upload", "file00.txt", "file00.txt", b"123")]),
        ("small_insert_one", []),
    ],
)
def test_a_task_begins_with_an_empty_database_and_what_it_reads(
    task: str, expected: list[Any], preparation: Preparation, fake: Fake
) -> None:
    preparation.set_up(task)
    assert fake.log == [("drop database", "perftest"), *expected]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("find_one", []),
        ("run_command", []),
        ("import", [("drop", "corpus"), ("create", "corpus")]),
        ("mixed_bulk_write", [("drop", "corpus"), ("create", "corpus")]),
        ("multi_upload", [("drop", "fs.files"), ("drop", "fs.chunks"), ("upload", "small", b"1")]),
    ],
)
def test_an_iteration_that_writes_begins_with_empty_collections(
    task: str, expected: list[Any], preparation: Preparation, fake: Fake
) -> None:
    preparation.before(task)
    assert fake.log == expected


def test_mixed_writes_of_a_client_have_ten_collections(preparation: Preparation, fake: Fake) -> None:
    preparation.before("mixed_client_bulk_write")
    assert [name for what, name in fake.log if what == "create"] == [f"corpus_{number}" for number in range(1, 11)]
