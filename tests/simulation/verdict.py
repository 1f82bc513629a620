"""Pure: the verdict on a run: what the members hold at the end, against what the journal says was promised."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from motorlite.testing import account
from motorlite.testing.account import FinalState, StoredChunk, StoredFile
from motorlite.testing.findings import report
from tests.torture.workload import DATABASE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from motorlite.testing.journal import Entry
    from tests.simulation.storage import Storage


def final_state(storage: Storage) -> FinalState:
    """What a member has stored, as the account wants it."""

    def documents(collection: str) -> list[dict[str, Any]]:
        return list(storage.scan(f"{DATABASE}.{collection}", storage.last))

    chunks = sorted(documents("fs.chunks"), key=lambda chunk: (chunk["files_id"], chunk["n"]))
    digests = {each["_id"]: hashlib.sha256() for each in documents("fs.files")}
    for chunk in chunks:
        if chunk["files_id"] in digests:
            digests[chunk["files_id"]].update(chunk["data"])
    return FinalState(
        documents={name: documents(name) for name in ("transfers", "inserts", "bulk")},
        files=[
            StoredFile(each["_id"], each["length"], each["chunkSize"], digests[each["_id"]].hexdigest())
            for each in documents("fs.files")
        ],
        chunks=[StoredChunk(each["files_id"], each["n"], len(each["data"])) for each in chunks],
        balances={each["_id"]: each["balance"] for each in documents("accounts")},
        counters={each["_id"]: each["n"] for each in documents("counters")},
        registers={each["_id"]: each["value"] for each in documents("registers")},
        lists={each["_id"]: each["values"] for each in documents("lists")},
    )


def judge(entries: Sequence[Entry], storage: Storage) -> list[str]:
    """What contradicts the journal, each as a text."""
    final = final_state(storage)
    return [report([finding]) for finding in account.judge(entries, final)]
