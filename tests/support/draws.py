"""Values of hypothesis' strategies without hypothesis: at random, not shrunk, and ten times as fast.

For long runs of state machines, where the engine of hypothesis takes most of the time. Knows the strategies that the
machines use, without `map` and `filter`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis.strategies._internal.collections import (
    ListStrategy,
    TupleStrategy,
    UniqueListStrategy,
    UniqueSampledListStrategy,
)
from hypothesis.strategies._internal.core import BuildsStrategy, CompositeStrategy, DataStrategy
from hypothesis.strategies._internal.lazy import LazyStrategy
from hypothesis.strategies._internal.misc import BooleansStrategy, JustStrategy
from hypothesis.strategies._internal.numbers import IntegersStrategy
from hypothesis.strategies._internal.strategies import OneOfStrategy, SampledFromStrategy

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

# A list has about so many items more than it must have.
_MORE: Final = 5
# After so many values that a unique list has already, it is long enough.
_ATTEMPTS: Final = 10


class Draws:
    """Draws values, like the object of `strategies.data()`."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def draw(self, strategy: Any, label: object = None) -> Any:
        """Return a value of `strategy`.

        Raises:
            KeyError: It is of a kind that no machine has used so far.
        """
        while isinstance(strategy, LazyStrategy):
            strategy = strategy.wrapped_strategy
        return _BY_TYPE[type(strategy)](self, strategy)

    def sampled(self, strategy: Any) -> Any:
        assert not strategy._transformations, "map and filter are unknown here"
        return self.random.choice(strategy.elements)

    def one_of(self, strategy: Any) -> Any:
        return self.draw(self.random.choice(strategy.element_strategies))

    def integer(self, strategy: Any) -> int:
        return self.random.randint(strategy.start, strategy.end)

    def boolean(self, strategy: Any) -> bool:
        return self.random.random() < 0.5

    def tuple(self, strategy: Any) -> Any:
        return tuple([self.draw(each) for each in strategy.element_strategies])

    def length(self, strategy: Any) -> int:
        least = int(strategy.min_size)
        return self.random.randint(least, int(min(strategy.max_size, least + 2 * _MORE)))

    def list(self, strategy: Any) -> Any:
        return [self.draw(strategy.element_strategy) for _ in range(self.length(strategy))]

    def unique_list(self, strategy: Any) -> Any:
        found: dict[Any, None] = {}
        length, attempts = self.length(strategy), 0
        while len(found) < length and attempts < _ATTEMPTS:
            before = len(found)
            found[self.draw(strategy.element_strategy)] = None
            attempts += len(found) == before
        assert len(found) >= strategy.min_size
        return [*found]

    def composite(self, strategy: Any) -> Any:
        return strategy.definition(self.draw, *strategy.args, **strategy.kwargs)

    def built(self, strategy: Any) -> Any:
        arguments = [self.draw(each) for each in strategy.args]
        return strategy.target(*arguments, **{name: self.draw(each) for name, each in strategy.kwargs.items()})

    def itself(self, strategy: Any) -> Draws:
        return self


_BY_TYPE: Final[dict[type, Callable[[Draws, Any], Any]]] = {
    SampledFromStrategy: Draws.sampled,
    JustStrategy: Draws.sampled,
    OneOfStrategy: Draws.one_of,
    IntegersStrategy: Draws.integer,
    BooleansStrategy: Draws.boolean,
    TupleStrategy: Draws.tuple,
    ListStrategy: Draws.list,
    UniqueListStrategy: Draws.unique_list,
    UniqueSampledListStrategy: Draws.unique_list,
    CompositeStrategy: Draws.composite,
    BuildsStrategy: Draws.built,
    DataStrategy: Draws.itself,
}
