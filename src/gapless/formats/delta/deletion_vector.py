"""Encode and decode deletion vectors (PROTOCOL.md, "Deletion Vector Format"). Pure.

Positions count the rows of a data file from 0: ascending numpy arrays of int64.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from gapless.errors import CorruptTable
from gapless.formats.delta.actions import DeletionVector

Positions = npt.NDArray[np.int64]
"""Rows of a file, ascending, from 0."""

INLINE_BYTES = 1 << 10
"""Bitmaps of up to so many bytes lie in the log itself."""

_MAGIC = (1681511377).to_bytes(4, "little")
_FORMAT = b"\x01"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = {letter: number for number, letter in enumerate(_Z85)}
_UUID_LETTERS = 20


def encode_bitmap(positions: Positions) -> bytes:
    """Positions (in any order, each once or more) as a serialised RoaringBitmapArray."""
    bitmap = BitMap64(np.ascontiguousarray(positions, dtype=np.uint64))
    bitmap.run_optimize()
    return _MAGIC + bitmap.serialize()


def decode_bitmap(data: bytes, name: str) -> Positions:
    """The positions of a serialised RoaringBitmapArray; raises CorruptTable, which calls it `name`."""
    if data[:4] != _MAGIC:
        raise _damaged(name, f"it begins with {data[:4].hex() or 'nothing'} and not with {_MAGIC.hex()}")
    try:
        bitmap = BitMap64.deserialize(data[4:])
    except (ValueError, OverflowError, IndexError) as error:
        raise _damaged(name, str(error)) from error
    found = np.fromiter(bitmap, np.uint64, len(bitmap))
    if len(found) and found[-1] >= np.uint64(1 << 63):
        raise _damaged(name, f"position {found[-1]} is larger than any file")
    return found.astype(np.int64)


def encode_z85(data: bytes) -> str:
    """Bytes as Z85 text, filled up with zeros to a multiple of four.

    >>> encode_z85(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B]))
    'HelloWorld'
    """
    padded = data + bytes(-len(data) % 4)
    letters: list[str] = []
    for at in range(0, len(padded), 4):
        word = int.from_bytes(padded[at : at + 4], "big")
        letters.extend(_Z85[word // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return "".join(letters)


def decode_z85(text: str, name: str) -> bytes:
    """The bytes of a Z85 text; raises CorruptTable, which calls it `name`."""
    if len(text) % 5 or not set(text) <= _DIGIT.keys():
        raise _damaged(name, f"{text[:40]!r} is no Z85 text")
    out = bytearray()
    for at in range(0, len(text), 5):
        word = 0
        for letter in text[at : at + 5]:
            word = word * 85 + _DIGIT[letter]
        if word >> 32:
            raise _damaged(name, f"{text[at : at + 5]!r} stands for more than 32 bits")
        out += word.to_bytes(4, "big")
    return bytes(out)


def inline_vector(positions: Positions) -> DeletionVector:
    """A vector whose bitmap lies in the log."""
    data = encode_bitmap(positions)
    return DeletionVector(storage="i", path_or_inline=encode_z85(data), size=len(data), cardinality=len(positions))


def inline_positions(vector: DeletionVector) -> Positions:
    """The positions of a vector with storage "i"; raises CorruptTable."""
    name = f"deletion vector {vector.path_or_inline[:40]!r}"
    data = decode_z85(vector.path_or_inline, name)
    if not vector.size <= len(data) < vector.size + 4:
        raise _damaged(name, f"it has {len(data)} bytes and not {vector.size}")
    return checked_cardinality(decode_bitmap(data[: vector.size], name), vector, name)


def vector_path(vector: DeletionVector) -> str:
    """Where the file of a vector lies: of storage "u" relative to the table root, of "p" a URI as `add` has it. Raises CorruptTable.

    >>> vector_path(DeletionVector(storage="u", path_or_inline="ab^-aqEH.-t@S}K{vb[*k^", offset=4, size=40, cardinality=6))
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    if vector.storage == "p":
        return vector.path_or_inline
    if vector.storage != "u" or len(vector.path_or_inline) < _UUID_LETTERS:
        raise _damaged(f"deletion vector {vector.id[:60]!r}", f"its storage is {vector.storage!r}")
    prefix, letters = vector.path_or_inline[:-_UUID_LETTERS], vector.path_or_inline[-_UUID_LETTERS:]
    digits = decode_z85(letters, f"deletion vector {vector.id!r}").hex()
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    name = f"deletion_vector_{'-'.join(parts)}.bin"
    return f"{prefix}/{name}" if prefix else name


def encode_file(bitmaps: Sequence[bytes], uuid: str, counts: Sequence[int]) -> tuple[bytes, list[DeletionVector]]:
    """One file of several bitmaps (as `encode_bitmap` made them) of `counts` positions each, and the vectors that point into it.

    `uuid` names the file, which is to lie under `vector_path` of any of them.
    """
    out, vectors = bytearray(_FORMAT), []
    name = encode_z85(bytes.fromhex(uuid.replace("-", "")))
    for data, count in zip(bitmaps, counts, strict=True):
        vectors.append(DeletionVector(storage="u", path_or_inline=name, offset=len(out), size=len(data), cardinality=count))
        out += len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    return bytes(out), vectors


def decode_entry(entry: bytes, vector: DeletionVector, name: str) -> Positions:
    """The positions of a vector from its entry of a file: `size + 8` bytes from its offset on. Raises CorruptTable."""
    size, data, checksum = int.from_bytes(entry[:4], "big"), entry[4 : 4 + vector.size], entry[4 + vector.size :]
    if size != vector.size or len(data) != size:
        raise _damaged(name, f"it has {size} bytes and not {vector.size}")
    if int.from_bytes(checksum, "big") != zlib.crc32(data):
        raise _damaged(name, "its bytes do not have the checksum beside them")
    return checked_cardinality(decode_bitmap(data, name), vector, name)


def check_format(first: bytes, name: str) -> None:
    """Raise CorruptTable where a file of deletion vectors, of which `first` is the first byte, has another layout."""
    if first != _FORMAT:
        raise _damaged(name, f"its format is {first.hex() or 'missing'} and not {_FORMAT.hex()}")


def checked_cardinality(positions: Positions, vector: DeletionVector, name: str) -> Positions:
    """The positions, where there are as many as the log says; raises CorruptTable."""
    if len(positions) != vector.cardinality:
        raise _damaged(name, f"it holds {len(positions)} rows and not {vector.cardinality}")
    return positions


def _damaged(name: str, found: str) -> CorruptTable:
    return CorruptTable(
        f"{name} cannot be read: {found}",
        why="It says which rows are deleted, and without it deleted rows would come back",
        fix="Bring the file back from a backup, or open an older version without it",
        path=name,
    )
