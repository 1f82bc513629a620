"""Pure: the public classes."""
