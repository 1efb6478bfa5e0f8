"""Checksums of Parquet footers, as the log stores them: `xxh3-128:<length>:<hex>` covers the last `length` bytes of a file."""

from __future__ import annotations

import xxhash

from gapless.model.checksum import ALGORITHM, check, checksum
from gapless.parquet.file_shell import TRAILER

__all__ = ["check", "checksum", "footer_checksum", "footer_length"]


def footer_checksum(data: memoryview) -> str:
    """The checksum of the footer of a Parquet file, which `data` is or ends."""
    length = int.from_bytes(data[-TRAILER:-4], "little") + TRAILER
    return f"{ALGORITHM}:{length}:{xxhash.xxh3_128_hexdigest(data[-length:])}"


def footer_length(expected: str) -> int | None:
    """How many bytes at the end of the file a footer checksum covers; None for an algorithm we do not know."""
    algorithm, _, rest = expected.partition(":")
    length, _, _ = rest.partition(":")
    return int(length) if algorithm == ALGORITHM and length.isdigit() else None
