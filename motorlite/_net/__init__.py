"""Pure: the only home of the event loops, sockets, clocks and randomness."""
