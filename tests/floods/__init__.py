"""`python -m tests.floods`: 10,000 concurrent operations against servers that are dead, slow, lying or overloaded."""
