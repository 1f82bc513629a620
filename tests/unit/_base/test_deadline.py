from __future__ import annotations

from math import inf

import pytest

from motorlite._base.deadline import NO_DEADLINE, Deadline


@pytest.mark.parametrize(
    ("expires_at", "scope_expires_at", "earliest"), [(1.0, 2.0, 1.0), (2.0, 1.0, 1.0), (inf, 3.0, 3.0), (3.0, inf, 3.0)]
)
def test_the_earlier_limit_applies(expires_at: float, scope_expires_at: float, earliest: float) -> None:
    assert Deadline(expires_at, scope_expires_at).earliest() == earliest


@pytest.mark.parametrize(
    ("deadline", "is_set"),
    [
        (Deadline(), False),
        (Deadline(5.0), True),
        # A cancel scope does not turn on the rules of client-side operations timeout, timeoutMS=0 does.
        (Deadline(scope_expires_at=5.0), False),
        (Deadline(is_set=True), True),
    ],
    ids=repr,
)
def test_whether_the_rules_of_timeouts_apply(deadline: Deadline, is_set: bool) -> None:
    assert deadline.is_set is is_set


def test_no_deadline() -> None:
    assert (NO_DEADLINE.earliest(), NO_DEADLINE.timeout, NO_DEADLINE.is_set) == (inf, inf, False)
    assert repr(Deadline(1.0, 2.0)) == "Deadline(expires_at=1.0, scope_expires_at=2.0)"
