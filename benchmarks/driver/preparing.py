"""Net: what the tasks need on the server, prepared by one client for all arms."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import gridfs

from benchmarks.driver.adapters import COLLECTION, DATABASE
from benchmarks.driver.performing import COLLECTIONS, LARGE_ID
from benchmarks.driver.tasks import TASKS

if TYPE_CHECKING:
    import pymongo

    from benchmarks.driver.data import Data
    from benchmarks.driver.tasks import Scale


class Preparation:
    """Sets up a task once, and again what an iteration has changed."""

    def __init__(self, client: pymongo.MongoClient[dict[str, Any]], data: Data, scale: Scale) -> None:
        self._client = client
        self._database = client[DATABASE]
        self._data = data
        self._scale = scale

    def set_up(self, task: str) -> None:
        """Prepare a task, for all iterations of all arms."""
        self.tear_down()
        corpus = self._database[COLLECTION]
        if task in ("find_one", "find_many"):
            tweet = self._data.document("tweet")
            corpus.insert_many({**tweet, "_id": number} for number in range(1, self._scale.operations + 1))
        elif task == "export":
            for path in self._data.text_files():
                lines = path.read_bytes().splitlines()
                corpus.insert_many([{**json.loads(line), "file": path.name} for line in lines], ordered=False)
            corpus.create_index("file")
        elif task == "download":
            bucket = gridfs.GridFSBucket(self._database)
            bucket.upload_from_stream_with_id(LARGE_ID, LARGE_ID, self._data.large_file())
        elif task == "multi_download":
            bucket = gridfs.GridFSBucket(self._database)
            for path in self._data.binary_files():
                bucket.upload_from_stream_with_id(path.name, path.name, path.read_bytes())

    def before(self, task: str) -> None:
        """Prepare one iteration."""
        if TASKS[task].kind != "write":
            return
        if "upload" in task:
            for name in ("fs.files", "fs.chunks"):
                self._database[name].drop()
            gridfs.GridFSBucket(self._database).upload_from_stream("small", b"1")
            return
        for name in COLLECTIONS if task == "mixed_client_bulk_write" else [COLLECTION]:
            self._database[name].drop()
            self._database.create_collection(name)

    def tear_down(self) -> None:
        self._client.drop_database(DATABASE)
