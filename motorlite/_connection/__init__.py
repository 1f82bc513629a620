"""Pure: a single connection: establishment, handshake and messages."""
