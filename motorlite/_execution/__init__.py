"""Pure: the single path that every command takes, from an operation to its reply."""
