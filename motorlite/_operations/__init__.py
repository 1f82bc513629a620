"""Pure: one module per command: build it, parse its reply, declare its facts."""
