"""Pure: connections, their establishment and their pool."""
