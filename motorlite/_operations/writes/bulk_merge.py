"""Pure: merges long replies of a bulk write into its result, in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.writes.slices import ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._operations.writes.bulk_result import BulkResult
    from motorlite._operations.writes.bulk_runs import Run
    from motorlite._operations.writes.slices import Slices

_LISTS = ("writeErrors", "upserted")


def is_long(reply: Mapping[str, Any]) -> bool:
    """Whether a reply has enough errors or upserts for several slices."""
    return any(isinstance(reply.get(name), list) and len(reply[name]) > ITEMS for name in _LISTS)


def merge(result: BulkResult, run: Run, start: int, reply: Mapping[str, Any]) -> Slices[None]:
    """Merge the reply of the batch that began at statement `start` of `run`."""
    for part in _parts(reply):
        result.merge(run, start, part)
        yield


def _parts(reply: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Split `reply` into replies that add up to it, each with a few of its errors and upserts."""
    lists = {name: reply[name] for name in _LISTS if isinstance(reply.get(name), list)}
    longest = max(map(len, lists.values()), default=0)
    if longest <= ITEMS:
        yield reply
        return
    for position in range(0, longest, ITEMS):
        cut = {name: items[position : position + ITEMS] for name, items in lists.items()}
        # The first part has the counts and the write concern error.
        yield {**({"n": 0, "nModified": 0} if position else reply), **cut}
