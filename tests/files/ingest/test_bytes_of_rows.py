"""How much memory rows take, told without a look at each column where they are few."""

from __future__ import annotations

import pyarrow as pa
import pytest

from gapless.files.ingest.batches import bytes_of

_MANY = pa.record_batch({"a": pa.array(range(10_000)), "b": pa.array([str(n) for n in range(10_000)])})
_DICTIONARY = pa.record_batch({"c": pa.array(["a long text", None] * 500).dictionary_encode()})
_SHARED = pa.record_batch([_MANY.column("a")] * 3, names=["x", "y", "z"])


@pytest.mark.parametrize(
    "rows",
    [_MANY, _MANY.slice(17, 30), _MANY.slice(3, 0), _DICTIONARY, _SHARED, pa.Table.from_batches([_MANY, _MANY.slice(5)])],
    ids=["many", "slice", "none", "dictionary", "shared", "chunks"],
)
def test_bytes_are_exact_where_they_are_more_than_enough_and_else_no_less(rows: pa.RecordBatch | pa.Table) -> None:
    exact = rows.nbytes
    for enough in (0, 1, exact // 2, exact - 1, exact, exact + 1, 10 * exact, 1 << 40):
        told = bytes_of(rows, enough)
        assert told == exact if exact > enough else exact <= told
        assert (told <= enough) == (exact <= enough)
