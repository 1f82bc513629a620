"""Pure: the connection pool of one server."""
