"""Opening text files: bytes out of a plain or compressed file, and the error where they are no good."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from gapless.errors import UnreadableInput

BLOCK_BYTES = 1 << 20
"""Text read at a time; the longest row that can be read."""

_FIXES = (
    (
        "straddling object",
        f"A row is longer than {BLOCK_BYTES >> 20} MiB, mostly by a quote that is never closed; mend it, or quote=None",
    ),
    ("Expected", "Mend that line, quote fields that hold the delimiter, or pass Csv(delimiter=…, quote=…, skip_rows=…)"),
    ("Empty CSV", "Leave the file out, or write its header line"),
    ("UTF8", 'Pass the encoding of the file, such as Csv(encoding="cp1252")'),
    ("codec", 'Pass the encoding of the file, such as Csv(encoding="cp1252")'),
    ("inflate", "The file is damaged, or not compressed as its name says: fetch it again, or rename it"),
    ("ompress", "The file is damaged or cut short: fetch it again"),
    ("magic", "Fetch or write the file again; where it is CSV or JSON lines, pass format="),
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what Arrow and the operating system say about a file into UnreadableInput, with the cause attached."""
    try:
        yield
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowTypeError,
        OSError,
        UnicodeError,
        EOFError,
        zlib.error,
    ) as cause:
        said = " ".join(str(cause).split()) or type(cause).__name__
        fix = next(
            (fix for word, fix in _FIXES if word in said), "Check that the file is whole and of the format its name says"
        )
        raise UnreadableInput(f"{path} cannot be read", why=said[:500], fix=fix, source=str(path)) from cause


class TextFile:
    """A file open for reading, decompressed by its suffix (`.gz`, `.bz2`, `.zst`, `.lz4`); it remembers the last bytes it gave.

    Has what pyarrow asks of a Python file: `read`, `closed`, `close`.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; raises OSError."""
        self._stream = pa.input_stream(str(path), compression="detect")
        self.last = b""
        """The last bytes read, 64 at most."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return bool(self._stream.closed)

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, or fewer at the end; all with -1."""
        found: bytes = self._stream.read(None if count < 0 else count)
        if found:
            self.last = found[-64:]
        return found

    def close(self) -> None:
        """Give the file back."""
        self._stream.close()

    def lines(self) -> Iterator[bytes]:
        """Lines without their ends; a last line without a line feed counts too."""
        rest = b""
        while block := self.read(BLOCK_BYTES):
            *whole, rest = (rest + block).split(b"\n")
            yield from whole
        if rest:
            yield rest


def text_name(path: Path) -> str:
    """A file's name without a suffix that says how it is compressed, in lower case."""
    name = path.name.lower()
    for suffix in (".gz", ".bz2", ".zst", ".lz4"):
        name = name.removesuffix(suffix)
    return name
