"""Pure: authentication conversations as generators; `mechanisms.start` is the entry point."""
