"""How fast the drivers are: operations per second, client CPU, latencies, memory and start-up."""
