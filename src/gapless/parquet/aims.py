"""What each codec of a table aims at: compression, and how much a dictionary must save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gapless.model.properties import Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """How the columns of a segment are written."""

    compression: str
    """Parquet compression, as pyarrow names it."""
    level: int | None = None
    """Its level; None for its own default."""
    repeating: float = 0.95
    """A column gets a dictionary where at most this share of sampled values is distinct."""
    bare: bool = False
    """Whether numbers go without compression: writing more bytes takes less time than compressing them."""
    least: int = 0
    """Columns of a row group that take fewer bytes are not compressed."""
    rows_a_number: int = 16
    """Whole numbers of a range in which there are at least so many rows for each get a dictionary of them all: it takes no looking for."""
    by_trial: bool = False
    """Whether a column's encoding is found by encoding some of its rows in each, in place of a rule."""


_BLOCK = 2_048
"""What compression saves of fewer bytes is less than a block of a disk, and to begin with it takes longer than to write them."""

AIMS: Mapping[Codec, Aim] = MappingProxyType(
    {
        "fastest": Aim(compression="lz4", repeating=0.25, bare=True, rows_a_number=4, least=_BLOCK),
        "balanced": Aim(compression="zstd", level=1, least=_BLOCK),
        "smallest": Aim(compression="zstd", level=5, by_trial=True),
        "zstd": Aim(compression="zstd", level=1),
        "snappy": Aim(compression="snappy"),
        "lz4": Aim(compression="lz4"),
        "gzip": Aim(compression="gzip"),
        "none": Aim(compression="none"),
    }
)
