"""Listeners of all clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymongo.monitoring
import pytest

from motorlite import AsyncMongoClient, monitoring

if TYPE_CHECKING:
    from collections.abc import Iterator


class Commands(monitoring.CommandListener):
    pass


class TheirCommands(pymongo.monitoring.CommandListener):
    pass


@pytest.fixture(autouse=True)
def unregistered() -> Iterator[None]:
    before = list(monitoring._registered)
    yield
    monitoring._registered[:] = before


def test_later_clients_have_the_listener_before_their_own() -> None:
    ours, theirs, own = Commands(), TheirCommands(), Commands()
    earlier = AsyncMongoClient()
    monitoring.register(ours)
    monitoring.register(theirs)
    assert earlier.options.event_listeners == ()
    assert AsyncMongoClient().options.event_listeners == (ours, theirs)
    assert AsyncMongoClient(event_listeners=[own]).options.event_listeners == (ours, theirs, own)


@pytest.mark.parametrize("listener", [None, Commands, print, object()])
def test_what_is_no_listener_is_refused(listener: object) -> None:
    with pytest.raises(TypeError, match="listener must be an instance of a subclass of CircuitBreakerListener, Comm"):
        monitoring.register(listener)
    assert AsyncMongoClient().options.event_listeners == ()
