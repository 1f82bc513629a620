"""Pure: what is sent again, and when: the one retry decision, and what it needs to know."""
