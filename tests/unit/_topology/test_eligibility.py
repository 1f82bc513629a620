from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from motorlite._topology.server_description import (
    NEAREST,
    PRIMARY,
    PRIMARY_PREFERRED,
    SECONDARY,
    SECONDARY_PREFERRED,
    check_max_staleness,
    servers_for_read,
    servers_for_write,
)
from motorlite.errors import ConfigurationError
from motorlite.topology_description import TopologyType
from tests.support.deployments import A, B, C, Preference, hello, primary, secondary

if TYPE_CHECKING:
    from motorlite._topology.server_description import ServerDescription

WITH_PRIMARY, NO_PRIMARY = TopologyType.ReplicaSetWithPrimary, TopologyType.ReplicaSetNoPrimary
START = datetime(2030, 1, 1, tzinfo=UTC)


def written(seconds: float) -> dict[str, Any]:
    return {"lastWrite": {"lastWriteDate": START + timedelta(seconds=seconds)}}


def read(servers: list[ServerDescription], preference: Preference, without: tuple[str, int] | None = None) -> str:
    kind = WITH_PRIMARY if any(server.is_writable for server in servers) else NO_PRIMARY
    candidates = [server for server in servers if server.address != without]
    found = servers_for_read(kind, candidates, servers, preference, 10.0)
    return "".join(server.address[0] for server in found)


@pytest.mark.parametrize(
    ("mode", "with_primary", "without_primary"),
    [
        (PRIMARY, "a", ""),
        (PRIMARY_PREFERRED, "a", "bc"),
        (SECONDARY, "bc", "bc"),
        (SECONDARY_PREFERRED, "bc", "bc"),
        (NEAREST, "abc", "bc"),
    ],
)
def test_modes(mode: int, with_primary: str, without_primary: str) -> None:
    servers = [primary(A), secondary(B), secondary(C)]
    assert read(servers, Preference(mode)) == with_primary
    assert read(servers[1:], Preference(mode)) == without_primary


def test_secondary_preferred_falls_back_to_the_primary() -> None:
    servers = [primary(A), secondary(B, tags={"dc": "ny"})]
    assert read(servers, Preference(SECONDARY_PREFERRED, ({"dc": "la"},))) == "a"
    assert read(servers, Preference(SECONDARY, ({"dc": "la"},))) == ""


def test_tag_sets_are_tried_in_order() -> None:
    servers = [secondary(A, tags={"dc": "ny", "rack": "1"}), secondary(B, tags={"dc": "la"})]
    assert read(servers, Preference(NEAREST, ({"dc": "sf"}, {"dc": "la"}, {}))) == "b"
    assert read(servers, Preference(NEAREST, ({"dc": "ny", "rack": "1"},))) == "a"
    assert read(servers, Preference(NEAREST, ({"dc": "ny", "rack": "2"},))) == ""
    assert read(servers, Preference(NEAREST, ())) == "ab"


def test_staleness_is_relative_to_the_primary() -> None:
    servers = [
        primary(A, now=100.0, **written(100)),
        secondary(B, now=100.0, **written(20)),
        secondary(C, now=100.0, **written(19)),
    ]
    assert read(servers, Preference(SECONDARY, max_staleness=90)) == "b"
    # Also when the primary itself is not to be taken, as one that is deprioritised.
    assert read(servers, Preference(NEAREST, max_staleness=90), without=A) == "b"


def test_staleness_without_a_primary_is_relative_to_the_newest_secondary() -> None:
    servers = [secondary(A, **written(100)), secondary(B, **written(20)), secondary(C, **written(19))]
    assert read(servers, Preference(SECONDARY, max_staleness=90)) == "ab"
    assert read(servers, Preference(SECONDARY, max_staleness=90), without=A) == "b"


def test_servers_without_a_write_date() -> None:
    # A secondary that tells nothing is as stale as can be; a primary that tells nothing is no reference.
    servers = [primary(A), secondary(B, **written(100)), secondary(C)]
    assert read(servers, Preference(NEAREST, max_staleness=90)) == "ab"


def test_staleness_comes_before_tags() -> None:
    servers = [secondary(A, tags={"t": "1"}, **written(0)), secondary(B, tags={"t": "2"}, **written(300))]
    assert read(servers, Preference(SECONDARY, ({"t": "1"}, {"t": "2"}), max_staleness=120)) == "b"


@pytest.mark.parametrize(
    ("max_staleness", "heartbeat", "smallest"), [(89, 10.0, "90"), (0, 10.0, "90"), (100, 100.0, "110")]
)
def test_too_small_staleness_is_refused(max_staleness: int, heartbeat: float, smallest: str) -> None:
    preference = Preference(NEAREST, max_staleness=max_staleness)
    with pytest.raises(ConfigurationError, match=f"={max_staleness} is too small: it must be at least {smallest},"):
        check_max_staleness(NO_PRIMARY, preference, heartbeat)
    check_max_staleness(TopologyType.Sharded, preference, heartbeat)


def test_staleness_with_mode_primary_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"maxStalenessSeconds=120 .* primary"):
        check_max_staleness(TopologyType.Single, Preference(PRIMARY, max_staleness=120), 10.0)
    check_max_staleness(WITH_PRIMARY, Preference(PRIMARY), 10.0)
    check_max_staleness(WITH_PRIMARY, Preference(NEAREST, max_staleness=90), 10.0)


def test_writes() -> None:
    servers = [primary(A), secondary(B), hello(C, msg="isdbgrid")]
    for kind, expected in [
        (TopologyType.Unknown, ""),
        (TopologyType.Single, "abc"),
        (TopologyType.LoadBalanced, "abc"),
        (TopologyType.Sharded, "c"),
        (WITH_PRIMARY, "a"),
        (NO_PRIMARY, ""),
    ]:
        assert "".join(server.address[0] for server in servers_for_write(kind, servers)) == expected
