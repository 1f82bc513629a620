"""Instructions per operation, counted by callgrind: a measure of speed that other load does not disturb."""
