"""Pure: `python -m benchmarks.demo` shows the driver with an overloaded server."""
