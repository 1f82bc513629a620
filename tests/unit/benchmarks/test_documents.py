from __future__ import annotations

import bson

from benchmarks.documents import DOCUMENTS, document


def test_documents_have_about_180_bytes() -> None:
    assert all(abs(len(bson.encode(document(number))) - 180) <= 10 for number in (0, 1, 9, DOCUMENTS - 1))
