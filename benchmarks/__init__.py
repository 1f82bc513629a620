"""Pure: benchmarks against other drivers in the same run, and the demo. Neither ships with the driver."""
