"""Where the bytes of an input lie: a file; or standard input, a pipe or an open file, whose bytes are copied to a temporary file."""

from __future__ import annotations

import os
import select
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

import pyarrow as pa

from gapless.errors import UnreadableInput

STANDARD_INPUT = Path("/dev/stdin")
"""What `-` means."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that is read, perhaps several times."""

    path: Path
    """Where its bytes lie."""
    name: str
    """What messages call it."""
    copied: bool = False
    """It is a copy of what came through a pipe; no suffix says what it holds."""
    held: Any = field(default=None, repr=False)
    """Keeps a temporary file there."""

    def __str__(self) -> str:
        """Its name, for messages."""
        return self.name

    def head(self, count: int) -> bytes:
        """Its first bytes; raises OSError."""
        with self.path.open("rb") as file:
            return file.read(count)

    @property
    def size(self) -> int:
        """Bytes; raises OSError."""
        return self.path.stat().st_size


def is_open_file(given: object) -> bool:
    """Whether it is an open file rather than the name of one."""
    return not isinstance(given, str | Path | InputFile) and callable(getattr(given, "read", None))


def is_stream(path: Path) -> bool:
    """Whether a path is standard input, a pipe or another thing that can be read only once."""
    if path == STANDARD_INPUT:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def input_file(path: Path, check: Callable[[str, bytes], None]) -> InputFile:
    """A file as it is, or a copy of what comes through a pipe, which is read once.

    `check` is given the name and the first bytes of a pipe before the rest is read. Raises UnreadableInput, and as `check` does.
    """
    if not is_stream(path):
        return InputFile(path=path, name=str(path))
    if path != STANDARD_INPUT:
        with reading(str(path)), path.open("rb") as source:
            return _copied(source, str(path), check)
    name = "standard input"
    with reading(name):
        if _is_whole_file(0):
            whole = InputFile(path=path, name=name, copied=True)
            check(name, whole.head(_CHUNK))
            return whole
        with os.fdopen(os.dup(0), "rb") as source:
            return _copied(source, name, check)


def _is_whole_file(descriptor: int) -> bool:
    """Whether a descriptor is that of a regular file, of which nothing was read yet (`< file`)."""
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and os.lseek(descriptor, 0, os.SEEK_CUR) == 0
    except OSError:
        return False


def copy_open_file(source: IO[Any]) -> InputFile:
    """A copy of what an open file of bytes (or text) gives from where it stands. Raises UnreadableInput."""
    given = getattr(source, "name", None)
    name = given if isinstance(given, str) else f"an open {type(source).__name__}"
    with reading(name):
        return _copied(source, name, lambda _name, _head: None)


def _copied(source: Any, name: str, check: Callable[[str, bytes], None]) -> InputFile:
    copy = NamedTemporaryFile(prefix="gapless-input-")  # noqa: SIM115 - it lives as long as what is returned
    while chunk := _next_chunk(source):
        if not copy.tell() and isinstance(chunk, bytes):
            check(name, chunk)
        if not isinstance(chunk, bytes | bytearray | memoryview | str):
            raise UnreadableInput(
                f"{name} cannot be read",
                why=f"Its read() gives a {type(chunk).__name__}",
                fix="Pass a file that was opened as bytes",
                source=name,
            )
        copy.write(chunk.encode("utf-8") if isinstance(chunk, str) else chunk)
    copy.flush()
    return InputFile(path=Path(copy.name), name=name, copied=True, held=copy)


def _next_chunk(source: Any) -> Any:
    while (chunk := source.read(_CHUNK)) is None:  # a descriptor that does not block, and has nothing yet
        select.select([source], [], [])
    return chunk


_FIXES = (
    ("inflate", "The file is damaged: fetch it again"),
    ("ompress", "The file is damaged or cut short: fetch it again"),
    ("codec", 'Pass the encoding of the file, such as Csv(encoding="cp1252")'),
    ("No space", "Make room where temporary files lie, or name another place by TMPDIR"),
)


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
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
        raise UnreadableInput(f"{name} cannot be read", why=said[:500], fix=fix, source=str(name)) from cause
