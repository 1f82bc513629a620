"""Pure: adds long replies of a bulk write to its result in slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motorlite._operations.slices import ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from motorlite._operations.bulk_result import BulkResult
    from motorlite._operations.bulk_runs import Run
    from motorlite._operations.slices import Slices

_LISTS = ("writeErrors", "upserted")


def is_long(reply: Mapping[str, Any]) -> bool:
    """Whether there are enough errors or upserts in a reply for several slices."""
    return any(isinstance(reply.get(name), list) and len(reply[name]) > ITEMS for name in _LISTS)


def merge(result: BulkResult, run: Run, start: int, reply: Mapping[str, Any]) -> Slices[None]:
    """Add the reply to the batch that began at statement `start` of `run`."""
    for part in _parts(reply):
        result.merge(run, start, part)
        yield


def _parts(reply: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Replies that add up to `reply`, each with a few of its errors and upserts."""
    lists = {name: reply[name] for name in _LISTS if isinstance(reply.get(name), list)}
    longest = max(map(len, lists.values()), default=0)
    if longest <= ITEMS:
        yield reply
        return
    for position in range(0, longest, ITEMS):
        cut = {name: items[position : position + ITEMS] for name, items in lists.items()}
        # The counts, and the write concern error, are in the first.
        yield {**({"n": 0, "nModified": 0} if position else reply), **cut}
