"""Pure: authentication conversations as generators; `mechanisms.start` is the way in."""
