"""Changes of rows as values: what is to become of the rows of some keys, or of so many equal rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedChanges:
    """Rows that take the place of those with their key, and keys whose rows go; each key is in one of them, once."""

    puts: pa.Table
    """Rows; in the types in which they came."""
    deletes: pa.Table
    """The key's columns and those of `order_by`, in the same types."""
    key: tuple[str, ...]
    """The columns that tell rows apart; null equals null."""
    order_by: tuple[str, ...] = ()
    """The columns that tell newer rows from older ones, the first counts most: a change does nothing where the table has a newer row of its key.
    No value is null here, and a null in the table is older than anything.
    """
    arrived: Counts
    """For each put, and then each delete, how many rows of its key came that are not counted in `late`."""
    late: int = 0
    """How many rows came after one of their key that is newer, and were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedChanges:
    """Rows told apart by all their values: so many equal ones come, or go. No row is in both."""

    added: pa.Table
    removed: pa.Table
    """In the types and columns of `added`."""
