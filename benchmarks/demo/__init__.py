"""Pure: `python -m benchmarks.demo` demonstrates the driver with an overloaded server."""
