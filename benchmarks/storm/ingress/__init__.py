"""A proxy in front of real MongoDB servers that does what the ingress limiters of MongoDB 8.2 do.

`python -m benchmarks.storm.ingress --help` runs it alone, in front of any server.
"""
