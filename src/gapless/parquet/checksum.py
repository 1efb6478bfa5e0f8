"""Checksums of objects and of Parquet footers, as the log stores them.

`xxh3-128:<hex>` covers a whole object; `xxh3-128:<length>:<hex>` its last `length` bytes. They find damage, not forgery.
"""

from __future__ import annotations

import xxhash

from gapless.errors import CorruptTable

_ALGORITHM = "xxh3-128"
_TRAILER = 8  # four bytes of footer length and "PAR1"


def checksum(data: bytes | memoryview) -> str:
    """The checksum of an object's bytes."""
    return f"{_ALGORITHM}:{xxhash.xxh3_128_hexdigest(data)}"


def footer_checksum(data: memoryview) -> str:
    """The checksum of the footer of a whole Parquet file."""
    length = int.from_bytes(data[-_TRAILER:-4], "little") + _TRAILER
    return f"{_ALGORITHM}:{length}:{xxhash.xxh3_128_hexdigest(data[-length:])}"


def footer_length(expected: str) -> int | None:
    """How many bytes at the end of the file a footer checksum covers; None for an algorithm we do not know."""
    algorithm, _, rest = expected.partition(":")
    length, _, _ = rest.partition(":")
    return int(length) if algorithm == _ALGORITHM and length.isdigit() else None


def check(data: bytes, expected: str | None, path: str) -> None:
    """Raise CorruptTable where bytes do not have the checksum; one of an unknown algorithm, or none, proves nothing."""
    algorithm, _, rest = (expected or "").partition(":")
    digest = rest.rpartition(":")[2]
    if algorithm == _ALGORITHM and xxhash.xxh3_128_hexdigest(data) != digest:
        raise CorruptTable(
            f"{path} does not have the bytes it was written with",
            why=f"Its checksum is not {digest}",
            fix="Bring the file back from a backup",
            path=path,
        )
