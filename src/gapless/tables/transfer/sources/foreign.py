"""A table of any format as what an import asks of it: its columns, and data files whose live rows can be read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from gapless.files.ingest.batches import Batches

SourceFormat = Literal["delta", "iceberg", "hudi", "parquet"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a file cannot be imported, and what can be done about it."""

    reason: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFile:
    """One data file of a source."""

    name: str
    """What the source calls it: relative to its root, or a URI."""
    size: int
    """Bytes."""
    path: Path | None
    """Where it lies on this machine; None where it lies in a bucket."""
    live: Batches
    """Its live rows in columns of the source, whatever the file itself calls them and holds beside them."""
    stamp: int = 0
    """What else tells that it is the file it was, such as when it was written to."""
    must_rewrite: tuple[str, ...] = ()
    """Why it cannot be taken as it is, as far as the source's metadata say."""
    has_deleted_rows: bool = False
    """Whether it holds rows that are not live."""
    complete: bool = False
    """Whether it can be taken only where it has every column: what a file lacks may be something else than null."""
    refused: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """A source at one version."""

    format: SourceFormat
    url: str
    """Where it lies, for messages."""
    id: str
    """What tells the table from another one that is made in its place."""
    version: str
    """Which version of the table this is."""
    schema: pa.Schema
    """Its columns, those that are left out not among them."""
    files: Sequence[ForeignFile]
    not_kept: tuple[str, ...] = field(default=())
    """What the source has and a time-series table does not keep, a sentence each."""
