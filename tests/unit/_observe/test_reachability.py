"""A server that is lost is logged once, and once when it is back; of similar messages, few are logged."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

import pytest
from bson.objectid import ObjectId

from motorlite import monitoring as events
from motorlite._observe.publishing import make_publishers
from motorlite._observe.reachability import Limiter
from motorlite._topology.server_description import ServerDescription
from motorlite.errors import (
    AutoReconnect,
    ConfigurationError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ADDRESS = ("db.example", 27018)
TOPOLOGY = ObjectId()
UP = ServerDescription.load_balancer(ADDRESS)
INITIAL = ServerDescription.unknown(ADDRESS)


def lost(error: PyMongoError) -> ServerDescription:
    return ServerDescription.unknown(ADDRESS, error=error)


class Logged:
    """The publisher of topology events, with a clock; and what was logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.time = 0.0
        publishers = make_publishers([])
        publishers.bind(lambda: self.time)
        assert publishers.topology is not None
        self._publish: Callable[[events.TopologyEvent], None] = publishers.topology

    def change(self, *descriptions: ServerDescription) -> list[tuple[int, str]]:
        for description in descriptions:
            self._publish(events.ServerDescriptionChangedEvent(TOPOLOGY, ADDRESS, INITIAL, description))
        return self.lines()

    def close(self) -> None:
        self._publish(events.ServerClosedEvent(TOPOLOGY, ADDRESS))

    def lines(self) -> list[tuple[int, str]]:
        found = [(record.levelno, record.getMessage()) for record in self._caplog.records]
        self._caplog.clear()
        return found


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Logged:
    caplog.set_level(logging.INFO, "motorlite.client")
    return Logged(caplog)


LOST = (
    logging.WARNING,
    "Server db.example:27018 is unreachable. Error: NetworkTimeout: late (server db.example:27018)",
)
BACK = (logging.INFO, "Server db.example:27018 is reachable again")


def test_a_server_is_lost_and_comes_back(logged: Logged) -> None:
    assert logged.change(INITIAL, UP) == []
    assert logged.change(lost(NetworkTimeout("late"))) == [LOST]
    assert logged.change(lost(AutoReconnect("refused")), lost(NetworkTimeout("late"))) == []
    assert logged.change(UP) == [BACK]
    assert logged.change(UP) == []


def test_a_server_that_left_the_deployment_is_forgotten(logged: Logged) -> None:
    # It was never there.
    assert logged.change(lost(NetworkTimeout("late"))) == [LOST]
    logged.close()
    assert logged.change(UP) == []


def test_a_server_that_steps_down_replies(logged: Logged) -> None:
    assert logged.change(lost(NotPrimaryError("stepped down")), UP) == []


@pytest.mark.parametrize("code", [18, 8000])
def test_refused_credentials(logged: Logged, code: int) -> None:
    refused = lost(OperationFailure("Authentication failed.", code, {"ok": 0, "code": code}))
    text = f"Server db.example:27018 refused the client's credentials. Error: OperationFailure: code {code}"
    assert logged.change(refused, refused) == [(logging.WARNING, text)]
    # A check needs no credentials: no message says that these are right now.
    assert logged.change(UP) == []
    assert logged.change(lost(NetworkTimeout("late"))) == [LOST]
    assert logged.change(UP) == [BACK]


def test_a_server_that_replies_but_cannot_be_used(logged: Logged) -> None:
    text = "Server db.example:27018 replies, but cannot be used. Error: "
    assert logged.change(lost(ConfigurationError("too old"))) == [
        (logging.WARNING, f"{text}ConfigurationError: too old (server db.example:27018)")
    ]
    assert logged.change(UP) == [(logging.INFO, "Server db.example:27018 can be used again")]
    logged.time = 10.0
    assert logged.change(lost(OperationFailure("no", 13))) == [(logging.WARNING, f"{text}OperationFailure: code 13")]


def test_a_server_that_flaps_is_logged_now_and_then(logged: Logged) -> None:
    assert logged.change(*[lost(NetworkTimeout("late")), UP] * 5) == [LOST, BACK]
    logged.time = 10.0
    left_out = ". Similar messages left out: 4"
    assert logged.change(lost(NetworkTimeout("late")), UP) == [
        (LOST[0], LOST[1] + left_out),
        (BACK[0], BACK[1] + left_out),
    ]


def test_nothing_is_logged_below_the_level(logged: Logged, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "motorlite.client")
    assert logged.change(lost(NetworkTimeout("late")), UP) == []


def test_a_filter_that_raises_harms_nothing_else(
    logged: Logged, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(record: logging.LogRecord) -> bool:
        raise LookupError("a bug of the application")

    logger = logging.getLogger("motorlite.client")
    monkeypatch.setattr(logger, "filters", [broken])
    assert logged.change(lost(NetworkTimeout("late")), UP) == []
    assert capsys.readouterr().err.count("LookupError: a bug of the application") == 2
    # As in the standard library's handlers.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    assert logged.change(lost(NetworkTimeout("late"))) == []
    assert capsys.readouterr().err == ""


# --- how often messages of one kind are logged, and how many are left out ---


def limited(*steps: tuple[float, str]) -> list[int | None]:
    """What a limiter of ten seconds answers about kinds at times; `+` before a kind says that it has a new cause."""
    limiter = Limiter(10.0)
    answers = []
    for time, kind in steps:
        limiter.now = lambda now=time: now  # type: ignore[misc]
        if kind.startswith("+"):
            limiter.reopen(kind[1:])
        else:
            answers.append(limiter.admit(kind))
    return answers


@pytest.mark.parametrize(
    ("steps", "answers"),
    [
        ([(0, "a"), (0, "a"), (0, "a"), (9.99, "a"), (10, "a"), (20, "a")], [0, None, None, None, 3, 0]),
        ([(0, "a"), (0, "a"), (0, "b"), (10, "a"), (10, "b")], [0, None, 0, 1, 0]),
        (
            [*[(0, kind) for kind in ("a", "a", "b", "+a", "+c", "a", "a", "b", "c")], (10, "a")],
            [0, None, 0, 1, None, None, 0, 1],
        ),
        # A clock that stands at infinity admits everything.
        ([(inf, "a"), (inf, "a")], [0, 0]),
    ],
    ids=["the next one counts", "kinds are counted apart", "a new cause", "infinity"],
)
def test_messages_of_a_kind(steps: list[tuple[float, str]], answers: list[int | None]) -> None:
    assert limited(*steps) == answers


def test_kinds_of_the_past_are_forgotten() -> None:
    limiter = Limiter(10.0)
    for number in range(100_000):
        limiter.now = lambda now=float(number): now  # type: ignore[misc]
        assert limiter.admit(number) == 0
    assert len(limiter._kinds) <= 101


def test_without_a_clock_one_of_a_kind_is_admitted() -> None:
    limiter = Limiter()
    assert [limiter.admit("a"), limiter.admit("a"), limiter.admit("b")] == [0, None, 0]
