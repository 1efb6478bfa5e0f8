"""A checksum over all bytes of our checkpoints, in their key-value metadata: Parquet's own covers pages, but not the footer."""

from __future__ import annotations

import xxhash

SEAL_KEY = "gapless.checksum"
UNSEALED = "gapless-checksum-stands-here-128"
"""What stands for the checksum while it is taken: as long as one is."""


def seal(data: bytes) -> bytes:
    """The same Parquet with its checksum in the place of `UNSEALED`."""
    at = data.rindex(UNSEALED.encode())
    return b"".join((data[:at], xxhash.xxh3_128_hexdigest(data).encode(), data[at + len(UNSEALED) :]))


def check_seal(data: bytes, told: str | None) -> None:
    """Raise ValueError where the bytes are not those that were sealed with the checksum `told`; another writer's have none."""
    if told is None:
        return
    at = data.rfind(told.encode())
    if len(told) != len(UNSEALED) or xxhash.xxh3_128_hexdigest(data[:at] + UNSEALED.encode() + data[at + len(told) :]) != told:
        raise ValueError("it does not have the bytes that it was written with")
