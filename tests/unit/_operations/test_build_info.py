from __future__ import annotations

from motorlite._operations.commands import BuildInfo
from motorlite._operations.contract import Kind
from motorlite.read_preferences import ReadPreference
from tests.support.servers import V5_0


def test_facts_and_command() -> None:
    operation = BuildInfo()
    assert (operation.name, operation.database, operation.kind) == ("buildInfo", "admin", Kind.COMMAND)
    # The primary, also where the client reads from secondaries.
    assert operation.selector == operation.read_preference == ReadPreference.PRIMARY
    assert operation.command(V5_0).document == {"buildInfo": 1}
    assert operation.parse({"version": "8.0.0"}) == {"version": "8.0.0"}
