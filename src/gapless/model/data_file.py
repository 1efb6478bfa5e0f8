"""A Parquet file as its readers know it, whichever log names it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class DataFile(Protocol):
    """What reading a file needs to know of it: a segment has it, and a stored file."""

    @property
    def path(self) -> str:
        """Where it lies in its store."""
        ...

    @property
    def size(self) -> int | None:
        """Bytes; None where the log does not say."""
        ...

    @property
    def data(self) -> bytes | None:
        """The bytes of the file, where they are at hand: in the log itself, or fetched."""
        ...

    @property
    def footer_checksum(self) -> str | None:
        """`algorithm:length:hex` over the file's last `length` bytes; None where the log has none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of which no more is known than where it lies and how large it is; or that was fetched as a whole."""

    path: str
    size: int | None = None
    data: bytes | None = field(default=None, repr=False)
    footer_checksum: None = None
