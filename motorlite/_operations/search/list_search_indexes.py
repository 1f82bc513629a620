"""Pure: the aggregate command that lists search indexes (index management specification, "Search Indexes")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._execution.operation import Command
from motorlite._operations.reads.aggregate import Aggregate

if TYPE_CHECKING:
    from motorlite._execution.operation import ServerFacts


class ListSearchIndexes(Aggregate):
    """A pipeline from `search_index_stages`; `parse` returns a CursorReply.

    Never sends a read concern, not even the afterClusterTime of a session: Atlas refuses it.

    Retry: retryable read.
    """

    __slots__ = ()

    # What an application caches are its documents.
    is_degradable = False
    supports_after_cluster_time = False

    def command(self, facts: ServerFacts) -> Command:
        return Command(self.name, self._document.copy())


def search_index_stages(name: str | None = None) -> list[dict[str, Any]]:
    """Return the pipeline for one search index, or for all."""
    return [{"$listSearchIndexes": {} if name is None else {"name": name}}]
