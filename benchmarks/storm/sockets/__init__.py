"""The storms on real sockets: servers behind an ingress, and clients in processes of their own."""

from __future__ import annotations

from benchmarks.storm.sockets.bench import Bench
from benchmarks.storm.sockets.ceiling import Ceiling
from benchmarks.storm.sockets.processes import ProcessFailedError

__all__ = ["Bench", "Ceiling", "ProcessFailedError"]
