"""A scripted server with Atlas Search: its answers to search index commands, and the time that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from motorlite.testing.scripted import ScriptedDeployment, failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from motorlite._base.values import Document

    Indexes = dict[str, "_Index"]

# Seconds from the answer to a command until the change is complete.
WORK: Final = 12.0
INVALID_OPTIONS: Final = 72
NAMESPACE_NOT_FOUND: Final = 26
INDEX_NOT_FOUND: Final = 27


@dataclass
class _Index:
    """`ready_at` and `gone_at` are loop times."""

    type: str
    definition: Mapping[str, Any]
    ready_at: float
    was_ready: bool = False
    gone_at: float = float("inf")


class Atlas:
    """A deployment of one server whose search index changes take some time."""

    def __init__(self) -> None:
        self.deployment = ScriptedDeployment(["a:1"], replica_set="rs", wire_version=21)
        self.server = self.deployment["a:1"]
        # By the collection's name, then by the index's.
        self._indexes: dict[str, Indexes] = {}
        self.server.on("create", self._create_collection)
        self.server.on("createSearchIndexes", self._answer(self._create))
        self.server.on("updateSearchIndex", self._answer(self._update))
        self.server.on("dropSearchIndex", self._answer(self._drop))
        self.server.on("aggregate", self._answer(self._list))

    def _create_collection(self, command: Document) -> Mapping[str, Any]:
        self._indexes[command["create"]] = {}
        return {"ok": 1}

    def _answer(self, perform: Callable[[Indexes, Document], Mapping[str, Any]]) -> Callable[[Document], Any]:
        def answer(command: Document) -> Mapping[str, Any]:
            for concern in ("readConcern", "writeConcern"):
                if concern in command:
                    return failure(INVALID_OPTIONS, message=f"{concern} is not supported")
            name, collection = next(iter(command.items()))
            if collection not in self._indexes:
                return failure(NAMESPACE_NOT_FOUND, message=f"{name}: Collection '{collection}' does not exist")
            return perform(self._current(collection), command)

        return answer

    def _current(self, collection: str) -> Indexes:
        now = self.deployment.now()
        found = {name: index for name, index in self._indexes[collection].items() if now < index.gone_at}
        for index in found.values():
            index.was_ready = index.was_ready or now >= index.ready_at
        self._indexes[collection] = found
        return found

    def _create(self, indexes: Indexes, command: Document) -> Mapping[str, Any]:
        created = []
        for model in command["indexes"]:
            kind = model.get("type", "search")
            if kind == "search" and "mappings" not in model["definition"]:
                return failure(8, message="Attribute mappings missing")
            name = model.get("name", "default")
            indexes[name] = _Index(kind, model["definition"], self.deployment.now() + WORK)
            created.append({"id": f"id of {name}", "name": name})
        return {"indexesCreated": created}

    def _update(self, indexes: Indexes, command: Document) -> Mapping[str, Any]:
        index = indexes.get(command["name"])
        if index is None:
            return failure(INDEX_NOT_FOUND, message="Index not found")
        index.definition, index.ready_at = command["definition"], self.deployment.now() + WORK
        return {"ok": 1}

    def _drop(self, indexes: Indexes, command: Document) -> Mapping[str, Any]:
        index = indexes.get(command["name"])
        if index is None:
            return failure(INDEX_NOT_FOUND, message="Index not found")
        index.gone_at = self.deployment.now() + WORK
        return {"ok": 1}

    def _list(self, indexes: Indexes, command: Document) -> Mapping[str, Any]:
        (stage,) = command["pipeline"]
        wanted = stage["$listSearchIndexes"].get("name")
        documents = [
            {
                "id": f"id of {name}",
                "name": name,
                "type": index.type,
                "status": "READY" if self.deployment.now() >= index.ready_at else "BUILDING",
                # Queryable with the old definition while the new one is being built.
                "queryable": index.was_ready,
                "latestDefinition": index.definition,
            }
            for name, index in indexes.items()
            if wanted in (None, name)
        ]
        return {"cursor": {"id": 0, "ns": f"{command['$db']}.{command['aggregate']}", "firstBatch": documents}}
