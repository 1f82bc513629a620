"""The options of sessions and transactions: checks, inheritance, PyMongo's objects."""

from __future__ import annotations

from typing import Any

import pymongo.client_session_shared
import pymongo.read_concern
import pymongo.read_preferences
import pymongo.write_concern
import pytest
from bson.timestamp import Timestamp

from motorlite import ReadConcern, ReadPreference, WriteConcern
from motorlite._api.transaction_options import effective
from motorlite._sessions.session import Concerns
from motorlite.client_session import SessionOptions, TransactionOptions
from motorlite.errors import ConfigurationError
from tests.support.fake_core import fake_client

LOCAL, MAJORITY = ReadConcern("local"), ReadConcern("majority")
PRIMARY, SECONDARY = ReadPreference.PRIMARY, ReadPreference.SECONDARY
CLIENT = Concerns(ReadConcern(), WriteConcern(1), PRIMARY)


def values(concerns: Concerns) -> tuple[Any, ...]:
    return (concerns.read_concern, concerns.write_concern, concerns.read_preference, concerns.max_commit_time_ms)


def test_nothing_is_set_at_first() -> None:
    options = TransactionOptions()
    assert (options.read_concern, options.write_concern, options.read_preference) == (None, None, None)
    assert options.max_commit_time_ms is None
    assert values(effective(options, None, CLIENT)) == values(CLIENT)


def test_each_option_is_inherited_by_itself() -> None:
    defaults = TransactionOptions(LOCAL, None, SECONDARY, 5)
    own = TransactionOptions(MAJORITY, WriteConcern(2), None, 0)
    assert values(effective(own, defaults, CLIENT)) == (MAJORITY, WriteConcern(2), SECONDARY, 0)
    assert values(effective(TransactionOptions(), defaults, CLIENT)) == (LOCAL, WriteConcern(1), SECONDARY, 5)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"read_concern": "majority"}, TypeError),
        ({"write_concern": 1}, TypeError),
        ({"read_preference": "primary"}, TypeError),
        ({"max_commit_time_ms": "5"}, TypeError),
        ({"max_commit_time_ms": True}, TypeError),
        ({"max_commit_time_ms": -1}, ValueError),
        ({"max_commit_time_ms": float("nan")}, ValueError),
        ({"max_commit_time_ms": 2**63}, ValueError),
        ({"write_concern": WriteConcern(0)}, ConfigurationError),
    ],
)
def test_wrong_options_of_a_transaction(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        TransactionOptions(**options)
    session = fake_client()[0].start_session()
    with pytest.raises(error):
        session.start_transaction(**options)
    assert not session.in_transaction


def test_a_client_with_unacknowledged_writes() -> None:
    client = Concerns(ReadConcern(), WriteConcern(0), PRIMARY)
    with pytest.raises(ConfigurationError, match="unacknowledged write concern: "):
        effective(TransactionOptions(), None, client)
    assert effective(TransactionOptions(write_concern=WriteConcern(1)), None, client).write_concern == WriteConcern(1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"causal_consistency": 1}, TypeError),
        ({"snapshot": "yes"}, TypeError),
        ({"snapshot": True, "causal_consistency": True}, ConfigurationError),
        ({"snapshot_time": Timestamp(1, 1)}, ConfigurationError),
        ({"snapshot": True, "snapshot_time": 5}, TypeError),
        ({"default_transaction_options": {"read_concern": LOCAL}}, TypeError),
        ({"defaultTimeoutMS": "5"}, TypeError),
        ({"defaultTimeoutMS": -1}, ValueError),
        ({"defaultTimeoutMS": float("nan")}, ValueError),
    ],
)
def test_wrong_options_of_a_session(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        SessionOptions(**options)
    with pytest.raises(error):
        fake_client()[0].start_session(**options)


def test_the_options_of_a_session() -> None:
    defaults = TransactionOptions(LOCAL)
    session = fake_client()[0].start_session(True, defaults, False, defaultTimeoutMS=7)
    options = session.options
    assert (options.causal_consistency, options.snapshot, options.snapshot_time) == (True, False, None)
    assert options.default_transaction_options is defaults
    assert options.defaultTimeoutMS == 7
    snapshot = SessionOptions(snapshot=True, snapshot_time=Timestamp(1, 1))
    assert (snapshot.causal_consistency, snapshot.snapshot, snapshot.snapshot_time) == (False, True, Timestamp(1, 1))
    assert not SessionOptions(snapshot=None).snapshot
    with pytest.raises(AttributeError):
        snapshot.snapshot = False  # type: ignore[misc]  # what is tested


def test_pymongo_s_options() -> None:
    theirs: Any = pymongo.client_session_shared.TransactionOptions(
        pymongo.read_concern.ReadConcern("majority"),
        pymongo.write_concern.WriteConcern(2),
        pymongo.read_preferences.ReadPreference.SECONDARY,
        9,
    )
    options = SessionOptions(default_transaction_options=theirs).default_transaction_options
    assert options is not None
    assert values(effective(options, None, CLIENT)) == (MAJORITY, WriteConcern(2), SECONDARY, 9)


def test_repr() -> None:
    assert repr(TransactionOptions(LOCAL, max_commit_time_ms=5)) == (
        "TransactionOptions(read_concern=ReadConcern(level='local'), write_concern=None, read_preference=None, "
        "max_commit_time_ms=5)"
    )
