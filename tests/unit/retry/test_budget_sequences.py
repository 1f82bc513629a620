"""The budget of retries beside exact fractions, in any sequence of retries, outcomes and departures of servers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from motorlite.retry import RetryBudget
from tests.support.machine_bugs import cases, find
from tests.support.sequences import Machine, run

if TYPE_CHECKING:
    from tests.support.planting import Bug

ADDRESSES: Final = (("a", 1), ("b", 1), None)
DEPOSITS: Final = {
    "first_attempt_succeeded": Fraction(1, 10),
    "retry_succeeded": Fraction(11, 10),
    "retry_failed_otherwise": Fraction(1),
    "retry_not_made": Fraction(1),
}


class Budget(Machine):
    """The model: one number of tokens for all servers, and one for each."""

    @initialize(capacity=st.sampled_from(["0", "1", "2.5", "4"]), per_server=st.sampled_from([None, "0", "1.3", "3"]))
    def make(self, capacity: str, per_server: str | None) -> None:
        self.budget = RetryBudget(float(capacity), per_server=None if per_server is None else float(per_server))
        self.capacity = self.tokens = Fraction(capacity)
        self.per_server = None if per_server is None else Fraction(per_server)
        self.servers = {address: self.per_server for address in ADDRESSES if address is not None}

    @rule(address=st.sampled_from(ADDRESSES))
    def take(self, address: tuple[str, int] | None) -> None:
        left = None if address is None else self.servers[address]
        is_enough = self.tokens >= 1 and (left is None or left >= 1)
        assert self.budget.take(address) is is_enough
        if is_enough:
            self.tokens -= 1
            if address is not None and left is not None:
                self.servers[address] = left - 1

    @rule(name=st.sampled_from(sorted(DEPOSITS)), address=st.sampled_from(ADDRESSES), times=st.sampled_from([1, 1, 9]))
    def deposit(self, name: str, address: tuple[str, int] | None, times: int) -> None:
        for _ in range(times):
            getattr(self.budget, name)(address)
            self.tokens = min(self.capacity, self.tokens + DEPOSITS[name])
            if address is not None and self.per_server is not None:
                left = self.servers[address]
                assert left is not None
                self.servers[address] = min(self.per_server, left + DEPOSITS[name])

    @rule(address=st.sampled_from(ADDRESSES[:2]))
    def leave(self, address: tuple[str, int]) -> None:
        self.budget.forget(address)
        self.servers[address] = self.per_server

    @invariant()
    def tokens_are_conserved(self) -> None:
        assert self.budget.tokens == float(self.tokens)
        for address, left in self.servers.items():
            assert self.budget.tokens_for(address) == (None if left is None else float(left))
        is_full = self.tokens == self.capacity and all(left == self.per_server for left in self.servers.values())
        assert self.budget.is_full is is_full


def test_tokens_are_conserved() -> None:
    run(Budget)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "bug"), cases(Budget))
def test_planted_bugs_are_found(machine: type[Machine], bug: Bug) -> None:
    find(machine, bug)
