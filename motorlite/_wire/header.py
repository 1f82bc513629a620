"""Pure: the message header that every MongoDB wire protocol message starts with."""

from __future__ import annotations

from struct import Struct
from typing import Final

OP_COMPRESSED: Final = 2012
OP_MSG: Final = 2013

# length, requestID, responseTo, opCode; all little-endian int32.
HEADER: Final = Struct("<iiii")
HEADER_SIZE: Final = HEADER.size

# What a server may announce at most is not fixed; this bounds what is believed before the handshake tells more.
MAX_MESSAGE_SIZE: Final = 48_000_000
