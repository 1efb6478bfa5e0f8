"""Checksums of whole objects, as the log stores them: `xxh3-128:<hex>`. They find damage, not forgery."""

from __future__ import annotations

import xxhash

from gapless.errors import CorruptTable

ALGORITHM = "xxh3-128"


def checksum(data: bytes | memoryview) -> str:
    """The checksum of an object's bytes."""
    return f"{ALGORITHM}:{xxhash.xxh3_128_hexdigest(data)}"


def check(data: bytes, expected: str | None, path: str) -> None:
    """Raise CorruptTable where bytes do not have the checksum; one of an unknown algorithm, or none, proves nothing."""
    algorithm, _, rest = (expected or "").partition(":")
    digest = rest.rpartition(":")[2]
    if algorithm == ALGORITHM and xxhash.xxh3_128_hexdigest(data) != digest:
        raise CorruptTable(
            f"{path} does not have the bytes it was written with",
            why=f"Its checksum is not {digest}",
            fix="Bring the file back from a backup; `gapless verify` and `gapless repair` say what else can be done",
            path=path,
        )
