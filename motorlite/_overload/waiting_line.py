"""Pure: the operations that wait for a connection or a token, under the rules of a `WaitQueue`.

`admission` decides which operations may wait, and the order which one is served next. A line joins the two: it delivers
refusals, and keeps the sum of the sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from motorlite._overload.admission_order import Adaptive, ByAge, ByPriority, Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from motorlite._overload.admission import Admission
    from motorlite.errors import AdmissionError
    from motorlite.overload import WaitQueue
    from motorlite.stats import QueueStats


class InLine(Waiting, Protocol):
    """An operation that waits."""

    # Estimated bytes.
    size: int
    # Loop time at which it began to wait.
    since: float

    def refuse(self, error: AdmissionError) -> None:
        """End the wait with `error`."""
        ...


T = TypeVar("T", bound=InLine)


class Order(Protocol[T]):
    """Decides which operation is served next."""

    count: int

    def __iter__(self) -> Iterator[T]: ...
    def push(self, request: T) -> None: ...
    def pop(self, now: float) -> T: ...
    def discard(self, request: T) -> None: ...
    def victim(self, newcomer: T) -> T | None: ...
    def overdue(self, now: float, round_size: int) -> Iterable[T]: ...


def order_of(options: WaitQueue) -> ByAge[T] | ByPriority[T]:
    """Return the order that the configuration names."""
    if options.ordering == "priority":
        return ByPriority(float(options.timeout))
    if options.ordering == "adaptive":
        return Adaptive(float(options.adaptive_target), float(options.adaptive_interval))
    return ByAge()


class WaitingLine(Generic[T]):
    """The operations that wait."""

    __slots__ = ("_admission", "_order", "count")

    def __init__(self, admission: Admission, order: Order[T]) -> None:
        self._admission = admission
        self._order = order
        # A plain attribute: every check-out and every check-in of a pool reads it.
        self.count: int = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self._order)

    def refusal(
        self, request: T, depth: int, now: float, *, is_full: bool, options: WaitQueue | None = None
    ) -> AdmissionError | None:
        """Return the error of `request` if it must not wait. If necessary, refuse another one to make room for it.

        `depth`: how many operations wait with nothing free for them. `is_full`: nothing more will be opened for them.
        `options`: those of the call, if it has its own.
        """
        admission = self._admission
        error = admission.refusal(depth, request.size, now, is_full=is_full, options=options)
        if error is None and admission.must_drop(depth, options):
            victim = self._order.victim(request)
            if victim is None:
                return admission.full(depth, now, options=options)
            self.discard(victim)
            victim.refuse(admission.full(depth, now, now - victim.since, options=options))
        return error

    def push(self, request: T) -> None:
        """Add `request`, which was admitted."""
        self._order.push(request)
        self.count = self._order.count

    def pop(self, now: float) -> T:
        """Remove and return the request that is served next."""
        request = self._order.pop(now)
        self._removed(request)
        return request

    def discard(self, request: T) -> None:
        """Remove `request` if it is in the line."""
        self._order.discard(request)
        if self._order.count < self.count:
            self._removed(request)

    def drop_overdue(self, now: float, round_size: int) -> None:
        """Refuse the requests that an adaptive order does not consider worth waiting for."""
        for request in self._order.overdue(now, round_size):
            depth = self.count
            self.discard(request)
            request.refuse(self._admission.standing(depth, now - request.since, now))

    def stats(self) -> QueueStats:
        """Return the statistics."""
        return self._admission.stats(self.count, is_standing=getattr(self._order, "is_standing", False))

    def _removed(self, request: T) -> None:
        self.count = self._order.count
        self._admission.memory -= request.size
