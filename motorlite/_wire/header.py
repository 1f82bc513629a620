"""Pure: the message header that every MongoDB wire protocol message starts with."""

from __future__ import annotations

from struct import Struct
from typing import Final

OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013

# length, requestID, responseTo, opCode; all little-endian int32.
HEADER: Final = Struct("<iiii")
HEADER_SIZE: Final = HEADER.size

# Servers may announce any limit; this one applies until the handshake.
MAX_MESSAGE_SIZE: Final = 48_000_000
