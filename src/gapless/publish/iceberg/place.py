"""What a publisher of Iceberg needs of the place where a table's metadata is kept: a directory, or a catalog."""

from __future__ import annotations

from typing import Any, Literal, Protocol

from pyiceberg.table.metadata import TableMetadataV2

from gapless.publish.iceberg.changes import TableChange
from gapless.publish.iceberg.io import StoreIO

Missed = Literal["lost", "unclear"]
"""Another commit came first; or there was no clear answer and nothing was found: it may land yet, and its files stay."""


class Found(Protocol):
    """The metadata that a place has."""

    @property
    def metadata(self) -> TableMetadataV2:
        """What it says."""
        ...


class Place(Protocol):
    """Where the metadata is kept, and swapped."""

    io: StoreIO
    rewrites_mappings: bool
    """Whether it is known to change the name mappings that it is given."""

    @property
    def what(self) -> str:
        """What messages call it."""
        ...

    @property
    def location(self) -> str:
        """Where the table's metadata lies."""
        ...

    def load(self) -> Any | None:
        """The newest metadata, a `Found`; None where there is none."""
        ...

    def create(self, time_ms: int) -> None:
        """Make an empty table, unless there is one."""
        ...

    def blank(self, time_ms: int) -> Any | None:
        """A table to begin with where what is there cannot be followed; None where the place cannot put it there in one step."""
        ...

    def commit(self, found: Any, change: TableChange, time_ms: int) -> Any:
        """What is there after a commit, a `Found`, or how it missed."""
        ...

    def settle(self) -> None:
        """Have readers find the newest metadata that was loaded, where its writer died before they could."""
        ...
