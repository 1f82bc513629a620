"""What is added to a command, and where its limits come from."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from motorlite._base.deadline import NO_DEADLINE, Deadline
from motorlite._base.values import ServerFacts
from motorlite._execution import building
from motorlite._execution.building import CommandDefaults
from motorlite._operations.contract import TimeLimit
from motorlite._sessions.session import ServerSession, Session
from motorlite.errors import ExecutionTimeout
from motorlite.read_preferences import Nearest, ReadPreference
from tests.support.operations import Read

NOW = 50.0


def limited(
    deadline: Deadline,
    *,
    own: int | None = None,
    round_trip_time: float = 0.0,
    cursor: bool = False,
    limit: TimeLimit = TimeLimit.SEND,
) -> dict[str, Any]:
    """A command document after its time limit was added."""

    class Limited(Read):
        creates_cursor = cursor
        time_limit = limit

    document: dict[str, Any] = {"read": 1}
    if own is not None:
        document["maxTimeMS"] = own
    building.add_time_limit(document, Limited("db"), deadline, NOW, round_trip_time)
    return document


SEND, OMIT, AWAIT, ONLY_DEADLINE = TimeLimit.SEND, TimeLimit.OMIT, TimeLimit.AWAIT, TimeLimit.DEADLINE
LATE = "too late"
# The kind of limit, the time that a deadline and a scope leave, the command's own limit, the round trip time, and what
# is sent: first by most operations, then by those that create a cursor.
LIMITS: list[tuple[TimeLimit, float, float, int | None, float, Any, Any]] = [
    (SEND, inf, inf, None, 0, None, None),
    # A deadline replaces the command's own limit, be that smaller or greater, up to what servers accept.
    *(
        (SEND, left, inf, own, trip, expected, expected)
        for own in (None, 1, 100_000)
        for left, trip, expected in (
            (10, 0, 10_000),
            (10, 0.25, 9750),
            (0.0015, 0, 1),
            (1.9999, 0, 1999),
            (0.5, 0.25, 250),
            (1e12, 0, 2**31 - 1),
        )
    ),
    *(
        (SEND, left, inf, None, trip, LATE, LATE)
        for left, trip in ((0, 0), (-1, 0), (0.0009, 0), (0.2, 0.2), (0.2, 0.3))
    ),
    # A scope: a little later, since the scope must be what ends the operation.
    (SEND, inf, 10, None, 0, 10_005, None),
    (SEND, inf, 10, None, 0.25, 10_005, None),
    (SEND, inf, 10, 500, 0, 500, 500),
    (SEND, inf, 10, 20_000, 0, 10_005, 20_000),
    (SEND, inf, 10, 0, 0, 10_005, 0),
    (SEND, inf, 0.0001, None, 0, 6, None),
    (SEND, inf, 0.25, None, 0.5, 255, None),
    (SEND, inf, 1e12, None, 0, 2**31 - 1, None),
    # It has passed already: nothing that the server could be told.
    (SEND, inf, 0, None, 0, None, None),
    (SEND, inf, -5, None, 0, None, None),
    (SEND, inf, -inf, None, 0, None, None),
    (SEND, inf, -5, 500, 0, 500, 500),
    (SEND, 2, 10, None, 0, 2000, 2000),
    (SEND, 30, 10, None, 0, 10_005, 30_000),
    # It does not limit what gets only deadlines.
    (ONLY_DEADLINE, inf, 1, None, 0, None, None),
    (ONLY_DEADLINE, 5, 1, None, 0, 5000, 5000),
    (ONLY_DEADLINE, 1e12, inf, None, 0, 2**31 - 1, 2**31 - 1),
    *(
        row
        for scope in (inf, 1)
        for row in (
            # A timeout replaces the caller's own limit also where it is left out. There the way to the server does not
            # matter: the client alone keeps the time.
            (OMIT, 1, scope, None, 0, None, None),
            (OMIT, 1, scope, 7, 0, None, None),
            (OMIT, 0.1, scope, None, 5, None, None),
            (OMIT, 0, scope, None, 0, LATE, LATE),
            (OMIT, -1, scope, None, 0, LATE, LATE),
        )
    ),
    # How long the server waits for data.
    *(
        (AWAIT, left, scope, own, trip, expected, expected)
        for scope in (inf, 0.001)
        for own, left, trip, expected in (
            (500, inf, 0, 500),
            (500, inf, 1, 500),
            (500, 2, 0, 500),
            (500, 0.25, 0, 250),
            (500, 0.75, 0.5, 250),
            (0, 2, 0, 0),
            (5, 0, 0, LATE),
            (5, -1, 0, LATE),
            (5, 0.2, 0.2, LATE),
            (5, 0.2, 0.3, LATE),
        )
    ),
]


@pytest.mark.parametrize(("limit", "left", "scope", "own", "trip", "expected", "expected_of_cursors"), LIMITS)
@pytest.mark.parametrize("cursor", [False, True])
def test_a_time_limit(
    limit: TimeLimit,
    left: float,
    scope: float,
    own: int | None,
    trip: float,
    expected: Any,
    expected_of_cursors: Any,
    cursor: bool,
) -> None:
    deadline = Deadline(NOW + left, NOW + scope, 1) if left < inf else Deadline(inf, NOW + scope)
    expected = expected_of_cursors if cursor else expected
    if expected == LATE:
        with pytest.raises(ExecutionTimeout) as raised:
            limited(deadline, own=own, round_trip_time=trip, cursor=cursor, limit=limit)
        error = raised.value
        assert (error.code, error.timeout, error.phase, error.reached_server) == (50, True, "before sending", False)
        assert (error.client_limit, error.server_limit) == (1, None)
    else:
        found = limited(deadline, own=own, round_trip_time=trip, cursor=cursor, limit=limit)
        assert found.get("maxTimeMS") == expected


def test_no_limit_of_the_caller_replaces_that_of_the_command() -> None:
    assert "maxTimeMS" not in limited(NO_DEADLINE)
    assert "maxTimeMS" not in limited(Deadline(is_set=True), own=7)


# --- the client's default, and comments ---

MONGOD = ServerFacts(("a", 1), max_wire_version=17)
MONGOD_4_2 = ServerFacts(("a", 1), max_wire_version=8)
MONGOS = ServerFacts(("a", 1), max_wire_version=13, is_mongos=True)
MONGOS_4_4 = ServerFacts(("a", 1), max_wire_version=9, is_mongos=True)


def with_defaults(
    limits: CommandDefaults,
    document: dict[str, Any],
    *,
    deadline: Deadline = NO_DEADLINE,
    limit: TimeLimit = TimeLimit.SEND,
    facts: ServerFacts = MONGOD,
) -> dict[str, Any]:
    """A command after what a client adds to all of them."""

    class Limited(Read):
        name = next(iter(document))
        time_limit = limit

    building.add_server_limits(document, Limited("db"), deadline, facts, limits, 7)
    return document


@pytest.mark.parametrize("own", [0, 1, 100_000])
def test_the_default_gives_way_to_the_caller_s_own_value(own: int) -> None:
    assert with_defaults(CommandDefaults(250), {"find": "c"}) == {"find": "c", "maxTimeMS": 250}
    assert with_defaults(CommandDefaults(250), {"find": "c", "maxTimeMS": own})["maxTimeMS"] == own


@pytest.mark.parametrize("deadline", [Deadline(NOW + 1, inf, 1), Deadline(is_set=True)])
def test_the_default_gives_way_to_a_timeout(deadline: Deadline) -> None:
    assert with_defaults(CommandDefaults(250), {"find": "c"}, deadline=deadline) == {"find": "c"}


def test_the_default_beside_a_scope() -> None:
    deadline = Deadline(inf, NOW + 1)
    assert with_defaults(CommandDefaults(250), {"find": "c"}, deadline=deadline)["maxTimeMS"] == 250


@pytest.mark.parametrize("limit", [TimeLimit.OMIT, TimeLimit.DEADLINE, TimeLimit.AWAIT])
def test_who_gets_no_default(limit: TimeLimit) -> None:
    assert with_defaults(CommandDefaults(250), {"getMore": 1}, limit=limit) == {"getMore": 1}


@pytest.mark.parametrize(
    ("name", "facts", "limit", "is_commented"),
    [
        ("insert", MONGOD, TimeLimit.SEND, True),
        ("getMore", MONGOD, TimeLimit.OMIT, True),
        ("getMore", MONGOD, TimeLimit.AWAIT, False),
        ("killCursors", MONGOD, TimeLimit.DEADLINE, False),
        ("find", MONGOD_4_2, TimeLimit.SEND, True),
        ("aggregate", MONGOD_4_2, TimeLimit.SEND, True),
        ("insert", MONGOD_4_2, TimeLimit.SEND, False),
        ("insert", MONGOS_4_4, TimeLimit.SEND, True),
    ],
)
def test_who_gets_a_comment(name: str, facts: ServerFacts, limit: TimeLimit, is_commented: bool) -> None:
    limits = CommandDefaults(None, "motorlite 1")
    found = with_defaults(limits, {name: 1}, limit=limit, facts=facts)
    assert found.get("comment") == ("motorlite 1 7" if is_commented else None)
    assert with_defaults(limits, {name: 1, "comment": None}, limit=limit, facts=facts)["comment"] is None


@pytest.mark.parametrize(
    ("document", "facts", "expected"),
    [
        ({"find": 1}, MONGOD, None),
        ({"find": 1, "maxTimeMS": 0}, MONGOD, None),
        ({"find": 1, "maxTimeMS": -1}, MONGOD, None),
        ({"find": 1, "maxTimeMS": float("nan")}, MONGOD, None),
        ({"find": 1, "maxTimeMS": True}, MONGOD, None),
        ({"find": 1, "maxTimeMS": "soon"}, MONGOD, None),
        ({"find": 1, "maxTimeMS": 500}, MONGOD, 500.0),
        ({"find": 1, "maxTimeMS": Int64(500)}, MONGOD, 500.0),
        ({"find": 1, "maxTimeMS": 2.5}, MONGOD, 2.5),
        ({"find": 1, "maxTimeMS": 500}, MONGOS_4_4, 500.0),
        ({"insert": 1, "maxTimeMS": 500}, MONGOD_4_2, 500.0),
        ({"insert": 1, "maxTimeMS": 500}, MONGOS, 500.0),
        ({"insert": 1, "maxTimeMS": 500}, MONGOS_4_4, None),
        ({"update": 1, "maxTimeMS": 500}, MONGOS_4_4, None),
        ({"delete": 1, "maxTimeMS": 500}, MONGOS_4_4, None),
        ({"findAndModify": 1, "maxTimeMS": 500}, MONGOS_4_4, 500.0),
    ],
)
def test_the_limit_of_a_server(document: dict[str, Any], facts: ServerFacts, expected: float | None) -> None:
    assert building.server_limit(document, facts) == expected


@pytest.mark.parametrize(
    ("document", "prefix", "expected"),
    [
        ({"find": 1, "comment": "motorlite 1 7"}, "motorlite 1", "motorlite 1 7"),
        ({"find": 1, "comment": "motorlite 1 7", "maxTimeMS": 0}, "motorlite 1", "motorlite 1 7"),
        ({"find": 1, "comment": "motorlite 1 7", "maxTimeMS": 500}, "motorlite 1", None),
        ({"find": 1, "comment": "motorlite 1 7"}, "", None),
        ({"find": 1, "comment": "mine"}, "motorlite 1", None),
        ({"find": 1, "comment": {"motorlite": 1}}, "motorlite 1", None),
        ({"find": 1}, "motorlite 1", None),
        ({"find": 1}, "", None),
    ],
)
def test_what_is_killed_by_its_comment(document: dict[str, Any], prefix: str, expected: str | None) -> None:
    assert building.comment_of_abandoned(document, MONGOD, CommandDefaults(None, prefix)) == expected


def test_a_limit_that_mongos_ignores_does_not_keep_an_operation_from_being_killed() -> None:
    document = {"insert": 1, "comment": "motorlite 1 7", "maxTimeMS": 500}
    limits = CommandDefaults(None, "motorlite 1")
    assert building.comment_of_abandoned(document, MONGOS_4_4, limits) == "motorlite 1 7"
    assert building.comment_of_abandoned(document, MONGOS, limits) is None


# --- sessions ---


def session_of(**fields: Any) -> Session:
    session = Session(is_implicit=False, is_causally_consistent=fields.pop("causal", False))
    for name, value in fields.items():
        setattr(session, name, value)
    return session


SERVER_SESSION = ServerSession(Binary(b"0" * 16, 4), 0.0)


def test_session_and_transaction_number() -> None:
    document: dict[str, Any] = {}
    building.add_session(document, SERVER_SESSION, None)
    assert document == {"lsid": SERVER_SESSION.lsid}
    building.add_session(document, SERVER_SESSION, 3)
    assert document["txnNumber"] == 3
    # The server accepts nothing shorter.
    assert type(document["txnNumber"]) is Int64


@pytest.mark.parametrize(
    ("supports", "causal", "time", "concern", "expected"),
    [
        (True, True, Timestamp(4, 1), None, {"afterClusterTime": Timestamp(4, 1)}),
        (True, True, Timestamp(4, 1), {"level": "x"}, {"level": "x", "afterClusterTime": Timestamp(4, 1)}),
        (True, True, None, {"level": "x"}, {"level": "x"}),
        (True, True, None, None, None),
        (True, False, Timestamp(4, 1), None, None),
        (False, True, Timestamp(4, 1), None, None),
    ],
)
def test_causal_consistency(
    supports: bool,
    causal: bool,
    time: Timestamp | None,
    concern: dict[str, Any] | None,
    expected: dict[str, Any] | None,
) -> None:
    class Reader(Read):
        supports_after_cluster_time = supports

    document: dict[str, Any] = {} if concern is None else {"readConcern": concern}
    session = session_of(causal=causal, operation_time=time)
    building.add_session_times(document, Reader("db"), session, REPLICA)
    assert document.get("readConcern") == expected
    assert concern in (None, {"level": "x"}), "the caller's document was changed"


# --- read preferences ---


REPLICA = ServerFacts(("a", 1), max_wire_version=17)
MONGOS = ServerFacts(("a", 1), max_wire_version=17, is_mongos=True)
STANDALONE = ServerFacts(("a", 1), max_wire_version=17, is_standalone=True)


@pytest.mark.parametrize(
    ("facts", "is_direct", "preference", "expected"),
    [
        (REPLICA, False, ReadPreference.PRIMARY, None),
        (REPLICA, False, ReadPreference.SECONDARY, {"mode": "secondary"}),
        (REPLICA, True, ReadPreference.PRIMARY, {"mode": "primaryPreferred"}),
        (REPLICA, True, ReadPreference.SECONDARY, {"mode": "secondary"}),
        (MONGOS, False, ReadPreference.PRIMARY, None),
        (MONGOS, True, ReadPreference.PRIMARY, None),
        (MONGOS, False, ReadPreference.SECONDARY_PREFERRED, {"mode": "secondaryPreferred"}),
        (STANDALONE, True, ReadPreference.PRIMARY, None),
        (STANDALONE, True, ReadPreference.SECONDARY, None),
        (
            REPLICA,
            False,
            Nearest(tag_sets=[{"dc": "x"}], max_staleness=120),
            {"mode": "nearest", "tags": [{"dc": "x"}], "maxStalenessSeconds": 120},
        ),
    ],
)
def test_read_preference(facts: ServerFacts, is_direct: bool, preference: Any, expected: dict[str, Any] | None) -> None:
    assert building.sent_preference(preference, facts, is_direct=is_direct) == expected


# --- API version ---


def test_the_api_version_leaves_the_users_own_fields() -> None:
    document: dict[str, Any] = {"ping": 1, "apiStrict": False}
    building.add_api_version(document, {"apiVersion": "1", "apiStrict": True})
    assert document == {"ping": 1, "apiStrict": False, "apiVersion": "1"}
