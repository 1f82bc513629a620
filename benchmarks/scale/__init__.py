"""How the drivers scale: with tasks, processes, reply sizes, TLS, compression and members; and what each one costs."""
