"""Columns of an input, by the columns of a table whose names do not look at case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa

from gapless.errors import SchemaMismatch, nearest
from gapless.predicate.range import NameIndex


def matched_columns(given: pa.Schema, table: pa.Schema, mismatch: Callable[[list[str]], SchemaMismatch]) -> dict[str, str]:
    """The input's name of each column of a table that it has, by the table's: exactly, else without regard to case.

    Raises `mismatch` of the differences, one text a column, where two mean one, or one none.
    """
    counts = Counter(given.names)
    differences = [f"{name}: comes {count} times" for name, count in counts.items() if count > 1]
    found: dict[str, str] = {}
    names = NameIndex(table.names)
    for name in counts:
        match names.matching(name):
            case [known] if known not in found:
                found[known] = name
            case [known]:
                differences.append(f"{name}: the input has {found[known]!r} too, and both mean the column {known!r}")
            case []:
                differences.append(f"{name}: not in the table. {nearest(name, table.names)}")
            case several:
                differences.append(f"{name}: could be {' or '.join(map(repr, several))}")
    if differences:
        raise mismatch(differences)
    return found
