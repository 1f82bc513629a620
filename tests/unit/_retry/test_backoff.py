"""How long to wait: the formula of rule 5, its limits, and the server's own base."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from bson.int64 import Int64

from motorlite._retry.backoff import server_base_backoff
from motorlite.errors import AutoReconnect, NotPrimaryError, PyMongoError
from motorlite.retry import OverloadRetry
from tests.support.operations import overload


def delay(policy: OverloadRetry, earlier: int, jitter: float, error: PyMongoError) -> float:
    return policy.backoff(earlier, jitter, server_base_backoff(error))


DEFAULT = OverloadRetry()
LATER = OverloadRetry.revision_2026_07()


@pytest.mark.parametrize(
    ("policy", "delays"),
    [
        (DEFAULT, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]),
        (LATER, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10]),
        (OverloadRetry(base_backoff=1, max_backoff=3), [1, 2, 3, 3]),
    ],
)
def test_delays(policy: OverloadRetry, delays: list[float]) -> None:
    assert [delay(policy, earlier, 1.0, overload()) for earlier in range(len(delays))] == delays


@pytest.mark.parametrize("jitter", [0.0, 0.3, 0.999])
def test_jitter_is_applied_after_the_maximum(jitter: float) -> None:
    assert delay(DEFAULT, 0, jitter, overload()) == jitter * 0.1
    assert delay(DEFAULT, 50, jitter, overload()) == jitter * 10


@pytest.mark.parametrize("earlier", [63, 64, 65, 1023, 1024, 100_000])
def test_no_number_of_retries_is_too_large(earlier: int) -> None:
    assert delay(DEFAULT, earlier, 1.0, overload()) == 10
    without_limit = OverloadRetry(base_backoff=2.0**-20, max_backoff=2.0**53)
    assert delay(without_limit, earlier, 1.0, overload()) == 2.0 ** (min(earlier, 64) - 20)


@pytest.mark.parametrize(
    ("value", "seconds"), [(1, 0.001), (250, 0.25), (Int64(250), 0.25), (0.5, 0.0005), (120_000, 120)]
)
def test_the_servers_base(value: Any, seconds: float) -> None:
    error = overload(baseBackoffMS=value)
    assert server_base_backoff(error) == seconds
    assert delay(DEFAULT, 0, 1.0, error) == min(10, seconds)
    assert delay(DEFAULT, 1, 1.0, error) == min(10, seconds * 2)
    assert delay(LATER, 0, 1.0, error) == min(10, seconds * 2)


@pytest.mark.parametrize(
    "value", [0, -1, -0.5, "100", True, False, None, [100], {}, Decimal(5), float("nan"), float("inf")]
)
def test_what_is_no_base(value: Any) -> None:
    error = overload(baseBackoffMS=value)
    assert server_base_backoff(error) is None
    assert delay(DEFAULT, 0, 1.0, error) == 0.1


@pytest.mark.parametrize("error", [PyMongoError("x"), AutoReconnect("x"), AutoReconnect("x", ["a list"])])
def test_errors_without_a_reply(error: PyMongoError) -> None:
    assert server_base_backoff(error) is None


def test_every_kind_of_error_with_a_reply() -> None:
    assert server_base_backoff(NotPrimaryError("x", {"baseBackoffMS": 20})) == 0.02
