"""Retry storms: real clients over real sockets, and a twin of them in simulated time."""
