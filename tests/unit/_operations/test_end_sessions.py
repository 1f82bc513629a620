from __future__ import annotations

from motorlite._operations.sessions import MAX_SESSIONS, EndSessions, session_batches
from motorlite.read_preferences import ReadPreference
from tests.support.servers import sent

IDS = [{"id": number} for number in range(MAX_SESSIONS + 1)]


def test_the_command() -> None:
    operation = EndSessions(IDS[:2], selector=ReadPreference.PRIMARY_PREFERRED)
    assert operation.database == "admin"
    assert operation.selector is ReadPreference.PRIMARY_PREFERRED
    assert sent(operation) == {"endSessions": [{"id": 0}, {"id": 1}]}


def test_no_more_than_ten_thousand_in_one_command() -> None:
    assert [len(batch) for batch in session_batches(IDS)] == [MAX_SESSIONS, 1]
    assert [len(batch) for batch in session_batches(IDS[:MAX_SESSIONS])] == [MAX_SESSIONS]
    assert list(session_batches([])) == []
    assert [one for batch in session_batches(IDS) for one in batch] == IDS
