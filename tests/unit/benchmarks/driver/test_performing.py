from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.arms import Driver
from benchmarks.driver.adapters import ARMS, Adapter
from benchmarks.driver.performing import Performer
from benchmarks.driver.preparing import Preparation
from benchmarks.driver.tasks import DOCUMENTS_PER_FILE, TASKS, Scale
from benchmarks.loops import ASYNCIO, THREADS, Loop

if TYPE_CHECKING:
    from pathlib import Path

SCALE = Scale(operations=20, large_operations=3, text_files=2, binary_files=2)
LARGE = b"x" * 1000


class Data:
    """What the real one has, in small."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("ldjson000.txt", "ldjson001.txt"):
            (root / name).write_text('{"a": 1}\n{"a": 2}\n')
        for name in ("file00.txt", "file01.txt"):
            (root / name).write_bytes(b"12345")

    def document(self, name: str) -> dict[str, Any]:
        return {"name": name}

    def large_file(self) -> bytes:
        return LARGE

    def text_files(self) -> list[Path]:
        return sorted(self.root.glob("ldjson*"))

    def binary_files(self) -> list[Path]:
        return sorted(self.root.glob("file*"))


class Models:
    @staticmethod
    def InsertOne(document: Any, namespace: str = "") -> tuple[str, str]:
        return "insert", namespace

    @staticmethod
    def ReplaceOne(_query: Any, _document: Any, namespace: str = "") -> tuple[str, str]:
        return "replace", namespace

    @staticmethod
    def DeleteOne(_query: Any, namespace: str = "") -> tuple[str, str]:
        return "delete", namespace


class Database:
    """Database, client, collection and bucket in one; answers blocking or as coroutines, and counts."""

    name = "perftest"

    def __init__(self, is_blocking: bool) -> None:
        self.calls: Counter[str] = Counter()
        self.models: list[tuple[str, str]] = []
        self.documents: list[Any] = []
        self._is_blocking = is_blocking

    @property
    def client(self) -> Database:
        return self

    def __getitem__(self, _name: str) -> Database:
        return self

    def _answer(self, call: str, value: Any = None) -> Any:
        self.calls[call] += 1
        if self._is_blocking:
            return value

        async def answer() -> Any:
            await asyncio.sleep(0)
            return value

        return answer()

    def command(self, command: dict[str, Any]) -> Any:
        assert command == {"hello": True}
        return self._answer("command")

    def find_one(self, query: dict[str, int]) -> Any:
        return self._answer("find_one", query)

    def insert_one(self, document: Any) -> Any:
        self.documents.append(document)
        return self._answer("insert_one")

    def insert_many(self, documents: list[Any], ordered: bool = True) -> Any:
        self.documents += documents
        return self._answer("insert_many")

    def bulk_write(self, models: list[Any]) -> Any:
        self.models += models
        return self._answer("bulk_write")

    def find(self, query: dict[str, Any]) -> Any:
        count = DOCUMENTS_PER_FILE if query else SCALE.operations
        return self._answer("find", [{"_id": 1, "a": number} for number in range(count)])

    def upload_from_stream(self, name: str, data: bytes) -> Any:
        return self._answer(f"upload {name} {len(data)}")

    def open_download_stream(self, file_id: str) -> Any:
        self._file = LARGE if file_id == "gridfstest" else b"12345"
        return self._answer(f"open {file_id}", self)

    def read(self) -> Any:
        return self._answer("read", self._file)


def performed(
    task: str, folder: Path, *, is_blocking: bool = False, models: Any = Models
) -> tuple[Database, Path] | None:
    """The database after one iteration of a task, and the folder of its output."""
    database = Database(is_blocking)
    loop: Loop = THREADS if is_blocking else ASYNCIO
    output = folder / "output"

    async def read_all(cursor: Any) -> list[Any]:
        found: list[Any] = cursor if is_blocking else await cursor
        return found

    find_one: Any = database.find_one
    driver = Driver(find_one, database, read_all, models, lambda it: it)
    adapter = Adapter(driver, replace(ARMS["pymongo"], loop=loop))
    performer = Performer(adapter, loop, Data(folder), SCALE, output)  # type: ignore[arg-type]
    do = performer.prepare(task)
    if do is None:
        return None
    assert not database.calls  # preparing is not timed
    loop.run(do)
    return database, output


EXPECTED: dict[str, dict[str, int]] = {
    "run_command": {"command": 20},
    "find_one": {"find_one": 20},
    "small_insert_one": {"insert_one": 20},
    "large_insert_one": {"insert_one": 3},
    "find_many": {"find": 1},
    "small_insert_many": {"insert_many": 1},
    "large_insert_many": {"insert_many": 1},
    "small_bulk_write": {"bulk_write": 1},
    "large_bulk_write": {"bulk_write": 1},
    "small_client_bulk_write": {"bulk_write": 1},
    "large_client_bulk_write": {"bulk_write": 1},
    "mixed_client_bulk_write": {"bulk_write": 1},
    "mixed_bulk_write": {"bulk_write": 1},
    "upload": {"upload gridfstest 1000": 1},
    "download": {"open gridfstest": 1, "read": 1},
    "import": {"insert_many": 2},
    "export": {"find": 2},
    "multi_upload": {"upload file00.txt 5": 1, "upload file01.txt 5": 1},
    "multi_download": {"open file00.txt": 1, "open file01.txt": 1, "read": 2},
}


@pytest.mark.parametrize("is_blocking", [False, True], ids=["asyncio", "threads"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_does_what_it_says(task: str, is_blocking: bool, tmp_path: Path) -> None:
    found = performed(task, tmp_path, is_blocking=is_blocking)
    assert found is not None
    assert found[0].calls == EXPECTED[task]


def test_each_document_is_a_new_one(tmp_path: Path) -> None:
    found = performed("small_insert_many", tmp_path)
    assert found is not None
    assert len({id(document) for document in found[0].documents}) == SCALE.operations


@pytest.mark.parametrize(
    ("task", "namespaces"),
    [("mixed_bulk_write", {""}), ("mixed_client_bulk_write", {f"perftest.corpus_{number}" for number in range(1, 11)})],
)
def test_mixed_writes_insert_replace_and_delete_each_document(task: str, namespaces: set[str], tmp_path: Path) -> None:
    found = performed(task, tmp_path)
    assert found is not None
    models = found[0].models
    assert [kind for kind, _ in models] == ["insert", "replace", "delete"] * SCALE.operations
    assert {namespace for _, namespace in models} == namespaces


def test_files_are_written(tmp_path: Path) -> None:
    found = performed("export", tmp_path)
    assert found is not None
    lines = (found[1] / "ldjson001.txt").read_text().splitlines()
    assert [json.loads(line) for line in lines[:2]] == [{"a": 0}, {"a": 1}]
    assert len(lines) == DOCUMENTS_PER_FILE
    shutil.rmtree(found[1])
    found = performed("multi_download", tmp_path)
    assert found is not None
    assert (found[1] / "file01.txt").read_bytes() == b"12345"


def test_a_driver_without_bulk_writes_leaves_them_out(tmp_path: Path) -> None:
    assert performed("small_bulk_write", tmp_path, models=None) is None


# --- what is prepared on the server ---


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


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    found = Fake()
    monkeypatch.setattr("benchmarks.driver.preparing.gridfs.GridFSBucket", lambda _database: found)
    return found


@pytest.fixture
def preparation(fake: Fake, tmp_path: Path) -> Preparation:
    return Preparation(fake, Data(tmp_path), Scale(operations=3))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("find_one", [("insert", [{"name": "tweet", "_id": number} for number in (1, 2, 3)])]),
        (
            "export",
            [
                *(
                    ("insert", [{"a": 1, "file": name}, {"a": 2, "file": name}])
                    for name in ("ldjson000.txt", "ldjson001.txt")
                ),
                ("index", "file"),
            ],
        ),
        ("download", [("upload", "gridfstest", "gridfstest", LARGE)]),
        ("multi_download", [("upload", name, name, b"12345") for name in ("file00.txt", "file01.txt")]),
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
