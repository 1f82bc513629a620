"""Pure: the runtime on trio."""
