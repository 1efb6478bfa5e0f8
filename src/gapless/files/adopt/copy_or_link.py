"""Copy, reflink or hard-link a Parquet file into a table unchanged, and hash it in the same pass."""

# pathlib has no pread, fsync, copy_file_range or exclusive link.
# ruff: noqa: PTH105, PTH118, PTH120

from __future__ import annotations

import errno
import os
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Literal, Self, get_args

import xxhash

from gapless.errors import InvalidOption, InvalidPath, LogWarning, UnreadableInput, one_of
from gapless.files.adopt.source import Source, changed
from gapless.files.ingest.input_file import reading
from gapless.files.pages.file_assembly import TRAILER
from gapless.files.pages.footer import checksum, footer_checksum
from gapless.model.protocols import Store
from gapless.model.segment import ALGORITHM
from gapless.store.local.file_system import clone_file, discard, make_folder, sync_folder, typed_os_errors
from gapless.store.local.temp_files import begin_write_back

Adopt = Literal["copy", "link", "move"]
_WAYS: tuple[Adopt, ...] = get_args(Adopt)

_READ_BYTES = 256 << 10
"""What is copied and hashed at a time, while it is in the cache of a processor."""
_AHEAD_BYTES = 4 << 20
"""What is copied before the disk is told to begin with it."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""In the name of every file that a table has."""
_NO_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EACCES}
"""What one answers that cannot give this file another name there."""


def parse_adopt(value: object) -> Adopt:
    """The way to adopt a file that a caller named; raises InvalidOption."""
    return one_of("adopt", value, _WAYS, "A file becomes a segment as a copy, as a hard link, or by being moved")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferredFile:
    """A file that lies under the name of a segment."""

    size: int
    """Bytes."""
    checksum: str
    footer_checksum: str


@dataclass(slots=True)
class FileTransfer:
    """Places files in a store, one after the other, in a thread of its own: whoever reads their keys need not wait.

    As a context manager it ends with its work; where an error ends it, what is still to be copied is left.
    """

    store: Store
    how: Adopt
    _stop: Event = field(default_factory=Event)
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "gapless-adopt"))

    def __enter__(self) -> Self:
        """Ready to place."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Wait for the thread, which gives up soon after an error."""
        if kind is not None:
            self._stop.set()
        self._thread.shutdown(cancel_futures=True)

    def begin(self, source: Source, path: str) -> Future[TransferredFile]:
        """Place a file under `path`, relative to the table root, whose name has a UUID in it.

        The result raises InvalidOption where it cannot be linked there, UnreadableInput where it changed meanwhile, StoreError.
        """
        return self._thread.submit(self._place, source, path)

    def _place(self, source: Source, path: str) -> TransferredFile:
        target = self.store.local_path(path)
        if target is None:
            return self._put(source, path)
        folder = os.path.dirname(target)
        with typed_os_errors("adopting", path, self.store.url):
            make_folder(folder, durable=True)
            placed = self._link(source, target) if self.how != "copy" else None
            placed = placed or self._copy(source, target)
            sync_folder(folder)
            sync_folder(os.path.dirname(folder))
        return placed

    def _put(self, source: Source, path: str) -> TransferredFile:
        """Where the table is no folder: the bytes in one request."""
        if self.how == "link":
            raise _no_link(source.path, f"{self.store.url} is no folder of this machine")
        data = memoryview(bytearray(source.stamp.size))
        with _opened(source) as handle:
            _read_into(handle, data, 0, source)
            source.check_same(os.fstat(handle))
        placed = TransferredFile(size=len(data), checksum=checksum(data), footer_checksum=footer_checksum(data))
        # The name is unique, and a bucket may answer "exists" to our own write that its client sent twice.
        self.store.put(path, data, mode="overwrite")
        return placed

    def _copy(self, source: Source, target: str) -> TransferredFile:
        temp = _unfinished(target)
        with _opened(source) as handle:
            copy = os.open(temp, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            try:
                placed = self._hash(copy, source) if clone_file(handle, copy) else self._hash(handle, source, _Target(copy))
                os.fsync(copy)
                source.check_same(os.fstat(handle))
                os.replace(temp, target)
            except BaseException:
                discard(temp)
                raise
            finally:
                os.close(copy)
        return placed

    def _link(self, source: Source, target: str) -> TransferredFile | None:
        """Another name for the file itself; None where it is to be moved and must be copied for that."""
        try:
            os.link(os.path.realpath(source.path), target)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            if self.how == "move":
                return None
            raise _no_link(source.path, os.strerror(error.errno or 0)) from error
        handle = os.open(target, os.O_RDONLY)
        try:
            source.check_same(os.fstat(handle))
            placed = self._hash(handle, source)
            # Who wrote the file may not have synced it.
            os.fsync(handle)
            source.check_same(os.fstat(handle))
        finally:
            os.close(handle)
        return placed

    def _hash(self, handle: int, source: Source, target: _Target | None = None) -> TransferredFile:
        """What the log says of the bytes behind `handle`; they are written to `target`, if there is one, while they are in memory."""
        hasher, at, size = xxhash.xxh3_128(), 0, source.stamp.size
        buffer = memoryview(bytearray(min(_READ_BYTES, size)))
        while at < size:
            if self._stop.is_set():
                raise CancelledError
            piece = buffer[: size - at]
            at += _read_into(handle, piece, at, source)
            hasher.update(piece)
            if target is not None:
                target.write(piece)
        footer = footer_checksum(_footer(handle if target is None else target.handle, source))
        return TransferredFile(size=size, checksum=f"{ALGORITHM}:{hasher.hexdigest()}", footer_checksum=footer)


@dataclass(slots=True)
class _Target:
    """A file that grows, with the disk not far behind."""

    handle: int
    _at: int = 0
    _begun: int = 0

    def write(self, piece: memoryview) -> None:
        """Add bytes."""
        while piece:
            count = os.pwrite(self.handle, piece, self._at)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            piece, self._at = piece[count:], self._at + count
        if self._at - self._begun >= _AHEAD_BYTES:
            begin_write_back(self.handle, self._begun, self._at - self._begun)
            self._begun = self._at


@contextmanager
def _opened(source: Source) -> Iterator[int]:
    """The file, open to be read; raises UnreadableInput where it is not the one it was."""
    with reading(source.path):
        handle = os.open(source.path, os.O_RDONLY)
    try:
        source.check_same(os.fstat(handle))
        yield handle
    finally:
        os.close(handle)


def _unfinished(target: str) -> str:
    """The hidden name of a file that is not whole yet, as the store gives them: 16 digits, here those of the end of the UUID in its name."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{_UUID.findall(name)[-1].replace('-', '')[-16:]}.tmp")


def _read_into(handle: int, buffer: memoryview, at: int, source: Source) -> int:
    """Fill a buffer with the bytes at `at`; returns its length. Raises UnreadableInput where the file has become shorter."""
    filled = 0
    while filled < len(buffer):
        count = os.preadv(handle, [buffer[filled:]], at + filled)
        if not count:
            raise changed(source.path)
        filled += count
    return filled


def _footer(handle: int, source: Source) -> memoryview:
    """The end of the file, from its footer on."""
    trailer = memoryview(bytearray(TRAILER))
    _read_into(handle, trailer, source.stamp.size - TRAILER, source)
    length = int.from_bytes(trailer[:4], "little") + TRAILER
    footer = memoryview(bytearray(min(length, source.stamp.size)))
    _read_into(handle, footer, source.stamp.size - len(footer), source)
    return footer


def _no_link(path: Path, why: str) -> InvalidOption:
    return InvalidOption(
        f"{path} cannot be linked into the table",
        why=f"A hard link is a second name on one disk, and there is none to be had: {why}",
        fix='Pass adopt="copy"',
        option="adopt",
        value="link",
    )


def check_movable(path: Path) -> None:
    """Raise InvalidPath for a file that may not be moved: a symbolic link, or one that lies in a table."""
    why = "It is a symbolic link, and whether that or its target should go is not said" if path.is_symlink() else ""
    for folder in path.resolve().parents:
        for log in ("_timeseries_log", "_delta_log"):
            if (folder / log).is_dir():
                why = f"It lies in the table {folder}, which may need it"
    if why:
        raise InvalidPath(f"{path} cannot be moved", why=why, fix='Pass adopt="copy" or "link"', path=str(path))


def remove_moved(source: Source) -> None:
    """Take away a file that has become a segment; one that is another now, or cannot be removed, stays with a LogWarning."""
    try:
        source.check_same(source.path.stat())
        source.path.unlink()
    except (OSError, UnreadableInput) as error:
        warnings.warn(
            f"{source.path} is in the table now, and could not be removed: {error}. Remove it yourself",
            LogWarning,
            stacklevel=2,
        )
