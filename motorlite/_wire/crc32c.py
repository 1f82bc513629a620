"""Pure: CRC-32C (Castagnoli), the checksum of OP_MSG. Servers send it only on request, so plain Python is enough."""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
        entries.append(value)
    return tuple(entries)


_TABLE = _table()


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of `data` as an unsigned 32-bit integer."""
    value = 0xFFFFFFFF
    for byte in bytes(data):
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF
