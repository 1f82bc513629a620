"""The pure state of a pool with fake connections and waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from motorlite._admission.pool_queue import Request
from motorlite._client.settings import pool_options
from motorlite._connection.handshake import Purpose
from motorlite._options.options import client_options
from motorlite._pool.state import Establish, PoolState

if TYPE_CHECKING:
    from collections.abc import Callable

    from bson.objectid import ObjectId

    from motorlite._admission.pool_queue import Establishment
    from motorlite._connection.connection import Connection
    from motorlite._pool.state import PoolSettings

ADDRESS = ("db.example", 27017)


def pool_settings(**options: Any) -> PoolSettings:
    """The settings of a client's pools, changed by `options`."""
    return pool_options(client_options())._replace(**options)


class FakeStream:
    ask_after = 1.0

    def __init__(self) -> None:
        self.is_closed = False
        self.is_sound = True

    def is_healthy(self) -> bool:
        return self.is_sound and not self.is_closed


class FakeConnection:
    """The attributes of a connection that the state uses."""

    def __init__(self, establishment: Establishment) -> None:
        self.id = establishment.connection_id
        self.generation = establishment.generation
        self.service_id: ObjectId | None = None
        self.purpose = Purpose.OTHER
        self.idle_since = -1.0
        self.in_use_since = -1.0
        self.asked_for_at = -1.0
        self.urgency: int | None = None
        self.interruption: object = None
        self.owed: int | None = None
        self.owed_until = -float("inf")
        self.stream = FakeStream()

    def __repr__(self) -> str:
        return f"<connection {self.id}>"


class FakeWaiter:
    """Accepts one offer while it waits."""

    def __init__(self, on_offer: Callable[[object], None] = lambda _: None) -> None:
        self.answer: Any = None
        self.waits = True
        self._on_offer = on_offer

    def offer(self, value: object) -> bool:
        if not self.waits:
            return False
        self._on_offer(value)
        self.waits = False
        self.answer = value
        return True

    def take_back(self) -> Any:
        return self.answer

    async def wait(self, until: float) -> Any:
        raise AssertionError("the state does not wait")


class StateDriver:
    """A pool state, with short methods for the actions of the shell."""

    def __init__(self, *, ready: bool = True, **options: Any) -> None:
        self.state = PoolState(ADDRESS, pool_settings(**options))
        self.now = 0.0
        if ready:
            self.state.ready()

    def ask(self) -> Request:
        request = Request(FakeWaiter(), self.now)
        self.state.enqueue(request, self.now)
        return request

    def effects(self) -> list[Any]:
        effects, self.state.effects = self.state.effects, []
        return effects

    def started(self) -> list[Establishment]:
        """The establishments to start; fails if there are other effects."""
        effects = self.effects()
        assert all(isinstance(effect, Establish) for effect in effects), effects
        return [effect.establishment for effect in effects]

    def finish(self, establishment: Establishment) -> Connection:
        connection = cast("Connection", FakeConnection(establishment))
        self.state.established(establishment, connection, self.now)
        return connection

    def fail(self, establishment: Establishment, error: Exception) -> None:
        self.state.failed(establishment, cast("Any", error))
        self.state.serve(self.now)

    def reach(self, service_id: ObjectId) -> Connection:
        """A connection in use to a service behind a load balancer."""
        request = self.ask()
        (establishment,) = self.started()
        connection = FakeConnection(establishment)
        connection.service_id = service_id
        connection.generation = self.state.services.join(service_id)
        self.state.established(establishment, cast("Connection", connection), self.now)
        assert answer(request) is connection
        return cast("Connection", connection)

    def checked_out(self, count: int = 1) -> list[Connection]:
        found = []
        for _ in range(count):
            request = self.ask()
            for establishment in self.started():
                self.finish(establishment)
            found.append(answer(request))
        return found

    def idle(self, count: int = 1) -> list[Connection]:
        """Idle connections; the last one is taken first."""
        found = self.checked_out(count)
        for connection in found:
            self.state.put(connection, self.now)
        return found


def answer(request: Request) -> Any:
    return cast("FakeWaiter", request.waiter).answer


def give_up(subject: StateDriver, request: Request) -> None:
    cast("FakeWaiter", request.waiter).waits = False
    subject.state.give_up(request, subject.now)
