"""The order of the rows of one commit: what it took away comes before what it brought."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gapless.files.compare.row_diff import CHANGE_TYPE, DELETE, INSERT, POSTIMAGE, PREIMAGE

_PASSES = ((DELETE, PREIMAGE), (INSERT, POSTIMAGE))


def removals_first(read: Callable[[], Iterable[pa.RecordBatch | pa.Table]]) -> Iterator[pa.RecordBatch]:
    """The rows of a commit with their `_change_type`, read twice: deletions and preimages, then the others.

    So whoever takes them one after the other ends with the row that a key has after the commit, though rows exchange their keys in it.
    """
    for kinds in _PASSES:
        for rows in read():
            found = rows.filter(pc.is_in(rows.column(CHANGE_TYPE), value_set=pa.array(kinds)))
            yield from found.to_batches() if isinstance(found, pa.Table) else (found,)
