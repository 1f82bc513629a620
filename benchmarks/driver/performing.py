"""Shell: the client's side of the tasks. Each prepares an iteration, which is not timed, and returns what is."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.driver.tasks import DOCUMENTS_PER_FILE
from benchmarks.speed.workloads import check

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
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
        """What an iteration of a task does, or None if the driver cannot do it. The folder for files is then empty."""
        shutil.rmtree(self._output, ignore_errors=True)
        self._output.mkdir()
        if "bulk_write" in task and self._adapter.models is None:
            return None
        size, _, rest = task.partition("_")
        is_sized = size in ("small", "large")
        found: Do = getattr(self, f"_{rest}")(size) if is_sized else getattr(self, f"_{task}")()
        return found

    def _each_in_turn(self, operations: Iterable[Callable[[], Any]]) -> Do:
        """Operations of the driver, one after the other."""
        wait, operations = self._adapter.wait, list(operations)

        async def do() -> None:
            for operation in operations:
                await wait(operation())

        return do

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
                if await wait(corpus.find_one({"_id": number})) is None:
                    raise ValueError(f"document {number} is missing")

        return do

    def _find_many(self) -> Do:
        adapter, count = self._adapter, self._scale.operations

        async def do() -> None:
            check(len(await adapter.read_all(adapter.corpus.find({}))), count)

        return do

    # --- writes, of small and of large documents ---

    def _copies(self, size: str) -> list[dict[str, Any]]:
        """New documents each time, since drivers add an `_id` to them."""
        document = self._data.document(f"{size}_doc")
        count = self._scale.operations if size == "small" else self._scale.large_operations
        return [{**document} for _ in range(count)]

    def _insert_one(self, size: str) -> Do:
        insert = self._adapter.corpus.insert_one
        return self._each_in_turn(partial(insert, document) for document in self._copies(size))

    def _insert_many(self, size: str) -> Do:
        return self._each_in_turn([partial(self._adapter.corpus.insert_many, self._copies(size))])

    def _bulk_write(self, size: str) -> Do:
        make = self._adapter.models.InsertOne
        return self._each_in_turn([partial(self._adapter.corpus.bulk_write, [make(one) for one in self._copies(size)])])

    def _client_bulk_write(self, size: str) -> Do:
        make, namespace = self._adapter.models.InsertOne, f"{self._adapter.database.name}.{self._adapter.corpus.name}"
        models = [make(document, namespace=namespace) for document in self._copies(size)]
        return self._each_in_turn([partial(self._adapter.client.bulk_write, models)])

    def _mixed(self, **options: Callable[[int], str]) -> list[Any]:
        make, document = self._adapter.models, self._data.document("small_doc")
        models: list[Any] = []
        for number in range(self._scale.operations):
            given = {name: of(number) for name, of in options.items()}
            models += [
                make.InsertOne({**document}, **given),
                make.ReplaceOne({}, {**document}, **given),
                make.DeleteOne({}, **given),
            ]
        return models

    def _mixed_bulk_write(self) -> Do:
        return self._each_in_turn([partial(self._adapter.corpus.bulk_write, self._mixed())])

    def _mixed_client_bulk_write(self) -> Do:
        database = self._adapter.database.name
        models = self._mixed(namespace=lambda number: f"{database}.{COLLECTIONS[number % len(COLLECTIONS)]}")
        return self._each_in_turn([partial(self._adapter.client.bulk_write, models)])

    # --- GridFS ---

    def _upload(self) -> Do:
        return partial(self._adapter.upload, "gridfstest", self._data.large_file())

    def _download(self) -> Do:
        adapter, size = self._adapter, len(self._data.large_file())

        async def do() -> None:
            check(len(await adapter.download(LARGE_ID)), size)

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
            check(len(documents), DOCUMENTS_PER_FILE)
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
