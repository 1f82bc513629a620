"""Shell: the client's side of the tasks. Each prepares an iteration, which is not timed, and returns what is."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.driver.tasks import DOCUMENTS_PER_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from benchmarks.driver.adapters import Adapter
    from benchmarks.driver.data import Data
    from benchmarks.driver.tasks import Scale
    from benchmarks.loops import Loop

    Do = Callable[[], Coroutine[Any, Any, None]]

# The ids with which the parent has stored files.
LARGE_ID = "gridfstest"
# Files that are read or written at the same time.
AT_ONCE = 8
COLLECTIONS = [f"corpus_{number}" for number in range(1, 11)]


class Performer:
    """One arm's tasks."""

    def __init__(self, adapter: Adapter, loop: Loop, data: Data, scale: Scale, output: Path) -> None:
        self._adapter = adapter
        self._loop = loop
        self._data = data
        self._scale = scale
        # Where files are written.
        self._output = output

    def prepare(self, task: str) -> Do | None:
        """What an iteration of a task does, or None if the driver cannot do it."""
        if "bulk_write" in task and self._adapter.models is None:
            return None
        found: Do = getattr(self, f"_{task}")()
        return found

    def _run_command(self) -> Do:
        adapter, times = self._adapter, self._scale.operations

        async def do() -> None:
            for _ in range(times):
                await adapter.run_command({"hello": True})

        return do

    def _find_one(self) -> Do:
        corpus, wait, times = self._adapter.corpus, self._adapter.wait, self._scale.operations

        async def do() -> None:
            for number in range(1, times + 1):
                found = await wait(corpus.find_one({"_id": number}))
                if found is None:
                    raise ValueError(f"document {number} is missing")

        return do

    def _insert_each(self, name: str, count: int) -> Do:
        corpus, wait = self._adapter.corpus, self._adapter.wait
        documents = self._copies(name, count)

        async def do() -> None:
            for document in documents:
                await wait(corpus.insert_one(document))

        return do

    def _small_insert_one(self) -> Do:
        return self._insert_each("small_doc", self._scale.operations)

    def _large_insert_one(self) -> Do:
        return self._insert_each("large_doc", self._scale.large_operations)

    def _find_many(self) -> Do:
        adapter, count = self._adapter, self._scale.operations

        async def do() -> None:
            _check(len(await adapter.read_all(adapter.corpus.find({}))), count)

        return do

    def _insert_many(self, name: str, count: int) -> Do:
        adapter, documents = self._adapter, self._copies(name, count)

        async def do() -> None:
            await adapter.wait(adapter.corpus.insert_many(documents))

        return do

    def _small_insert_many(self) -> Do:
        return self._insert_many("small_doc", self._scale.operations)

    def _large_insert_many(self) -> Do:
        return self._insert_many("large_doc", self._scale.large_operations)

    # --- bulk writes ---

    def _inserts(self, name: str, count: int) -> list[Any]:
        return [self._adapter.models.InsertOne(document) for document in self._copies(name, count)]

    def _bulk(self, models: list[Any]) -> Do:
        adapter = self._adapter

        async def do() -> None:
            await adapter.wait(adapter.bulk_write(models))

        return do

    def _client_bulk(self, models: list[Any]) -> Do:
        adapter = self._adapter

        async def do() -> None:
            await adapter.wait(adapter.client_bulk_write(models))

        return do

    def _small_bulk_write(self) -> Do:
        return self._bulk(self._inserts("small_doc", self._scale.operations))

    def _large_bulk_write(self) -> Do:
        return self._bulk(self._inserts("large_doc", self._scale.large_operations))

    def _mixed_bulk_write(self) -> Do:
        make, document = self._adapter.models, self._data.document("small_doc")
        return self._bulk(
            [
                model
                for _ in range(self._scale.operations)
                for model in (make.InsertOne({**document}), make.ReplaceOne({}, {**document}), make.DeleteOne({}))
            ]
        )

    def _in_client(self, name: str, count: int) -> list[Any]:
        namespace = f"{self._adapter.database.name}.{self._adapter.corpus.name}"
        return [self._adapter.models.InsertOne(document, namespace=namespace) for document in self._copies(name, count)]

    def _small_client_bulk_write(self) -> Do:
        return self._client_bulk(self._in_client("small_doc", self._scale.operations))

    def _large_client_bulk_write(self) -> Do:
        return self._client_bulk(self._in_client("large_doc", self._scale.large_operations))

    def _mixed_client_bulk_write(self) -> Do:
        make, document = self._adapter.models, self._data.document("small_doc")
        models: list[Any] = []
        for number in range(self._scale.operations):
            namespace = f"{self._adapter.database.name}.{COLLECTIONS[number % len(COLLECTIONS)]}"
            models += [
                make.InsertOne({**document}, namespace=namespace),
                make.ReplaceOne({}, {**document}, namespace=namespace),
                make.DeleteOne({}, namespace=namespace),
            ]
        return self._client_bulk(models)

    # --- GridFS ---

    def _upload(self) -> Do:
        return partial(self._adapter.upload, "gridfstest", self._data.large_file())

    def _download(self) -> Do:
        adapter, size = self._adapter, len(self._data.large_file())

        async def do() -> None:
            _check(len(await adapter.download(LARGE_ID)), size)

        return do

    # --- parallel ---

    def _each(self, paths: list[Path], work: Callable[[Path], Coroutine[Any, Any, None]]) -> Do:
        """Work through the files, several at once."""

        async def worker(rest: Iterator[Path]) -> None:
            for path in rest:
                await work(path)

        async def do() -> None:
            rest = iter(paths)  # which the workers share
            await self._loop.all_of([partial(worker, rest)] * AT_ONCE)

        return do

    def _import(self) -> Do:
        adapter, loop = self._adapter, self._loop

        async def work(path: Path) -> None:
            data = await loop.in_thread(path.read_bytes)
            documents = [json.loads(line) for line in data.splitlines()]
            await adapter.wait(adapter.corpus.insert_many(documents, ordered=False))

        return self._each(self._data.text_files(), work)

    def _export(self) -> Do:
        adapter, loop, output = self._adapter, self._loop, self._output

        async def work(path: Path) -> None:
            documents = await adapter.read_all(adapter.corpus.find({"file": path.name}))
            _check(len(documents), DOCUMENTS_PER_FILE)
            for document in documents:
                del document["_id"]
            text = "".join(f"{json.dumps(document)}\n" for document in documents)
            await loop.in_thread(partial((output / path.name).write_text, text, encoding="utf-8"))

        return self._each(self._data.text_files(), work)

    def _multi_upload(self) -> Do:
        adapter, loop = self._adapter, self._loop

        async def work(path: Path) -> None:
            await adapter.upload(path.name, await loop.in_thread(path.read_bytes))

        return self._each(self._data.binary_files(), work)

    def _multi_download(self) -> Do:
        adapter, loop, output = self._adapter, self._loop, self._output

        async def work(path: Path) -> None:
            data = await adapter.download(path.name)
            await loop.in_thread(partial((output / path.name).write_bytes, data))

        return self._each(self._data.binary_files(), work)

    def _copies(self, name: str, count: int) -> list[dict[str, Any]]:
        """New documents each time, since drivers add an `_id` to them."""
        document = self._data.document(name)
        return [{**document} for _ in range(count)]


def _check(found: int, expected: int) -> None:
    if found != expected:
        raise ValueError(f"expected {expected:,}, got {found:,}")
