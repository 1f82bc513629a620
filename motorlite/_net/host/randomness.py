"""Net: the only source of randomness: jitter, choices, nonces and session ids."""

from __future__ import annotations

import os
import random
import uuid
from typing import TYPE_CHECKING

from bson.binary import Binary

if TYPE_CHECKING:
    from collections.abc import Callable

jitter: Callable[[], float] = random.random
"""A factor in [0, 1) for backoff."""


def below(limit: int) -> int:
    """A random integer in [0, limit), for choosing among servers."""
    return int(random.random() * limit)


def nonce() -> bytes:
    """Fresh random bytes for one authentication."""
    return os.urandom(32)


def session_id() -> Binary:
    """A server session id: a version 4 UUID."""
    return Binary(uuid.uuid4().bytes, 4)
