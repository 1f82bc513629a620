"""Pure: the wire protocol codec."""
