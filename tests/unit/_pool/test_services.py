"""The generations of the services behind a load balancer."""

from __future__ import annotations

from bson import ObjectId

from motorlite._pool.state import Services

ONE, OTHER = ObjectId(), ObjectId()


def test_a_service_begins_at_generation_0() -> None:
    services = Services()
    assert services.generation(ONE) == 0
    assert services.join(ONE) == 0
    assert len(services) == 1


def test_each_service_has_its_own_generation() -> None:
    services = Services()
    services.join(ONE)
    services.join(OTHER)
    services.clear(ONE)
    services.clear(ONE)
    assert services.join(ONE) == services.generation(ONE) == 2
    assert services.join(OTHER) == 0


def test_a_service_without_connections_is_forgotten() -> None:
    services = Services()
    services.join(ONE)
    services.join(ONE)
    services.clear(ONE)
    services.leave(ONE)
    assert services.generation(ONE) == 1
    services.leave(ONE)
    assert services.generation(ONE) == 0
    assert len(services) == 0


def test_clearing_a_service_that_has_no_connections_leaves_nothing() -> None:
    services = Services()
    services.clear(ONE)
    assert services.join(ONE) == 0
    services.leave(ONE)
    assert len(services) == 0
