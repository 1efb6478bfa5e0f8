"""The checksum that each of our commits carries over itself, as the last key of its envelope.

A commit is JSON: one flipped bit can make an action unknown, and so silently skipped, or a bound another number.
"""

from __future__ import annotations

import re
from typing import Final

import xxhash

_KEY: Final = b',"checksum":"xxh3-128:'
_SEAL: Final = re.compile(re.escape(_KEY) + rb'([0-9a-f]{32})"\}')
_LENGTH: Final = len(_KEY) + 32 + len(b'"}')


def seal(envelope: bytes) -> bytes:
    """A JSON object with one key more, `checksum`, over all bytes before that key."""
    body = envelope[:-1]
    return body + _KEY + xxhash.xxh3_128_hexdigest(body).encode() + b'"}'


def check_seal(data: bytes, *, needed: bool) -> None:
    """Raise ValueError where a commit is not as it was sealed, or has no seal although that is `needed`.

    >>> check_seal(seal(b'{"version":1}'), needed=True)
    """
    match = _SEAL.fullmatch(data[-_LENGTH:])
    if match is None:
        if needed:
            raise ValueError("its checksum is not where it was written")
    elif xxhash.xxh3_128_hexdigest(data[:-_LENGTH]).encode() != match[1]:
        raise ValueError("its bytes do not have the checksum that it carries")
