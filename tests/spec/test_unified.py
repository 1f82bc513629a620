"""The public suites in the unified format (spec-tests/suites.toml), one item for each test, backend and deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.spec import finding
from tests.spec.unified.cases import Case
from tests.spec.unified.environment import FACADES
from tests.spec.unified.judge import Deployments, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spec.unified.environment import Topology

TOPOLOGIES: tuple[Topology, ...] = ("single", "replicaset", *FACADES)
BACKENDS = ("asyncio", "trio")


def _items() -> list[Any]:
    """Those on a deployment that few of them need come last, so that not every process of pytest-xdist starts it.

    Three members of a replica set talk to each other all the time, also while there is no test for them.
    """
    found = [
        (case, topology)
        for case in finding.find()
        if isinstance(case, Case)
        for topology in case.topologies(TOPOLOGIES)
    ]
    found.sort(key=lambda item: (item[0].members, item[1] in FACADES, item[0].needs_auth))
    return [
        pytest.param(case, topology, backend, id=f"{case.id} [{topology}, {backend}]")
        for case, topology in found
        for backend in BACKENDS
    ]


@pytest.fixture(scope="module")
def deployments() -> Iterator[Deployments]:
    with Deployments(TOPOLOGIES, auth=None) as found:
        yield found


@pytest.mark.parametrize(("case", "topology", "backend"), _items())
def test_unified(case: Case, topology: Topology, backend: str, deployments: Deployments) -> None:
    environment = deployments.get(topology, has_auth=case.needs_auth, members=case.members)
    record = judge(case, environment, backend)
    if record.outcome == "skipped":
        pytest.skip(f"{record.kind}: {record.reason}")
    if record.outcome == "failed":
        pytest.fail(record.reason, pytrace=False)
