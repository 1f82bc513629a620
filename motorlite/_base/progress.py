"""Pure: how far an attempt of an operation got."""

from __future__ import annotations

import enum


class Progress(enum.Enum):
    """What the server may have done with a command, as far as the client knows."""

    NOT_SENT = "not sent"
    """Nothing: the server never received the whole command. This includes a partly written command: its connection is
    closed before the rest follows."""
    IN_FLIGHT = "in flight"
    """Everything or nothing: the socket accepted the whole command, and no reply arrived."""
    ANSWERED = "answered"
    """What its reply says."""
