"""`python -m tests.leaks`: what is left of 100,000 operations with errors, and of 1,000 clients."""
