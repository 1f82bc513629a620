from worker.connection import connected, ledger_of

__all__ = ["connected", "ledger_of"]
