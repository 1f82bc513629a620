"""Pure: benchmarks against the peers in the same run, and the demo. Neither ships with the driver."""
