"""How a test can end other than by passing."""

from __future__ import annotations

import enum


class SkipKind(enum.StrEnum):
    """Why a test may be skipped; there is no other reason."""

    SERVER = "server"
    """The server at hand cannot show it: another topology, version, parameter or authentication is needed."""
    ENCRYPTION = "encryption"
    """It needs client-side encryption."""
    FILE = "file"
    """The test file itself says so (`skipReason`)."""
    PENDING = "pending"
    """It waits for what is not built yet: an operation, or something that its whole suite needs (suites.toml)."""
    UNAVAILABLE = "unavailable"
    """It uses an operation that PyMongo's async API lacks too (suites.toml, once for each operation)."""
    LISTED = "listed"
    """suites.toml names the test and its reason."""


class Skipped(Exception):
    """The test is not run."""

    def __init__(self, kind: SkipKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Failed(AssertionError):
    """The driver did not do what the test says."""


class BadTest(Exception):
    """The test itself is wrong, or asks for something that the runner does not know; it has failed."""
