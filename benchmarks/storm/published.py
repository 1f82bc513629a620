"""Pure: curves that others published, to stand beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A figure from the literature with two plots over one quantity.

    Attributes:
        title: Who published it, and when.
        source: Its address.
        note: Where the numbers come from, and what is different there.
        success: The share of requests that succeed, for each policy.
        attempts: Attempts per request, for each policy.
        ours: The arm that is most like each policy, for colours.
    """

    title: str
    source: str
    note: str
    success: dict[str, Points]
    attempts: dict[str, Points]
    ours: dict[str, str]


RATES: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


def _points(*values: float) -> Points:
    return tuple(zip(RATES, values, strict=True))


# Of the program that made the published figure (github.com/mbrooker/simulator_example, retry_sim, commit bbfe394), run
# for 60 simulated seconds with three seeds: the figure itself is a picture without numbers.
BROOKER: Final = Published(
    title="Brooker 2022",
    source="https://brooker.co.za/blog/2022/02/28/retries.html",
    note="100 clients of 10 requests per second; a server that fails at random and is not slowed down by load; retries "
    "at once; a bucket of 5 tokens for each client, to which every call adds 0.1. The values come from the program "
    "that is published with the figure.",
    success={
        "no retries": _points(1, 0.9902, 0.9799, 0.9496, 0.9006, 0.8007, 0.6996, 0.5999, 0.5018),
        "three retries": _points(1, 1, 1, 1, 0.9999, 0.9984, 0.9921, 0.9751, 0.9371),
        "token bucket, 10 %": _points(1, 1, 1, 0.9998, 0.9852, 0.885, 0.7756, 0.6637, 0.5537),
        "breaker of retries, 10 %": _points(1, 0.9998, 0.9996, 0.9974, 0.9307, 0.8005, 0.6992, 0.5986, 0.5004),
    },
    attempts={
        "no retries": _points(1, 1, 1, 1, 1, 1, 1, 1, 1),
        "three retries": _points(1, 1.01, 1.021, 1.052, 1.111, 1.247, 1.417, 1.623, 1.884),
        "token bucket, 10 %": _points(1, 1.011, 1.02, 1.053, 1.095, 1.106, 1.107, 1.107, 1.107),
        "breaker of retries, 10 %": _points(1, 1.01, 1.02, 1.05, 1.034, 1.001, 1, 1, 1),
    },
    ours={
        "no retries": "no-retry",
        "three retries": "three",
        "token bucket, 10 %": "published-bucket",
        "breaker of retries, 10 %": "retry-breaker",
    },
)
PUBLISHED: Final = {"failure-rates": BROOKER}
"""By the family of the sweep that repeats it."""
