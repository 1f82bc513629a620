"""Pure: the simulated application: when its requests are due, its patience, its own retries and cancellations."""

from __future__ import annotations

from collections import deque
from math import inf
from random import Random
from typing import TYPE_CHECKING

from benchmarks.storm.arrivals import arrivals, cancelled_after, load_at
from benchmarks.storm.timeline import times_of
from benchmarks.storm.twin.call import DONE, Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.storm.arrivals import Arrival
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.twin.client import Client
    from benchmarks.storm.twin.clock import Clock
    from benchmarks.storm.twin.recorder import Recorder


class Application:
    """All callers of all clients."""

    __slots__ = (
        "_active",
        "_clients",
        "_clock",
        "_dice",
        "_idle",
        "_is_watching",
        "_load",
        "_patient",
        "_recorder",
        "_scenario",
        "open",
    )

    def __init__(self, scenario: Scenario, clients: list[Client], clock: Clock, recorder: Recorder, seed: int) -> None:
        self._scenario = scenario
        self._load = scenario.load
        self._clients = clients
        self._clock = clock
        self._recorder = recorder
        self._dice = Random(f"workers {seed}")
        # The requests that have not ended.
        self.open: dict[Call, None] = {}
        # The requests that may run out of time, in the order in which they do, and whether an event waits for that.
        self._patient: deque[Call] = deque()
        self._is_watching = False
        # Closed loop: how many workers may send now, and those that may not.
        self._active = 0
        self._idle: set[int] = set()
        if scenario.load.rate is None:
            for time in times_of(scenario):
                clock.at(time, self._activate, None)
        else:
            self._await(arrivals(scenario, seed))

    # --- open loop ---

    def _await(self, due: Iterator[Arrival]) -> None:
        arrival = next(due, None)
        if arrival is not None:
            self._clock.at(arrival.due, self._arrive, (arrival, due))

    def _arrive(self, what: tuple[Arrival, Iterator[Arrival]]) -> None:
        arrival, due = what
        self._begin(arrival.client, arrival.cancelled_after, -1)
        self._await(due)

    # --- closed loop ---

    def _activate(self, _: None) -> None:
        load, now = self._load, self._clock.now
        self._active = round(load.clients * load.workers * load_at(self._scenario, now))
        known = set(range(self._active)) & self._idle if now else set(range(self._active))
        self._idle -= known
        if not now:
            # All that may ever be active.
            most = max(load_at(self._scenario, time) for time in times_of(self._scenario))
            self._idle = set(range(self._active, round(load.clients * load.workers * most)))
        for worker in sorted(known):
            # Not all at once: a worker's first request is due within its first pause.
            self._clock.at(now + self._dice.random() * (load.think or 0.01), self._work, worker)

    def _work(self, worker: int) -> None:
        if self._clock.now >= self._scenario.seconds:
            return
        if worker >= self._active:
            self._idle.add(worker)
            return
        self._begin(worker % self._load.clients, cancelled_after(self._load, self._dice), worker)

    # --- requests ---

    def _begin(self, client: int, cancelled_after: float, worker: int) -> None:
        now, load = self._clock.now, self._load
        call = Call(now, self._clients[client], load.patience, load.application_retries, worker)
        self._recorder.offered[self._recorder.step] += 1
        self.open[call] = None
        if load.patience is not None:
            self._patient.append(call)
            if not self._is_watching:
                self._is_watching = True
                self._clock.at(call.deadline.expires_at, self._expire, None)
        if cancelled_after != inf:
            self._clock.at(now + cancelled_after, self._cancel, call)
        call.client.start(call)

    def _cancel(self, call: Call) -> None:
        call.left = 0
        call.client.cancel(call)

    def _expire(self, _: None) -> None:
        patient, now = self._patient, self._clock.now
        while patient and (patient[0].state is DONE or patient[0].deadline.expires_at <= now):
            call = patient.popleft()
            if call.state is not DONE:
                call.left = 0
                call.client.expire(call)
                # What follows for other requests happens before their time is up.
                self._clock.settle()
        self._is_watching = bool(patient)
        if patient:
            self._clock.at(patient[0].deadline.expires_at, self._expire, None)

    def ended(self, call: Call, outcome: str) -> None:
        """An operation has ended: try again, or record the request."""
        now = self._clock.now
        if outcome != "ok" and call.left and now < call.deadline.expires_at:
            call.left -= 1
            call.restart()
            self._clock.soon(call.client.start, call)
            return
        del self.open[call]
        self._recorder.ended(call.due, now, outcome)
        if call.worker >= 0:
            think = self._load.think
            pause = self._dice.expovariate(1 / think) if think else 0.0
            self._clock.at(now + pause, self._work, call.worker)
