from __future__ import annotations

from typing import Any

import pytest

from motorlite._operations.bulk import BulkResult, BulkRun, merge
from motorlite._operations.slices import ITEMS

LENGTHS = (0, 1, ITEMS, ITEMS + 1, 3 * ITEMS)


@pytest.mark.parametrize("errors", LENGTHS)
@pytest.mark.parametrize("upserts", LENGTHS)
def test_a_reply_in_parts_adds_up_to_the_whole(errors: int, upserts: int) -> None:
    statements = [{"q": {"_id": n}, "u": {"x": 1}} for n in range(6 * ITEMS)]
    run = BulkRun("update", statements, range(1000, 1000 + len(statements)))
    reply: dict[str, Any] = {
        "ok": 1,
        "n": len(statements) - errors,
        "nModified": 5,
        "upserted": [{"index": n, "_id": n} for n in range(upserts)],
        "writeErrors": [{"index": len(statements) - 1 - n, "code": 11000, "errmsg": "x"} for n in range(errors)],
        "writeConcernError": {"code": 64, "errmsg": "late"},
        "errorLabels": ["RetryableWriteError"],
    }
    whole, parts = BulkResult(ordered=False), BulkResult(ordered=False)
    whole.merge(run, 0, reply)
    slices = sum(1 for _ in merge(parts, run, 0, reply))
    assert parts.details == whole.details
    assert slices == max(1, -(-max(errors, upserts) // ITEMS))
